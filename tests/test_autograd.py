"""The tape: what is recorded, how gradients flow and add up, when memory is freed, what is an error."""

import gc
import weakref

import numpy as np
import pytest

import labkit
from labkit import NotSupported, ShapeError, autograd


def leaf(*values, **kwargs):
    return labkit.tensor(values, requires_grad=True, **kwargs)


def test_gradients_accumulate():
    x = leaf(1.0, 2.0)
    (x * 3).sum().backward()
    (x * 4).sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_diamond():
    x = leaf(3.0)
    y = x * 2
    (y * y + y).sum().backward()  # 4 x^2 + 2 x
    assert x.grad.tolist() == [26]


def test_branch_that_is_not_used_gets_no_gradient():
    x, unused = leaf(1.0), leaf(1.0)
    unused * 2
    (x * 2).sum().backward()
    assert unused.grad is None


def test_leaves_do_not_share_gradients():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + y).sum().backward()
    x.grad.zero_()
    assert y.grad.tolist() == [1, 1]


def test_grad_returns_and_leaves_grad_alone():
    x, unused = leaf(2.0), leaf(1.0)
    y = x * x
    g, none = autograd.grad(y.sum(), [x, unused], allow_unused=True)
    assert g.tolist() == [4] and none is None and x.grad is None
    with pytest.raises(RuntimeError, match="input 0 was not used"):
        autograd.grad((x * 2).sum(), unused)


def test_grad_of_an_intermediate_value():
    x = leaf(2.0)
    y = x * 3
    (g,) = autograd.grad((y * y).sum(), y)
    assert g.tolist() == [12]


def test_modes():
    x = leaf(1.0)
    with labkit.no_grad():
        assert not (x * 2).requires_grad
        with labkit.enable_grad():
            assert (x * 2).requires_grad
    with labkit.inference_mode():
        assert not labkit.is_grad_enabled()
    assert labkit.is_grad_enabled()

    @labkit.no_grad()
    def double(t):
        return t * 2

    assert not double(x).requires_grad and not double(x).requires_grad
    assert (x * 2).requires_grad and not (x.detach() * 2).requires_grad
    with labkit.set_grad_enabled(False):
        assert not (x * 2).requires_grad


def test_hooks_see_and_replace_gradients():
    x = leaf(1.0, 2.0)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    handle = y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    y.sum().backward(retain_graph=True)
    assert seen == [[1, 1]] and x.grad.tolist() == [21, 21]
    handle.remove()
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_retain_grad():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3, 3] and x.grad.tolist() == [6, 6]


def test_backward_twice_is_an_error_unless_retained():
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [8]
    with pytest.raises(RuntimeError, match=r"second time.*retain_graph=True"):
        y.backward()


def test_second_derivatives_are_refused():
    x = leaf(2.0)
    with pytest.raises(NotSupported, match="create_graph"):
        autograd.grad((x * x).sum(), x, create_graph=True)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda x: (x * 2).backward(), RuntimeError, "single number.*shape \\(2,\\)"),
        (lambda x: x.detach().sum().backward(), RuntimeError, "no_grad\\(\\) or after detach"),
        (lambda x: (x * 2).backward(labkit.ones(3)), ShapeError, "\\(3,\\).*\\(2,\\)"),
        (lambda x: x.add_(1), RuntimeError, "leaf that requires a gradient"),
        (lambda x: x.numpy(), RuntimeError, "detach\\(\\).numpy"),
        (lambda x: x.long().requires_grad_(), RuntimeError, "only floating-point"),
        (lambda x: (x * 2).requires_grad_(False), RuntimeError, "detach"),
    ],
)
def test_errors_say_what_to_do(make, error, text):
    with pytest.raises(error, match=text):
        make(leaf(1.0, 2.0))


# ---- in-place writes ----


def test_overwriting_a_needed_value_is_an_error():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y * y  # needs y
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"<mul> needs.*overwritten.*clone"):
        z.sum().backward()


def test_overwriting_an_output_that_is_needed_is_an_error():
    x = leaf(1.0, 2.0)
    y = x.exp()  # needs its own output
    y.mul_(2)
    with pytest.raises(RuntimeError, match="<exp> needs"):
        y.sum().backward()


def test_overwriting_a_value_that_nobody_needs_is_fine():
    x = leaf(1.0, 2.0)
    y = x * 1
    z = y + y
    y.add_(1)
    (z.sum() + (y * 2).sum()).backward()
    assert x.grad.tolist() == [4, 4]


def test_in_place_history():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.mul_(y.detach().clone())
    y += x
    y.sum().backward()
    assert x.grad.tolist() == [2 * 2 + 1, 2 * 4 + 1]


def test_setitem_divides_the_gradient():
    x, v = leaf(1.0, 2.0, 3.0), leaf(10.0)
    y = x * 2
    y[1] = v[0] * 5
    (y * labkit.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [2, 0, 6] and v.grad.tolist() == [10]


def test_writing_through_a_view_changes_the_history_of_its_base_and_of_other_views():
    x = labkit.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 1
    row, column = y[0], y[:, 0]
    row.mul_(10)
    (y.sum() + column.sum()).backward()
    assert x.grad.tolist() == [[20, 10, 10], [2, 1, 1]]


def test_no_grad_writes_reach_parameters():
    x = leaf(1.0, 2.0)
    with labkit.no_grad():
        x -= 0.5
        x[0] = 7
    assert x.tolist() == [7, 1.5] and x.is_leaf and x.requires_grad and x._version == 2


# ---- size and memory ----


def test_a_chain_of_100_000_ops():
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1]
    del y  # freeing the chain must not recurse either
    y = x
    for _ in range(100_000):
        y = y * 1.0
    del y


