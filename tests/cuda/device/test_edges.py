"""Bad and unusual input: right results or clear errors, never a silent wrong answer."""

import copy

import numpy as np
import pytest
from compare import make, same_as_cpu

import labkit
from labkit import cuda, nn
from labkit.nn import functional as F


def on_device(a, **options):
    return labkit.tensor(a, device="cuda", **options)


# ---- values ----


SPECIAL = np.array([[1.0, np.nan, 2.0], [np.inf, -np.inf, 0.0], [-np.inf] * 3, [np.inf, 1.0, np.inf]])


@pytest.mark.parametrize(
    "name", ["sum", "amax", "amin", "prod", "argmax", "argmin", "softmax", "log_softmax"]
)
def test_nan_and_infinities_along_rows(name):
    same_as_cpu(lambda x: getattr(x.detach(), name)(1), SPECIAL)


@pytest.mark.parametrize(
    "function", [F.relu, F.gelu, F.silu, labkit.exp, labkit.sqrt, labkit.log, F.logsigmoid]
)
def test_nan_and_infinities_by_element(function):
    same_as_cpu(lambda x: function(x.detach()), np.array([np.nan, np.inf, -np.inf, 0.0, -1.0, 1000.0]))


def test_division_by_zero_is_a_value():
    same_as_cpu(lambda x, y: (x / y).detach(), np.array([1.0, -1.0, 0.0]), np.zeros(3))


def test_max_pool_keeps_nan():
    x = make(0, 1, 1, 4, 4)
    x[0, 0, 1, 1] = np.nan
    same_as_cpu(lambda x: F.max_pool2d(x.detach(), 2), x)


# ---- shapes ----


@pytest.mark.parametrize("n", [1, 7, 8, 9, 17])  # around the number of threads of a block on the simulator
def test_sizes_beside_the_block(n):
    same_as_cpu(lambda x: x.softmax(-1) + x.sum(0), make(0, 2, n))


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (2, 0, 3)])
def test_zero_size(shape):
    same_as_cpu(lambda x: (x * 2 + 1).relu().sum(-1), np.zeros(shape))
    same_as_cpu(lambda x: x.sum(), np.zeros(shape))


def test_products_with_nothing_inside():
    same_as_cpu(lambda x, y: x @ y, np.zeros((3, 0)), np.zeros((0, 2)))
    same_as_cpu(lambda x, y: x @ y, np.zeros((0, 3)), np.zeros((3, 2)))


def test_zero_dimensions():
    same_as_cpu(lambda x: (x * 3).exp().sum() + x.softmax(0), np.array(0.3))


def test_views_share_memory():
    x = on_device(np.arange(12.0).reshape(3, 4))
    x[1:, ::2].fill_(-1)
    x.T[3] += 100
    expected = np.arange(12.0).reshape(3, 4)
    expected[1:, ::2] = -1
    expected[:, 3] += 100
    np.testing.assert_array_equal(x.cpu().numpy(), expected)
    assert x.T.stride() == (1, 4) and x[1:, 1].storage_offset() == 5 and not x.T.is_contiguous()
    with pytest.raises(RuntimeError, match="expanded view"):
        x[:1].expand(3, 4).fill_(0)
    with pytest.raises(labkit.ShapeError, match="without a copy"):
        x.T.view(12)


