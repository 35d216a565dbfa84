"""Modules and parameters in lists, dicts and chains."""

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from labkit.tensor import Tensor

from .module import Module, Parameter


class ModuleList(Module):
    """A list of modules. It has no forward: loop over it in yours."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(modules or ())

    def append(self, module: Module) -> Self:
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        for module in modules:
            self.append(module)
        return self

    __iadd__ = extend

    def insert(self, index: int, module: Module) -> None:
        modules = list(self)
        modules.insert(index, module)
        self._modules.clear()
        self.extend(modules)

    def __delitem__(self, index: int | slice) -> None:
        """Later modules move up: their numbers, and so their names, change."""
        modules = list(self)
        del modules[index]
        self._modules.clear()
        self.extend(modules)

    def pop(self, index: int = -1) -> Module:
        module = self[index]
        del self[index]
        return module

    def __getitem__(self, index: int | slice) -> Any:
        modules = list(self)[index]
        return type(self)(modules) if isinstance(index, slice) else modules

    def __setitem__(self, index: int, module: Module) -> None:
        self.register_module(list(self._modules)[index], module)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)


class Sequential(ModuleList):
    """Modules called one after another: `Sequential(Linear(2, 3), ReLU())`, or a dict of names to modules."""

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], Mapping) else enumerate(args)
        for name, module in named:
            self.register_module(str(name), module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):  # the part keeps its names
            return type(self)(dict(list(self._modules.items())[index]))
        return super().__getitem__(index)


class ModuleDict(Module):
    """A dict of modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:
        for name, module in modules.items():
            self.register_module(name, module)

    def __getitem__(self, name: str) -> Module:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.register_module(name, module)

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def pop(self, name: str) -> Module:
        return self._modules.pop(name)

    def __contains__(self, name: str) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def keys(self) -> Iterable[str]:
        return self._modules.keys()

    def values(self) -> Iterable[Module]:
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Module]]:
        return self._modules.items()


class ParameterList(Module):
    """A list of parameters."""

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        super().__init__()
        self.extend(values or ())

    def append(self, value: Tensor) -> Self:
        param = value if isinstance(value, Parameter) else Parameter(value)
        self.register_parameter(str(len(self)), param)
        return self

    def extend(self, values: Iterable[Tensor]) -> Self:
        for value in values:
            self.append(value)
        return self

    def __getitem__(self, index: int) -> Parameter:
        return self._parameters[str(range(len(self))[operator.index(index)])]

    def __setitem__(self, index: int, param: Parameter) -> None:
        self.register_parameter(str(range(len(self))[operator.index(index)]), param)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._parameters.values())

    def __len__(self) -> int:
        return len(self._parameters)
