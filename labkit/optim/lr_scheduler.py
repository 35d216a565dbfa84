"""Learning-rate schedules: functions of the epoch that write `lr` into an optimizer's groups.

Each schedule is written in closed form, the rate at epoch t from the initial rate, where torch multiplies
the current rate at every step. The values agree; what differs is that two schedules stepped on one optimizer
do not multiply. Use SequentialLR to run one after another.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .optimizer import Optimizer


class LRScheduler:
    """Base of all schedules: write `get_lr`, the rates of the groups at `self.last_epoch`."""

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"group {i} has no 'initial_lr': to resume at last_epoch={last_epoch}, load the state "
                    "of the optimizer first, or make the scheduler anew and use its load_state_dict"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def get_lr(self) -> list[float]:
        raise NotImplementedError(f"{type(self).__name__} needs a method get_lr(self)")

    def get_last_lr(self) -> list[float]:
        """The rates that the optimizer uses now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self) -> None:
        """Go to the next epoch; call it after `optimizer.step()`."""
        self.last_epoch += 1
        for group, lr in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = lr

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer and functions, which cannot be saved."""
        return {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas", "schedulers")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """base · f(t), with one function for all groups or one per group."""

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"got {len(self.lr_lambdas)} functions for {groups} parameter groups")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """base · gamma^(t // step_size)"""

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """base · gamma^(number of milestones reached)"""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = sorted(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        reached = bisect_right(self.milestones, self.last_epoch)
        return [base * self.gamma**reached for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """base · gamma^t"""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class LinearLR(LRScheduler):
    """base · factor, the factor going in a straight line from start_factor to end_factor: a warm-up."""

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError(
                f"start_factor should be in (0, 1], end_factor in [0, 1]; got {start_factor} and {end_factor}"
            )
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        done = min(self.last_epoch, self.total_iters) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * done
        return [base * factor for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """eta_min + (base - eta_min) · (1 + cos(π t / T_max)) / 2"""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class SequentialLR(LRScheduler):
    """Schedule i runs from milestone i-1 on, with its own epochs counted from 0."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"{len(schedulers)} schedules need {len(schedulers) - 1} milestones, got {len(milestones)}"
            )
        if any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError("all schedules of a SequentialLR must be made for the same optimizer")
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        which = bisect_right(self.milestones, self.last_epoch)
        scheduler = self.schedulers[which]
        scheduler.last_epoch = self.last_epoch - (self.milestones[which - 1] if which else 0)
        return scheduler.get_lr()


class OneCycleLR(LRScheduler):
    """Up from max_lr/div_factor to max_lr, then down to 1/final_div_factor of the start, over total_steps.

    With cycle_momentum the momentum (Adam: beta1) goes the other way. `three_phase` is refused.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if three_phase:
            raise ValueError("OneCycleLR: three_phase=True is not supported")
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("OneCycleLR needs total_steps, or both epochs and steps_per_epoch")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy should be 'cos' or 'linear', got {anneal_strategy!r}")
        self.total_steps = total_steps or epochs * steps_per_epoch  # type: ignore[operator]
        self.peak_step = float(pct_start * self.total_steps) - 1
        self.anneal_strategy = anneal_strategy
        self.momenta = (base_momentum, max_momentum) if cycle_momentum else None
        groups = optimizer.param_groups
        self.max_lrs = [max_lr] * len(groups) if isinstance(max_lr, int | float) else list(max_lr)
        self.final_div_factor = final_div_factor
        if last_epoch == -1:
            for group, peak in zip(groups, self.max_lrs, strict=True):
                group["initial_lr"] = peak / div_factor
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, peak: float, end: float) -> float:
        """From start to peak until peak_step, then to end at the last step."""
        step, last = self.last_epoch, self.total_steps - 1
        if step <= self.peak_step:
            begin, goal, done = start, peak, step / self.peak_step
        else:
            begin, goal, done = peak, end, (step - self.peak_step) / (last - self.peak_step)
        if self.anneal_strategy == "cos":
            done = (1 - math.cos(math.pi * done)) / 2
        return begin + (goal - begin) * done

    def get_lr(self) -> list[float]:
        if self.last_epoch >= self.total_steps:
            raise ValueError(
                f"OneCycleLR was made for {self.total_steps} steps, now comes step {self.last_epoch + 1}"
            )
        return [
            self._between(base, peak, base / self.final_div_factor)
            for base, peak in zip(self.base_lrs, self.max_lrs, strict=True)
        ]

    def step(self) -> None:
        super().step()
        if self.momenta is None:
            return
        low, high = self.momenta
        momentum = self._between(high, low, high)
        for group in self.optimizer.param_groups:
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum


class ReduceLROnPlateau:
    """Multiply the rate by `factor` when a metric has not improved for more than `patience` epochs."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1:
            raise ValueError(f"factor should be below 1, or the rate would not fall; got {factor}")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(
                "mode should be 'min' or 'max' and threshold_mode 'rel' or 'abs', "
                f"got {mode!r} and {threshold_mode!r}"
            )
        groups = len(optimizer.param_groups)
        self.optimizer = optimizer
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.cooldown_counter = cooldown, 0
        self.min_lrs = [min_lr] * groups if isinstance(min_lr, int | float) else list(min_lr)
        self.eps = eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = 0
        self.last_epoch = 0

    def step(self, metrics: Any) -> None:
        """Tell the schedule this epoch's metric, a number or a tensor of one element."""
        value = float(metrics)
        self.last_epoch += 1
        if self.is_better(value, self.best):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def is_better(self, value: float, best: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        bar = (
            best * (1 + sign * self.threshold)
            if self.threshold_mode == "rel"
            else best + sign * self.threshold
        )
        return value < bar if self.mode == "min" else value > bar

    def get_last_lr(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def _reduce_lr(self) -> None:
        for group, low in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            lr = max(group["lr"] * self.factor, low)
            if group["lr"] - lr > self.eps:
                group["lr"] = lr

    def state_dict(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)
