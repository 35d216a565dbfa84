"""A puzzle in one line: the distance from every point to every other."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.lazy import torch

exercise = Implement(
    title="Puzzle: all pairwise distances",
    minutes=6,
    needs=("w01.broadcast_shape",),
    cases=[
        Case("3 and 4 points in the plane", lambda draw: {"a": draw.normal(3, 2), "b": draw.normal(4, 2)}),
        Case("five dimensions", lambda draw: {"a": draw.normal(2, 5), "b": draw.normal(3, 5)}),
        Case("not contiguous", lambda draw: {"a": draw.transposed(4, 3), "b": draw.strided(2, 3)}),
        Case("one point each, one dimension", lambda draw: {"a": draw.normal(1, 1), "b": draw.normal(2, 1)}),
    ],
    oracle=lambda a, b: torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist"),
    rules=Rules(
        forbids=("cdist", "pdist", "norm", "dist", "pairwise_distance", "vector_norm"),
        allows=("sum", "sqrt", "square", "pow"),
        loops=False,
    ),
    mistakes=[
        Mistake(
            "squared",
            "These are squared distances: the root is missing.",
            lambda a, b: (a[:, None] - b).square().sum(-1),
        ),
        Mistake(
            "city blocks",
            "This adds up absolute differences; Euclid squares them, adds, and takes the root.",
            lambda a, b: (a[:, None] - b).abs().sum(-1),
        ),
        Mistake(
            "transposed",
            "One row for each point of a, one column for each point of b.",
            lambda a, b: (b[:, None] - a).square().sum(-1).sqrt(),
        ),
        Mistake(
            "mean",
            "The squares are averaged over the coordinates; add them.",
            lambda a, b: (a[:, None] - b).square().mean(-1).sqrt(),
        ),
        Mistake(
            "no table",
            "Point i of a meets point i of b only: `a[:, None]` has shape (n, 1, d) and meets every point of b.",
            lambda a, b: (a - b).square().sum(-1).sqrt(),
        ),
        Mistake(
            "summed over points",
            "The sum runs over the points of b; it has to run over the coordinates, the last axis.",
            lambda a, b: (a[:, None] - b).square().sum(1).sqrt(),
        ),
    ],
    hints=(
        "You need every difference: one axis for a, one for b, one for the coordinates.",
        "`a[:, None] - b` has shape (n, m, d). Square, sum over the last axis, root.",
        "return ((a[:, None] - b) ** 2).sum(-1).sqrt()",
    ),
    passed="The table of differences has n * m * d entries: for large n, torch.cdist multiplies matrices instead.",
)
