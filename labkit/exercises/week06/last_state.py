"""The output at the last real step of each padded sequence."""

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.exercises.week06.shared import ragged, real_steps
from labkit.lazy import torch


def _last(outputs, lengths):
    return outputs[lengths - 1, torch.arange(len(lengths))]


exercise = Implement(
    title="The last real step",
    minutes=6,
    dtype="float64",
    cases=[
        Case("three sequences", ragged([2, 5, 3], 4)),
        Case("four, the longest first", ragged([6, 1, 4, 2], 3)),
        Case("not contiguous", ragged([3, 1, 4, 6, 2], 2, "transposed")),
        Case("one number per step", ragged([4, 2], 1)),
        Case("one sequence", ragged([3], 4), extreme=True),
    ],
    oracle=_last,
    grads=("outputs",),
    excused={"delegation": "torch has no function for it: it is one line of indexing"},
    mistakes=[
        Mistake(
            "reads the pad step",
            "The last row of the table is padding for every sequence but the longest. Sequence n ends at step lengths[n] - 1.",
            lambda outputs, lengths: outputs[-1].clone(),
        ),
        Mistake(
            "one step early",
            "This is one step before the end: a sequence of length n ends at step n - 1.",
            lambda outputs, lengths: outputs[lengths - 2, torch.arange(len(lengths))],
        ),
        Mistake(
            "one step too far",
            "A sequence of length n ends at step n - 1; step n is padding, or does not exist.",
            lambda outputs, lengths: outputs[lengths, torch.arange(len(lengths))],
        ),
        Mistake(
            "every pair",
            "outputs[lengths - 1] takes whole rows, all sequences at each of the ends. Index the second axis too: torch.arange(N).",
            lambda outputs, lengths: outputs[lengths - 1],
        ),
        Mistake(
            "axis",
            "The two axes are exchanged: outputs is (T, N, H), the step comes first.",
            lambda outputs, lengths: outputs[torch.arange(len(lengths)), lengths - 1],
        ),
        Mistake(
            "average",
            "This is the mean of all real steps. The last one is wanted.",
            lambda outputs, lengths: (
                (outputs * real_steps(lengths, len(outputs))[..., None]).sum(0) / lengths[:, None]
            ),
        ),
    ],
    hints=(
        "For each sequence n one step: lengths[n] - 1. Two lists of positions index two axes, pair by pair.",
        "outputs[steps, columns] with steps = lengths - 1 and columns = torch.arange(N).",
        "outputs[lengths - 1, torch.arange(len(lengths))]",
    ),
    passed="Index with two lists and they are taken in pairs; that is the difference from slicing.",
)
