import copy

import numpy as np
import pytest
import torch

import labkit
from labkit import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.BatchNorm1d(3))
        self.heads = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 2, bias=False)])
        self.scale = nn.Parameter(labkit.ones(2))
        self.register_buffer("seen", labkit.zeros(1))
        self.register_buffer("cache", labkit.zeros(5), persistent=False)

    def forward(self, x):
        x = self.body(x)
        return sum(head(x) for head in self.heads) * self.scale


class TorchNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.BatchNorm1d(3))
        self.heads = torch.nn.ModuleList([torch.nn.Linear(3, 2), torch.nn.Linear(3, 2, bias=False)])
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("seen", torch.zeros(1))
        self.register_buffer("cache", torch.zeros(5), persistent=False)

    forward = Net.forward


TorchNet.__name__ = "Net"


def names(pairs):
    return [name for name, _ in pairs]


def test_names_and_printing_are_torchs():
    ours, theirs = Net(), TorchNet()
    for walk in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert names(getattr(ours, walk)()) == names(getattr(theirs, walk)()), walk
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert list(ours.state_dict(prefix="net.")) == list(theirs.state_dict(prefix="net."))
    assert repr(ours) == repr(theirs)


def test_equals_torch(same_as_torch):
    same_as_torch(Net(), TorchNet(), torch.randn(6, 4))


def test_shared_modules_and_tied_parameters():
    def build(lib):
        net = lib.Sequential(lib.Linear(3, 3), lib.Linear(3, 3))
        net[1].weight = net[0].weight
        net.append(net[0])
        return net

    ours, theirs = build(nn), build(torch.nn)
    assert names(ours.named_parameters()) == names(theirs.named_parameters())
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_state_dict_shares_memory_and_loading_keeps_the_parameter_objects():
    net = Net()
    weight = net.heads[0].weight
    net.state_dict()["heads.0.weight"].zero_()
    assert not weight.detach().numpy().any()
    net.load_state_dict({**net.state_dict(), "heads.0.weight": np.full((2, 3), 7.0)})
    assert net.heads[0].weight is weight
    assert (weight.detach().numpy() == 7).all()
    assert weight.dtype == labkit.float32


def test_keys_that_do_not_fit():
    net, state = Net(), Net().state_dict()
    del state["scale"]
    state["extra"] = labkit.zeros(1)
    state["heads.0.weight"] = labkit.zeros(5, 3)
    before = {k: v.numpy().copy() for k, v in net.state_dict().items()}
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state)
    assert "scale is missing" in str(error.value)
    assert "extra is not part of the model" in str(error.value)
    assert "heads.0.weight has shape (5, 3), but the model needs (2, 3)" in str(error.value)
    for name, value in net.state_dict().items():  # nothing was loaded
        assert (value.numpy() == before[name]).all()
    with pytest.raises(RuntimeError, match="shape"):
        net.load_state_dict(state, strict=False)
    del state["heads.0.weight"]
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["scale", "heads.0.weight"]
    assert result.unexpected_keys == ["extra"]


def test_an_extra_prefix_is_pointed_out():
    state = {"module." + name: value for name, value in Net().state_dict().items()}
    with pytest.raises(RuntimeError, match=r"extra 'module\.' in front"):
        Net().load_state_dict(state)


def test_modes():
    net = Net()
    assert all(not m.training for m in net.eval().modules())
    assert all(m.training for m in net.train().modules())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    seen = []
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen[-1] == "Net"
    assert len(seen) == len(list(net.modules()))


