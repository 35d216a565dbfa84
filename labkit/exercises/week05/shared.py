"""What several exercises of week 5 need: windows, the residual block, and names that rules forbid."""

import math

from labkit.lazy import torch

CONVOLUTIONS = (
    *("conv1d", "conv2d", "conv3d", "convolution", "Conv1d", "Conv2d", "Conv3d"),
    *("conv_transpose1d", "conv_transpose2d", "ConvTranspose2d", "conv2d_input", "conv2d_weight"),
    *("correlate2d", "convolve2d"),
)
WINDOWS = ("unfold", "fold", "Unfold", "Fold", "sliding_window_view")
DERIVATIVES = ("grad", "vjp", "vjpfunc", "backward", "requires_grad", "jacobian", "jacrev")


def unfolded(x, kernel, stride, dilation):
    for axis, k in zip((2, 3), kernel, strict=True):
        x = x.unfold(axis, dilation * (k - 1) + 1, stride)
    return x[..., ::dilation, ::dilation]


def strided(x, kernel, stride, dilation, count=None, offset=None):
    """The windows by their strides; `count(n, k, stride, dilation)` says how many there are along an axis."""
    count = count or (lambda n, k, stride, dilation: (n - dilation * (k - 1) - 1) // stride + 1)
    sides = [count(n, k, stride, dilation) for n, k in zip(x.shape[2:], kernel, strict=True)]
    steps = [stride * s for s in x.stride()[2:]] + [dilation * s for s in x.stride()[2:]]
    return torch.as_strided(x, (*x.shape[:2], *sides, *kernel), (*x.stride()[:2], *steps), offset)


def scatter(columns, size, kernel, stride, dilation, put, gap=None, step=None):
    """col2im with another way to put a part in its place, another gap inside the kernel or between windows."""
    (h, w), (kh, kw) = size, kernel
    oh, ow = ((n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(size, kernel, strict=True))
    gap, step = gap or dilation, step or stride
    parts = columns.reshape(len(columns), -1, kh, kw, oh, ow)
    x = columns.new_zeros(*parts.shape[:2], h, w)
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * gap, i * gap + oh * step, step)
            x = put(
                x,
                (slice(None), slice(None), rows, slice(j * gap, j * gap + ow * step, step)),
                parts[:, :, i, j],
            )
    return x


def put_over(x, place, part):
    x[place] = part
    return x


def overwritten(columns, size, kernel, stride, dilation):
    return scatter(columns, size, kernel, stride, dilation, put_over)


def block_class(
    channels_in,
    channels,
    stride,
    *,
    last=True,
    early=False,
    shortcut=True,
    second=False,
    plain=False,
    middle=True,
    needed=lambda channels_in, channels, stride: stride != 1 or channels_in != channels,
    steps=True,
):
    """A residual block of torch's parts, with one thing changed."""
    nn = torch.nn

    class BasicBlock(nn.Module):
        def __init__(self):
            super().__init__()
            strides = (1, stride) if second else (stride, 1)
            self.conv1 = nn.Conv2d(channels_in, channels, 3, strides[0], 1, bias=False)
            self.bn1 = nn.BatchNorm2d(channels)
            self.conv2 = nn.Conv2d(channels, channels, 3, strides[1], 1, bias=False)
            self.bn2 = nn.BatchNorm2d(channels)
            self.downsample = None
            if needed(channels_in, channels, stride):
                step = stride if steps else 1
                parts = [nn.Conv2d(channels_in, channels, 1, step, bias=False), nn.BatchNorm2d(channels)]
                self.downsample = nn.Sequential(*parts[: 1 if plain else 2])

        def forward(self, x):
            y = self.bn1(self.conv1(x))
            y = self.bn2(self.conv2(y.relu() if middle else y))
            y = y.relu() if early else y
            added = (x if self.downsample is None else self.downsample(x)) if shortcut else 0
            return (y + added).relu() if last and not early else y + added

    return BasicBlock()


def load(model, state):
    """Put weights in by name, and say in words which names do not fit."""
    names = {name for name in model.state_dict() if not name.endswith("num_batches_tracked")}
    model.load_state_dict(state, strict=False)
    missing, unknown = sorted(set(state) - names), sorted(names - set(state))
    words = [f"missing: {', '.join(missing[:3])}"] * bool(missing)
    words += [f"not asked for: {', '.join(unknown[:3])}"] * bool(unknown)
    return "; ".join(words) or "all names fit"


def norm_state(draw, name, channels):
    return {
        f"{name}.weight": draw.uniform(0.5, 2, channels),
        f"{name}.bias": draw.normal(channels),
        f"{name}.running_mean": draw.normal(channels),
        f"{name}.running_var": draw.uniform(0.5, 2, channels),
    }


def random_kernel(draw, filters, channels, size):
    return draw.normal(filters, channels, size, size) / (size * math.sqrt(channels))


def block_state(draw, channels_in, channels, stride, prefix=""):
    state = {f"{prefix}conv1.weight": random_kernel(draw, channels, channels_in, 3)}
    state |= norm_state(draw, f"{prefix}bn1", channels)
    state |= {f"{prefix}conv2.weight": random_kernel(draw, channels, channels, 3)}
    state |= norm_state(draw, f"{prefix}bn2", channels)
    if stride != 1 or channels_in != channels:
        state |= {f"{prefix}downsample.0.weight": random_kernel(draw, channels, channels_in, 1)}
        state |= norm_state(draw, f"{prefix}downsample.1", channels)
    return state


KERNELS_ARE_SQUARE = "3 by 3 kernels are square, and so is a convolution that keeps its channels"
