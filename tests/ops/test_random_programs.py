"""Random programs of views, in-place writes, broadcasting, indexing and reductions, run on labkit and torch.

A program is a list of steps; each picks tensors made so far and applies one function. Both libraries take the
same random choices. Values must agree after every step, and in the end the gradients of all leaves.
"""

import random

import numpy as np
import pytest
import torch

import labkit

PROGRAMS = 600
LEAF_SHAPES = [(2, 3), (3,), (1, 3), (2, 1), (), (4, 2, 3), (2, 3, 1), (0, 3)]


def _slices(r, shape):
    """A basic index: numbers, slices, None and an ellipsis."""
    parts = []
    for n in shape:
        kind = r.choice(["all", "number", "slice", "step"])
        if kind == "number" and n:
            parts.append(r.randrange(-n, n))
        elif kind == "slice":
            a = r.randrange(n + 1)
            parts.append(slice(a, r.randrange(a, n + 1)))
        else:
            parts.append(slice(None, None, 2 if kind == "step" else None))
    parts = parts[: r.randrange(len(parts) + 1)]
    if r.random() < 0.2:
        parts.append(...)
    if r.random() < 0.2:
        parts.insert(r.randrange(len(parts) + 1), None)
    return tuple(parts)


def _fancy(r, shape):
    """Lists of places along the first axes, some of them twice."""
    axes = r.randrange(1, len(shape) + 1)
    return tuple([r.randrange(n) for _ in range(3)] for n in shape[:axes])


def unary(r, lib, x, *_):
    name = r.choice("exp sin tanh sigmoid square neg abs relu clone sign".split())
    return getattr(x.clamp(-2, 2), name)() if name == "exp" else getattr(x, name)()


def binary(r, lib, x, y):
    name = r.choice("add sub mul maximum minimum".split())
    return getattr(lib, name)(x, y)


def number(r, lib, x, *_):
    return r.choice([lambda: x * 1.5, lambda: 2 - x, lambda: x / 2, lambda: x**2, lambda: x + True])()


def reduce(r, lib, x, *_):
    name = r.choice("sum mean amax logsumexp norm var prod max".split())
    if x.numel() == 0 or x.ndim == 0:
        return x.sum()
    dim, keepdim = r.randrange(-x.ndim, x.ndim), r.random() < 0.5
    if name == "var" and x.shape[dim] < 2:
        name = "mean"
    if name == "max":
        return x.max(dim, keepdim)[0]
    return getattr(x, name)(dim=dim, keepdim=keepdim)


def view(r, lib, x, *_):
    kind = r.choice("transpose unsqueeze squeeze index reshape expand narrow flatten diagonal".split())
    if kind == "transpose" and x.ndim > 1:
        return x.transpose(r.randrange(x.ndim), r.randrange(x.ndim))
    if kind == "unsqueeze" and x.ndim < 4:
        return x.unsqueeze(r.randrange(x.ndim + 1))
    if kind == "squeeze":
        return x.squeeze()
    if kind == "index":
        return x[_slices(r, x.shape)]
    if kind == "expand" and x.ndim < 4:
        return x.expand(2, *x.shape)
    if kind == "narrow" and x.ndim and x.shape[0]:
        return x.narrow(0, 0, r.randrange(1, x.shape[0] + 1))
    if kind == "diagonal" and x.ndim > 1:
        return x.diagonal()
    return x.flatten() if kind == "flatten" else x.reshape(tuple(reversed(x.shape)))


def pick(r, lib, x, *_):
    if x.ndim == 0 or x.numel() == 0:
        return x * 1
    kind = r.choice("fancy mask where gather flip roll cumsum softmax sort tril cat stack matmul".split())
    if kind == "fancy":
        return x[_fancy(r, x.shape)]
    if kind == "mask":
        return x[x > 0]
    if kind == "where":
        return lib.where(x > 0, x, x * 0.1)
    if kind == "gather":
        return x.gather(-1, x.argmax(-1, keepdim=True))
    if kind in ("cumsum", "softmax"):
        return getattr(x, kind)(r.randrange(x.ndim))
    if kind == "sort":
        return x.flatten().sort()[0] if len(set(x.flatten().tolist())) == x.numel() else x * 2
    if kind == "tril" and x.ndim > 1:
        return x.tril()
    if kind in ("cat", "stack"):
        return getattr(lib, kind)([x, x * 2], r.randrange(x.ndim))
    if kind == "matmul":
        return x @ x.transpose(-1, -2) if x.ndim > 1 else x @ x
    return x.roll(1, 0) if kind == "roll" else x.flip(0)


