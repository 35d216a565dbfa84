"""Products: matrices, vectors and any sum of products (einsum)."""

import math
import string

from labkit.autograd import op
from labkit.dtypes import promote, promote_types
from labkit.errors import NotSupported, ShapeError
from labkit.op_table import composed
from labkit.ops.elementwise import add, mul
from labkit.ops.shape import diagonal


@op(method=True)
def matmul(k, x, y, *, need):
    """(..., N, I) @ (..., I, O) -> (..., N, O); leading axes broadcast, and vectors are rows or columns"""
    _check_product("matmul", x, y)
    a = x if x.ndim > 1 else x.reshape(1, -1)  # (..., N, I)
    b = y if y.ndim > 1 else y.reshape(-1, 1)  # (..., I, O)
    z = k.matmul(a, b)  # (..., N, O)
    full, shape = z.shape, z.shape
    if x.ndim == 1:
        shape = shape[:-2] + shape[-1:]
    if y.ndim == 1:
        shape = shape[:-1]

    def backward(g):
        g, gx, gy = g.reshape(full), None, None
        if need[0]:
            gx = k.matmul(g, b.swapaxes(-1, -2))  # (..., N, O) (..., O, I) -> (..., N, I)
            gx = gx if x.ndim > 1 else gx.reshape(*gx.shape[:-2], gx.shape[-1])
        if need[1]:
            if b.ndim == 2:  # one product over all leading axes
                rows = math.prod(a.shape[:-1])
                gy = k.matmul(a.reshape(rows, a.shape[-1]).T, g.reshape(rows, b.shape[1]))  # -> (I, O)
            else:
                gy = k.matmul(a.swapaxes(-1, -2), g)  # (..., I, N) (..., N, O) -> (..., I, O)
            gy = gy if y.ndim > 1 else gy.reshape(*gy.shape[:-2], gy.shape[-2])
        return gx, gy

    return z if shape == full else z.reshape(shape), backward


@op(functional=True)
def linear(k, x, weight, bias=None, *, need):
    """x @ weight^T + bias: (..., I) (O, I) (O,) -> (..., O)"""
    if weight.ndim != 2 or x.ndim == 0 or x.shape[-1] != weight.shape[1]:
        raise ShapeError(
            f"linear(): input {x.shape} and weight {weight.shape} do not fit: "
            "the last axis of the input must equal the second of the weight (out_features, in_features)."
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(
            f"linear(): bias {bias.shape} must have one number per row of weight {weight.shape}."
        )
    if x.dtype != weight.dtype:
        raise RuntimeError(
            f"linear(): the input is {x.dtype.name}, the weight {weight.dtype.name}. Convert the input: "
            f"x.to(labkit.{weight.dtype.name})."
        )
    shape = x.shape
    x = x if x.ndim == 2 else x.reshape(math.prod(shape[:-1]), shape[-1])  # (N, I)
    y = k.linear(x, weight, bias)  # (N, O)
    flat = y.shape

    def backward(g):
        g = g.reshape(flat)
        gx = k.matmul(g, weight).reshape(shape) if need[0] else None  # (N, O) (O, I) -> (N, I)
        gw = k.matmul(g.T, x) if need[1] else None  # (O, N) (N, I) -> (O, I)
        return gx, gw, k.sum(g, (0,), False) if need[2] else None

    return y if len(shape) == 2 else y.reshape(*shape[:-1], weight.shape[0]), backward


def _check_product(name, x, y):
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(
            f"{name}(): both need at least one axis, got {x.shape} and {y.shape}. Use * for numbers."
        )
    inner_x, inner_y = x.shape[-1], y.shape[-2 if y.ndim > 1 else 0]
    if inner_x != inner_y:
        raise ShapeError(
            f"{name}(): shapes {tuple(x.shape)} and {tuple(y.shape)} do not fit: the last axis of the first "
            f"({inner_x}) must equal the {'second to last' if y.ndim > 1 else 'only'} one of the second "
            f"({inner_y})."
        )
    _same_type(name, x, y)


def _same_type(name, x, y):
    if x.dtype != y.dtype:
        raise RuntimeError(
            f"{name}(): both need one dtype, but the first is {x.dtype.name} and the second {y.dtype.name}. "
            f"Convert both: x.to(labkit.{promote_types(x.dtype, y.dtype).name})."
        )


@op
def _einsum(k, *xs, terms, output, need):
    """Sum of products over every letter that is not in the output. No letter is twice in one term."""
    xs = promote(*xs)

    def backward(g):
        return tuple(_einsum_grad(k, g, xs, terms, output, i) if n else None for i, n in enumerate(need))

    return k.einsum(",".join(terms) + "->" + output, xs), backward


def _einsum_grad(k, g, xs, terms, output, i):
    """The same kind of sum, with g in the place of xs[i]; letters only xs[i] has are repeated."""
    others = [j for j in range(len(xs)) if j != i]
    known = set(output).union(*(terms[j] for j in others))
    letters = "".join(c for c in terms[i] if c in known)
    equation = ",".join([output, *(terms[j] for j in others)]) + "->" + letters
    gx = k.einsum(equation, (g, *(xs[j] for j in others)))
    size = dict(zip(letters, gx.shape, strict=True))
    gx = gx.reshape([size.get(c, 1) for c in terms[i]])
    return k.broadcast_to(gx, [size.get(c, n) for c, n in zip(terms[i], xs[i].shape, strict=True)])


# ---- composed ----


@composed(function=True)
def einsum(equation, *operands):
    """Any sum of products, in letters: einsum("bij,bjk->bik", x, y) multiplies batches of matrices."""
    if not isinstance(equation, str):
        raise NotSupported(
            "einsum(): the form with lists of axis numbers is not in labkit; write the equation as text"
        )
    operands = (
        list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    )
    terms, _, output = equation.replace(" ", "").partition("->")
    terms = terms.split(",")
    if len(terms) != len(operands):
        raise ValueError(f"einsum(): {equation!r} has {len(terms)} terms for {len(operands)} tensors")
    rest = max(x.ndim - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True))
    dots = [c for c in string.ascii_letters if c not in equation][: max(rest, 0)]
    if "->" not in equation:  # every letter that occurs once, in alphabetical order, after the dots
        joined = "".join(terms).replace(".", "")
        output = ("..." if "..." in equation else "") + "".join(
            c for c in sorted(set(joined)) if joined.count(c) == 1
        )
    for i, x in enumerate(operands):
        terms[i], operands[i] = _one_of_each(equation, terms[i], x, dots)
    output = output.replace("...", "".join(dots))
    size: dict[str, int] = {}
    for c, n in (
        (c, n) for t, x in zip(terms, operands, strict=True) for c, n in zip(t, x.shape, strict=True)
    ):
        if n != 1 and size.setdefault(c, n) != n:
            raise ShapeError(f"einsum(): {c!r} in {equation!r} stands for sizes {size[c]} and {n}")
    for c in output:
        if not any(c in t for t in terms):
            raise ValueError(f"einsum(): {c!r} in the output of {equation!r} is in no input")
    return _einsum(*operands, terms=terms, output=output)