def test_an_overlapping_copy_reads_before_it_writes():
    x = on_device(np.arange(6.0))
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("old", [(2, 3, 4), (4, 1, 6), (24,), (1, 24, 1), (2, 2, 2, 3)])
@pytest.mark.parametrize("new", [(6, 4), (24,), (3, 8), (2, 1, 12), (4, 3, 2)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_reshape_is_a_view_where_numpy_has_one(old, new, order):
    from labkit.kernels.cuda.array import Array, reshaped_strides, row_major

    a = np.zeros(old, np.float32, order=order)
    assert order == "F" or a.strides == row_major(old, 4)
    x = Array(None, a.dtype, a.shape, a.strides, 0, None)
    try:
        view = np.reshape(a, new, copy=False)
    except ValueError:
        assert reshaped_strides(x, new) is None
    else:
        mine = reshaped_strides(x, new)
        real = [i for i, n in enumerate(new) if n != 1]
        assert [mine[i] for i in real] == [view.strides[i] for i in real]


# ---- errors ----


@pytest.mark.parametrize("bad", [5, -1, 2**40])
def test_an_index_outside_is_refused_before_it_is_read(bad):
    with pytest.raises(IndexError, match=f"index {bad} is out of range"):
        F.embedding(on_device([0, bad]), on_device(make(0, 5, 2)))
    with pytest.raises(IndexError, match=f"index {bad} is out of range"):
        F.cross_entropy(on_device(make(0, 2, 5)), on_device([0, bad]))


def test_an_index_array_outside_is_refused():
    x = on_device(make(0, 4, 2))
    with pytest.raises(IndexError, match="index -5 is out of bounds"):
        x[on_device([0, -5])]
    same_as_cpu(lambda x, i: x[i], make(0, 4, 2), np.array([-1, 0, -4]))


@pytest.mark.parametrize(
    "index, words",
    [
        ([True, False], "a mask of shape"),
        ([[True] * 5] * 4, "a mask of shape"),
        ([[[True]]], "too many indices"),
        ([0.5, 1.0], "integers or bools"),
        (0.5, "whole numbers or bools"),
    ],
)
def test_an_index_that_does_not_fit_is_refused(index, words):
    x = on_device(make(0, 4, 2))
    with pytest.raises((IndexError, TypeError), match=words):
        x[index if isinstance(index, float) else on_device(index)]
    with pytest.raises(labkit.NotSupported, match="single bool"):
        x[on_device(True)]


def test_dots_and_masks_and_new_axes():
    mask = np.arange(6).reshape(2, 3) % 2 == 0
    same_as_cpu(lambda x, m: x[..., m] * 2, make(0, 4, 2, 3), mask)
    same_as_cpu(lambda x, m: x[m, None, ..., 1] * 2, make(0, 2, 3, 4, 2), mask)
    same_as_cpu(lambda x, i: x[None, i, ..., i] * 2, make(0, 2, 3, 2), np.array([1, 0]))


def test_devices_do_not_mix():
    x, y = on_device([1.0, 2.0]), labkit.ones(2)
    with pytest.raises(RuntimeError, match=r"add\(\) got tensors on cpu and cuda"):
        x + y
    with pytest.raises(TypeError, match="NumPy cannot read a tensor on cuda"):
        x.numpy()
    with pytest.raises(TypeError, match="NumPy cannot read it there"):
        np.asarray(x.data)


def test_a_missing_kernel_is_an_error_not_a_detour():
    with pytest.raises(AttributeError, match="cuda has no kernel 'windows'"):
        getattr(labkit.backends.get("cuda"), "windows")  # noqa: B009


def test_types_the_device_lacks_are_refused():
    with pytest.raises(TypeError, match="device 'cuda' has no float16"):
        labkit.ones(2, dtype=labkit.float16).to("cuda")
    assert labkit.ones(2, dtype=labkit.bfloat16).to("cuda", labkit.float32).tolist() == [1, 1]


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(labkit.ShapeError, match=r"shapes \(2, 3\) and \(4,\)"):
        on_device(make(0, 2, 3)) + on_device(make(0, 4))


def test_a_value_overwritten_before_backward_is_noticed():
    x = on_device([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = y.exp()
    z.mul_(2)
    y.exp().sum().backward()
    w = y.exp()
    out = (w * w).sum()
    with labkit.no_grad():
        w.zero_()
    with pytest.raises(RuntimeError, match="overwritten"):
        out.backward()


# ---- the device ----


def test_to_and_back_with_gradients():
    x = labkit.tensor([1.0, 2.0], requires_grad=True)
    y = (x.to("cuda") * 3).cpu()
    assert y.device == "cpu" and x.cuda().device == "cuda" and x.to("cuda:0").device == "cuda"
    y.sum().backward()
    assert x.grad.device == "cpu" and x.grad.tolist() == [3, 3]
    assert labkit.zeros(2, device="cuda").device == labkit.ones_like(x.cuda()).device == "cuda"
    assert "device='cuda'" in repr(x.cuda())


def test_a_module_moves_with_its_state():
    model = nn.Linear(2, 3).to("cuda")
    assert {p.device for p in model.parameters()} == {"cuda"}
    clone = copy.deepcopy(model)
    host = nn.Linear(2, 3)
    host.load_state_dict(model.state_dict())
    assert host.weight.device == "cpu" and clone.weight.device == "cuda"
    assert host.weight.tolist() == model.weight.tolist() == clone.weight.tolist()


def test_packed_sequences_stay_on_the_device():
    from labkit.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    def run(x):
        labkit.manual_seed(0)
        layer = nn.GRU(4, 3, bidirectional=True).to(x.device)
        packed = pack_padded_sequence(x, [2, 3], enforce_sorted=False)
        return pad_packed_sequence(layer(packed)[0])[0]

    same_as_cpu(run, make(0, 3, 2, 4))


def test_drawing_stays_on_the_device():
    weights = on_device([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
    drawn = labkit.multinomial(weights, 1)
    assert drawn.device == "cuda" and drawn.tolist() == [[1], [2]]
    assert labkit.bernoulli(weights.clamp(max=1)).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert sorted(labkit.randperm(4, device="cuda").tolist()) == [0, 1, 2, 3]


def test_memory_is_counted_and_reused():
    cuda.empty_cache()
    before, reserved = cuda.memory_allocated(), cuda.memory_reserved()
    x = labkit.zeros(1000, device="cuda")
    used = cuda.memory_allocated() - before
    assert 4000 <= used < 5200
    del x
    held = cuda.memory_reserved()
    assert cuda.memory_allocated() == before and held >= reserved + used
    y = labkit.ones(1000, device="cuda")
    assert cuda.memory_reserved() == held  # the buffer of x, again
    assert cuda.max_memory_allocated() >= cuda.memory_allocated()
    del y
    cuda.empty_cache()
    assert cuda.memory_reserved() == cuda.memory_allocated()


def test_a_stream_runs_in_order():
    s = cuda.Stream()
    with cuda.stream(s):
        y = (on_device([1.0, 2.0]) * 2).exp()
    s.synchronize()
    cuda.synchronize()
    np.testing.assert_allclose(y.cpu().numpy(), np.exp([2.0, 4.0]), rtol=1e-6)


@pytest.mark.skipif(not cuda.SIMULATED, reason="about the simulator")
@pytest.mark.parametrize("late", [False, True])
def test_a_thread_that_fails_ends_the_launch(late):
    from labkit.kernels.cuda import launch

    numba_cuda = launch.cuda

    def fails(x, late):
        t = numba_cuda.threadIdx.x
        if late:
            numba_cuda.syncthreads()
        if t == 3:
            x[99] = 1
        numba_cuda.syncthreads()
        x[t] = t

    x = labkit.zeros(8, device="cuda")
    with pytest.raises(IndexError, match=r"tid=\[3, 0, 0\].*index 99"):
        numba_cuda.jit(fails)[1, 8](x.data.argument(), late)
    assert x.tolist() == [0] * 8
    assert (x + 1).tolist() == [1] * 8  # the next launch is not disturbed


def test_dropout_is_a_function_of_the_seed():
    x = labkit.ones(40, 25, device="cuda")
    labkit.manual_seed(3)
    first = F.dropout(x, 0.25).tolist()
    labkit.manual_seed(3)
    assert F.dropout(x, 0.25).tolist() == first
    values, counts = np.unique(first, return_counts=True)
    np.testing.assert_allclose(values, [0, 1 / 0.75], rtol=1e-6)
    assert 190 < counts[0] < 310  # 250 expected, standard deviation 14


def test_philox_gives_the_published_numbers():
    from labkit.kernels.cuda.dropout import philox

    function = getattr(philox, "py_func", philox)
    assert int(function(np.uint64(0), np.uint64(0))) == 0x6627E8D5
    ones = np.uint64(2**64 - 1)
    assert 0 <= int(function(ones, ones)) < 2**32


@pytest.mark.parametrize("way", ["sorted", "atomic"])
def test_two_ways_to_add_up_rows(way):
    from labkit.kernels.cuda import array, embedding

    g, index = make(0, 9, 3).astype(np.float32), np.array([3, 0, 3, 3, 6, 0, 1, 1, 3])
    add = getattr(embedding, f"embedding_grad_{way}")
    found = array.download(add(array.upload(g), array.upload(index), 7))
    expected = np.zeros((7, 3), np.float32)
    np.add.at(expected, index, g)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