def test_backward_frees_what_it_passes():
    x = labkit.ones(1000, requires_grad=True)
    y = (x.exp().exp().exp()).sum()
    node = y.node
    assert sum(n.kept_bytes() for n in (node.parents[0], *node.parents[0].parents)) == 8000
    arrays = [weakref.ref(a) for n in (node.parents[0], *node.parents[0].parents) for a in n.kept()]
    y.backward()
    gc.collect()
    assert len(arrays) == 2 and all(a() is None for a in arrays)


def test_the_graph_goes_with_its_last_tensor_without_the_garbage_collector():
    gc.disable()
    try:
        x = labkit.ones(1000, requires_grad=True)
        y = x * 2
        alive = weakref.ref(y.data), weakref.ref(x.data)
        z = y.exp()
        del x, y, z
        assert alive[0]() is None and alive[1]() is None
    finally:
        gc.enable()


def test_inputs_are_freed_when_the_gradient_does_not_need_them():
    x = labkit.ones(1000, requires_grad=True)
    y = x * 2.0
    array = weakref.ref(y.data)
    z = y + 1.0
    del y
    assert array() is None and z.requires_grad


# ---- looking at it ----


def test_graph_inspection():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = (x * w).exp().sum()
    assert y.node.name == "sum" and repr(y.grad_fn) == "<sum>"
    (exp,) = y.node.parents
    (mul,) = exp.parents
    assert exp.name == "exp" and mul.kept_bytes() == 16 and exp.kept_bytes() == 8
    assert [p.name for p in mul.parents] == ["leaf", "leaf"] and mul.parents[0].leaf() is x
    assert autograd.draw(y).splitlines() == [
        "#4 sum(#3) -> ()",
        "#3 exp(#2) -> (2,)  keeps 8 bytes",
        "#2 mul(#0, #1) -> (2,)  keeps 16 bytes",
        "#1 leaf() -> (2,)",
        "#0 leaf() -> (2,)",
    ]


def test_anomaly_mode_names_the_op_and_the_line():
    x = leaf(0.0)
    with autograd.detect_anomaly():
        y = (x.sqrt() * 0).sum()
        with pytest.raises(RuntimeError, match=r"(?s)<sqrt> returned NaN.*test_autograd"):
            y.backward()


def test_watching_ops():
    seen = []
    with labkit.watch_ops(seen.append):
        labkit.softmax(labkit.ones(3), 0).mean()
    labkit.ones(3).exp()
    assert seen == ["softmax", "mean"]


def test_plugging_in_an_implementation():
    def mine(x, *, dim=None, dtype=None):
        e = x.exp()
        return e / e.sum(dim, True)

    x = leaf(1.0, 2.0)
    with labkit.plug("softmax", mine), labkit.watch_ops((seen := []).append):
        y = x.softmax(dim=0)
    assert seen == ["exp", "sum", "div"]
    np.testing.assert_allclose(y.data, x.softmax(0).data, rtol=1e-6)


# ---- gradcheck ----


@pytest.mark.parametrize("fast_mode", [True, False])
def test_gradcheck(fast_mode):
    x = labkit.randn(3, 4, dtype=labkit.float64, requires_grad=True)
    w = labkit.randn(4, 2, dtype=labkit.float64, requires_grad=True)
    assert autograd.gradcheck(lambda x, w: (x @ w).tanh(), (x, w), fast_mode=fast_mode)

    def detached(x):
        return x * x.detach()

    assert not autograd.gradcheck(detached, x, fast_mode=fast_mode, raise_exception=False)
    with pytest.raises(RuntimeError, match=r"gradient of input 0.*is wrong"):
        autograd.gradcheck(detached, x, fast_mode=fast_mode)
    with pytest.raises(ValueError, match="float64"):
        autograd.gradcheck(detached, leaf(1.0))


def test_gradient_casts_back():
    x = labkit.ones(2, dtype=labkit.float16, requires_grad=True)
    y = labkit.ones(2, requires_grad=True)
    z = x * y
    assert z.dtype == labkit.float32
    z.sum().backward()
    assert x.grad.dtype == labkit.float16 and y.grad.dtype == labkit.float32


def test_devices_do_not_mix():
    x, y = labkit.ones(2), labkit.Tensor(np.ones(2, np.float32), device="cuda")
    with pytest.raises(RuntimeError, match=r"add\(\) got tensors on cpu and cuda"):
        x + y
    with pytest.raises(AttributeError, match="cuda has no kernel 'warp'"):
        labkit.backends.get("cuda").warp()


def test_what_a_hook_returns_is_checked():
    for bad, words in ((3.0, "returned float"), (labkit.ones(3), r"shape \(3,\)")):
        x = labkit.ones(2, requires_grad=True)
        x.register_hook(lambda g, bad=bad: bad)
        with pytest.raises(labkit.ShapeError, match=words):
            x.sum().backward()
    with pytest.raises(labkit.ShapeError, match=r"type float.*\(2,\)"):
        (labkit.ones(2, requires_grad=True) * 2).backward(1.0)


def test_overwriting_everything_keeps_the_history():
    x = labkit.ones(2, requires_grad=True)
    y = x * 3
    y.zero_()
    assert y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [0, 0]


def test_a_view_learns_that_its_base_was_written():
    x, base = labkit.ones(2, requires_grad=True), labkit.zeros(2)
    view = base[:1]
    base.add_(x)
    assert not view.is_leaf and view.grad_fn is not None
    view.backward()
    assert x.grad.tolist() == [1, 0]


def test_ops_keep_only_what_their_gradient_reads():
    x = labkit.ones(100, requires_grad=True)
    for y in (x * 2, x / 2, x.sign(), x + 1):
        assert y.node.kept_bytes() <= 4  # at most the number 2
    assert (x**2).node.kept_bytes() == x.nbytes
