"""Import torchvision beside a CPU-only torch.

torchvision from the package index registers Python code for two compiled operators, `nms` and `qnms`. The
CPU-only build of torch cannot load the library that defines them, and the import stops with "operator
torchvision::nms does not exist". Declaring the two signatures first is enough for transforms, datasets and
models; calling non-maximum suppression itself stays impossible and fails when called.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[
    Any
] = []  # torch forgets an operator when its Library object is collected, so one must stay alive


def torchvision() -> ModuleType:
    """Import torchvision on any torch build and return the module."""
    if "torchvision" not in sys.modules:
        _declare_missing_operators()
    return importlib.import_module("torchvision")


def _declare_missing_operators() -> None:
    import torch

    if _declared or torch.version.cuda is not None:
        return
    library = torch.library.Library("torchvision", "DEF")
    for signature in _OPERATORS:
        library.define(signature)
    _declared.append(library)
