"""Pack a padded batch step by step, longest sequence first."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week06.shared import PACKING, ragged, real_steps
from labkit.lazy import torch


def _packed(x, lengths):
    """torch's own packing, as a plain tuple."""
    pack = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    return tuple(pack)


def _pack(x, lengths, descending=True, sort=True, whole=False, by_row=False, shift=0, invert=True, move=True):
    """The answer, with one thing changed."""
    order = torch.argsort(lengths, descending=descending) if sort else torch.arange(len(lengths))
    x, lengths = x[:, order] if move else x, lengths[order]
    real = real_steps(lengths, len(x), shift)
    real = torch.ones_like(real) if whole else real
    data = x.transpose(0, 1)[real.T] if by_row else x[real]
    return data, real.sum(1), order, torch.argsort(order) if invert else order.clone()


exercise = Implement(
    title="Pack",
    minutes=12,
    needs=("w06.masked_loss",),
    also=("packed sequence",),
    dtype="float64",
    cases=[
        Case("three, unsorted", ragged([2, 5, 3], 4, name="x")),
        Case("four, unsorted", ragged([4, 1, 6, 3], 2, name="x")),
        Case("not contiguous", ragged([3, 1, 5, 4], 2, "transposed", "x")),
        Case("one number per step", ragged([1, 3, 2, 6, 5], 1, name="x")),
        Case("sorted already", ragged([6, 4, 3, 1], 2, name="x")),
        Case("one sequence", ragged([3], 2, name="x"), extreme=True),
    ],
    oracle=_packed,
    grads=("x",),
    reference="pack_padded_sequence",
    delegate=_packed,
    rules=Rules(forbids=PACKING),
    mistakes=[
        Mistake(
            "unsorted lengths",
            "The sequences are packed in the order in which they came. Sort them first, longest first: only then the running ones are the first rows.",
            vary(_pack, sort=False),
        ),
        Mistake(
            "only the lengths sorted",
            "The lengths are sorted, the sequences are not: x[:, order] belongs to lengths[order].",
            vary(_pack, move=False),
        ),
        Mistake(
            "shortest first",
            "The shortest sequence comes first. Longest first: sort with descending=True.",
            vary(_pack, descending=False),
        ),
        Mistake(
            "reads the pad step",
            "The padding was packed too: step t takes only the sequences with more than t steps.",
            vary(_pack, whole=True),
        ),
        Mistake(
            "sequence after sequence",
            "One whole sequence follows the other. Packed is step after step: first step 0 of all, then step 1 of all that have one.",
            vary(_pack, by_row=True),
        ),
        Mistake(
            "one step short",
            "The last step of every sequence is missing: step t is real if t < length.",
            vary(_pack, shift=-1),
        ),
        Mistake(
            "order not inverted",
            "The way back is the same list as the way there. unsorted[sorted[k]] = k: the argsort of the order.",
            vary(_pack, invert=False),
        ),
    ],
    hints=(
        "order = torch.argsort(lengths, descending=True), then x[:, order] and lengths[order].",
        "real = torch.arange(T)[:, None] < lengths, both in the new order. x[real] is the data, real.sum(1) the batch sizes.",
        "return x[real], real.sum(1), order, torch.argsort(order)",
    ),
    passed="A boolean mask picks row by row, and the rows are steps: exactly torch's layout.",
)
