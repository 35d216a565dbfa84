"""Picking elements by position, putting them back, and sorting."""

from labkit.autograd import op
from labkit.dtypes import INTS, bool_
from labkit.errors import NotSupported, ShapeError
from labkit.op_table import composed
from labkit.ops import elementwise
from labkit.ops.axes import axis_of
from labkit.ops.reduce import Extreme
from labkit.ops.shape import broadcast_shapes, broadcast_to, flatten
from labkit.tensor import Tensor


def _is_array(i):
    return hasattr(i, "dtype") and i.ndim > 0


def _repeats(index):
    """Can this index pick an element twice? Only arrays of integers can."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(_is_array(i) and i.dtype != bool_ for i in parts)


@op
def _getitem(k, x, *, index):
    shape = x.shape
    return _try(x.shape, lambda: k.getitem(x, index)), lambda g: k.getitem_grad(
        g, shape, index, _repeats(index)
    )


@op
def _setitem(k, x, value, *, index):
    """Writes into x and returns it. The gradient of what was overwritten is 0."""
    if not hasattr(value, "dtype"):
        value = k.asarray(value)
    _try(x.shape, lambda: k.setitem_(x, index, _drop_ones(value, k.getitem(x, index).shape)), value.shape)
    shape = value.shape

    def backward(g):
        gx = k.copy(g)
        k.setitem_(gx, index, 0)
        gv = k.getitem(g, index)
        return gx, gv if gv.ndim >= len(shape) else gv.reshape(shape)

    return x, backward


def _drop_ones(value, shape):
    """A value may have more leading axes than its place if they have size 1."""
    while value.ndim > len(shape) and value.shape[0] == 1:
        value = value.reshape(value.shape[1:])
    return value


def _try(shape, action, value_shape=None):
    """Run an indexing step; an error names the shapes."""
    try:
        return action()
    except IndexError as error:
        raise IndexError(f"indexing a tensor of shape {shape}: {error}") from None
    except ValueError as error:
        raise ShapeError(f"writing shape {value_shape} into part of shape {shape}: {error}") from None


@op
def _gather(k, x, index, *, axis):
    shape = x.shape
    return k.gather(x, index, axis), lambda g: (k.scatter_add(k.zeros(shape, g.dtype), index, g, axis), None)


@op
def _scatter(k, x, index, src, *, axis):
    shape, zero = src.shape, k.zeros((), x.dtype)

    def backward(g):
        gsrc = k.gather(g, index, axis)
        return k.scatter(g, index, zero, axis), None, _in_corner(k, gsrc, shape)

    return k.scatter(x, index, _corner(k, src, index.shape), axis), backward


@op
def _scatter_add(k, x, index, src, *, axis):
    shape = src.shape

    def backward(g):
        return g, None, _in_corner(k, k.gather(g, index, axis), shape)

    return k.scatter_add(x, index, _corner(k, src, index.shape), axis), backward


def _corner(k, x, shape):
    """The first elements along each axis: `src` may be larger than `index`."""
    return x if x.shape == shape else k.getitem(x, tuple(slice(n) for n in shape))


def _in_corner(k, g, shape):
    return g if g.shape == shape else k.getitem_grad(g, shape, tuple(slice(n) for n in g.shape), False)


@op
def _index_select(k, x, index, *, axis):
    shape = x.shape
    return k.take(x, index, axis), lambda g: (k.take_grad(g, shape, index, axis), None)


@op
def _index_add(k, x, index, source, *, axis, alpha):
    place = (slice(None),) * axis + (index,)
    out = k.copy(x)
    k.add_at_(out, place, k.mul(source, alpha))
    return out, lambda g: (g, None, k.mul(k.getitem(g, place), alpha))


@op
def _order(k, x, *, axis, descending):
    return k.argsort(x, axis, descending), None


@op
def _repeat_places(k, repeats):
    return k.repeat_places(repeats), None


@op
def _nonzero(k, x):
    return k.nonzero(x), None


# ---- composed ----


def _check_index(name, input, dim, index, src=None):
    """The axis, after checking that `index` fits `input` (and `src`)."""
    axis = axis_of(name, dim, input.ndim)
    if index.dtype not in INTS:
        raise TypeError(f"{name}(): index must hold integers (int64), got {index.dtype.name}")
    if index.ndim != input.ndim and input.ndim and index.ndim and index.numel():
        raise ShapeError(
            f"{name}(): input {tuple(input.shape)} and index {tuple(index.shape)} need as many axes"
        )
    for i, n in enumerate(index.shape if input.ndim and index.numel() else ()):
        if (i != axis and n > input.shape[i]) or (src is not None and src.ndim and n > src.shape[i]):
            shapes = f"input {tuple(input.shape)}" + (
                f" and src {tuple(src.shape)}" if src is not None else ""
            )
            raise ShapeError(f"{name}(): index {tuple(index.shape)} is larger than {shapes} along axis {i}")
    size = input.shape[axis] if input.ndim else 1
    if index.numel() and not (0 <= int(index.min()) and int(index.max()) < size):
        raise IndexError(
            f"{name}(): index holds {int(index.min())} to {int(index.max())}, "
            f"but dim {axis} has places 0 to {size - 1}"
        )
    return axis


def _one_axis(*tensors):
    """0-d tensors as 1-d ones."""
    return tuple(x.reshape(1) if isinstance(x, Tensor) and x.ndim == 0 else x for x in tensors)


@composed(method=True)
def gather(input, dim, index, *, sparse_grad=False):
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on for other axes"""
    axis = _check_index("gather", input, dim, index)
    if index.numel() == 0:
        return flatten(input)[:0].reshape(index.shape)
    out = _gather(*_one_axis(input, index), axis=axis)
    return out.reshape(index.shape) if index.ndim == 0 else out


