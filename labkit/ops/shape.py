"""Views and rearrangements. Most share memory with their input, as in torch."""

import math
from itertools import pairwise

from labkit.autograd import not_a_tensor, op
from labkit.dtypes import promote
from labkit.errors import ShapeError
from labkit.op_table import composed
from labkit.ops.axes import axes_of, axis_of, fill_in, sizes_of


@op
def _reshape(k, x, *, shape):
    before = x.shape
    return k.reshape(x, shape), lambda g: k.reshape(g, before)


@op
def _permute(k, x, *, axes):
    back = tuple(axes.index(i) for i in range(len(axes)))
    return k.permute(x, axes), lambda g: k.permute(g, back)


@op
def _expand(k, x, *, shape):
    return k.broadcast_to(x, shape), lambda g: g  # backward() sums over the repeated axes


@op(method=True)
def clone(k, x):
    """A copy with its own memory; gradients flow through."""
    return k.copy(x), lambda g: g


@op
def _cast(k, x, *, dtype):
    return k.cast(x, dtype), lambda g: g  # backward() casts back


@op
def _copy(k, x, value):
    """`value` as it is written over all of x, broadcast and cast. Nothing of x is left: its gradient is 0."""
    shape, dtype = x.shape, x.dtype
    return k.cast(k.broadcast_to(value, shape), dtype), lambda g: (k.zeros(shape, dtype), g)


@op(method=True)
def as_strided(k, x, *, size, stride, storage_offset=None):
    """Any view of the memory: element (i, j) is at storage_offset + i stride[0] + j stride[1]."""
    own = x.shape, _strides(x), k.offset(x)  # where x itself is
    region = tuple(size), tuple(stride), own[2] if storage_offset is None else storage_offset
    top = region[2] + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if math.prod(size) and top >= k.room(x):
        raise ShapeError(f"as_strided(): the view would reach element {top}, but the memory has {k.room(x)}")
    room = k.room(x)

    def backward(g):
        memory = k.zeros(room, g.dtype)
        k.add_strided_(memory, g, *region[1:])
        return k.as_strided(memory, *own)

    return k.as_strided(x, *region), backward


@op
def _overwritten(k, x, value, *, size, stride, offset):
    """x after a strided region of its memory was overwritten by `value`: who gets which gradient."""
    own, room = (x.shape, _strides(x), k.offset(x)), k.room(x)

    def backward(g):
        memory = k.zeros(room, g.dtype)
        gx, gv = k.as_strided(memory, *own), k.as_strided(memory, size, stride, offset)
        k.copy_(gx, g)
        of_value = k.copy(gv)
        k.copy_(gv, 0)
        return gx, of_value

    return x, backward


