"""Tensors: views, types, creation, indexing, conversion and printing, compared with NumPy and torch."""

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import labkit
from labkit import NotSupported, ShapeError, Tensor

small = hnp.array_shapes(min_dims=0, max_dims=4, max_side=4)


def numbered(shape):
    return np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)


def pair(shape):
    """The same numbers as a labkit and as a torch tensor."""
    return labkit.from_numpy(numbered(shape)), torch.from_numpy(numbered(shape))


def same_layout(ours, theirs):
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_array_equal(ours.data, theirs.numpy())
    if theirs.numel():
        assert ours.storage_offset() == theirs.storage_offset()
        for n, a, b in zip(theirs.shape, ours.stride(), theirs.stride(), strict=True):
            assert n == 1 or a == b  # the stride of a size-1 axis means nothing


# ---- views ----


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_chains_of_views_share_memory_as_in_torch(data):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=4))
    x, t = pair(shape)
    base = x
    for _ in range(data.draw(st.integers(1, 4))):
        if x.ndim == 0:
            break
        kind = data.draw(st.sampled_from(["permute", "slice", "select", "unsqueeze", "transpose", "squeeze"]))
        if kind == "permute":
            order = data.draw(st.permutations(range(x.ndim)))
            x, t = x.permute(*order), t.permute(*order)
        elif kind == "slice":
            step = data.draw(st.integers(1, 2))
            index = (..., slice(data.draw(st.integers(-3, 3)), None, step))
            x, t = x[index], t[index]
        elif kind == "select" and x.shape[0]:
            i = data.draw(st.integers(-x.shape[0], x.shape[0] - 1))
            x, t = x[i], t[i]
        elif kind == "unsqueeze":
            d = data.draw(st.integers(-x.ndim - 1, x.ndim))
            x, t = x.unsqueeze(d), t.unsqueeze(d)
        elif kind == "transpose":
            a, b = (data.draw(st.integers(-x.ndim, x.ndim - 1)) for _ in range(2))
            x, t = x.transpose(a, b), t.transpose(a, b)
        elif kind == "squeeze":
            x, t = x.squeeze(), t.squeeze()
        same_layout(x, t)
        assert x.is_contiguous() == t.is_contiguous()
    x.add_(100)  # writing through the view changes the base
    t.add_(100)
    np.testing.assert_array_equal(base.data, t._base.numpy() if t._base is not None else t.numpy())


@settings(max_examples=150, deadline=None)
@given(hnp.array_shapes(min_dims=1, max_dims=4, max_side=4), st.data())
def test_view_and_reshape_copy_exactly_when_torch_does(shape, data):
    x, t = pair(shape)
    order = data.draw(st.permutations(range(x.ndim)))
    x, t = x.permute(*order), t.permute(*order)
    sizes = data.draw(st.permutations([*itertools.chain([-1], shape[1:])]))
    if x.numel() % max(1, int(np.prod([n for n in sizes if n != -1]))):
        return
    try:
        expected = t.view(*sizes)
    except RuntimeError:
        with pytest.raises(ShapeError, match="without a copy"):
            x.view(*sizes)
        copied = x.reshape(*sizes)
        np.testing.assert_array_equal(copied.data, t.reshape(*sizes).numpy())
        assert copied.base is None
    else:
        same_layout(x.view(*sizes), expected)
        assert x.reshape(*sizes).data_ptr() == x.data_ptr()


