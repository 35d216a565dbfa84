"""What a learner made: the outputs under a lesson's "Milestone" heading, from their own saved notebook.

Nothing is stored twice: a milestone is reached when its cells were run, and the picture is the one that they
left behind.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from labkit.book.learner import Problem, read_learner
from labkit.book.notebook import labkit_of
from labkit.book.percent import Lesson, LessonError
from labkit.book.work import Work

HEADING = re.compile(r"^##? (?P<title>.+)$", re.MULTILINE)
MILESTONE = re.compile(r"Milestone:\s*(?P<title>.+)")
PICTURE = re.compile(
    r'<img alt="(?P<alt>[^"]*)"(?: width="(?P<width>\d+)" height="(?P<height>\d+)")?[^>]*'
    r'src="(?P<source>data:image/[^"]+)"'
)
WIDE = 2.2  # times as wide as high: a picture that needs the whole row
LINES = 16  # of printed text, where there is no picture


@dataclass(frozen=True)
class Milestone:
    """`picture` is an image tag that holds its own data, or empty; `text` is the longest printed.

    Of several pictures it is the first: a lesson shows what works, then looks closer at what does not.
    """

    week: int
    title: str
    picture: str
    text: str


def reached(work: Work) -> list[Milestone]:
    """The milestones whose cells have been run, in course order."""
    try:
        found = [_of_lesson(work, lesson) for lesson in work.course.lessons]
    except LessonError:  # an author's half-written lesson
        return []
    return [milestone for milestone in found if milestone is not None]


def _of_lesson(work: Work, lesson: Lesson) -> Milestone | None:
    title, ids = section(lesson)
    nb = read_learner(work.notebook(lesson)) if ids else None
    if nb is None or isinstance(nb, Problem):
        return None
    cells = [cell for cell in nb["cells"] if labkit_of(cell).get("id") in ids]
    outputs = [output for cell in cells for output in cell.get("outputs") or [] if isinstance(output, dict)]
    if any(output.get("output_type") == "error" for output in outputs):
        return None
    pictures, texts = list(_pictures(outputs)), list(_texts(outputs))
    if not pictures and not texts:
        return None
    longest = max(texts, key=len, default="")
    return Milestone(lesson.week, title, (pictures or [""])[0], _beginning(longest))


def section(lesson: Lesson) -> tuple[str, set[str]]:
    """The title of a lesson's milestone and the ids of its code cells; an empty set if it has none."""
    title, ids, inside = "", set[str](), False
    for cell in lesson.cells:
        if cell.kind == "code":
            ids |= {cell.id} if inside and cell.role == "demo" else set()
            continue
        for heading in HEADING.finditer(cell.source):
            match = MILESTONE.match(heading["title"])
            inside = match is not None
            title = match["title"] if match else title
    return title, ids


def _pictures(outputs: list[dict[str, Any]]) -> Iterator[str]:
    """Image tags made anew from pictures that carry their data: nothing else of an output is let through."""
    for data in (output["data"] for output in outputs if isinstance(output.get("data"), dict)):
        markup, png = _joined(data.get("text/html")), _joined(data.get("image/png"))
        for match in PICTURE.finditer(markup):
            wide = int(match["width"] or 0) > WIDE * int(match["height"] or 0)
            yield _tag(html.unescape(match["source"]), html.unescape(match["alt"]), wide)
        if png and re.fullmatch(r"[A-Za-z0-9+/=\s]+", png):
            yield _tag("data:image/png;base64," + "".join(png.split()), "")


def _tag(source: str, alt: str, wide: bool = False) -> str:
    kind = ' class="wide"' if wide else ""
    return f'<img{kind} alt="{html.escape(alt)}" src="{html.escape(source)}">'


def _texts(outputs: list[dict[str, Any]]) -> Iterator[str]:
    for output in outputs:
        text = _joined(output.get("text")).strip("\n") if output.get("name") == "stdout" else ""
        if text:
            yield text


def _beginning(text: str) -> str:
    lines = text.split("\n")
    return "\n".join([*lines[:LINES], "…"] if len(lines) > LINES else lines)


def _joined(value: Any) -> str:
    """Text as notebooks hold it: one string, or a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""
