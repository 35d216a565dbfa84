"""Optimizer: parameter groups, per-parameter state and how both are saved. The subclasses hold the formulas.

An update is one fused kernel per parameter, in place on the parameter's own memory, so that views, state
dicts and tied weights stay valid.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

import labkit
from labkit import autograd, backends
from labkit.tensor import Tensor, tensor


class Optimizer:
    """Base of all optimizers: write `update`, the change of one parameter in one step."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError("an optimizer takes a list of parameters, got one tensor: pass [tensor]")
        if not hasattr(params, "__iter__"):
            kind = type(params).__name__
            raise TypeError(f"an optimizer takes a list of parameters, got a {kind}: pass model.parameters()")
        groups = list(params)
        if not groups:
            raise ValueError(
                "the optimizer got no parameters. Does the model assign its layers to attributes of self, "
                "and lists of layers through nn.ModuleList?"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with settings of their own; settings left out are the optimizer's defaults."""
        params = param_group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        known = {id(p) for group in self.param_groups for p in group["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"an optimizer can only change labkit tensors, got {type(p)!r}")
            if not p.is_leaf:
                raise ValueError(
                    "cannot optimize a tensor that was computed from others: pass the parameters it came from"
                )
            if id(p) in known:
                raise ValueError("a parameter appears twice in the optimizer's groups")
            known.add(id(p))
        self.param_groups.append({**self.defaults, **param_group, "params": params})

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none or p.grad is None:
                    p.grad = None
                else:
                    p.grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient. A closure computes the loss (again) first."""
        loss = None
        if closure is not None:
            with labkit.enable_grad():
                loss = closure()
        with labkit.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        k = backends.of(p.device)
                        g = k.neg(p.grad.data) if group["maximize"] else p.grad.data
                        self.update(k, p.data, g, self.state[p], group)
                        autograd.note_write(k.root(p.data))  # no graph from before may use the new values
        return loss

    def update(self, k: Any, p: Any, g: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Change the array `p` in place by the rule of this optimizer; `k` holds the kernels."""
        raise NotImplementedError(f"{type(self).__name__} needs a method update, or a step of its own")

    def state_dict(self) -> dict[str, Any]:
        """torch's layout: parameters are numbers, in the order in which the groups list them."""
        numbers: dict[int, int] = {}
        for group in self.param_groups:
            for p in group["params"]:
                numbers[id(p)] = len(numbers)
        return {
            "state": {numbers[id(p)]: dict(state) for p, state in self.state.items() if state},
            "param_groups": [
                {**group, "params": [numbers[id(p)] for p in group["params"]]} for group in self.param_groups
            ],
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over a state dict of labkit or torch that was made for the same groups of parameters."""
        saved = state_dict["param_groups"]
        here, there = ([len(g["params"]) for g in groups] for groups in (self.param_groups, saved))
        if here != there:
            raise ValueError(
                f"this optimizer has groups of {here} parameters, the state dict has groups of {there}"
            )
        params: dict[int, Tensor] = {}
        for group, old in zip(self.param_groups, saved, strict=True):
            params.update(zip(old["params"], group["params"], strict=True))
        state = {}
        for number, values in state_dict["state"].items():
            p = params[int(number)]
            state[p] = {name: _restore(name, value, p) for name, value in values.items()}
        self.state = defaultdict(dict, state)
        for group, old in zip(self.param_groups, saved, strict=True):
            group.update({name: value for name, value in old.items() if name != "params"})

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines += [f"Parameter Group {i}"]
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def zeros_like(k: Any, p: Any) -> Tensor:
    """State that starts at zero, shaped like the array `p`."""
    return Tensor(k.zeros(p.shape, p.dtype), device=k.device)


def count_step(k: Any, state: dict[str, Any]) -> int:
    """Add 1 to the step number in the state (a float tensor, as torch keeps it) and return it."""
    if "step" not in state:
        state["step"] = Tensor(np.zeros((), np.float32))
    state["step"].data += 1
    return int(state["step"].data)


def check(optimizer: str, **settings: float) -> None:
    """Refuse negative settings by name."""
    for name, value in settings.items():
        if not value >= 0:
            raise ValueError(f"{optimizer}: {name} should not be negative, got {value}")


def _restore(name: str, value: Any, p: Tensor) -> Any:
    """A copy of a saved state value: the step number as it is, arrays in the dtype of the parameter."""
    if name == "step":
        return tensor(float(value))
    if value is None:  # torch saves SGD's buffer like this before the first step
        return None
    array = np.asarray(value.numpy(force=True) if isinstance(value, Tensor) else value)
    if array.shape != tuple(p.shape):
        raise ValueError(
            f"the state dict has {name} of shape {array.shape} for a parameter of shape {tuple(p.shape)}"
        )
    return tensor(array, dtype=p.dtype, device=p.device)