def write(r, lib, x, y):
    """Change x in place: as a whole, through a view, or at some places."""
    kind = r.choice("add_ mul_ clamp_ copy_ zero_ view slice fancy mask operator".split())
    if kind == "add_":
        x.add_(y if _fits(y, x) else 1.0)
    elif kind == "mul_":
        x.mul_(y if _fits(y, x) else 0.5)
    elif kind == "clamp_":
        x.clamp_(-1, 1)
    elif kind == "copy_" and _fits(y, x):
        x.copy_(y)
    elif kind == "view" and x.ndim:
        x.transpose(0, -1).mul_(2)
    elif kind == "slice":
        index = _slices(r, x.shape)
        part = x[index]
        x[index] = y if _fits(y, part) else 0.25
    elif kind == "fancy" and x.ndim and x.numel():
        x[tuple(sorted(set(places)) for places in _fancy(r, x.shape)[:1])] = 0.75
    elif kind == "mask":
        x[x > 0.5] = 0.5
    elif kind == "operator":
        x *= 0.5
    else:
        x.zero_()
    return x


def aside(r, lib, x, *_):
    """A value without history."""
    if r.random() < 0.5:
        return x.detach() * 1
    with lib.no_grad():
        return x + 1


STEPS = [unary, binary, number, reduce, view, view, pick, write, write, aside]


def _fits(y, x):
    """Does y broadcast to the shape of x?"""
    if y.ndim > x.ndim:
        return False
    return all(n in (1, m) for n, m in zip(reversed(y.shape), reversed(x.shape), strict=False))


def _broadcast(x, y):
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return all(n == m or 1 in (n, m) for n, m in pairs)


def _same(a, b):
    a, b = a.detach().numpy(), b.detach().numpy()
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def _in_torch(r, step, x, y):
    """Torch's result. Copies keep what its gradients need apart from what later steps overwrite."""
    if step is write:
        return write(r, torch, x, y.clone())
    return view(r, torch, x, y) if step is view else step(r, torch, x.clone(), y.clone()).clone()


def _run(seed):
    """Run one program; say whether labkit refused to go back through an overwritten value."""
    r = random.Random(seed)
    arrays = [np.random.default_rng([seed, i]).normal(size=r.choice(LEAF_SHAPES)) for i in range(3)]
    ours = [labkit.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    values = [(a * 1, b * 1) for a, b in zip(ours, theirs, strict=True)]
    for _ in range(r.randrange(5, 16)):
        step, (x, tx), (y, ty) = r.choice(STEPS), r.choice(values), r.choice(values)
        if step is binary and not _broadcast(x, y):
            continue
        if step is write and not x.data.flags.writeable:  # labkit refuses any part of an expanded view
            continue
        state = r.getstate()
        result = _in_torch(r, step, tx, ty)
        r.setstate(state)
        values.append((step(r, labkit, x, y), result))
        if result.numel() > 500 or result.detach().abs().max().item() > 1e4 if result.numel() else False:
            values.pop()
        for a, b in values:
            a.refresh()  # a view of a tensor that was written learns of it when it is next used
            _same(a, b)
            assert a.requires_grad == b.requires_grad
    sum((b * b).sum() for _, b in values).backward()
    try:
        sum((a * a).sum() for a, _ in values).backward()
    except RuntimeError as error:
        assert "overwritten by an in-place operation" in str(error)
        return "overwritten"
    for a, b in zip(ours, theirs, strict=True):
        _same(a.grad, b.grad)
    return "equal"


@pytest.mark.parametrize("block", range(10))
def test_random_programs_equal_torch(block):
    outcomes = []
    for seed in range(block * PROGRAMS // 10, (block + 1) * PROGRAMS // 10):
        try:
            outcomes.append(_run(seed))
        except Exception as error:
            raise AssertionError(f"program {seed}: {error}") from error
    assert outcomes.count("equal") > 0.6 * len(outcomes)
