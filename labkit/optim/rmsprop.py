"""RMSprop: steps scaled by a running mean of the squared gradient."""

from collections.abc import Iterable
from typing import Any

from labkit.errors import refuse

from .optimizer import Optimizer, check, count_step, zeros_like


class RMSprop(Optimizer):
    """v = alpha·v + (1 - alpha)·g²;  p -= lr·g / (√v + eps).

    Centered: v minus the squared running mean of g under the root. Momentum as in SGD.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        refuse("RMSprop", capturable=capturable, foreach=foreach, differentiable=differentiable)
        check("RMSprop", lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def update(self, k: Any, p: Any, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        count_step(k, state)
        names = [
            "square_avg",
            *["momentum_buffer"] * bool(group["momentum"]),
            *["grad_avg"] * group["centered"],
        ]
        for name in names:
            if name not in state:
                state[name] = zeros_like(k, p)
        v, buffer, mean = (
            state[name].data if name in names else None
            for name in ("square_avg", "momentum_buffer", "grad_avg")
        )
        decay, momentum = group["weight_decay"], group["momentum"]
        k.rmsprop_(p, g, v, buffer, mean, group["lr"], group["alpha"], group["eps"], decay, momentum)
