"""A learner's implementation in the place of labkit's, called as users call it."""

import inspect

import numpy as np
import pytest
import test_opinfo as database
import torch

import labkit
import labkit.nn.functional as F
from labkit import NotSupported, ShapeError, Tensor
from labkit.op_table import OPS, PUBLIC

NAME = {key: key.removeprefix("nn.functional.").split("/")[0].strip("_") for key in database.TABLE}
MOST = 4  # samples of each entry


def public(name):
    """The function that users call by this name."""
    named = {a: p.call for own, p in PUBLIC.items() for a in (own, *p.aliases)}
    return named.get(name) or OPS[name]


class Same:
    """labkit's own function behind the public signature, as a learner would write it; counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0
        self.__signature__ = inspect.signature(function)
        self.__name__ = function.__name__

    def __call__(self, *args, **kwargs):
        self.calls += 1
        bound = self.__signature__.bind(*args, **kwargs)
        return self.function(*bound.args, **bound.kwargs)


class WithBackward(Same):
    """The same in the form `value, backward`, on tensors without history."""

    def __call__(self, *args, **kwargs):
        self.calls += 1
        bound = self.__signature__.bind(*args, **kwargs)
        leaves = []

        def leaf(value):
            if isinstance(value, (list, tuple)):
                return type(value)(map(leaf, value))
            if isinstance(value, Tensor):
                value = value.detach().requires_grad_(value.requires_grad)
                leaves.append(value)
            return value

        bound.arguments = {name: leaf(value) for name, value in bound.arguments.items()}
        with labkit.enable_grad():
            value = self.function(*bound.args, **bound.kwargs)

        def backward(*grads):
            wanted = [t for t in leaves if t.requires_grad]
            outs = value if isinstance(value, tuple) else (value,)
            used = [i for i, y in enumerate(outs) if y.requires_grad and grads[i] is not None]
            results, seeds = [outs[i] for i in used], [grads[i] for i in used]
            found = labkit.autograd.grad(results, wanted, seeds, allow_unused=True)
            by_leaf = dict(zip(map(id, wanted), found, strict=True))
            return tuple(by_leaf.get(id(t)) for t in leaves)

        return value, backward


def outcome(function, arguments):
    """Values and gradients of a call, as arrays."""
    labkit.manual_seed(0)
    result = function(arguments[0], *arguments[1], **arguments[2])
    outs = database.tensors_in(result, Tensor)
    wanted = [y for y in outs if y.requires_grad]
    if wanted:
        labkit.autograd.backward(wanted, [labkit.ones_like(y) for y in wanted])
    grads = [t.grad for t in database.tensors_in(arguments, Tensor)]
    return result, [None if t is None else t.data for t in (*outs, *grads)]


def assert_same_through(form, name, function, make_arguments):
    """`function` gives the same values and gradients when `form` of it is plugged in."""
    try:
        expected, arrays = outcome(function, make_arguments())
    except NotSupported:
        return
    mine = form(public(name))
    with labkit.plug(name, mine):
        found, ours = outcome(function, make_arguments())
    assert mine.calls > 0, "the implementation was not called"
    assert len(ours) == len(arrays)
    if not arrays:
        assert found == expected
    for a, b in zip(ours, arrays, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.fixture(autouse=True)
def plain_kernels():
    with labkit.use_kernels("numpy"):
        yield


@pytest.mark.parametrize("key", database.TABLE)
def test_every_function_of_the_database_through_its_public_signature(key):
    for sample in database.samples(key)[:MOST]:
        arguments = (sample.input, sample.args, sample.kwargs)
        function = database.TABLE[key]
        assert_same_through(Same, NAME[key], function, lambda a=arguments: database.to_labkit(a))


DRAWN = {"dropout", "dropout2d", "scaled_dot_product_attention"}  # each call of them draws anew


def returns_tensors(name):
    return name == "getitem" or PUBLIC[public(name).__name__].returns == "Tensor"


@pytest.mark.parametrize("key", [k for k, n in NAME.items() if returns_tensors(n) and n not in DRAWN])
def test_every_function_of_the_database_as_value_and_backward(key):
    for sample in database.samples(key)[:MOST]:
        arguments = (sample.input, sample.args, sample.kwargs)
        function = database.TABLE[key]
        assert_same_through(WithBackward, NAME[key], function, lambda a=arguments: database.to_labkit(a))


def floats(*shape):
    data = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return labkit.tensor(data, requires_grad=True)


def recurrent(gates):
    states = [floats(2, 5) for _ in range(1 + (gates == 4))]
    return (floats(3, 2, 4), (*states, floats(gates * 5, 4), floats(gates * 5, 5)), {})


BITS = (labkit.tensor([1, 2, 3]), (labkit.tensor([3, 3, 1]),), {})
OTHERS = {  # not in torch's database, or not with these names
    "bitwise_and": lambda: BITS,
    "bitwise_or": lambda: BITS,
    "bitwise_xor": lambda: BITS,
    "bitwise_not": lambda: (BITS[0], (), {}),
    "fold": lambda: (floats(1, 8, 4), ((3, 3), 2), {}),
    "gru": lambda: recurrent(3),
    "lstm": lambda: recurrent(4),
    "rnn": lambda: recurrent(1),
    "is_floating_point": lambda: (floats(2), (), {}),
    "one_hot": lambda: (labkit.tensor([0, 2]), (4,), {}),
    "sigmoid": lambda: (floats(3), (), {}),
    "tanh": lambda: (floats(3), (), {}),
    "softmax": lambda: (floats(3, 2), (), {"dim": 0}),
    "log_softmax": lambda: (floats(3, 2), (1,), {}),
    "cosine_similarity": lambda: (floats(3, 2), (floats(3, 2),), {}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_functions_that_are_not_in_the_database(name):
    function = getattr(F, name, None) or getattr(labkit, name)
    assert_same_through(Same, name, function, OTHERS[name])


def test_every_public_function_is_tried():
    tried = {public(name).__name__ for name in (*NAME.values(), *OTHERS)}
    assert [name for name in PUBLIC if name not in tried] == []


# ---- as a learner writes it ----


def layer_norm(x, normalized_shape, weight, bias, eps):
    """In the form of week 2: the value, and the way back."""
    mean = x.mean(-1, keepdim=True)
    scale = ((x - mean) ** 2).mean(-1, keepdim=True).add(eps).rsqrt()
    n = (x - mean) * scale

    def backward(g):
        gn = g * weight
        gx = scale * (gn - gn.mean(-1, keepdim=True) - n * (gn * n).mean(-1, keepdim=True))
        return gx, (g * n).sum(0), g.sum(0)

    return n * weight + bias, backward


def losses(steps=3):
    """A few steps of training through nn.LayerNorm"""
    labkit.manual_seed(1)
    norm, x = labkit.nn.LayerNorm(4), labkit.randn(6, 4, requires_grad=True)
    optimizer = labkit.optim.SGD([*norm.parameters(), x], lr=0.1)
    found = []
    for _ in range(steps):
        loss = (norm(x) * labkit.arange(4.0)).tanh().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_a_learners_layer_norm_trains_a_layer():
    expected = losses()
    with labkit.plug("layer_norm", layer_norm), labkit.watch_ops((seen := []).append):
        np.testing.assert_allclose(losses(), expected, rtol=1e-5)
    assert "rsqrt" in seen and "layer_norm" not in seen


def test_the_engines_form_gets_kernels_and_arrays():
    def softmax(k, x, dim):
        assert isinstance(x, np.ndarray) and k.name == "numpy"
        y = k.softmax(x, dim)
        return y, lambda g: k.softmax_grad(g, y, dim)

    x = floats(3, 4)
    (x.softmax(1) ** 2).sum().backward()
    expected, x.grad = x.grad, None
    with labkit.plug("softmax", softmax):
        y = labkit.softmax(x, dim=1)
    assert y.node.name == "softmax"
    (y**2).sum().backward()  # the way back is the learner's, also after the block
    np.testing.assert_allclose(x.grad.data, expected.data, rtol=1e-6)


@pytest.mark.parametrize(
    "mine",
    [
        lambda t, axis: t.exp() / t.exp().sum(axis, True),
        lambda x, *, dim=None, dtype=None: x.exp() / x.exp().sum(dim, True),
        lambda *args: args[0].exp() / args[0].exp().sum(args[1], True),
    ],
    ids=["other names", "by name only", "any number"],
)
def test_parameters_may_have_other_names(mine):
    x = floats(3, 4)
    expected = x.softmax(1).data
    with labkit.plug("softmax", mine), labkit.watch_ops((seen := []).append):
        for y in (labkit.softmax(x, 1), x.softmax(dim=1), F.softmax(input=x, dim=1)):
            np.testing.assert_allclose(y.data, expected, rtol=1e-6)
    assert "softmax" not in seen


def test_parameters_that_do_not_fit_are_named():
    with (
        labkit.plug("softmax", lambda x, dim: x),
        pytest.raises(
            TypeError, match=r"called as softmax\(x, dim=None, dtype=None\), but yours is <lambda>\(x"
        ),
    ):
        labkit.softmax(floats(2), 0, labkit.float64)
    with (
        pytest.raises(TypeError, match=r"layer_norm\(input, normalized_shape.*but yours is <lambda>\(x\)"),
        labkit.plug("layer_norm", lambda x: x),
    ):
        pass


def test_inside_it_the_name_means_labkits_own():
    def relu(x):
        return labkit.relu(x) * 2

    with labkit.plug("relu", relu):
        assert F.relu(labkit.tensor([-1.0, 3.0])).tolist() == [0, 6]
        with labkit.plug("relu", lambda x: x):  # the inner one counts
            assert labkit.tensor([-1.0]).relu().tolist() == [-1]
        assert labkit.tensor([3.0]).relu_().tolist() == [6]
    assert labkit.relu(labkit.tensor([3.0])).tolist() == [3]


def test_an_error_leaves_nothing_plugged_in():
    def broken(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), labkit.plug("relu", broken):
        labkit.relu(labkit.ones(1))
    assert labkit.relu(labkit.ones(1)).tolist() == [1]


def test_parts_of_other_functions_are_left_alone():
    """group_norm uses the kernel of layer_norm, but does not call layer_norm."""
    x, expected = floats(2, 4, 3), F.group_norm(floats(2, 4, 3), 2)
    with labkit.plug("layer_norm", layer_norm):
        np.testing.assert_array_equal(F.group_norm(x, 2).data, expected.data)


# ---- what goes wrong, in a sentence ----


def said(backward, error=RuntimeError, value=None):
    """What a layer_norm with this way back says when it is used."""

    def mine(x, normalized_shape, weight=None, bias=None, eps=1e-5):
        return (x * 1 if value is None else value), backward

    x, w = floats(3, 4), floats(4)
    with labkit.plug("layer_norm", mine), pytest.raises(error) as info:
        F.layer_norm(x, (4,), w, None).sum().backward()
    assert info.value.__cause__ is None
    return str(info.value)


def test_too_few_gradients():
    assert said(lambda g: g) == (
        "backward of your layer_norm returned 1 gradients; wanted 2: one for each of input, weight; "
        "None where there is none."
    )
    assert "returned 5 gradients; wanted 2" in said(lambda g: (g,) * 5)


def test_a_gradient_for_each_argument_that_was_none_is_welcome():
    w = floats(4)
    scaled = lambda x, shape, w, b=None: (x * w, lambda g: (g * w, (g * x).sum(0), None))  # noqa: E731
    with labkit.plug("layer_norm", scaled):
        F.layer_norm(x := floats(3, 4), (4,), w, None).sum().backward()
    np.testing.assert_allclose(w.grad.data, x.data.sum(0), rtol=1e-5)


def test_a_gradient_of_the_wrong_shape():
    assert said(lambda g: (g, g.sum(1)), ShapeError) == (
        "backward of your layer_norm returned a gradient of shape (3,) for weight; wanted (4,), the shape of "
        "weight."
    )


def test_a_gradient_that_is_no_tensor():
    assert "returned str for weight; wanted: a tensor." in said(lambda g: (g, "w"), TypeError)


def test_a_value_that_is_no_tensor():
    assert said(lambda g: g, TypeError, "y") == "your layer_norm returned str as its value; wanted: a tensor."
    with (
        labkit.plug("relu", lambda x: None),
        pytest.raises(TypeError, match=r"your relu returned nothing \(None\); wanted: a tensor, or value, b"),
    ):
        labkit.relu(labkit.ones(1))


def test_an_op_of_the_engine_says_the_same():
    """Also an op declared with @op, by a maintainer or a learner."""

    @labkit.autograd.op
    def twice(k, x, y):
        return k.add(x, y), lambda g: g

    @labkit.autograd.op
    def scaled(k, x, y):
        return k.mul(x, y), lambda g: (k.mul(g, y), k.sum(k.mul(g, x), (1,), False))

    x, y = floats(3, 4), floats(4)
    with pytest.raises(
        RuntimeError, match=r"^backward of twice returned 1 gradients; wanted 2: one per input"
    ):
        twice(x, y).sum().backward()
    with pytest.raises(
        ShapeError,
        match=r"^backward of scaled returned a gradient of shape \(3,\) for its input 1; wanted \(4,\)",
    ):
        scaled(x, y).sum().backward()


def test_a_name_that_is_no_op_suggests_the_nearest():
    with pytest.raises(KeyError, match=r"no op 'layernorm' to replace\. Did you mean 'layer_norm'"):
        labkit.plug("layernorm", layer_norm).__enter__()


def test_a_plugged_op_notices_that_what_it_kept_was_overwritten():
    x = floats(3)
    with labkit.plug("exp", lambda x: ((y := labkit.exp(x.detach())), lambda g: g * y)):
        y = x.exp()
    assert torch.equal(y.detach().to_torch(), x.detach().exp().to_torch())
    y.detach().mul_(2)
    with pytest.raises(RuntimeError, match=r"that <exp> needs for its gradient was overwritten"):
        y.sum().backward()
