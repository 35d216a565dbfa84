"""Run a recurrent cell over a packed batch."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.exercises.week06.shared import layer_weights
from labkit.lazy import torch


def _packed_inputs(lengths, inputs, hidden, make="normal"):
    """Data of sequences sorted by falling length, first states, GRU weights."""

    def made(draw):
        sizes = np.array([sum(n > t for n in lengths) for t in range(max(lengths))])
        return {
            "data": getattr(draw, make)(sum(lengths), inputs),
            "batch_sizes": sizes,
            "h": draw.normal(len(lengths), hidden),
            **layer_weights(draw, 3, inputs, hidden),
        }

    return made


def _use_packed(answer, data, batch_sizes, h, *weights):
    return answer(lambda x, state: torch.gru_cell(x, state, *weights), data, batch_sizes, h)


def _gru_packed(data, batch_sizes, h, *weights):
    outputs, last = torch.gru(data, batch_sizes, h[None], weights, True, 1, 0.0, False, False)
    return outputs, last[0]


def _run_packed(cell, data, batch_sizes, h, rows="first", carry=True, ended="kept"):
    """The answer, with one thing changed."""
    outputs, start, first = [], 0, h
    for n in batch_sizes.tolist():
        old = h if carry else first
        part = old[:n] if rows == "first" else old[len(old) - n :]
        new = cell(data[start : start + n], part)
        outputs.append(new)
        start += n
        if ended == "dropped":
            h = new
        elif ended == "zero":
            h = torch.cat([new, torch.zeros_like(h[n:])])
        elif rows == "first":
            h = torch.cat([new, h[n:]])
        else:
            h = torch.cat([h[: len(h) - n], new])
    return torch.cat(outputs), h


def _run_in_place(cell, data, batch_sizes, h):
    outputs, start = [], 0
    for n in batch_sizes.tolist():
        h[:n] = cell(data[start : start + n], h[:n])
        outputs.append(h[:n])
        start += n
    return torch.cat(outputs), h


def _run_by_counting(cell, data, batch_sizes, h):
    """As if every step had as many rows as the first: reads on into the next step."""
    outputs, start, count = [], 0, int(batch_sizes[0])
    for n in batch_sizes.tolist():
        new = cell(data[start : start + n], h[:n])
        outputs.append(new)
        start = min(start + count, len(data) - 1) if start + count + n <= len(data) else len(data) - n
        h = torch.cat([new, h[n:]])
    return torch.cat(outputs), h


exercise = Implement(
    title="Run it packed",
    minutes=12,
    needs=("w06.pack",),
    dtype="float64",
    cases=[
        Case("three sequences", _packed_inputs([5, 3, 2], 4, 6)),
        Case("four sequences", _packed_inputs([6, 4, 3, 1], 2, 5)),
        Case("two of one length", _packed_inputs([4, 4, 1], 5, 2)),
        Case("not contiguous", _packed_inputs([4, 3, 1], 3, 5, "transposed")),
        Case("one input", _packed_inputs([3, 2, 1], 1, 4)),
        Case("one sequence", _packed_inputs([4], 3, 2), extreme=True),
    ],
    use=_use_packed,
    oracle=_gru_packed,
    grads=("data", "h"),
    reference="a packed nn.GRU",
    excused={
        "delegation": "the cell is handed in; torch's layer for it takes weights, which the answer does not see"
    },
    mistakes=[
        Mistake(
            "last state of the longest",
            "Only the states that are still running at the end are returned. A sequence that has ended keeps its state: it is wanted too.",
            vary(_run_packed, ended="dropped"),
        ),
        Mistake(
            "ended states erased",
            "Sequences that have ended are set to zero. They keep the state of their last real step.",
            vary(_run_packed, ended="zero"),
        ),
        Mistake(
            "last rows",
            "The last rows of the state are taken. Longest first: the sequences still running are the first n rows.",
            vary(_run_packed, rows="last"),
        ),
        Mistake(
            "state not carried",
            "Every step starts from the first state. Put the new rows back into h.",
            vary(_run_packed, carry=False),
        ),
        Mistake(
            "starts from zero",
            "The run starts from zeros; the first state is given.",
            lambda cell, data, batch_sizes, h: _run_packed(cell, data, batch_sizes, 0 * h),
        ),
        Mistake(
            "in place",
            "The new states are written into h, and outputs that are views of it change with it. Make new tensors: torch.cat.",
            _run_in_place,
        ),
        Mistake(
            "always a full batch further",
            "The next step is looked for a whole batch further on. Step t has batch_sizes[t] rows: go on by that many.",
            _run_by_counting,
        ),
    ],
    hints=(
        "data.split(batch_sizes.tolist()) gives the rows of each step. With n rows, the first n states are running.",
        "new = cell(part, h[:n]). The others stay: h = torch.cat([new, h[n:]]).",
        "outputs.append(new) for each step; at the end return torch.cat(outputs), h",
    ),
    passed="No step was computed for nothing, and every last state is that of a real step.",
)