@settings(max_examples=150, deadline=None)
@given(
    hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4),
    st.sampled_from("add mul sub maximum".split()),
)
def test_broadcasting_and_its_gradient(shapes, name):
    a, b = shapes.input_shapes
    ours = [labkit.from_numpy(numbered(s)).sub(3).requires_grad_() for s in (a, b)]
    theirs = [torch.from_numpy(numbered(s)).sub(3).requires_grad_() for s in (a, b)]
    x, y = getattr(labkit, name)(*ours), getattr(torch, name)(*theirs)
    assert tuple(x.shape) == shapes.result_shape
    np.testing.assert_allclose(x.data, y.detach().numpy())
    (x * x).sum().backward()
    (y * y).sum().backward()
    for o, t in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(o.grad.data, t.grad.numpy(), rtol=1e-5)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_basic_indexing_as_numpy(data):
    shape = data.draw(small)
    index = data.draw(hnp.basic_indices(shape, allow_ellipsis=True, allow_newaxis=True))
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(i, slice) and i.step is not None and i.step < 1 for i in parts):
        with pytest.raises(ValueError, match="flip"):
            labkit.zeros(*shape)[index]
        return
    x = labkit.from_numpy(numbered(shape)).requires_grad_()
    y = x[index]
    np.testing.assert_array_equal(y.data, numbered(shape)[index])
    y.sum().backward()
    expected = np.zeros(shape, np.float32)
    expected[index] = 1
    np.testing.assert_array_equal(x.grad.data, expected)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_array_indexing_and_writing_as_torch(data):
    shape = data.draw(hnp.array_shapes(min_dims=2, max_dims=3, max_side=4))
    places = data.draw(hnp.arrays(np.int64, data.draw(hnp.array_shapes(max_dims=2, max_side=3)),
                                  elements=st.integers(-shape[0], shape[0] - 1)))  # fmt: skip
    mask = data.draw(hnp.arrays(bool, shape))
    x, t = pair(shape)
    x.requires_grad_(), t.requires_grad_()
    for ours, theirs in (
        (labkit.tensor(places), torch.from_numpy(places)),
        (labkit.tensor(mask), torch.from_numpy(mask)),
    ):
        a, b = x * 1, t * 1
        picked, expected = a[ours], b[theirs]
        np.testing.assert_array_equal(picked.data, expected.detach().numpy())
        x.grad = t.grad = None
        (picked * picked).sum().backward(), (expected * expected).sum().backward()
        np.testing.assert_allclose(x.grad.data, t.grad.numpy())
        a, b = x * 1, t * 1
        a[ours], b[theirs] = -5.0, -5.0
        x.grad = t.grad = None
        (a * a).sum().backward(), (b * b).sum().backward()
        np.testing.assert_allclose(x.grad.data, t.grad.numpy())


def test_expand_shares_and_cannot_be_written():
    x = labkit.ones(3, 1)
    y = x.expand(3, 4)
    assert y.stride() == (1, 0) and y.data_ptr() == x.data_ptr()
    with pytest.raises(RuntimeError, match="clone"):
        y.add_(1)


def test_as_strided_windows_overlap():
    x = labkit.arange(5.0).requires_grad_()
    windows = x.as_strided((3, 3), (1, 1))
    assert windows.tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    windows.sum().backward()
    assert x.grad.tolist() == [1, 2, 3, 2, 1]
    with pytest.raises(ShapeError, match="reach element 6, but the memory has 5"):
        x.as_strided((3, 3), (2, 1))


# ---- types ----

DTYPES = ["float16", "bfloat16", "float32", "float64", "uint8", "int8", "int16", "int32", "int64", "bool"]


@pytest.mark.parametrize("name", ["add", "mul", "div"])
def test_promotion_as_torch(name):
    def operands(library, full):
        for d in DTYPES:
            yield full((2,), 1, dtype=getattr(library, d))
            yield full((), 1, dtype=getattr(library, d))
        yield from (2, 2.5, True)

    ours = list(operands(labkit, labkit.full))
    theirs = list(operands(torch, torch.full))
    for (a, ta), (b, tb) in itertools.product(zip(ours, theirs, strict=True), repeat=2):
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            expected = getattr(torch, name)(ta, tb) if isinstance(ta, torch.Tensor) else None
            if expected is None:
                continue
            result = getattr(labkit, name)(a, b)
            assert result.dtype.name == str(expected.dtype).removeprefix("torch."), (ta, tb)


def test_default_types():
    assert labkit.tensor([1, 2]).dtype == labkit.int64
    assert labkit.tensor([1.0]).dtype == labkit.float32
    assert labkit.tensor([True]).dtype == labkit.bool
    assert labkit.tensor(np.ones(1)).dtype == labkit.float64
    assert labkit.arange(3).exp().dtype == labkit.float32
    assert labkit.tensor([1, 2]).sum().dtype == labkit.int64
    assert (labkit.tensor([1, 2]) / 2).dtype == labkit.float32
    labkit.set_default_dtype(labkit.float64)
    try:
        assert labkit.zeros(1).dtype == labkit.float64
    finally:
        labkit.set_default_dtype(labkit.float32)


# ---- making ----


def test_creation_as_torch():
    for ours, theirs in [
        (labkit.arange(5), torch.arange(5)),
        (labkit.arange(1, 2, 0.3), torch.arange(1, 2, 0.3)),
        (labkit.arange(5, 0, -2), torch.arange(5, 0, -2)),
        (labkit.linspace(0, 1, 7), torch.linspace(0, 1, 7)),
        (labkit.eye(2, 3), torch.eye(2, 3)),
        (labkit.full((2,), 3), torch.full((2,), 3)),
        (labkit.zeros((2, 3)), torch.zeros((2, 3))),
        (labkit.ones(2, 3, dtype=labkit.int32), torch.ones(2, 3, dtype=torch.int32)),
        (labkit.tril_indices(3, 3), torch.tril_indices(3, 3)),
        (labkit.stack(labkit.meshgrid(labkit.arange(2), labkit.arange(3), indexing="xy")),
         torch.stack(torch.meshgrid(torch.arange(2), torch.arange(3), indexing="xy"))),
    ]:  # fmt: skip
        np.testing.assert_allclose(ours.data, theirs.numpy(), rtol=1e-6)
        assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")


