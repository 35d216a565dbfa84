"""`from labkit.lazy import torch`: torch, imported when it is first used.

Declarations of exercises mention torch everywhere and run it rarely: `make hint` should not wait for it.
"""

import importlib
from typing import Any


class Lazy:
    """A module that is imported at the first look-up of an attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


torch: Any = Lazy("torch")
F: Any = Lazy("torch.nn.functional")
