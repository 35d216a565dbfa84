"""The residual block of ResNet with torchvision's names."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.exercises.week05.shared import KERNELS_ARE_SQUARE, block_class, block_state, load
from labkit.lazy import torch


def _use_block(answer, x, state, channels, stride):
    block = answer(x.shape[1], channels, stride).to(x.dtype)
    result = {"0 names": load(block, state)}
    result["1 training"] = block(x)
    block.eval()  # last: torch reads the running averages once more on the way back
    result["2 evaluation"] = block(x)
    return result


def _block_case(shape, channels, stride, make="normal"):
    return lambda draw: {
        "x": getattr(draw, make)(*shape),
        "state": block_state(draw, shape[1], channels, stride),
        "channels": channels,
        "stride": stride,
    }


def _torchvision_block(channels_in, channels, stride):
    from labkit import compat

    shortcut = torch.nn.Sequential(
        torch.nn.Conv2d(channels_in, channels, 1, stride, bias=False), torch.nn.BatchNorm2d(channels)
    )
    fits = stride == 1 and channels_in == channels
    return compat.torchvision().models.resnet.BasicBlock(
        channels_in, channels, stride, None if fits else shortcut
    )


def _always_downsampled(channels_in, channels, stride):
    made = block_class(channels_in, channels, stride)
    made.downsample = made.downsample or torch.nn.Sequential(
        torch.nn.Conv2d(channels_in, channels, 1, stride, bias=False), torch.nn.BatchNorm2d(channels)
    )
    for parameter in made.downsample.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    return made


exercise = Implement(
    title="The residual block",
    minutes=12,
    needs=("w05.batch_norm",),
    also=(
        "skip connection",
        "residual connection",
    ),
    dtype="float64",
    cases=[
        Case("same size", _block_case((2, 3, 5, 6), 3, 1)),
        Case("stride 2, more channels", _block_case((3, 2, 8, 7), 5, 2)),
        Case("more channels", _block_case((2, 3, 4, 5), 4, 1)),
        Case("stride 2, same channels", _block_case((3, 4, 6, 5), 4, 2, "transposed")),
        Case("one channel, one row", _block_case((2, 1, 1, 4), 1, 1), extreme=True),
    ],
    oracle=lambda *inputs: _use_block(block_class, *inputs),
    use=_use_block,
    delegate=_torchvision_block,
    grads=("x",),
    reduces=200,
    rules=Rules(forbids=("BasicBlock", "Bottleneck", "resnet18", "resnet34", "ResNet")),
    excused={"equal axes": KERNELS_ARE_SQUARE, "distinct": KERNELS_ARE_SQUARE},
    mistakes=[
        Mistake(
            "no ReLU after the sum",
            "The last ReLU is missing: it comes after the sum.",
            vary(block_class, last=False),
        ),
        Mistake(
            "ReLU before the sum",
            "The second ReLU comes before the sum. Then a block could only add; it comes after.",
            vary(block_class, early=True),
        ),
        Mistake(
            "no shortcut",
            "The input is not added: without it this is two convolutions in a row.",
            vary(block_class, shortcut=False),
        ),
        Mistake(
            "stride in conv2",
            "The second convolution has the stride; it belongs to the first.",
            vary(block_class, second=True),
        ),
        Mistake(
            "shortcut not normalized",
            "The shortcut's convolution has no batch norm after it: names downsample.0 and downsample.1.",
            vary(block_class, plain=True),
        ),
        Mistake(
            "no ReLU between",
            "The ReLU between bn1 and conv2 is missing: two convolutions in a row are one.",
            vary(block_class, middle=False),
        ),
        Mistake(
            "downsampled for a stride only",
            "With stride 1 and other channels x does not fit either: stride is not 1, *or* the channels change.",
            vary(block_class, needed=lambda channels_in, channels, stride: stride != 1),
        ),
        Mistake(
            "downsampled where both change",
            "There is a `downsample` only where stride and channels both change. One of the two is enough: `or`.",
            vary(
                block_class,
                needed=lambda channels_in, channels, stride: stride != 1 and channels_in != channels,
            ),
        ),
        Mistake(
            "shortcut without the stride",
            "The shortcut's 1 by 1 convolution has stride 1, so it stays larger than what it is added to: it takes the stride too.",
            vary(block_class, steps=False),
        ),
        Mistake(
            "always downsampled",
            "Where x fits as it is, it is added as it is: downsample is None for stride 1 and equal channels.",
            lambda channels_in, channels, stride: _always_downsampled(channels_in, channels, stride),
        ),
    ],
    hints=(
        "Write the upper line of the drawing first, then ask: does x still fit what comes out?",
        "downsample = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), BatchNorm2d(channels)) where it does not.",
        "y = bn2(conv2(bn1(conv1(x)).relu())); return (y + (x if self.downsample is None else self.downsample(x))).relu()",
    ),
    passed="ResNet-18 is eight of these blocks, a first convolution and a last linear layer: 8 * 2 + 2 = 18.",
)