def test_random_numbers_repeat_with_the_seed():
    labkit.manual_seed(3)
    first = [labkit.rand(4), labkit.randn(4), labkit.randint(10, (4,)), labkit.randperm(4)]
    labkit.manual_seed(3)
    again = [labkit.rand(4), labkit.randn(4), labkit.randint(10, (4,)), labkit.randperm(4)]
    assert all(labkit.equal(a, b) for a, b in zip(first, again, strict=True))
    g = labkit.Generator().manual_seed(1)
    x = labkit.randn(20_000, generator=g)
    assert abs(float(x.mean())) < 0.05 and abs(float(x.std()) - 1) < 0.05
    picks = labkit.multinomial(labkit.tensor([0.0, 3.0, 1.0]), 4000, replacement=True, generator=g)
    assert 0 not in picks and abs(float((picks == 1).float().mean()) - 0.75) < 0.05
    with pytest.raises(RuntimeError, match="without replacement"):
        labkit.multinomial(labkit.tensor([0.0, 3.0, 1.0]), 3)


# ---- conversion and printing ----


def test_memory_is_shared_with_numpy_and_torch():
    array = np.zeros(3, np.float32)
    x = labkit.from_numpy(array)
    x[0] = 1
    assert array[0] == 1 and np.asarray(x) is array
    t = torch.zeros(3)
    labkit.from_torch(t)[1] = 2
    assert t[1] == 2
    x.to_torch()[2] = 3
    assert x[2] == 3
    half = torch.tensor([1.5], dtype=torch.bfloat16)
    assert labkit.from_torch(half).dtype == labkit.bfloat16
    assert torch.equal(labkit.from_torch(half).to_torch(), half)


def test_python_numbers():
    x = labkit.tensor([[1.5, 2.0]])
    assert x.tolist() == [[1.5, 2.0]] and float(x[0, 0]) == 1.5 and int(x[0, 1]) == 2
    assert [v.item() for v in x[0]] == [1.5, 2.0] and len(x) == 1 and 2.0 in x
    assert list(range(5))[labkit.tensor(2)] == 2 and f"{x[0, 0]:.2f}" == "1.50"
    with pytest.raises(RuntimeError, match=r"shape \(1, 2\) has 2 elements"):
        bool(x)
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(x[0, 0])


@pytest.mark.parametrize(
    "values",
    [[1.0, 2.0], [0.5, -2.25], [[1, 2], [30, 4]], [True, False], [1e-6, 1.0], [1e10, 1.0],
     [float("nan"), 1.0],
     [float("inf"), -0.5], 3.0, 7, [], [[1.0], [2.5]], list(range(2000)), [100000.0, 1.0], [0.0, 0.0]],
)  # fmt: skip
def test_repr_as_torch(values):
    assert repr(labkit.tensor(values)) == repr(torch.tensor(values))


def test_repr_of_the_rest():
    x = labkit.tensor([1.0], requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2.], grad_fn=<mul>)"
    assert repr(labkit.zeros(1, dtype=labkit.float64)) == "tensor([0.], dtype=labkit.float64)"
    assert repr(labkit.zeros(2, 0)) == "tensor([], size=(2, 0))"
    assert repr(labkit.zeros(2, 3).shape) == "labkit.Size([2, 3])"


