"""Helpers for training: clip gradients, turn parameters into one vector and back."""

from collections.abc import Iterable
from typing import Any

import labkit
from labkit.tensor import Tensor, tensor

from . import rnn as rnn


def clip_grad_norm_(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale all gradients together so that their norm is at most max_norm; returns the norm before."""
    grads = [p.grad for p in _listed(parameters) if p.grad is not None]
    with labkit.no_grad():
        if not grads:
            return tensor(0.0)
        total = labkit.stack([g.norm(norm_type) for g in grads]).norm(norm_type)
        if error_if_nonfinite and not total.isfinite().item():
            raise RuntimeError(
                f"the norm of the gradients is {total.item()}, so they cannot be clipped; "
                "look for the first step with a NaN or infinite loss"
            )
        scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
        for g in grads:
            g.mul_(scale)
    return total


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Limit every element of every gradient to [-clip_value, clip_value]."""
    with labkit.no_grad():
        for p in _listed(parameters):
            if p.grad is not None:
                p.grad.clamp_(-clip_value, clip_value)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters one after another in one vector."""
    return labkit.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy a vector back into the parameters it was made of."""
    params = list(parameters)
    if vec.numel() != sum(p.numel() for p in params):
        raise ValueError(
            f"the vector has {vec.numel()} elements, the parameters {sum(p.numel() for p in params)} together"
        )
    with labkit.no_grad():
        start = 0
        for p in params:
            p.copy_(vec[start : start + p.numel()].reshape(p.shape))
            start += p.numel()


def _listed(parameters: Any) -> list[Tensor]:
    return [parameters] if isinstance(parameters, Tensor) else list(parameters)
