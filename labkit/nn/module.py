"""Module: a tree of parameters, buffers and other modules, with torch's names for all of them.

Assigning a Parameter or a Module to an attribute registers it. Everything else here (state dicts, moving,
counting, printing) is a walk over the three tables `_parameters`, `_buffers` and `_modules`.
"""

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import labkit
from labkit.dtypes import FLOATS, as_dtype
from labkit.tensor import Tensor

_ids = itertools.count()


class Parameter(Tensor):
    """A tensor that a module trains: assigning it to an attribute of a module registers it."""

    __slots__ = ()

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter takes a tensor, got {type(data).__name__}; wrap it in labkit.tensor(...)"
            )
        super().__init__(data.data, False, data.device)  # the same memory, without the history
        self.requires_grad_(requires_grad)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict(..., strict=False)` skipped."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook away again."""

    def __init__(self, hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> None:
        self.hooks, self.id = hooks, next(_ids)
        hooks[self.id] = hook

    def remove(self) -> None:
        self.hooks.pop(self.id, None)


class Module:
    """Base of all layers and models: write `__init__` (call `super().__init__()` first) and `forward`."""

    training: bool

    def __init__(self) -> None:
        set_plain = super().__setattr__
        set_plain("training", True)
        set_plain("_parameters", {})
        set_plain("_buffers", {})
        set_plain("_modules", {})
        set_plain("_non_persistent_buffers", set())
        set_plain("_forward_hooks", {})
        set_plain("_forward_pre_hooks", {})
        set_plain("_pointed_out", set())  # attributes whose parameters nobody sees, once said

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} needs a method forward(self, ...)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._forward_hooks and not self._forward_pre_hooks:
            return self.forward(*args, **kwargs)
        for hook in list(self._forward_pre_hooks.values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook in list(self._forward_hooks.values()):
            changed = hook(self, args, result)
            result = result if changed is None else changed
        return result

    # ---- registration ----

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self.register_module(name, value)
        elif name in self.__dict__.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"{name!r} is a parameter of this {type(self).__name__}: set it to an nn.Parameter or "
                    f"None, not a {type(value).__name__}. To change its values: with no_grad(): p.copy_(...)"
                )
            self._parameters[name] = None
        elif name in self.__dict__.get("_modules", ()) and value is None:
            self._modules[name] = None
        elif name in self.__dict__.get("_buffers", ()) and (value is None or isinstance(value, Tensor)):
            self._buffers[name] = value
        else:
            super().__setattr__(name, value)
            if "_modules" in self.__dict__:
                _warn_if_unregistered(self, name, value)

    def __getattr__(self, name: str) -> Any:  # only called when the usual places do not have the name
        own = self.__dict__
        for table in ("_parameters", "_buffers", "_modules"):
            if name in own.get(table, ()):
                return own[table][name]
        if "_modules" not in own:
            raise AttributeError(f"{name!r} is not there yet: {_call_super(self)}")
        raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        self._claim(name, "_parameters")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is saved and moved with the module but not trained."""
        self._claim(name, "_buffers")
        self._buffers[name] = tensor
        (self._non_persistent_buffers.discard if persistent else self._non_persistent_buffers.add)(name)

    def register_module(self, name: str, module: "Module | None") -> None:
        if module is not None and not isinstance(module, Module):
            what = f"the class {module.__name__}" if isinstance(module, type) else repr(type(module).__name__)
            raise TypeError(
                f"{type(self).__name__} takes modules, but {name!r} is {what}: write nn.ReLU() instead of "
                "nn.ReLU or F.relu, and Sequential(*layers) to pass a list"
            )
        self._claim(name, "_modules")
        self._modules[name] = module

    add_module = register_module

    def _claim(self, name: str, table: str) -> None:
        """Check a new name, and take it away from wherever it was."""
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"{name!r} cannot be set yet: {_call_super(self)}")
        if not name or "." in name:
            raise KeyError(f"{name!r} cannot be a name: it must not be empty or contain '.'")
        for other in ("_parameters", "_buffers", "_modules"):
            if other != table:
                self.__dict__[other].pop(name, None)
        self.__dict__.pop(name, None)

    # ---- walking the tree ----

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        return ((name, module) for name, module in self._modules.items() if module is not None)

    def children(self) -> Iterator["Module"]:
        return (module for _, module in self.named_children())

    def named_modules(
        self, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, "Module"]]:
        """This module and all below it, parents first; a shared module comes once."""
        seen: set[int] = set()
        todo: list[tuple[str, Module]] = [(prefix, self)]
        while todo:
            name, module = todo.pop()
            if remove_duplicate and id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            dot = name + "." if name else ""
            todo.extend((dot + n, m) for n, m in reversed(list(module.named_children())))

    def modules(self) -> Iterator["Module"]:
        return (module for _, module in self.named_modules())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        for module in self.modules() if recurse else [self]:
            for name, value in vars(module).items():  # a list may have been filled after it was assigned
                if value.__class__ in (list, tuple, dict):
                    _warn_if_unregistered(module, name, value)
        return self._named("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        return (param for _, param in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        return self._named("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules = self.named_modules(prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in getattr(module, table).items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def get_submodule(self, target: str) -> "Module":
        """The module at a path such as "layer1.0.conv1"."""
        module = self
        for name in target.split(".") if target else ():
            if not isinstance(module._modules.get(name), Module):
                have = ", ".join(module._modules) or "none"
                raise AttributeError(f"{type(module).__name__} has no submodule {name!r} (it has: {have})")
            module = module._modules[name]
        return module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path such as "layer1.0.conv1.weight"."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._parameters.get(name) is None:
            raise AttributeError(f"{type(module).__name__} has no parameter {name!r}")
        return module._parameters[name]

    def apply(self, fn: Callable[["Module"], None]) -> Self:
        """Call `fn` on every module below this one, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- modes ----

    def train(self, mode: bool = True) -> Self:
        """Training mode: dropout drops and batch norm uses the statistics of the batch."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def to(self, *args: Any, device: Any = None, dtype: Any = None) -> Self:
        """Move to a device or convert to a floating-point dtype: `net.to("cuda")`, `net.to(labkit.float64)`.

        In place: parameters stay the same objects, so optimizers made before keep working.
        """
        for arg in args:
            device, dtype = (arg, dtype) if isinstance(arg, str) else (device, arg)
        if dtype is not None and as_dtype(dtype) not in FLOATS:
            raise TypeError(f"a module can only be converted to a floating-point dtype, not {dtype}")
        for tensor in (*self.parameters(), *self.buffers()):
            for t in (tensor, tensor.grad):
                if t is not None:
                    _become(t, t.detach().to(device=device, dtype=dtype if t.is_floating_point() else None))
        return self

    def float(self) -> Self:
        return self.to(dtype=labkit.float32)

    def double(self) -> Self:
        return self.to(dtype=labkit.float64)

    def half(self) -> Self:
        return self.to(dtype=labkit.float16)

    def bfloat16(self) -> Self:
        return self.to(dtype=labkit.bfloat16)

    def cpu(self) -> Self:
        return self.to("cpu")

    def cuda(self) -> Self:
        return self.to("cuda")

    def zero_grad(self, set_to_none: bool = True) -> None:
        for param in self.parameters():
            zero_grad(param, set_to_none)

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, args, output)` after each call; a result other than None replaces the output."""
        return RemovableHandle(self._forward_hooks, hook)

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(module, args)` before each call; a result other than None replaces the arguments."""
        return RemovableHandle(self._forward_pre_hooks, hook)

    # ---- state ----

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Every parameter and persistent buffer by its path, sharing memory with the module."""
        state = {}
        for path, module in self.named_modules(prefix.removesuffix("."), remove_duplicate=False):
            for name, value in module._own_state():
                state[f"{path}.{name}" if path else name] = value if keep_vars else value.detach()
        return state

    def _own_state(self) -> Iterator[tuple[str, Tensor]]:
        for name, value in (*self._parameters.items(), *self._buffers.items()):
            if value is not None and name not in self._non_persistent_buffers:
                yield name, value

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copy values in by name. They may be tensors, NumPy arrays or torch tensors; dtypes are converted.

        All is checked before anything is copied. Different shapes are always an error; missing and unexpected
        names are an error unless `strict=False`, and then returned.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"load_state_dict() takes a dict of names to tensors, got {type(state_dict).__name__}. From "
                "a file: labkit.load(path); from another model: model.state_dict()."
            )
        own = self.state_dict()
        missing = [name for name in own if name not in state_dict]
        unexpected = [name for name in state_dict if name not in own]
        given = {name: labkit.as_tensor(state_dict[name]).detach() for name in own if name in state_dict}
        problems = [
            f"{name} has shape {tuple(value.shape)}, but the model needs {tuple(own[name].shape)}"
            for name, value in given.items()
            if value.shape != own[name].shape
        ]
        if strict:
            problems += [f"{name} is missing" for name in missing]
            problems += [f"{name} is not part of the model" for name in unexpected]
        if problems:
            raise RuntimeError(_describe(type(self).__name__, problems, missing, unexpected))
        with labkit.no_grad():
            for name, value in given.items():
                own[name].copy_(value)
        return IncompatibleKeys(missing, unexpected)

    # ---- printing ----

    def extra_repr(self) -> str:
        """The settings shown between the parentheses of the printed module."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        lines += [
            f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()
        ]
        if not lines or (len(lines) == 1 and not self._modules):
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"


