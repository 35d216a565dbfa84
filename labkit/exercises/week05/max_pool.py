"""Max pooling with its gradient."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week05.shared import DERIVATIVES, overwritten, unfolded
from labkit.lazy import F, torch


def _pool(change):
    """max pooling of torch's, and a backward of our own: change(cells, winner, g) -> gradients of the cells."""

    def pooled(x, size, stride):
        cells = unfolded(x, (size, size), stride, 1).flatten(4)
        value, winner = cells.max(-1)

        def backward(g):
            columns = change(cells, winner, g).permute(0, 1, 4, 2, 3)
            return F.fold(columns.flatten(1, 2).flatten(2), x.shape[2:], size, stride=stride)

        return value, backward

    return pooled


def _won(cells, winner):
    return torch.arange(cells.shape[-1]) == winner[..., None]


def _pool_overwritten(x, size, stride):
    cells = unfolded(x, (size, size), stride, 1).flatten(4)
    value, winner = cells.max(-1)

    def backward(g):
        columns = (g[..., None] * _won(cells, winner)).permute(0, 1, 4, 2, 3).flatten(1, 2).flatten(2)
        return overwritten(columns, tuple(x.shape[2:]), (size, size), stride, 1)

    return value, backward


def _pool_not_permuted(x, size, stride):
    cells = unfolded(x, (size, size), stride, 1).flatten(4)
    value, winner = cells.max(-1)

    def backward(g):
        columns = (g[..., None] * _won(cells, winner)).reshape(len(x), -1, g.shape[2] * g.shape[3])
        return F.fold(columns, x.shape[2:], size, stride=stride)

    return value, backward


def _pool_average(x, size, stride):
    _, backward = _pool(lambda cells, winner, g: (g[..., None] / cells.shape[-1]).expand_as(cells))(
        x, size, stride
    )
    return unfolded(x, (size, size), stride, 1).mean((-1, -2)), backward


def _pool_min(x, size, stride):
    value, backward = _pool(lambda cells, winner, g: g[..., None] * _won(cells, winner))(-x, size, stride)
    return -value, backward


def _torch_pool(x, size, stride):
    leaf = x.detach().clone().requires_grad_()
    value = F.max_pool2d(leaf, size, stride)
    return value.detach(), lambda g: torch.autograd.grad(value, leaf, g)[0]


def _small_integers(*shape):
    """Few different values, so that windows have ties."""
    return lambda draw: draw.integers(0, 3, *shape).astype(draw.dtype)


def _pool_case(make, size, stride):
    return lambda draw: {"x": make(draw), "size": size, "stride": stride}


def _tie_shares(cells, g):
    best = (cells == cells.amax(-1, keepdim=True)).to(cells.dtype)
    return g[..., None] * best / best.sum(-1, keepdim=True)


exercise = Implement(
    title="Max pooling",
    minutes=12,
    needs=("w05.col2im",),
    dtype="float64",
    cases=[
        Case("2 by 2", _pool_case(lambda draw: draw.normal(2, 3, 6, 8), 2, 2)),
        Case("an odd side", _pool_case(lambda draw: draw.normal(1, 2, 7, 5), 2, 2)),
        Case("ties", _pool_case(_small_integers(2, 3, 4, 6), 2, 2)),
        Case("windows that overlap", _pool_case(lambda draw: draw.normal(2, 3, 5, 7), 3, 2)),
        Case("ties and overlap", _pool_case(_small_integers(1, 2, 6, 7), 3, 1)),
        Case("all negative, transposed", _pool_case(lambda draw: -np.exp(draw.transposed(2, 3, 4, 5)), 2, 1)),
        Case(
            "minus infinity",
            lambda draw: {"x": np.full((1, 1, 2, 3), -np.inf), "size": 2, "stride": 1},
            extreme=True,
        ),
    ],
    oracle=lambda x, size, stride: F.max_pool2d(x, size, stride),
    grads=("x",),
    vjp=True,
    delegate=_torch_pool,
    rules=Rules(
        forbids=(
            *(
                "max_pool2d",
                "max_pool1d",
                "MaxPool2d",
                "adaptive_max_pool2d",
                "max_unpool2d",
                "boolean_dispatch",
            ),
            *("max_pool2d_with_indices", "fractional_max_pool2d", "AdaptiveMaxPool2d"),
            *("unfold", "fold", *DERIVATIVES),
        )
    ),
    mistakes=[
        Mistake(
            "every tie wins",
            "Where several share the largest value, each gets the whole gradient. Only the first one may.",
            _pool(lambda cells, winner, g: g[..., None] * (cells == cells.amax(-1, keepdim=True))),
        ),
        Mistake(
            "ties share",
            "Where several share the largest value, the gradient is divided among them, as `amax` does it. The first takes all.",
            _pool(lambda cells, winner, g: _tie_shares(cells, g)),
        ),
        Mistake(
            "last of equals",
            "Where several share the largest value, the last one gets the gradient. torch gives it to the first.",
            _pool(
                lambda cells, winner, g: (
                    g[..., None] * _won(cells, cells.shape[-1] - 1 - cells.flip(-1).max(-1)[1])
                )
            ),
        ),
        Mistake(
            "overlaps overwritten",
            "A pixel that wins in two windows keeps one of its gradients. They add up.",
            _pool_overwritten,
        ),
        Mistake(
            "cells last",
            "The places of a window are the last axis; `col2im` takes them right after the channels: permute first.",
            _pool_not_permuted,
        ),
        Mistake(
            "value for gradient",
            "The winner gets its own value; it should get the gradient g.",
            _pool(lambda cells, winner, g: cells.amax(-1, keepdim=True) * _won(cells, winner)),
        ),
        Mistake(
            "averaged",
            "This is average pooling, there and back. The largest value of each window is wanted.",
            _pool_average,
        ),
        Mistake(
            "average backward",
            "The gradient is divided among the whole window. That is average pooling; here the winner takes it all.",
            _pool(lambda cells, winner, g: (g[..., None] / cells.shape[-1]).expand_as(cells)),
        ),
        Mistake(
            "smallest", "These are the smallest values of the windows; the largest are wanted.", _pool_min
        ),
    ],
    hints=(
        "`cells.max(-1)` gives values and positions. Which entries of a window, of size * size, get the gradient?",
        "won = torch.arange(size * size) == winner[..., None] is True at the winner. g[..., None] * won puts g there.",
        "return col2im((g[..., None] * won).permute(0, 1, 4, 2, 3), x.shape[2:], (size, size), stride)",
    ),
    passed="Only one pixel of four passes a gradient on: the others learn nothing from this window.",
)
