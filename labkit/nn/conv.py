"""Convolution layers."""

import math
from typing import Any

import labkit
from labkit.errors import refuse
from labkit.ops.axes import Pair
from labkit.tensor import Tensor

from . import functional as F
from . import init
from .module import Module, Parameter


class _Conv(Module):
    """What all convolutions share: settings, parameters and how they print."""

    axes = 2
    transposed = False
    weight: Parameter  # (out_channels, in_channels/groups, *kernel_size); the first two swapped if transposed
    bias: Parameter | None  # (out_channels,)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Any = 0,
        dilation: Pair = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        output_padding: Pair = 0,
    ) -> None:
        super().__init__()
        refuse(type(self).__name__, padding_mode=None if padding_mode == "zeros" else padding_mode)
        if groups <= 0 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"groups={groups} must divide in_channels={in_channels} and out_channels={out_channels}"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self._sizes(kernel_size)
        self.stride = self._sizes(stride)
        self.padding: Any = padding if isinstance(padding, str) else self._sizes(padding)
        self.dilation = self._sizes(dilation)
        self.groups = groups
        self.output_padding = self._sizes(output_padding)
        channels = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (channels[0], channels[1] // groups, *self.kernel_size)
        self.weight = Parameter(labkit.empty(*shape, device=device, dtype=dtype))
        self.bias = Parameter(labkit.empty(out_channels, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def _sizes(self, value: Pair) -> tuple[int, ...]:
        return (value,) * self.axes if isinstance(value, int) else tuple(value)

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(math.prod(self.weight.shape[1:]))  # 1 / √fan_in
        for param in self.parameters():
            init.uniform_(param, -bound, bound)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        for name, default in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            if getattr(self, name) != self._sizes(default):
                text += f", {name}={getattr(self, name)}"
        text += f", groups={self.groups}" if self.groups != 1 else ""
        return text if self.bias is not None else text + ", bias=False"


class Conv1d(_Conv):
    """(N, in_channels, L) -> (N, out_channels, L')"""

    axes = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.conv1d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class Conv2d(_Conv):
    """(N, in_channels, H, W) -> (N, out_channels, H', W')"""

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class ConvTranspose2d(_Conv):
    """The gradient of a convolution as a layer:  (N, in_channels, H, W) -> (N, out_channels, H', W')"""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Pair,
        stride: Pair = 1,
        padding: Pair = 0,
        output_padding: Pair = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Pair = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        window = kernel_size, stride, padding, dilation
        super().__init__(
            in_channels, out_channels, *window, groups, bias, padding_mode, device, dtype, output_padding
        )

    def forward(self, input: Tensor) -> Tensor:
        window = self.stride, self.padding, self.output_padding, self.groups, self.dilation
        return F.conv_transpose2d(input, self.weight, self.bias, *window)
