"""The engine's own errors. Each says what happened, why, and what to try."""

from typing import Any


class NotSupported(NotImplementedError):
    """An argument or feature of torch that labkit leaves out; the message names it."""


class ShapeError(RuntimeError):
    """Shapes that do not fit; the message names the op and every shape."""


def refuse(function: str, **arguments: Any) -> None:
    """Raise `NotSupported` for the first argument that was given (is neither None nor False)."""
    for name, value in arguments.items():
        if value is not None and value is not False:
            raise NotSupported(
                f"{function}: the argument {name}={value!r} exists in torch but not in labkit. "
                f"Leave {name} out, or compute this step with torch."
            )