def _strides(x):
    return tuple(s // x.itemsize for s in x.strides)


@op(method=True)
def flip(k, x, *, dims):
    """x in reverse order along the axes `dims` (a copy)"""
    axes = () if dims in ((), []) else axes_of("flip", dims, x.ndim)
    return k.flip(x, axes), lambda g: k.flip(g, axes)


@op(method=True)
def roll(k, x, *, shifts, dims=None):
    """x shifted along `dims`; what leaves one end comes in at the other"""
    shifts = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
    dims = dims if dims is None or isinstance(dims, (tuple, list)) else (dims,)
    axes = None if not dims else tuple(axis_of("roll", d, x.ndim) for d in dims)
    if axes is not None and len(axes) != len(shifts):
        raise ValueError(f"roll(): {len(shifts)} shifts for {len(axes)} dims; give one shift per dim")
    shifts = shifts[0] if axes is None else tuple(shifts)
    back = -shifts if axes is None else tuple(-s for s in shifts)
    return k.roll(x, shifts, axes), lambda g: k.roll(g, back, axes)


@op
def _concatenate(k, *xs, dim):
    xs = promote(*xs)
    ends = [0]
    for x in xs:
        ends.append(ends[-1] + (x.shape[dim] if x.ndim > dim else 0))
    before = (slice(None),) * dim

    def backward(g):
        return tuple(k.getitem(g, (*before, slice(a, b))) for a, b in pairwise(ends))

    return k.concatenate([x for x in xs if x.shape != (0,)] or xs, dim), backward


@op(method=True)
def diagonal(k, x, *, offset=0, dim1=0, dim2=1):
    """The elements whose places along dim1 and dim2 differ by `offset`, as a last axis (a view)"""
    a, b, shape = axis_of("diagonal", dim1, x.ndim), axis_of("diagonal", dim2, x.ndim), x.shape
    if a == b:
        raise RuntimeError(f"diagonal(): dim1 and dim2 are the same axis ({dim1} and {dim2})")
    return k.diagonal(x, offset, a, b), lambda g: k.diagonal_grad(g, shape, offset, a, b)


@op(method=True)
def diag_embed(k, x, *, offset=0, dim1=-2, dim2=-1):
    """Zeros with x on the diagonal of the axes dim1 and dim2 of the result"""
    a, b = (axis_of("diag_embed", d, x.ndim + 1) for d in (dim1, dim2))
    n, rest = x.shape[-1] + abs(offset), iter(x.shape[:-1])
    shape = tuple(n if i in (a, b) else next(rest) for i in range(x.ndim + 1))
    return k.diagonal_grad(x, shape, offset, a, b), lambda g: k.diagonal(g, offset, a, b)


@op(method=True, in_place=True)
def tril(k, x, *, diagonal=0):
    """The lower triangle: elements (i, j) with j - i <= diagonal; the rest 0"""
    return k.tril(x, diagonal), lambda g: k.tril(g, diagonal)


@op(method=True, in_place=True)
def triu(k, x, *, diagonal=0):
    """The upper triangle: elements (i, j) with j - i >= diagonal; the rest 0"""
    return k.triu(x, diagonal), lambda g: k.triu(g, diagonal)


# ---- composed ----


@composed(method=True)
def reshape(input, *shape):
    """The same elements, in the same order, in another shape: a view if strides allow, else a copy."""
    return _reshape(input, shape=fill_in("reshape", sizes_of(shape), input.shape))


@composed(method=True, function=False)
def view(input, *shape):
    """`reshape` that never copies: an error if the strides do not allow a view. With a dtype: see `to`."""
    sizes = fill_in("view", sizes_of(shape), input.shape)
    out = _reshape(input, shape=sizes)
    if out.base is None and input.numel():
        raise ShapeError(
            f"view(): shape {tuple(input.shape)} with strides {input.stride()} cannot be seen as {sizes} "
            "without a copy. "
            "Use reshape(), which copies, or contiguous().view()."
        )
    return out


@composed(method=True, function=False)
def view_as(input, other):
    """`view` in the shape of other"""
    return view(input, *other.shape)


@composed(method=True, function=False)
def reshape_as(input, other):
    """`reshape` to the shape of other"""
    return reshape(input, *other.shape)


@composed(method=True, function=False)
def contiguous(input):
    """The tensor itself if its elements lie row by row in memory, else a copy that does."""
    return input if input.is_contiguous() else clone(input)


@composed(method=True)
def flatten(input, start_dim=0, end_dim=-1):
    """The axes start_dim to end_dim as one"""
    a, b = axis_of("flatten", start_dim, input.ndim), axis_of("flatten", end_dim, input.ndim)
    if a > b:
        raise RuntimeError(f"flatten(): start_dim {start_dim} comes after end_dim {end_dim}")
    if a == b and input.ndim:
        return input
    shape = tuple(input.shape)
    return _reshape(input, shape=(*shape[:a], math.prod(shape[a : b + 1]), *shape[b + 1 :]))


@composed(method=True)
def ravel(input):
    """All elements along one axis"""
    return flatten(input)


@composed(method=True)
def unflatten(input, dim, sizes):
    """One axis split into several"""
    d = axis_of("unflatten", dim, input.ndim)
    sizes = fill_in("unflatten", tuple(sizes), (input.shape[d],))
    return _reshape(input, shape=(*input.shape[:d], *sizes, *input.shape[d + 1 :]))


@composed(method=True)
def squeeze(input, dim=None):
    """Without the axes of size 1 (all, or those among `dim`)"""
    if dim is None:
        axes = range(input.ndim)
    else:
        axes = axes_of("squeeze", dim, input.ndim) if dim not in ((), []) else ()
    drop = {a for a in axes if input.ndim and input.shape[a] == 1}
    return _reshape(input, shape=tuple(n for i, n in enumerate(input.shape) if i not in drop))


@composed(method=True)
def unsqueeze(input, dim):
    """With a new axis of size 1 at `dim`"""
    d = axis_of("unsqueeze", dim, input.ndim + 1, "the result")
    return _reshape(input, shape=(*input.shape[:d], 1, *input.shape[d:]))


@composed(method=True)
def permute(input, *dims):
    """The axes in another order (a view)"""
    dims = sizes_of(dims)
    axes = tuple(axis_of("permute", d, input.ndim) for d in dims)
    if sorted(axes) != list(range(input.ndim)):
        raise ShapeError(f"permute(): dims {dims} must name each of the {input.ndim} axes once")
    return _permute(input, axes=axes)


@composed(method=True, aliases="swapaxes")
def transpose(input, dim0, dim1):
    """Two axes exchanged (a view)"""
    a, b = axis_of("transpose", dim0, input.ndim), axis_of("transpose", dim1, input.ndim)
    axes = list(range(input.ndim))
    if axes:
        axes[a], axes[b] = b, a
    return _permute(input, axes=tuple(axes))


@composed(method=True)
def t(input):
    """The transpose of a matrix; tensors with fewer axes stay as they are"""
    if input.ndim > 2:
        raise ShapeError(
            f"t() needs at most 2 axes, got shape {tuple(input.shape)}. Use transpose(dim0, dim1) or .mT."
        )
    return transpose(input, 0, 1) if input.ndim == 2 else input


@composed(method=True, aliases="moveaxis")
def movedim(input, source, destination):
    """The axes `source` moved to the places `destination`; the others keep their order"""
    source = [
        axis_of("movedim", d, input.ndim) for d in (source if isinstance(source, (tuple, list)) else [source])
    ]
    targets = destination if isinstance(destination, (tuple, list)) else [destination]
    targets = [axis_of("movedim", d, input.ndim) for d in targets]
    order = [i for i in range(input.ndim) if i not in source]
    for target, s in sorted(zip(targets, source, strict=True)):
        order.insert(target, s)
    return _permute(input, axes=tuple(order))


@composed(method=True, function=False)
def expand(input, *sizes):
    """Repeated along axes of size 1 and new leading axes, without copying; -1 keeps a size"""
    sizes, shape = sizes_of(sizes), tuple(input.shape)
    extra = len(sizes) - len(shape)
    fits = extra >= 0 and all(n in (1, s) or s == -1 for n, s in zip(shape, sizes[extra:], strict=True))
    if not fits or -1 in sizes[:extra]:
        raise ShapeError(
            f"expand(): shape {shape} cannot be expanded to {sizes}: only axes of size 1 can, or new ones."
        )
    full = tuple(shape[i - extra] if n == -1 else n for i, n in enumerate(sizes))
    return _expand(input, shape=full)


@composed(method=True)
def broadcast_to(input, size):
    """`expand` to this shape"""
    return expand(input, *size)


@composed(method=True, function=False)
def expand_as(input, other):
    """`expand` to the shape of other"""
    return expand(input, *other.shape)


@composed(method=True, function=False)
def repeat(input, *repeats):
    """Copies side by side, `repeats[i]` of them along axis i"""
    repeats = sizes_of(repeats)
    extra = len(repeats) - input.ndim
    if extra < 0:
        raise ShapeError(
            f"repeat(): {len(repeats)} repeats for {input.ndim} axes; give at least one number per axis"
        )
    shape = (1,) * extra + tuple(input.shape)
    split = _reshape(input, shape=tuple(m for n in shape for m in (1, n)))  # (1, n0, 1, n1, ...)
    wide = _expand(split, shape=tuple(m for r, n in zip(repeats, shape, strict=True) for m in (r, n)))
    return clone(_reshape(wide, shape=tuple(r * n for r, n in zip(repeats, shape, strict=True))))


@composed(method=True)
def tile(input, *dims):
    """`repeat`, with missing leading numbers taken as 1"""
    dims = sizes_of(dims)
    return repeat(input, *(1,) * (input.ndim - len(dims)), *dims)


def _several(name, tensors):
    """A list of tensors, checked."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{name}() takes its tensors in a list, {name}([x, y]), got {type(tensors).__name__}")
    if not tensors:
        raise ValueError(f"{name}() needs at least one tensor")
    for x in tensors:
        if not hasattr(x, "requires_grad") or not hasattr(x, "edge"):
            raise not_a_tensor(name, x)
    return tensors


@composed(function=True, aliases="concat")
def cat(tensors, dim=0):
    """The tensors one after the other along an existing axis"""
    tensors = _several("cat", tensors)
    kept = [x for x in tensors if x.shape != (0,)] or tensors  # as torch, skip empty 1-d tensors
    shape = tuple(kept[0].shape)
    d = axis_of("cat", dim, len(shape))
    for i, x in enumerate(kept):
        other = tuple(x.shape)
        if len(other) != len(shape) or other[:d] + other[d + 1 :] != shape[:d] + shape[d + 1 :] or not shape:
            raise ShapeError(
                f"cat(): shapes {shape} and {other} (tensor {i}) must be equal except along dim {d}. "
                "Use stack() to join tensors along a new axis."
            )
    return _concatenate(*tensors, dim=d)


@composed(function=True)
def stack(tensors, dim=0):
    """The tensors, all of one shape, along a new axis"""
    tensors = _several("stack", tensors)
    for i, x in enumerate(tensors):
        if x.shape != tensors[0].shape:
            raise ShapeError(
                f"stack(): all shapes must be equal, but tensor 0 has {tuple(tensors[0].shape)} "
                f"and tensor {i} has {tuple(x.shape)}"
            )
    d = axis_of("stack", dim, tensors[0].ndim + 1)
    return _concatenate(*(unsqueeze(x, d) for x in tensors), dim=d)


@composed(method=True)
def narrow(input, dim, start, length):
    """`length` elements along `dim`, from `start` (a view)"""
    d = axis_of("narrow", dim, input.ndim)
    n, start = input.shape[d], int(start)
    first = start + n if start < 0 else start
    if not (0 <= first and length >= 0 and first + length <= n):
        raise IndexError(f"narrow(): start {start} and length {length} do not fit into size {n} of dim {d}")
    return input[(slice(None),) * d + (slice(first, first + length),)]


@composed(method=True)
def select(input, dim, index):
    """The slice at `index` along `dim`, without that axis (a view)"""
    return input[(slice(None),) * axis_of("select", dim, input.ndim) + (index,)]


@composed(method=True, returns="tuple[Tensor, ...]")
def split(tensor, split_size_or_sections, dim=0):
    """Pieces along `dim`: of one size (the last may be smaller), or of the given sizes (views)"""
    d, sizes = axis_of("split", dim, tensor.ndim), split_size_or_sections
    n = tensor.shape[d]
    if isinstance(sizes, int):
        if sizes < 0 or (sizes == 0 and n):
            raise ValueError(f"split(): the size of a piece must be positive, got {sizes}")
        sizes = [min(sizes, n - i) for i in range(0, n, sizes or 1)] or [0]
    if sum(sizes) != n:
        raise ShapeError(f"split(): sizes {list(sizes)} add up to {sum(sizes)}, but dim {d} has {n} elements")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(narrow(tensor, d, a, size) for a, size in zip(starts, sizes, strict=True))


@composed(method=True, returns="tuple[Tensor, ...]")
def chunk(input, chunks, dim=0):
    """At most `chunks` pieces of equal size along `dim` (the last may be smaller; views)"""
    if chunks < 1:
        raise ValueError(f"chunk(): needs at least one chunk, got {chunks}")
    n = input.shape[axis_of("chunk", dim, input.ndim)]
    return split(input, [0] * chunks if n == 0 else -(-n // chunks), dim)


@composed(method=True, returns="tuple[Tensor, ...]")
def unbind(input, dim=0):
    """The slices along `dim` (views)"""
    return tuple(select(input, dim, i) for i in range(input.shape[axis_of("unbind", dim, input.ndim)]))


@composed(method=True)
def diag(input, diagonal=0):
    """The diagonal of a matrix, or a matrix with this diagonal"""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise ShapeError(
            f"diag() needs 1 or 2 axes, got shape {tuple(input.shape)}. Use diagonal() for more."
        )
    return clone(_diagonal(input, diagonal))


_diagonal = diagonal


@composed(function=True, returns="tuple[Tensor, ...]")
def broadcast_tensors(*tensors):
    """All tensors expanded to their common shape"""
    shape = broadcast_shapes("broadcast_tensors", *(x.shape for x in tensors))
    return tuple(expand(x, *shape) for x in tensors)


def broadcast_shapes(name, *shapes):
    """The shape that all shapes broadcast to: sizes line up from the right, and 1 fits any size"""
    ndim = max(len(s) for s in shapes)
    result = []
    for sizes in zip(*((1,) * (ndim - len(s)) + tuple(s) for s in shapes), strict=True):
        other = {n for n in sizes if n != 1}
        if len(other) > 1:
            raise ShapeError(
                f"{name}(): shapes {' and '.join(str(tuple(s)) for s in shapes)} do not fit together: "
                "counted from the right, sizes must be equal, or one of them 1."
            )
        result.append(other.pop() if other else 1)
    return tuple(result)