def test_zero_grad():
    net = Net()
    net(labkit.randn(5, 4)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all((p.grad.numpy() == 0).all() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_to_another_dtype_keeps_the_parameter_objects():
    net = Net()
    parameters = list(net.parameters())
    net(labkit.randn(5, 4)).sum().backward()
    assert net.to(labkit.float64) is net
    assert all(a is b for a, b in zip(net.parameters(), parameters, strict=True))
    assert all(p.dtype == labkit.float64 and p.grad.dtype == labkit.float64 for p in net.parameters())
    assert net.body[2].num_batches_tracked.dtype == labkit.int64
    y = net(labkit.randn(5, 4, dtype=labkit.float64))
    assert y.dtype == labkit.float64
    y.sum().backward()
    assert net.float().scale.dtype == labkit.float32


def test_hooks():
    layer, seen = nn.Linear(3, 2), []
    before = layer.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    after = layer.register_forward_hook(lambda m, args, y: seen.append((m, args[0].shape, y.shape)))
    x = labkit.randn(4, 3)
    y = layer(x)
    assert seen == [(layer, (4, 3), (4, 2))]
    before.remove()
    after.remove()
    np.testing.assert_allclose(layer(x * 2).detach().numpy(), y.detach().numpy(), rtol=1e-6)
    assert len(seen) == 1


def test_copies_are_independent():
    net = Net()
    twin = copy.deepcopy(net)
    assert list(twin.state_dict()) == list(net.state_dict())
    nn.init.zeros_(twin.scale)
    assert (net.scale.detach().numpy() == 1).all()


def test_paths():
    net = Net()
    assert net.get_submodule("body.0") is net.body[0]
    assert net.get_parameter("heads.1.weight") is net.heads[1].weight
    with pytest.raises(AttributeError, match=r"no submodule 'tail' \(it has: body, heads\)"):
        net.get_submodule("tail")
    with pytest.raises(AttributeError, match="'Net' has no attribute 'boddy'"):
        _ = net.boddy


def test_attributes_move_between_tables():
    net = nn.Module()
    net.a = nn.Parameter(labkit.ones(1))
    net.a = None
    assert list(net.parameters()) == []
    net.a = nn.Parameter(labkit.ones(1))
    with pytest.raises(TypeError, match="'a' is a parameter"):
        net.a = labkit.ones(1)
    del net.a
    net.a = nn.ReLU()
    assert names(net.named_children()) == ["a"]
    net.a = None
    assert list(net.children()) == []


def test_parameters_that_would_not_be_trained_are_pointed_out():
    net = nn.Module()
    with pytest.warns(UserWarning, match=r"self\.layers is a plain list.*nn\.ModuleList"):
        net.layers = [nn.Linear(2, 2)]
    with pytest.warns(UserWarning, match=r"self\.weights is a plain dict.*nn\.ParameterList"):
        net.weights = {"a": nn.Parameter(labkit.ones(1))}
    with pytest.warns(UserWarning, match=r"nn\.Parameter"):
        net.weight = labkit.ones(2, requires_grad=True)


def test_forgotten_super_init():
    class Forgetful(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(2, 2)

    with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\)"):
        Forgetful()
    with pytest.raises(NotImplementedError, match="Module needs a method forward"):
        nn.Module()(1)
    with pytest.raises(KeyError, match="must not be empty or contain"):
        nn.Module().register_buffer("a.b", labkit.ones(1))
    with pytest.raises(TypeError, match="Parameter takes a tensor, got list"):
        nn.Parameter([1.0])


def test_containers():
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers.append(nn.ReLU()).extend([nn.Tanh()])
    layers.insert(0, nn.Identity())
    layers[-1] = nn.Sigmoid()
    assert [type(m).__name__ for m in layers] == ["Identity", "Linear", "ReLU", "Sigmoid"]
    assert list(layers.state_dict()) == ["1.weight", "1.bias"]
    assert len(layers[1:3]) == 2
    chain = nn.Sequential({"first": nn.Linear(2, 3), "second": nn.ReLU()})
    assert list(chain.state_dict()) == ["first.weight", "first.bias"]
    assert isinstance(chain[:1], nn.Sequential)
    table = nn.ModuleDict({"relu": nn.ReLU()})
    table["linear"] = nn.Linear(2, 2)
    del table["relu"]
    assert list(table) == list(table.keys()) == ["linear"]
    values = nn.ParameterList([labkit.ones(2), nn.Parameter(labkit.zeros(3))])
    assert [tuple(p.shape) for p in values] == [(2,), (3,)]
    assert list(values.state_dict()) == ["0", "1"]
    assert values[-1] is values[1]


def test_a_list_filled_later_is_pointed_out_once():
    net = nn.Module()
    net.first = nn.Linear(2, 2)
    net.order = [net.first]  # registered already: nothing to say
    net.layers = []
    net.layers.append(nn.Linear(2, 2))
    with pytest.warns(UserWarning, match=r"self\.layers is a plain list.*nn\.ModuleList"):
        params = list(net.parameters())
    assert len(params) == len(list(net.parameters())) == 2


def test_things_that_are_no_modules_are_refused_by_name():
    with pytest.raises(
        TypeError, match=r"Sequential takes modules, but '1' is the class ReLU: write nn.ReLU\(\)"
    ):
        nn.Sequential(nn.Linear(2, 2), nn.ReLU)
    with pytest.raises(TypeError, match=r"'0' is 'list'.*Sequential\(\*layers\)"):
        nn.Sequential([nn.Linear(2, 2)])
    with pytest.raises(TypeError, match=r"takes a dict of names to tensors, got Linear"):
        nn.Linear(2, 2).load_state_dict(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="floating-point dtype, not int64"):
        nn.Linear(2, 2).to(labkit.int64)
    with pytest.raises(RuntimeError, match="only floating-point tensors have gradients"):
        nn.Parameter(labkit.tensor([1, 2]))


def test_super_init_forgotten_without_layers():
    class Forgetful(nn.Module):
        def __init__(self):
            self.size = 3

    for use in (lambda m: m(1), lambda m: list(m.parameters()), repr):
        with pytest.raises(AttributeError, match=r"call super\(\).__init__\(\) at the start of Forgetful"):
            use(Forgetful())


def test_lists_and_dicts_of_modules_shrink():
    layers = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    del layers[1]
    assert list(layers.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert isinstance(layers.pop(), nn.Linear) and len(layers) == 1
    modules = nn.ModuleList([nn.ReLU()])
    modules += [nn.Tanh()]
    assert len(modules) == 2
    named = nn.ModuleDict({"a": nn.ReLU()})
    assert isinstance(named.pop("a"), nn.ReLU) and len(named) == 0


def test_embedding_from_a_table_and_statistics_from_scratch():
    table = labkit.arange(6.0).reshape(3, 2)
    layer = nn.Embedding.from_pretrained(table)
    assert layer(labkit.tensor([2])).tolist() == [[4, 5]] and not layer.weight.requires_grad
    norm = nn.BatchNorm1d(2)
    norm(table)
    norm.reset_running_stats()
    assert norm.running_mean.tolist() == [0, 0] and norm.num_batches_tracked.item() == 0