def test_copies():
    x = labkit.tensor([1.0, 2.0], requires_grad=True)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.tolist() == [1, 2] and y.requires_grad and y.data_ptr() != x.data_ptr()
    with pytest.raises(RuntimeError, match="only leaves"):
        copy.deepcopy(x * 2)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x + labkit.ones(4), ShapeError, r"add\(\): shapes \(2, 3\) and \(4,\) do not fit"),
        (lambda x: x @ x, ShapeError, r"matmul\(\): shapes \(2, 3\) and \(2, 3\) do not fit.*\(3\).*\(2\)"),
        (lambda x: x @ x.T.double(), RuntimeError, "float32 and the second float64"),
        (lambda x: x.sum(2), IndexError, r"sum\(\): dim 2 does not exist.*2 axes.*-2 to 1"),
        (lambda x: x.view(4, 2), ShapeError, r"\(2, 3\) has 6 elements.*\(4, 2\)"),
        (lambda x: x.expand(2, 4), ShapeError, r"\(2, 3\) cannot be expanded to \(2, 4\)"),
        (lambda x: labkit.cat([x, x.T]), ShapeError, r"cat\(\): shapes \(2, 3\) and \(3, 2\)"),
        (lambda x: labkit.stack([x, x.T]), ShapeError, r"\(2, 3\).*\(3, 2\)"),
        (lambda x: x[5], IndexError, r"shape \(2, 3\).*index 5"),
        (lambda x: x[labkit.ones(2)], IndexError, "float32.*long"),
        (lambda x: x.long().mean(), RuntimeError, r"int64.*x\.float\(\)\.mean"),
        (lambda x: x.softmax(), TypeError, "needs dim"),
        (lambda x: x.add_(labkit.ones(2, 2, 3)), ShapeError, r"add_\(\): the result has shape \(2, 2, 3\)"),
        (lambda x: x.long().mul_(0.5), RuntimeError, "float32 and cannot be written into int64"),
        (lambda x: x.add([1, 2, 3]), TypeError, "got list.*labkit.tensor"),
        (lambda x: x.exp(out=x), NotSupported, r"exp\(\) has no argument 'out'"),
        (lambda x: x.norm("nuc"), NotSupported, "nuc"),
        (lambda x: x.to("cuda:7"), ValueError, "cuda:7"),
        (lambda x: x.gather(1, labkit.tensor([[3]])), IndexError, "holds 3 to 3.* has places 0 to 2"),
        (lambda x: labkit.einsum("ij,jk->ik", x, x), ShapeError, "'j'.*stands for sizes 3 and 2"),
        (lambda x: x.masked_fill(x, 0.0), TypeError, "bool mask"),
    ],
)  # fmt: skip
def test_errors_name_shapes_and_say_what_to_do(call, error, text):
    with pytest.raises(error, match=text):
        call(labkit.ones(2, 3))


# ---- beside torch and NumPy ----


def test_torch_functions_say_what_to_do_with_a_labkit_tensor():
    x = labkit.ones(2)
    with pytest.raises(TypeError, match=r"torch's relu\(\) got a labkit tensor.*to_torch"):
        torch.relu(x)
    with pytest.raises(TypeError, match=r"add\(\) works on labkit tensors.*a torch tensor.*from_torch"):
        x + torch.ones(2)
    with pytest.raises(TypeError, match=r"conv2d\(\) works on labkit tensors.*a torch tensor"):
        labkit.nn.Conv2d(1, 1, 1)(torch.ones(1, 1, 2, 2))
    with pytest.raises(TypeError, match=r"labkit has its own: labkit\.float32"):
        labkit.ones(2, dtype=torch.float32)
    assert torch.tensor(x).tolist() == torch.as_tensor(x).tolist() == [1, 1]
    assert labkit.tensor(torch.ones(2, dtype=torch.float64)).dtype == labkit.float64


def test_numpy_functions_see_arrays():
    x = labkit.arange(6.0).reshape(2, 3)
    assert np.mean(x) == 2.5 and np.max(x, axis=0).tolist() == [3, 4, 5]
    assert np.sum(x, axis=(0, 1)) == 15 and np.concatenate([x, x]).shape == (4, 3)
    with pytest.raises(RuntimeError, match="lose the history"):
        np.mean(x.requires_grad_())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: labkit.tensor([[1, 2], [3]]), "equally long"),
        (lambda: labkit.tensor([1, None]), r"do not fit: \[1, None\]"),
        (lambda: labkit.Tensor([1, 2]), r"labkit.tensor\(...\) makes"),
        (lambda: labkit.zeros(5 / 2), "Divide with //"),
        (lambda: labkit.ones(2)["a"], "an index is a whole number"),
        (lambda: labkit.cat(labkit.ones(2), labkit.ones(2)), r"in a list, cat\(\[x, y\]\)"),
        (lambda: labkit.ones(2, 3) @ labkit.ones(3, 2, dtype=labkit.int64), r"both: x.to\(labkit.float32\)"),
        (
            lambda: labkit.nn.functional.linear(labkit.ones(2, 3), labkit.ones(4, 3), labkit.ones(5)),
            r"bias \(5,\)",
        ),
        (
            lambda: labkit.nn.functional.mse_loss(labkit.ones(4, 2), labkit.ones(3, 2)),
            r"mse_loss\(\): .*\(4, 2\)",
        ),
    ],
)
def test_mistakes_are_explained(make, words):
    with pytest.raises((TypeError, ValueError, IndexError, RuntimeError), match=words):
        make()


def test_new_tensors_may_ask_for_gradients_and_like_ones_for_a_device():
    x = labkit.arange(3.0, requires_grad=True)
    (x * labkit.eye(3, requires_grad=True)).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    assert labkit.linspace(0, 1, 3, requires_grad=True).requires_grad
    y = labkit.randn_like(x.detach(), dtype=labkit.float64, device="cpu", requires_grad=True)
    assert (y.dtype, y.shape, y.requires_grad) == (labkit.float64, (3,), True)
    assert labkit.zeros_like(y, device="cpu").dtype == labkit.float64
