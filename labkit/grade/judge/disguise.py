"""Declared code made to look like a learner's, for the audit."""

from __future__ import annotations

import types
from typing import Any


def disguise(thing: Any, readable: bool = False) -> Any:
    """A copy of a declared function or class that looks like the learner's, its source hidden or not."""
    if isinstance(thing, types.FunctionType):
        code = thing.__code__ if readable else thing.__code__.replace(co_filename="<answer>")
        twin = types.FunctionType(
            code, thing.__globals__, thing.__name__, thing.__defaults__, thing.__closure__
        )
        twin.__kwdefaults__ = thing.__kwdefaults__
        twin.__module__ = "__main__"
        return twin
    if isinstance(thing, type):
        return type(thing)(thing.__name__, (thing,), {"__module__": "__main__"})
    return thing
