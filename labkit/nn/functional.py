"""torch.nn.functional's names. Everything is computed in `labkit.ops`, where it says `functional=True`.

`rnn`, `lstm` and `gru` run one layer over a whole sequence; torch has them only as modules.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import labkit.ops  # noqa: F401  declares them all
from labkit.op_table import PUBLIC
from labkit.tensor import in_place


def _with_inplace(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with torch's last argument `inplace`: overwrite the input."""
    parameters = [
        p.replace(name="input") if p.name == "x" else p
        for p in inspect.signature(function).parameters.values()
    ]
    flag = inspect.Parameter("inplace", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=False)

    @functools.wraps(function)
    def call(*args: Any, inplace: bool = False, **kwargs: Any) -> Any:
        if len(args) > len(parameters):
            *args, inplace = args  # type: ignore[assignment]
        return (in_place(function) if inplace else function)(*args, **kwargs)

    call.__signature__ = inspect.Signature([*parameters, flag])  # type: ignore[attr-defined]
    return call


FUNCTIONS = {
    name: _with_inplace(public.call) if public.functional == "inplace" else public.call
    for name, public in sorted(PUBLIC.items())
    if public.functional
}
globals().update(FUNCTIONS)
__all__ = [*FUNCTIONS]
