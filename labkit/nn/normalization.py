"""Normalization layers."""

from collections.abc import Sequence
from typing import Any

import labkit
from labkit.tensor import Tensor, tensor

from . import functional as F
from . import init
from .module import Module, Parameter


class _BatchNorm(Module):
    """Normalize each channel over the batch, and in evaluation by running statistics."""

    ranks: tuple[int, ...]  # numbers of axes that the input may have
    weight: Parameter | None  # (num_features,)
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats

        def new(fill: Any) -> Tensor:
            return fill(num_features, device=device, dtype=dtype)

        self.weight = Parameter(new(labkit.ones)) if affine else None
        self.bias = Parameter(new(labkit.zeros)) if affine and bias else None
        self.register_buffer("running_mean", new(labkit.zeros) if track_running_stats else None)
        self.register_buffer("running_var", new(labkit.ones) if track_running_stats else None)
        count = tensor(0, dtype=labkit.int64) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self.ranks:
            wanted = " or ".join(str(rank) for rank in self.ranks)
            raise ValueError(
                f"{type(self).__name__} needs an input with {wanted} axes, got shape {tuple(input.shape)}"
            )
        momentum = self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # the plain mean of all batches so far
                momentum = 1.0 / float(self.num_batches_tracked)
        use_batch = self.training or self.running_mean is None
        return F.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            use_batch,
            0.0 if momentum is None else momentum,
            self.eps,
        )

    def reset_running_stats(self) -> None:
        if self.running_mean is not None and self.running_var is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Per channel of (N, C) or (N, C, L)."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Per channel of (N, C, H, W)."""

    ranks = (4,)


class LayerNorm(Module):
    """Normalize the last axes, those of normalized_shape, of each sample by themselves."""

    weight: Parameter | None  # normalized_shape
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        size, options = self.normalized_shape, {"device": device, "dtype": dtype}
        self.weight = Parameter(labkit.ones(*size, **options)) if elementwise_affine else None
        self.bias = Parameter(labkit.zeros(*size, **options)) if elementwise_affine and bias else None

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        return f"{text}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Divide the last axes, those of normalized_shape, by their root mean square."""

    weight: Parameter | None  # normalized_shape

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        ones = labkit.ones(*self.normalized_shape, device=device, dtype=dtype)
        self.weight = Parameter(ones) if elementwise_affine else None

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """Normalize groups of channels of each sample.   (N, C, ...)"""

    weight: Parameter | None  # (num_channels,)
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_groups={num_groups} must divide num_channels={num_channels}")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        options = {"device": device, "dtype": dtype}
        self.weight = Parameter(labkit.ones(num_channels, **options)) if affine else None
        self.bias = Parameter(labkit.zeros(num_channels, **options)) if affine and bias else None

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        text = f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"
        return f"{text}, bias={self.bias is not None}"


def _shape(size: int | Sequence[int]) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)
