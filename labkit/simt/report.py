"""What the stepper found, in words and as a picture."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from labkit.simt.limits import Occupancy
from labkit.simt.machine import Dim3
from labkit.simt.trace import Traffic
from labkit.viz.figure import Figure

SEVERITIES = ("error", "slow", "note")
SHOWN = 4  # findings printed in full


@dataclass(frozen=True)
class Finding:
    """One thing to know about the kernel.

    severity: "error" (wrong or undefined on hardware), "slow" (right, but wasteful), "note" (worth knowing).
    `lines` are all source lines involved, `line` the first of them; `threads` are examples, as text.
    """

    kind: str
    message: str
    advice: str
    lines: tuple[int, ...]
    threads: tuple[str, ...]
    severity: str = "error"

    @property
    def line(self) -> int:
        return self.lines[0]

    def __str__(self) -> str:
        return f"{self.severity}: {self.kind}, line {self.line}: {self.message}\n    {self.advice}"


@dataclass
class Report:
    """The result of `run` and `check`: findings, counts per thread and in total, occupancy, and a picture."""

    kernel: str
    grid: Dim3
    block: Dim3
    schedules: int = 1
    finished: bool = False  # every thread came to its end
    findings: list[Finding] = field(default_factory=list)
    per_thread: dict[str, np.ndarray] = field(default_factory=dict)
    occupancy: dict[str, Occupancy] = field(default_factory=dict)
    traffic: list[Traffic] = field(default_factory=list)
    shared_bytes: int = 0
    touched: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """No error; the kernel may still be slow."""
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def counts(self) -> dict[str, int]:
        """Totals over all threads; `per_thread` has one number for each."""
        return {name: int(values.sum()) for name, values in self.per_thread.items()}

    def of(self, kind: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind == kind]

    def __str__(self) -> str:
        lines = [self._headline()]
        for finding in self.findings[:SHOWN]:
            lines += str(finding).splitlines()
        if len(self.findings) > SHOWN:
            rest = [f"{f.kind} (line {f.line})" for f in self.findings[SHOWN : SHOWN + 6]]
            more = ", ..." if len(self.findings) > SHOWN + 6 else ""
            lines.append(f"and {len(self.findings) - SHOWN} more: {', '.join(rest)}{more}")
        if counted := self._counted():
            lines += [counted, self._occupied()]
        return "\n".join(lines)

    __repr__ = __str__

    def _headline(self) -> str:
        sizes = " x ".join(str(n) for n in _trim(self.grid)), " x ".join(str(n) for n in _trim(self.block))
        runs = "1 schedule" if self.schedules == 1 else f"{self.schedules} schedules"
        place = f"{self.kernel}: {sizes[0]} blocks of {sizes[1]} threads, {runs}"
        amounts = [(s, sum(f.severity == s for f in self.findings)) for s in SEVERITIES]
        names = {
            "error": ("error", "errors"),
            "slow": ("slow access", "slow accesses"),
            "note": ("note", "notes"),
        }
        said = [f"{n} {names[s][n > 1]}" for s, n in amounts if n]
        return f"{place}. {', '.join(said) or 'Nothing to report'}."

    def _counted(self) -> str:
        if not self.per_thread or not next(iter(self.per_thread.values())).size:
            return ""
        names = [n for n in self.per_thread if n.startswith(("global", "shared")) and self.counts[n]]
        parts = [f"{n} {self.per_thread[n].max()}" for n in names]
        parts += [f"{n} {self.per_thread[n].max()}" for n in ("barriers",) if self.counts[n]]
        return "most per thread: " + (", ".join(parts) or "no memory access")

    def _occupied(self) -> str:
        parts = [f"{name} {o.share:.0%} ({o.limit})" for name, o in self.occupancy.items()]
        return (
            f"threads resident at best: {', '.join(parts)}; shared memory {self.shared_bytes} bytes per block"
        )

    def picture(self) -> Figure:
        """Threads down, elements across, one panel per array: who read and who wrote what."""
        from labkit.simt.picture import draw

        return draw(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle = {"text/plain": str(self)}
        if self.touched:
            from html import escape

            words = f"<pre>{escape(str(self))}</pre>"
            bundle["text/html"] = words + self.picture().html
        return bundle


def _trim(size: Dim3) -> tuple[int, ...]:
    return size[:1] if size[1:] == (1, 1) else size[:2] if size.z == 1 else tuple(size)