def _call_super(module: Module) -> str:
    return f"call super().__init__() at the start of {type(module).__name__}.__init__"


def _become(tensor: Tensor, other: Tensor) -> None:
    """Give a leaf other memory; whoever holds the tensor keeps holding it."""
    tensor.data, tensor.device, tensor.edge = other.data, other.device, None


def zero_grad(param: Tensor, set_to_none: bool) -> None:
    """Drop a parameter's gradient, or fill it with zeros."""
    if param.grad is not None and not set_to_none:
        param.grad.zero_()
    else:
        param.grad = None


def _warn_if_unregistered(module: Module, name: str, value: Any) -> None:
    """Parameters inside plain containers are invisible to parameters(), state_dict() and optimizers."""
    if name in module._pointed_out:
        return
    if isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
        advice = "wrap it in nn.Parameter"
    elif isinstance(value, list | tuple | dict):
        known = {id(m) for m in (*module._modules.values(), *module._parameters.values())}
        items = list(value.values() if isinstance(value, dict) else value)
        hidden = [item for item in items if isinstance(item, Module | Parameter) and id(item) not in known]
        if not hidden:
            return
        if isinstance(hidden[0], Parameter):
            advice = "use nn.ParameterList, or set each as an attribute of its own"
        else:
            advice = f"use nn.Module{'Dict' if isinstance(value, dict) else 'List'}"
    else:
        return
    module._pointed_out.add(name)
    warnings.warn(
        f"self.{name} is a plain {type(value).__name__}: the module does not see the parameters in it and an "
        f"optimizer will not train them. To register them, {advice}",
        stacklevel=3,
    )


def _describe(model: str, problems: list[str], missing: list[str], unexpected: list[str]) -> str:
    shown, more = problems[:20], len(problems) - 20
    lines = [f"this state dict does not fit {model}:", *(f"  {problem}" for problem in shown)]
    if more > 0:
        lines.append(f"  and {more} more")
    for name in unexpected:
        head, _, rest = name.partition(".")
        if rest in missing:
            lines.append(f"The names carry an extra {head + '.'!r} in front: remove it from each key.")
            break
    else:
        lines.append(
            "Build the model with the sizes and layers it was saved with; strict=False skips names that only "
            "one side has."
        )
    return "\n".join(lines)