@composed(method=True, in_place=True)
def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    """A copy of input with out[index[i][j]][j] = src[i][j] for dim 0, and so on for other axes"""
    src = value if src is None else src
    if reduce is not None:
        raise NotSupported(f"scatter(): reduce={reduce!r} is not in labkit. Use scatter_add() to add up.")
    axis = _check_index("scatter", input, dim, index, src if isinstance(src, Tensor) else None)
    if not isinstance(src, Tensor):
        src = index.new_full(index.shape, src, dtype=input.dtype)
    return _scatter(*_one_axis(input, index, src), axis=axis).reshape(input.shape)


@composed(method=True, in_place=True)
def scatter_add(input, dim, index, src):
    """A copy of input with out[index[i][j]][j] += src[i][j] for dim 0, and so on for other axes"""
    axis = _check_index("scatter_add", input, dim, index, src)
    return _scatter_add(*_one_axis(input, index, src), axis=axis).reshape(input.shape)


@composed(method=True)
def index_select(input, dim, index):
    """The slices of input at the places `index` along `dim`"""
    axis = axis_of("index_select", dim, input.ndim)
    if index.ndim > 1 or index.dtype not in INTS:
        raise ShapeError(
            f"index_select(): index must be 1-d integers, got {index.dtype.name} {tuple(index.shape)}"
        )
    x, i = _one_axis(input, index)
    size = x.shape[axis]
    if i.numel() and not (0 <= int(i.min()) and int(i.max()) < size):
        raise IndexError(
            f"index_select(): index holds {i.tolist()}, but dim {axis} has places 0 to {size - 1}"
        )
    out = _index_select(x, i, axis=axis)
    return out.reshape(()) if input.ndim == 0 else out


@composed(method=True)
def repeat_interleave(input, repeats, dim=None, *, output_size=None):
    """Each element along `dim` several times in a row: the same number of times, or repeats[i] times"""
    if dim is None:
        input, dim = flatten(input), 0
    axis = axis_of("repeat_interleave", dim, input.ndim)
    if not isinstance(repeats, Tensor):
        repeats = input.new_full((input.shape[axis],), repeats, dtype="int64")
    return index_select(input, axis, _repeat_places(repeats))


