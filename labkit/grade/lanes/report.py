"""What came of grading, as a table for people, as JSON, and as JUnit XML for other programs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from labkit.book.notebook import write_text
from labkit.verdict import Verdict

_ANSI = {"pass": "32", "not started": "2", "not yet": "31"}


@dataclass(frozen=True)
class Result:
    """One notebook and the verdicts of its exercises, in the order of the page."""

    path: Path  # below the course folder
    verdicts: dict[str, Verdict]
    note: str | None = None

    @property
    def week(self) -> str:
        return self.path.parent.name


def word(verdict: Verdict) -> str:
    return verdict.status if verdict.status in ("pass", "not started") else "not yet"


def table(results: list[Result], color: bool = False, width: int = 110) -> str:
    """By notebook and exercise: the verdict and one line about it."""
    names = max((len(ex) for result in results for ex in result.verdicts), default=0)
    lines = []
    for result in results:
        lines.append(result.path.as_posix())
        if result.note:
            lines.append(f"  {result.note}")
        for ex, verdict in result.verdicts.items():
            said = "" if result.note else one_line(verdict)
            line = clipped(f"  {word(verdict):11}  {ex:{names}}  {said}".rstrip(), width)
            lines.append(paint(line, word(verdict), color))
        lines.append("")
    return "\n".join([*lines, summary(results)])


def one_line(verdict: Verdict) -> str:
    """The verdict in a line; the recognized mistake says more than where it showed."""
    if verdict.status in ("pass", "not started"):
        return verdict.headline
    cause = next((line for line in verdict.lines if line.startswith("Likely cause: ")), None)
    more = verdict.lines[0] if verdict.headline.endswith(":") and verdict.lines else ""
    said = cause.removeprefix("Likely cause: ") if cause else f"{verdict.headline} {more}".strip()
    return f"{verdict.status}: {said}"


def summary(results: list[Result]) -> str:
    count = Counter(word(verdict) for result in results for verdict in result.verdicts.values())
    parts = f"{count['pass']} passed, {count['not yet']} not yet, {count['not started']} not started"
    return f"{count.total()} exercise{'s' if count.total() != 1 else ''}: {parts}."


def next_step(results: list[Result]) -> str:
    """What to do now: the first answer that does not pass, else the first without an answer."""
    for wanted in ("not yet", "not started"):
        for result in results:
            for verdict in result.verdicts.values():
                if word(verdict) == wanted:
                    return f"Next: open {result.path.as_posix()}\n{verdict.text()}"
    return "All done." if results else "There is nothing to grade here."


def exit_code(results: list[Result], strict: bool = False) -> int:
    """0 only if every attempted exercise passes; with `strict`, every exercise."""
    fine = {"pass"} if strict else {"pass", "not started"}
    return int(any(word(v) not in fine for result in results for v in result.verdicts.values()))


def as_json(results: list[Result]) -> str:
    content = [
        {
            "notebook": result.path.as_posix(),
            "note": result.note,
            "exercises": [
                {**verdict.record(), "passed": verdict.passed} for verdict in result.verdicts.values()
            ],
        }
        for result in results
    ]
    return json.dumps({"schema": 1, "summary": summary(results), "notebooks": content}, indent=1) + "\n"


def as_junit(results: list[Result]) -> str:
    """A suite per notebook, a case per exercise; not started counts as skipped."""
    top = ElementTree.Element("testsuites", name="labkit")
    for result in results:
        words = Counter(word(verdict) for verdict in result.verdicts.values())
        suite = ElementTree.SubElement(
            top,
            "testsuite",
            name=result.path.as_posix(),
            tests=str(len(result.verdicts)),
            failures=str(words["not yet"]),
            errors="0",
            skipped=str(words["not started"]),
        )
        for ex, verdict in result.verdicts.items():
            case = ElementTree.SubElement(suite, "testcase", classname=result.week, name=ex)
            if not verdict.passed:
                kind = "skipped" if word(verdict) == "not started" else "failure"
                said = ElementTree.SubElement(case, kind, message=_xml(verdict.headline))
                said.text = _xml(verdict.text())
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=False) + "\n"


def write(results: list[Result], folder: Path, name: str) -> None:
    """Leave `NAME.json` and `NAME.xml` in the folder."""
    write_text(folder / f"{name}.json", as_json(results))
    write_text(folder / f"{name}.xml", '<?xml version="1.0" encoding="utf-8"?>\n' + as_junit(results))


def use_color() -> bool:
    return sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ


def paint(line: str, status: str, color: bool) -> str:
    return f"\033[{_ANSI[status]}m{line}\033[0m" if color else line


def clipped(line: str, width: int) -> str:
    line = re.sub(r"\s*\n\s*", " ", line)
    return line if len(line) <= width else line[: width - 3] + "..."


def _xml(text: str) -> str:
    """Without the control characters that XML cannot hold."""
    return "".join(_xml_characters(text))


def _xml_characters(text: str) -> Iterator[str]:
    for character in text:
        code = ord(character)
        legal = character in "\t\n\r" or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or code >= 0x10000
        yield character if legal else "?"
