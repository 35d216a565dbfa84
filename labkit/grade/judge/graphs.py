"""What torch.compile makes of a function over several calls: graphs, the places where they break, versions.

Graphs go to a backend of our own that runs them as they are, so no C++ compiler is needed. Why a graph broke
is known to one private method of Dynamo, which is watched here; torch is pinned, and a test looks after it.
"""

from __future__ import annotations

import linecache
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

# (words in torch's reason, what to call it, what to say about it)
REASONS = (
    ("operator `print`", "print", "`print` has to happen in Python, between two graphs"),
    ("Tensor.item() call", "item", "a number is taken out of a tensor, and Python has to wait for it"),
    ("Data-dependent branching", "branch", "Python needs the value of a tensor to decide where to go on"),
    ("Tensor.tolist()", "tolist", "numbers are taken out of a tensor, and Python has to wait for them"),
    (
        "torch.compiler.disable",
        "disabled",
        "what is called here is kept out of graphs by `torch.compiler.disable`",
    ),
    ("marked as skipped", "skipped", "torch cannot see into the function that is called here"),
)


@dataclass(frozen=True)
class Break:
    """A place where a graph ends before the function does. `name` is a short word for the reason."""

    name: str
    why: str
    file: str
    line: int

    def __str__(self) -> str:
        text = linecache.getline(self.file, self.line).strip()
        quoted = f": `{text}`" if text and "`" not in text and len(text) <= 60 else ""
        return f"Line {self.line}{quoted}: {self.why}."


@dataclass
class Compilation:
    """What was counted. `graphs` holds the call, by number, that made each of them.

    `error` is what a call raised, and then there are fewer values than calls.
    """

    values: list[Any] = field(default_factory=list)
    error: Exception | None = None
    graphs: list[int] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    compiled: dict[int, set[int]] = field(default_factory=dict)  # versions of each piece of code

    @property
    def versions(self) -> int:
        return max(map(len, self.compiled.values()), default=0)

    def count(self, what: str) -> int:
        return {"graphs": len(self.graphs), "breaks": len(self.breaks), "versions": self.versions}[what]


def original(f: Any) -> tuple[Any, dict[str, Any]]:
    """What the learner gave to torch.compile, and with which `dynamic`; the thing itself if nobody did."""
    context = getattr(f, "dynamo_ctx", None)  # a compiled module
    if context is None and hasattr(f, "_torchdynamo_orig_callable"):
        cells = zip(f.__code__.co_freevars, f.__closure__ or (), strict=True)
        context = next((cell.cell_contents for name, cell in cells if name == "self"), None)
    if context is None:
        return f, {}
    return f._torchdynamo_orig_callable, {"dynamic": context._dynamic}


def count(f: Any, calls: Sequence[Callable[[], Sequence[Any]]], dynamic: bool | None = None) -> Compilation:
    """Compile `f` and call it with what each of `calls` returns, starting from an empty cache."""
    import torch
    from torch._guards import CompileContext

    found, number = Compilation(), 0

    def backend(graph: Any, inputs: Any) -> Any:
        identity = CompileContext.current_compile_id()
        found.graphs.append(number)
        found.compiled.setdefault(identity.frame_id, set()).add(identity.frame_compile_id)
        return graph.forward

    f, options = original(f)
    torch._dynamo.reset()
    try:
        with _noting_breaks(found.breaks), _quiet_log():
            compiled = torch.compile(f, backend=backend, **({"dynamic": dynamic} | options))
            for number, make in enumerate(calls):  # noqa: B007 - the backend reads it
                found.values.append(compiled(*make()))
    except Exception as error:
        found.error = error
    finally:
        torch._dynamo.reset()
    return found


@contextmanager
def _noting_breaks(breaks: list[Break]) -> Iterator[None]:
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    usual = InstructionTranslatorBase.log_graph_break

    def noting(self: Any, code_options: Any, reason: str, exc: Any) -> Any:
        stack = getattr(exc, "real_stack", None) or []
        file, line = code_options["co_filename"], code_options["co_firstlineno"]
        if stack:
            file, line = stack[-1].filename, stack[-1].lineno
        found = _named(str(exc), reason, file, line)
        if all((found.file, found.line) != (known.file, known.line) for known in breaks):
            breaks.append(found)
        return usual(self, code_options, reason, exc)

    InstructionTranslatorBase.log_graph_break = noting
    try:
        yield
    finally:
        InstructionTranslatorBase.log_graph_break = usual


def _named(words: str, reason: str, file: str, line: int) -> Break:
    for part, name, why in REASONS:
        if part in words:
            if "Skipping the function" in reason:
                why += ", and inside a loop or `try` torch gives up on the whole function"
            return Break(name, why, file, line)
    first = words.strip().splitlines()[0] if words.strip() else "no reason given"
    return Break(first, f"torch says: {first.rstrip('.')}", file, line)


@contextmanager
def _quiet_log() -> Iterator[None]:
    """torch warns of every limit with times and process ids; the verdict says it once."""
    log = logging.getLogger("torch")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
