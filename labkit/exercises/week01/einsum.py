"""Einsum for two operands, by broadcasting and a sum."""

import math

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.lazy import torch


def _einsum(spec, a, b, sum_always=False, chosen=None):
    """`chosen` replaces the letters to be summed, for mistakes in finding them."""
    left, out = spec.split("->")
    ia, ib = left.split(",")
    letters = out + "".join(sorted(set(ia + ib) - set(out)) if chosen is None else chosen)

    def align(x, axes):
        x = x.permute([axes.index(letter) for letter in letters if letter in axes])
        return x[tuple(slice(None) if letter in axes else None for letter in letters)]

    product = align(a, ia) * align(b, ib)
    summed = tuple(range(len(out), len(letters)))
    return product.sum(summed) if summed or sum_always else product


def _pairs(spec, a, b):
    """How many products einsum makes: the product of the sizes of all letters."""
    left = spec.split("->")[0].split(",")
    return math.prod(
        ({**dict(zip(left[0], a.shape, strict=True)), **dict(zip(left[1], b.shape, strict=True))}).values()
    )


def _einsum_keeps_all(spec, a, b):
    """Forgets to sum: returns the product over all letters."""
    left, out = spec.split("->")
    return _einsum(f"{left}->{out + ''.join(sorted(set(left) - set(out) - {','}))}", a, b)


def _einsum_lists_twice(spec, a, b):
    """Lists a letter of both tensors twice."""
    left, out = spec.split("->")
    return _einsum(spec, a, b, chosen=[c for c in left.replace(",", "") if c not in out])


def _einsum_sums_common(spec, a, b):
    """Sums only what both tensors have."""
    left, out = spec.split("->")
    ia, ib = left.split(",")
    return _einsum(spec, a, b, chosen=[c for c in ia if c in ib and c not in out])


exercise = Implement(
    title="Einsum for two",
    minutes=15,
    needs=("w01.expand", "w01.mean"),
    cases=[
        Case(
            "matrix product",
            lambda draw: {"spec": "ij,jk->ik", "a": draw.normal(2, 3), "b": draw.normal(3, 4)},
        ),
        Case("outer product", lambda draw: {"spec": "i,j->ij", "a": draw.normal(3), "b": draw.normal(5)}),
        Case(
            "transposed result",
            lambda draw: {"spec": "ij,jk->ki", "a": draw.transposed(2, 3), "b": draw.normal(3, 5)},
        ),
        Case(
            "batched",
            lambda draw: {"spec": "bij,bkj->bik", "a": draw.normal(2, 3, 4), "b": draw.strided(2, 5, 4)},
        ),
        Case("dot product", lambda draw: {"spec": "i,i->", "a": draw.normal(6), "b": draw.normal(6)}),
        Case(
            "an axis of size 1", lambda draw: {"spec": "ij,i->j", "a": draw.normal(1, 4), "b": draw.normal(1)}
        ),
        Case(
            "summed in one tensor only",
            lambda draw: {"spec": "ij,k->ik", "a": draw.normal(2, 3), "b": draw.normal(4)},
        ),
    ],
    oracle=lambda spec, a, b: torch.einsum(spec, a, b),
    grads=("a", "b"),
    rules=Rules(
        forbids=(
            "einsum",
            "matmul",
            "mm",
            "bmm",
            "mv",
            "dot",
            "inner",
            "outer",
            "tensordot",
            "kron",
            "baddbmm",
            "vdot",
        )
    ),
    mistakes=[
        Mistake(
            "sums everything",
            "With nothing to sum, `sum(())` adds up everything in torch: leave it out for an empty tuple of axes.",
            vary(_einsum, sum_always=True),
        ),
        Mistake(
            "never sums",
            "Letters that are not in the result have to be summed away.",
            _einsum_keeps_all,
        ),
        Mistake(
            "order of the result ignored",
            "The result has its letters in alphabetical order; the spec says in which order it wants them.",
            lambda spec, a, b: _einsum(
                f"{spec.split('->')[0]}->{''.join(sorted(spec.split('->')[1]))}", a, b
            ),
        ),
        Mistake(
            "mean for sum",
            "The products are averaged; einsum adds them.",
            lambda spec, a, b: _einsum(spec, a, b) * (_einsum(spec, a, b).numel() / _pairs(spec, a, b)),
        ),
        Mistake(
            "a letter twice",
            "A letter that both tensors have stands in your row of letters twice: list each letter once.",
            _einsum_lists_twice,
        ),
        Mistake(
            "common letters only",
            "Only letters of both tensors are summed: every letter that the result lacks is, also one that a alone has.",
            _einsum_sums_common,
        ),
    ],
    hints=(
        "Give every letter an axis of its own, in both tensors; then one product and one sum are left.",
        "Letters in order: those of the result first, then the summed ones. Permute each tensor into that order, and put None where it lacks a letter.",
        "align(x, axes): x.permute([axes.index(c) for c in letters if c in axes])[tuple(slice(None) if c in axes else None for c in letters)]",
    ),
    passed="Everything from a dot product to attention is a product over letters and a sum over some of them.",
)
