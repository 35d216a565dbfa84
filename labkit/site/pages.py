"""From lessons to what Sphinx reads: one notebook per lesson, one front page.

A page shows what the learner's notebook shows, and below each demonstration the figures and lines stored in
the solution notebook. Verdicts of checks are left out: they would praise nobody. Where the text ends with a
question or asks for a prediction, what comes out is folded: the answer would stand beside the question.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

from labkit import __version__
from labkit.book.course import lesson_paths, lesson_title, read_lesson, week_title
from labkit.book.notebook import Cell, Notebook, dumps, labkit_of, learner_notebook, make_cell, read
from labkit.book.percent import Lesson, week_of_folder
from labkit.site import SiteError
from labkit.viz.explore import STILL_HTML

LINK = re.compile(r"(?<!!)\[(?P<words>[^\]\[]*)\]\((?P<target>[^)\s]+)\)")
LINK_ALONE = re.compile(rf"\s*\({LINK.pattern}\)")  # in parentheses with nothing else
FOR_AUTHORS = re.compile(r"^## For authors\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
WEEK_ROW = re.compile(r"^\| (?P<week>\d+) \| (?P<what>[^|]+?) \|", re.MULTILINE)
EXPLORER = re.compile(r"^viz\.\w+_explorer\(", re.MULTILINE)
FIGURE = re.compile(r'(?P<start><img [^>]*\bwidth="(?P<width>\d+)"[^>]*\bstyle=")')
PICTURE = re.compile(r"!\[(?P<alt>[^\]]*)\]\((?P<path>[^):]+)\)")
# How the last paragraph before a cell asks for a prediction: in words, or by ending with a question.
ASKS = re.compile(r"\b(Guess|Predict|Decide|guesses|[Bb]efore you run)\b|\?[*_)\"]*$")
STILL = "*A still picture. It comes with controls where the cell is run: `make lab`, then `{}`.*"


def write_pages(root: Path, folder: Path, solutions: bool = False) -> None:
    """Write the sources of the whole site into `folder`."""
    weeks: dict[str, list[tuple[str, str]]] = {}  # folder: (title, page) of its lessons
    for path in lesson_paths(root):
        lesson = read_lesson(root, path)
        weeks.setdefault(lesson.folder, []).append((lesson_title(lesson), lesson.name))
        target = folder / f"{lesson.name}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(dumps(lesson_page(root, lesson, solutions)), encoding="utf-8")
    front = FOR_AUTHORS.sub("", (root / "README.md").read_text(encoding="utf-8"))
    for match in PICTURE.finditer(front):
        for path in filter(None, (match["path"], in_dark(root, match["path"]))):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / path, folder / path)
    front = PICTURE.sub(lambda match: _in_both_themes(root, match), without_files(front))
    (folder / "index.md").write_text(front_page(front, weeks), encoding="utf-8")


def in_dark(root: Path, path: str) -> str | None:
    """The same picture for the dark theme, if there is one beside it."""
    twin = Path(path).with_stem(f"{Path(path).stem}-dark")
    return twin.as_posix() if (root / twin).exists() else None


def _in_both_themes(root: Path, picture: re.Match[str]) -> str:
    """A picture and its dark twin, of which the theme shows one; as it is if it has no twin."""
    dark = in_dark(root, picture["path"])
    if dark is None:
        return picture[0]
    both = ((picture["path"], "only-light"), (dark, "only-dark"))
    return "\n\n".join(
        f"```{{image}} {path}\n:alt: {picture['alt']}\n:class: {shown}\n```" for path, shown in both
    )


def lesson_page(root: Path, lesson: Lesson, solutions: bool = False) -> Notebook:
    """The learner's notebook with the stored outputs of its demonstrations."""
    where = lesson.notebook.as_posix()
    nb = learner_notebook(lesson, __version__)
    stored = _stored(root, lesson)
    if not {cell["id"] for cell in nb["cells"]} <= set(stored):
        raise SiteError(f"{lesson.path} is newer than its notebook. Run `make build` first.")
    solution = {cell.id: cell.solution for cell in lesson.cells if cell.role == "exercise"}
    cells = list[Cell]()
    asked = False
    for cell in nb["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = without_files(cell["source"])
            asked = asks(cell["source"])  # of every demonstration up to the next text
        elif labkit_of(cell)["role"] == "demo":
            cell["outputs"] = [_readable(output) for output in stored[cell["id"]]["outputs"]]
            if asked and cell["outputs"]:
                cell["metadata"] |= _fold("output", "What comes out")
        else:
            asked = False
        cells.append(cell)
        if solutions and labkit_of(cell)["role"] == "exercise":
            cells.append(_folded(cell["id"], solution[cell["id"]]))
        if cell["cell_type"] == "code" and EXPLORER.search(cell["source"]):
            cells.append(make_cell("markdown", STILL.format(where), f"{cell['id']}-still"))
    note = f"*This page is for reading. To solve it, type `make lab` and open `{where}`.*"
    cells.insert(1, make_cell("markdown", note, f"{cells[0]['id']}-where"))
    return nb | {"cells": cells}


def _stored(root: Path, lesson: Lesson) -> dict[str, Cell]:
    """The cells of the executed notebook, by id."""
    try:
        return {cell["id"]: cell for cell in read(root / lesson.solution)["cells"]}
    except FileNotFoundError:
        raise SiteError(f"{lesson.path} has no executed notebook yet. Run `make build` first.") from None


def _readable(output: dict[str, Any]) -> dict[str, Any]:
    """An output without the grader's record and an explorer's note, which is a cell of its own here.

    A figure tells the style how wide it is.
    """
    if "data" not in output:
        return output
    kept = {
        mime: value for mime, value in output["data"].items() if not mime.startswith("application/vnd.labkit")
    }
    if "text/html" in kept:
        drawn = "".join(kept["text/html"]).replace(STILL_HTML, "")
        kept["text/html"] = FIGURE.sub(r"\g<start>--width:\g<width>px;", drawn)
    return output | {"data": kept}


def asks(text: str) -> bool:
    """Whether a text ends with a question, or the wish for a prediction, that the next cell answers."""
    return bool(ASKS.search(text.strip().rpartition("\n\n")[2]))


def _fold(part: str, prompt: str) -> dict[str, Any]:
    """What a cell's metadata say to have its `part`, input or output, folded behind `prompt`."""
    return {
        "tags": [f"hide-{part}"],
        "mystnb": {"code_prompt_show": prompt, "code_prompt_hide": prompt},
    }


def _folded(id: str, source: str) -> Cell:
    solution = make_cell("code", source, f"{id}-solution")
    solution["metadata"] = _fold("input", "Solution")
    return solution


def without_files(text: str) -> str:
    """Links to notebooks and to the web stay. Of other files, which are not on the site, the words stay;
    words in parentheses that were nothing but such a link go too."""

    def is_page(match: re.Match[str]) -> bool:
        target = match["target"]
        return bool(re.match(r"[a-z]+:|#", target)) or target.endswith(".ipynb")

    text = LINK_ALONE.sub(lambda match: match[0] if is_page(match) else "", text)
    return LINK.sub(lambda match: match[0] if is_page(match) else match["words"], text)


def front_page(readme: str, weeks: dict[str, list[tuple[str, str]]]) -> str:
    """The README as the way in: where reading begins, and from each week of its table to its first lesson."""
    first = {week_of_folder(folder): names[0][1] for folder, names in weeks.items()}

    def linked(row: re.Match[str]) -> str:
        page = first.get(int(row["week"]))
        return f"| {row['week']} | [{row['what']}]({page}.ipynb) |" if page else row[0]

    text = WEEK_ROW.sub(linked, readme)
    if first and text.count("\n\n") >= 2:
        begin = f"[Begin with week {min(first)}]({first[min(first)]}.ipynb)"
        title, promise, rest = text.split("\n\n", 2)
        read = f"{begin}, or search for a word: these pages hold every lesson, for reading."
        text = "\n\n".join([title, promise, read, rest])
    return text + contents(weeks)


def contents(weeks: dict[str, list[tuple[str, str]]]) -> str:
    """The table of contents at the side: a heading per week, a line per lesson."""
    parts = []
    for week, lessons in weeks.items():
        lines = "\n".join(f"{title} <{name}>" for title, name in lessons)
        parts.append(f"\n```{{toctree}}\n:hidden:\n:caption: '{week_title(week)}'\n\n{lines}\n```\n")
    return "".join(parts)
