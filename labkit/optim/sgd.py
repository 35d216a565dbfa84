"""Stochastic gradient descent."""

from collections.abc import Iterable
from typing import Any

from labkit.errors import refuse

from .optimizer import Optimizer, check, zeros_like


class SGD(Optimizer):
    """g += weight_decay·p;  b = momentum·b + (1 - dampening)·g;  p -= lr·b  (Nesterov: g + momentum·b)"""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        refuse("SGD", foreach=foreach, differentiable=differentiable, fused=fused)
        check("SGD", lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: nesterov=True needs a momentum above 0 and no dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def update(self, k: Any, p: Any, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        momentum, dampening, buffer = group["momentum"], group["dampening"], None
        if momentum:
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = zeros_like(k, p)
                dampening = 0  # the first gradient enters in full
            buffer = state["momentum_buffer"].data
        k.sgd_(p, g, buffer, group["lr"], momentum, dampening, group["weight_decay"], group["nesterov"])
