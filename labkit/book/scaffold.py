"""`make new EX=w08.guard`: the file of a new exercise and its cells in a lesson, ready to be filled in.

python -m labkit new w08.guard                                      into the last lesson of week 8
python -m labkit new w08.guard --lesson week08_kernels/02_cuda      into this one; made if it is not there

What it writes is a whole exercise that builds; `make audit EX=w08.guard` names every TODO that is left.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from labkit import exercises
from labkit.book.course import Course
from labkit.book.notebook import write_text
from labkit.book.percent import parse
from labkit.book.work import here
from labkit.exercises.declare import week_of

ID = re.compile(r"w(?P<week>\d\d)\.(?P<name>[a-z][a-z0-9_]*)")
LESSON = re.compile(r"week(?P<week>\d\d)_[a-z0-9_]+/\d\d_[a-z0-9_]+")

DECLARATION = '''"""{words}: one sentence on what the learner writes."""

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.lazy import torch

exercise = Implement(
    title="{words}",
    minutes=10,
    cases=[
        Case("2 by 3", lambda draw: {{"x": draw.normal(2, 3)}}),
        Case("one row", lambda draw: {{"x": draw.normal(1, 4)}}),
        Case("not contiguous", lambda draw: {{"x": draw.transposed(5, 2)}}),
    ],
    oracle=lambda x: torch.neg(x),
    mistakes=[  # write these first: what people really get wrong, and what a good teacher would say
        Mistake("unchanged", "TODO: what happened, and what to do about it.", lambda x: x.clone()),
        Mistake("doubled", "TODO: what happened, and what to do about it.", lambda x: x * 2),
        Mistake("shifted", "TODO: what happened, and what to do about it.", lambda x: x + 1),
    ],
    hints=("TODO: a nudge.", "TODO: the idea.", "TODO: nearly the answer."),
    passed="TODO: one sentence worth knowing.",
)
'''

TITLE = """# %% [markdown] id={prefix}-title
# # Week {week} · {number} {words}
#
# In about 60 minutes you will TODO, and at the end TODO runs on your code.
# %% id={prefix}-setup role=setup
import torch

from labkit import check

"""

CELLS = '''
# %% [markdown] id={prefix}-{name}-md
# ## Exercise
#
# TODO: the idea, in at most 150 words, and a worked example with numbers small enough to do by hand.
# %% id={prefix}-{name} role=exercise ex={ex}
def {name}(x: torch.Tensor) -> torch.Tensor:
    """x (rows, columns) to (rows, columns). TODO: what goes in, what comes out."""
    ### BEGIN SOLUTION
    return -x
    ### END SOLUTION


# %% id={prefix}-{name}-check role=check ex={ex}
check("{ex}", {name})
'''


class CannotMake(Exception):
    """Why nothing was written, and what to do."""


def new(course: Course, ex: str, lesson: str | None = None) -> list[Path]:
    """Write the declaration of an exercise and its cells; returns the two files."""
    match = ID.fullmatch(ex)
    if not match:
        raise CannotMake(f"{ex!r} is no id of an exercise: the week, a dot and a name, such as w08.guard.")
    if ex in exercises.all_ids():
        raise CannotMake(f"{ex} is there already: {exercises.files()[ex]}")
    week, name = int(match["week"]), match["name"]
    source = _lesson(course, week, lesson)
    declared = course.root / "labkit" / "exercises" / f"week{week:02d}" / f"{name}.py"
    words = name.replace("_", " ").capitalize()
    text = source.read_text(encoding="utf-8") if source.exists() else ""
    prefix = _prefix(text, week, source)
    if not text:
        title = source.stem[3:].replace("_", " ").capitalize()
        text = TITLE.format(prefix=prefix, week=week, number=source.stem[:2], words=title)
    cells = CELLS.format(prefix=prefix, name=name, ex=ex)
    write_text(declared, DECLARATION.format(words=words))
    write_text(source, _with_cells(text, cells))
    return [declared, source]


def _with_cells(text: str, cells: str) -> str:
    """The source with the cells behind its last check, before what closes the lesson."""
    checks = [cell.end for cell in parse(text)[0] if cell.role == "check"]
    lines = text.splitlines()
    end = max(checks, default=len(lines))
    before, after = "\n".join(lines[:end]).rstrip(), "\n".join(lines[end:]).strip("\n")
    return f"{before}\n\n{cells}" + (f"\n\n{after}\n" if after else "")


def _lesson(course: Course, week: int, name: str | None) -> Path:
    """The source that the cells go into: the named one, else the last of the week."""
    if name is None:
        found = course.of_week(week)
        if not found:
            example = f"LESSON=week{week:02d}_topic/01_name"
            raise CannotMake(f"Week {week} has no lesson yet. Say where the exercise goes: {example}")
        return course.root / found[-1].path
    name = name.removeprefix("solutions/").removesuffix(".py")
    match = LESSON.fullmatch(name)
    if not match or int(match["week"]) != week:
        raise CannotMake(f"{name!r} is no lesson of week {week}: say week{week:02d}_topic/01_name.")
    return course.root / "solutions" / f"{name}.py"


def _prefix(text: str, week: int, source: Path) -> str:
    """What the cell ids of a lesson begin with: as in its first cell, else such as `w08b` for notebook 02."""
    first = re.search(r"\bid=(w\d\d[a-z]*)-", text)
    return first[1] if first else f"w{week:02d}{chr(ord('a') + int(source.stem[:2]) - 1)}"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m labkit new", description="A new exercise, to be filled in."
    )
    parser.add_argument("ex", help="its id: the week, a dot and a name, such as w08.guard")
    parser.add_argument(
        "--lesson", help="such as week08_kernels/02_cuda; the last one of the week if not given"
    )
    options = parser.parse_args(argv)
    course = here().course
    try:
        made = new(course, options.ex, options.lesson)
    except CannotMake as error:
        print(error, file=sys.stderr)
        return 2
    for path in made:
        print(f"wrote {path.relative_to(course.root).as_posix()}")
    week = week_of(options.ex)
    print(f"Fill in every TODO, then `make build WEEK={week}` and `make audit EX={options.ex}`.")
    return 0