@composed(method=True, in_place=True)
def index_add(input, dim, index, source, *, alpha=1):
    """A copy of input with alpha source[i] added to the slice index[i] along `dim`"""
    axis = axis_of("index_add", dim, input.ndim)
    return _index_add(*_one_axis(input, index, source), axis=axis, alpha=alpha).reshape(input.shape)


@composed(method=True)
def take_along_dim(input, indices, dim=None):
    """`gather` that broadcasts the other axes; without `dim`, from the flattened input"""
    if dim is None:
        return gather(flatten(input), 0, flatten(indices))
    axis = axis_of("take_along_dim", dim, input.ndim)
    x, i = list(input.shape), list(indices.shape)
    n, m = x[axis], i[axis]
    x[axis] = i[axis] = 1
    shape = list(broadcast_shapes("take_along_dim", x, i))
    x, i = ([*shape[:axis], size, *shape[axis + 1 :]] for size in (n, m))
    indices = elementwise._where(indices < 0, indices + n, indices)
    return gather(broadcast_to(input, x), axis, broadcast_to(indices, i))


@composed(method=True)
def masked_select(input, mask):
    """The elements where the mask is true, along one axis"""
    shape = broadcast_shapes("masked_select", input.shape, mask.shape)
    return broadcast_to(input, shape)[broadcast_to(mask, shape)]


@composed(method=True, in_place=True)
def index_put(input, indices, values, accumulate=False):
    """A copy of input with input[indices] = values (or += with accumulate)"""
    out = input.clone()
    if accumulate:
        flat = input.new_zeros(input.shape)
        flat[tuple(indices)] = 0  # checks the index
        places = input.new_tensor(range(input.numel()), dtype="int64").reshape(input.shape)[tuple(indices)]
        added = broadcast_to(values, places.shape).reshape(-1)
        return index_add(input.reshape(-1), 0, places.reshape(-1), added).reshape(input.shape)
    out[tuple(indices)] = values
    return out


@composed(method=True, returns="Extreme")
def sort(input, dim=-1, descending=False, stable=False):
    """`(values, indices)` in order along `dim`; equal elements keep their order"""
    indices = argsort(input, dim, descending)
    return Extreme(gather(input, dim, indices), indices)


@composed(method=True)
def argsort(input, dim=-1, descending=False, stable=False):
    """The positions that sort input along `dim`"""
    axis = axis_of("argsort", dim, input.ndim)
    return _order(*_one_axis(input), axis=axis, descending=bool(descending)).reshape(input.shape)


@composed(method=True, returns="Extreme")
def topk(input, k, dim=-1, largest=True, sorted=True):
    """The k largest (or smallest) elements along `dim` as `(values, indices)`, in order"""
    axis = axis_of("topk", dim, input.ndim)
    size = input.shape[axis] if input.ndim else 1
    if not 0 <= k <= size:
        raise RuntimeError(f"topk(): k={k} does not fit: dim {axis} has {size} elements")
    indices = argsort(input, dim, descending=largest)
    if input.ndim:
        indices = indices.narrow(axis, 0, k).contiguous()
    return Extreme(gather(input, dim, indices), indices)


@composed(method=True, returns="Any")
def nonzero(input, *, as_tuple=False):
    """The positions of all elements that are not 0: (count, ndim), or one tensor per axis"""
    places = _nonzero(_one_axis(input)[0] if as_tuple else input)
    return tuple(places[:, i] for i in range(places.shape[1])) if as_tuple else places


@composed(method=True, returns="Any")
def where(condition, input=None, other=None):
    """input where the condition is true, else other; without both, the positions where it is true"""
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if condition.dtype != bool_:
        raise TypeError(f"where() needs a bool condition, got {condition.dtype.name}. Compare first: x != 0.")
    return elementwise._where(condition, input, other)