def _one_of_each(equation, term, x, dots):
    """The term with letters for its dots, and x with diagonals taken where a letter is twice in the term."""
    n = x.ndim - len(term.replace("...", ""))
    term = term.replace("...", "".join(dots[len(dots) - n :] if n > 0 else []))
    if len(term) != x.ndim:
        raise ShapeError(
            f"einsum(): a term of {equation!r} names {len(term)} axes, its tensor has {tuple(x.shape)}"
        )
    for c in sorted(set(term)):
        while term.count(c) > 1:
            a, b = term.index(c), term.rindex(c)
            if x.shape[a] != x.shape[b]:
                raise ShapeError(
                    f"einsum(): {c!r} stands for sizes {x.shape[a]} and {x.shape[b]} in one tensor"
                )
            x, term = diagonal(x, 0, a, b), term[:a] + term[a + 1 : b] + term[b + 1 :] + c
    return term, x


def _need_axes(name, *pairs):
    for x, ndim in pairs:
        if x.ndim != ndim:
            shapes = " and ".join(str(tuple(t.shape)) for t, _ in pairs)
            raise ShapeError(
                f"{name}() needs {' and '.join(f'{n}-d' for _, n in pairs)}, got {shapes}. See matmul()."
            )


@composed(method=True)
def mm(input, mat2):
    """The product of two matrices: (N, I) (I, O) -> (N, O)"""
    _need_axes("mm", (input, 2), (mat2, 2))
    return matmul(input, mat2)


@composed(method=True)
def bmm(input, mat2):
    """The products of two batches of matrices: (B, N, I) (B, I, O) -> (B, N, O)"""
    _need_axes("bmm", (input, 3), (mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(f"bmm(): the batches differ: {tuple(input.shape)} and {tuple(mat2.shape)}")
    return matmul(input, mat2)


@composed(method=True)
def mv(input, vec):
    """A matrix times a vector: (N, I) (I,) -> (N,)"""
    _need_axes("mv", (input, 2), (vec, 1))
    return matmul(input, vec)


@composed(method=True)
def dot(input, tensor):
    """The sum of products of two vectors: (I,) (I,) -> ()"""
    _need_axes("dot", (input, 1), (tensor, 1))
    return matmul(input, tensor)


@composed(method=True)
def outer(input, vec2):
    """All products of two vectors: (N,) (M,) -> (N, M)"""
    _need_axes("outer", (input, 1), (vec2, 1))
    return mul(input.unsqueeze(1), vec2)


@composed(method=True, in_place=True)
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta input + alpha mat1 @ mat2"""
    product = mm(mat1, mat2)
    product = product if alpha == 1 else mul(product, alpha)
    if beta == 0:  # as in torch, input is then ignored, even if it holds NaN
        return product
    return add(product, input if beta == 1 else mul(input, beta))
