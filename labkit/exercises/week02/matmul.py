"""A product of stacked matrices with its way back."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, Rules, vary
from labkit.exercises.week02.shared import NO_TORCH, as_it_is, by_torch, matmul_pair
from labkit.lazy import torch

exercise = Implement(
    title="Back through a product of matrices",
    minutes=12,
    needs=("w02.unbroadcast",),
    engine="numpy",
    dtype="float64",
    vjp=True,
    grads=("a", "b"),
    cases=[
        Case("two matrices", lambda draw: {"a": draw.normal(2, 3), "b": draw.normal(3, 4)}),
        Case("a batch", lambda draw: {"a": draw.normal(5, 2, 3), "b": draw.normal(5, 3, 4)}),
        Case("a batch, one weight", lambda draw: {"a": draw.normal(5, 2, 3), "b": draw.normal(3, 4)}),
        Case("both stretched", lambda draw: {"a": draw.normal(6, 1, 2, 3), "b": draw.normal(5, 3, 4)}),
        Case("not contiguous", lambda draw: {"a": draw.transposed(2, 3), "b": draw.transposed(3, 5)}),
        Case(
            "an empty batch",
            lambda draw: {"a": draw.normal(0, 2, 3), "b": draw.normal(3, 4)},
            extreme=True,
        ),
    ],
    oracle=lambda a, b: torch.matmul(a, b),
    delegate=by_torch(lambda a, b: torch.matmul(a, b), 2),
    rules=Rules(forbids=NO_TORCH),
    mistakes=[
        Mistake(
            "not transposed",
            "The shapes in backward do not fit. a gets `g @ bᵀ`, b gets `aᵀ @ g`: the other factor turned, and on its own side.",
            vary(matmul_pair, turn=lambda x: x),
        ),
        Mistake(
            "all axes turned",
            "`.T` reverses all axes, the batch included; np.swapaxes(x, -1, -2) turns only the last two.",
            vary(matmul_pair, turn=lambda x: x.T),
        ),
        Mistake(
            "batch not summed",
            "One weight was used for the whole batch, and each use contributes: unbroadcast the gradient.",
            vary(matmul_pair, left=as_it_is, right=as_it_is),
        ),
        Mistake(
            "only b summed",
            "The gradient of b is unbroadcast, that of a is not: a may be the one that was stretched.",
            vary(matmul_pair, left=as_it_is),
        ),
        Mistake(
            "swapped",
            "The two gradients are in the wrong order: first that of a, then that of b.",
            vary(matmul_pair, swap=True),
        ),
    ],
    hints=(
        "Let the shapes lead: a is (n, k), b is (k, m), g is (n, m). Which product of g and b has the shape of a?",
        "g @ bᵀ is (n, m) @ (m, k), and aᵀ @ g is (k, n) @ (n, m). In a batch only the last two axes are turned.",
        "unbroadcast(g @ np.swapaxes(b, -1, -2), a.shape), unbroadcast(np.swapaxes(a, -1, -2) @ g, b.shape)",
    ),
    passed="A backward pass costs two products for each one of the forward pass: hence the rule of thumb, three times the work.",
    equivalent=(
        Equivalent(
            before="ga = g @ np.swapaxes(b, -1, -2) # (..., n, m) @ (..., m, k)",
            after="ga = g @ np.swapaxes(b, -2, -1) # (..., n, m) @ (..., m, k)",
            reason="exchanging two axes does not depend on which is named first",
        ),
        Equivalent(
            before="gb = np.swapaxes(a, -1, -2) @ g # (..., k, n) @ (..., n, m)",
            after="gb = np.swapaxes(a, -2, -1) @ g # (..., k, n) @ (..., n, m)",
            reason="exchanging two axes does not depend on which is named first",
        ),
    ),
)
