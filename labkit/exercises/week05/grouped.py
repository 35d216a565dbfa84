"""A convolution in groups, down to depthwise."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week05.shared import CONVOLUTIONS
from labkit.lazy import F, torch


def _grouped(x, weight, groups):
    return F.conv2d(x, weight, groups=groups)


def _groups_of(x, weight, groups, channels=None, join=None):
    """Grouped convolution with another choice of channels, or another way to join the parts."""
    blocks = channels(x) if channels else x.chunk(groups, 1)
    parts = [F.conv2d(b, w) for b, w in zip(blocks, weight.chunk(groups), strict=True)]
    return join(parts) if join else torch.cat(parts, 1)


def _interleave(parts):
    return torch.stack(parts, 2).flatten(1, 2)


exercise = Implement(
    title="Groups",
    minutes=8,
    needs=("w05.conv2d",),
    dtype="float64",
    cases=[
        Case(
            "two groups",
            lambda draw: {"x": draw.normal(2, 6, 5, 7), "weight": draw.normal(8, 3, 4, 2), "groups": 2},
        ),
        Case(
            "three groups",
            lambda draw: {"x": draw.normal(1, 6, 4, 5), "weight": draw.normal(9, 2, 1, 3), "groups": 3},
        ),
        Case(
            "depthwise",
            lambda draw: {"x": draw.normal(2, 4, 6, 5), "weight": draw.normal(4, 1, 3, 2), "groups": 4},
        ),
        Case(
            "depthwise, two filters each",
            lambda draw: {"x": draw.transposed(2, 3, 5, 4), "weight": draw.normal(6, 1, 2, 3), "groups": 3},
        ),
        Case(
            "one group",
            lambda draw: {"x": draw.normal(1, 2, 3, 4), "weight": draw.normal(5, 2, 3, 1), "groups": 1},
            extreme=True,
        ),
    ],
    oracle=_grouped,
    grads=("x", "weight"),
    rules=Rules(forbids=CONVOLUTIONS),
    mistakes=[
        Mistake(
            "channels interleaved",
            "Group g takes every G-th channel; it should take a block of neighbors.",
            lambda x, weight, groups: _groups_of(
                x, weight, groups, channels=lambda x: [x[:, g::groups] for g in range(groups)]
            ),
        ),
        Mistake(
            "outputs interleaved",
            "The output channels of the groups alternate; they should stand block after block.",
            vary(_groups_of, join=_interleave),
        ),
        Mistake(
            "groups added",
            "The groups are added up; they stay side by side, each with its own output channels.",
            vary(_groups_of, join=sum),
        ),
        Mistake(
            "first block for all",
            "Every group of filters looks at the first block of channels.",
            lambda x, weight, groups: _groups_of(
                x, weight, groups, channels=lambda x: [x.chunk(groups, 1)[0]] * groups
            ),
        ),
        Mistake(
            "everything interleaved",
            "Channels and filters are taken in steps of G, `g::groups`; groups are blocks of neighbors: `chunk`.",
            lambda x, weight, groups: torch.cat(
                [F.conv2d(x[:, g::groups], weight[g::groups]) for g in range(groups)], 1
            ),
        ),
        Mistake(
            "all filters on every block",
            "Every block of channels meets all filters; it has filters of its own: chunk the weight too, along axis 0.",
            lambda x, weight, groups: torch.cat([F.conv2d(part, weight) for part in x.chunk(groups, 1)], 1),
        ),
        Mistake(
            "joined along the batch",
            "The parts are joined along the batch; their channels belong side by side: axis 1.",
            vary(_groups_of, join=lambda parts: torch.cat(parts)),
        ),
        Mistake(
            "stacked",
            "`torch.stack` makes a new axis; `torch.cat(parts, 1)` puts the channels side by side.",
            vary(_groups_of, join=lambda parts: torch.stack(parts, 1)),
        ),
        Mistake(
            "outputs in reverse",
            "The output channels of the last group come first: join the parts in their order.",
            vary(_groups_of, join=lambda parts: torch.cat(parts[::-1], 1)),
        ),
        Mistake(
            "blocks in reverse",
            "The first filters meet the last channels: pair the blocks in the same order.",
            lambda x, weight, groups: _groups_of(
                x, weight, groups, channels=lambda x: x.chunk(groups, 1)[::-1]
            ),
        ),
    ],
    hints=(
        "Which axis of x holds the channels, and which axis of the weight the filters?",
        "Chunk x along axis 1 and the weight along axis 0, convolve pair by pair, and cat along axis 1.",
        "torch.cat([conv2d(a, b) for a, b in zip(x.chunk(groups, 1), weight.chunk(groups, 0))], 1)",
    ),
    passed="Depthwise, then 1 by 1: MobileNet is this pair, over and over.",
)
