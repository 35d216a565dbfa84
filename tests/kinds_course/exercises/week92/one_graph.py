"""Scale down what is too loud, in one graph: no number leaves the tensors, no `if` asks for one."""

from labkit.exercises.declare import Case, Compiled, Limit, Mistake
from labkit.lazy import torch


def prints(x, gain):
    peak = x.abs().max()
    print("peak", peak.shape)
    return x / peak.clamp(min=1.0) * gain


def takes_a_number(x, gain):
    peak = x.abs().max().item()
    return x / max(peak, 1.0) * gain


def asks(x, gain):
    peak = x.abs().max()
    if peak > 1.0:
        x = x / peak
    return x * gain


def row_by_row(x, gain):
    import torch  # the real one: torch.compile does not see through the lazy one

    peak = x.abs().max()
    rows = [row / peak.clamp(min=1.0) for row in x]
    return torch.stack(rows) * gain


def hidden(x, gain):
    import torch

    @torch.compiler.disable
    def inside(x, gain):
        return x / x.abs().max().clamp(min=1.0) * gain

    return inside(x, gain)


def always(x, gain):
    return x / x.abs().max() * gain


def clipped(x, gain):
    return x.clamp(-1.0, 1.0) * gain


exercise = Compiled(
    title="One graph",
    minutes=15,
    cases=[
        Case("3 by 4", lambda draw: {"x": 2 * draw.normal(3, 4), "gain": 0.5}),
        Case("5 by 2", lambda draw: {"x": 2 * draw.normal(5, 2), "gain": 1.5}),
        Case("quiet, 6 by 7", lambda draw: {"x": draw.uniform(-0.5, 0.5, 6, 7), "gain": 2.5}),
        Case("4 by 8", lambda draw: {"x": 2 * draw.normal(4, 8), "gain": 3.5}),
    ],
    oracle=lambda x, gain: x / torch.clamp(x.abs().max(), min=1.0) * gain,
    limits=[
        Limit(
            "breaks", 0, "At a break the graph is run, Python goes on by itself, and a second graph is made."
        ),
        Limit(
            "versions",
            2,
            "One for the first sizes, one for all others: what differs must stay a tensor or a size.",
        ),
        Limit("graphs", 2, "One graph for each version."),
    ],
    mistakes=[
        Mistake(
            "print", "there is a `print` in it: leave it out, or print what the function returns.", prints
        ),
        Mistake(
            "a number",
            "`.item()` or `float` takes the peak out of its tensor: keep it there, `peak.clamp(min=1.0)`.",
            takes_a_number,
        ),
        Mistake(
            "if",
            "`if` asks for the value of a tensor: compute for both cases at once, with `clamp` or `where`.",
            asks,
        ),
        Mistake(
            "row by row",
            "the loop over rows is unrolled, so every number of rows is a version: divide the whole tensor.",
            row_by_row,
        ),
        Mistake("hidden", "`torch.compiler.disable` makes no graph of it; it only hides the work.", hidden),
        Mistake(
            "always", "quiet inputs are made louder: divide by the peak only where it is above 1.", always
        ),
        Mistake(
            "clipped", "this cuts the peaks off; the whole tensor is to be scaled by one number.", clipped
        ),
    ],
    hints=(
        "Which lines need a number of Python's? Each of them ends a graph.",
        "The peak can stay a tensor. A peak below 1 must not change anything: divide by what, then?",
        "`x / x.abs().max().clamp(min=1.0) * gain`",
    ),
    passed="`torch._dynamo.explain(f)(x)` lists the breaks of any function; a hot loop should have none.",
    excused={
        "size one": "torch.compile makes a version of its own for a size of 1",
        "not contiguous": "torch.compile makes a version of its own for other strides",
    },
)
