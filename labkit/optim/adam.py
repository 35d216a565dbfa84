"""Adam and AdamW: steps scaled by running means of the gradient and of its square."""

from collections.abc import Iterable
from typing import Any

from labkit.errors import refuse

from .optimizer import Optimizer, check, count_step, zeros_like


class Adam(Optimizer):
    """m = β1·m + (1-β1)·g;  v = β2·v + (1-β2)·g²;  p -= lr·m̂ / (√v̂ + eps), m̂ = m/(1-β1^t), v̂ = v/(1-β2^t)

    `weight_decay` is added to the gradient; with `decoupled_weight_decay` (AdamW) it shrinks the parameter.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        name = type(self).__name__
        refuse(name, foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused)
        check(name, lr=lr, eps=eps, weight_decay=weight_decay)
        if not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"{name}: betas should be at least 0 and below 1, got {betas}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def update(self, k: Any, p: Any, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        step = count_step(k, state)
        if "exp_avg" not in state:
            state["exp_avg"] = zeros_like(k, p)
            state["exp_avg_sq"] = zeros_like(k, p)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(k, p)
        m, v = state["exp_avg"].data, state["exp_avg_sq"].data
        vmax = state["max_exp_avg_sq"].data if group["amsgrad"] else None
        decay, decoupled = group["weight_decay"], group["decoupled_weight_decay"]
        k.adam_(p, g, m, v, vmax, group["lr"], *group["betas"], group["eps"], decay, decoupled, step)


class AdamW(Adam):
    """Adam with decoupled weight decay: p shrinks by lr·weight_decay before each step."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **not_supported: bool | None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            decoupled_weight_decay=True,
            **not_supported,  # type: ignore[arg-type]
        )
