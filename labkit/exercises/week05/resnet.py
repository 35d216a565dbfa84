"""A small ResNet made of residual blocks."""

import itertools

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.exercises.week05.shared import (
    KERNELS_ARE_SQUARE,
    block_class,
    block_state,
    load,
    norm_state,
    random_kernel,
)
from labkit.lazy import F, torch


def _resnet(
    channels_in,
    widths,
    grid,
    classes,
    stem=True,
    step=2,
    first=2,
    pool="avg",
    soft=False,
    channel=0,
    gridless=False,
    keep=0,
):
    """The small ResNet of torch's parts, with one thing changed."""
    nn = torch.nn

    class SmallResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(channels_in, widths[0], 3, first, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(widths[0])
            pairs = enumerate(itertools.pairwise(widths))
            self.blocks = nn.Sequential(*[block_class(a, b, 1 if i < keep else step) for i, (a, b) in pairs])
            self.fc = nn.Linear(widths[-1] * (1 if gridless else grid * grid), classes)

        def forward(self, x):
            x = self.bn1(self.conv1(x))
            x = self.blocks(x.relu() if stem else x)
            pooled = getattr(F, f"adaptive_{pool}_pool2d")(x, grid)
            rows = pooled.permute(0, 2, 3, 1) if channel else pooled
            out = self.fc(rows.flatten(1))
            return out.softmax(1) if soft else out

    return SmallResNet()


def _use_resnet(answer, x, state, widths, grid, classes):
    """Every part's output, numbered in the order in which they are done, and the result."""
    model = answer(x.shape[1], widths, grid, classes).to(x.dtype)
    result = {"0 names": load(model, state)}
    model.eval()
    parts = ["conv1", "bn1", *(f"blocks.{i}" for i in range(len(widths) - 1)), "fc"]
    hooks = []
    for number, name in enumerate(parts, 1):
        key = f"{number} {name}"
        hook = lambda module, inputs, output, key=key: result.update({key: output})  # noqa: E731
        hooks.append(model.get_submodule(name).register_forward_hook(hook))
    result["9 result"] = model(x)
    for hook in hooks:
        hook.remove()
    silent = [name for number, name in enumerate(parts, 1) if f"{number} {name}" not in result]
    if silent:
        raise RuntimeError(f"`{silent[0]}` is made in __init__, and forward never calls it")
    return result


def _resnet_case(shape, widths, grid, classes, make="normal"):
    def inputs(draw):
        state = {
            "conv1.weight": random_kernel(draw, widths[0], shape[1], 3),
            **norm_state(draw, "bn1", widths[0]),
        }
        for i, (a, b) in enumerate(itertools.pairwise(widths)):
            state |= block_state(draw, a, b, 2, f"blocks.{i}.")
        state |= {
            "fc.weight": draw.normal(classes, widths[-1] * grid * grid),
            "fc.bias": draw.normal(classes),
        }
        x = getattr(draw, make)(*shape)
        return {"x": x, "state": state, "widths": widths, "grid": grid, "classes": classes}

    return inputs


exercise = Implement(
    title="A small ResNet",
    minutes=12,
    needs=("w05.block",),
    dtype="float64",
    cases=[
        Case("one block, grid 2", _resnet_case((2, 1, 12, 10), (3, 4), 2, 5)),
        Case("two blocks, global pooling", _resnet_case((3, 2, 13, 11), (4, 3, 5), 1, 7)),
        Case("no block", _resnet_case((2, 3, 7, 9), (4,), 3, 2)),
        Case("one picture, not contiguous", _resnet_case((1, 3, 8, 10), (2, 5), 1, 3, "transposed")),
        Case("one pixel", _resnet_case((2, 3, 1, 1), (4, 6), 1, 5), extreme=True),
    ],
    oracle=lambda *inputs: _use_resnet(_resnet, *inputs),
    use=_use_resnet,
    grads=("x",),
    reduces=300,
    excused={
        "equal axes": KERNELS_ARE_SQUARE,
        "distinct": KERNELS_ARE_SQUARE,
        "delegation": "torch has no such network; its layers are the tools here",
    },
    mistakes=[
        Mistake(
            "no ReLU after bn1",
            "The ReLU between bn1 and the first block is missing.",
            vary(_resnet, stem=False),
        ),
        Mistake(
            "blocks keep the size",
            "The blocks have stride 1; each of them halves the size here.",
            vary(_resnet, step=1),
        ),
        Mistake(
            "first convolution keeps the size",
            "The first convolution has stride 1; it has stride 2 here.",
            vary(_resnet, first=1),
        ),
        Mistake(
            "max pooled",
            "The last pooling takes the largest; it should take the average.",
            vary(_resnet, pool="max"),
        ),
        Mistake(
            "softmax",
            "These are probabilities. The network returns logits; the loss does the softmax.",
            vary(_resnet, soft=True),
        ),
        Mistake(
            "fc without the grid",
            "`fc` takes one number per channel; it gets grid times grid of them: widths[-1] * grid * grid inputs.",
            vary(_resnet, gridless=True),
        ),
        Mistake(
            "first block keeps the size",
            "The first block has stride 1, as in the large ResNets; here every block has stride 2.",
            vary(_resnet, keep=1),
        ),
        Mistake(
            "channels last",
            "The features are flattened with the channels last: torch's order is channel, row, column.",
            vary(_resnet, channel=1),
        ),
    ],
    hints=(
        "The table above is the program: one line for each row.",
        "blocks = nn.Sequential(*[BasicBlock(a, b, 2) for a, b in itertools.pairwise(widths)]); fc takes widths[-1] * grid * grid.",
        "x = self.blocks(self.bn1(self.conv1(x)).relu()); return self.fc(F.adaptive_avg_pool2d(x, self.grid).flatten(1))",
    ),
    passed="Every part agrees, in order. With grid=1 your network takes pictures of any size.",
)
