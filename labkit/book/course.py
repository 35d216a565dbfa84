"""The course: a folder of lessons, read together and checked together (ids, exercises, links).

`Course` is what commands hand on: lessons, exercises in order, which lesson a notebook is a copy of.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from labkit import exercises
from labkit.book.facts import Filled, exercise_numbers, fill, filled_lines
from labkit.book.notebook import Notebook, labkit_of
from labkit.book.percent import Cell, Lesson, LessonError, parse
from labkit.book.source import Source, sources_of
from labkit.exercises.declare import Exercise

LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|<(?:img|a)\b[^>]*?\b(?:src|href)=[\"']([^\"']+)")

HOURS = ("", "one", "two", "three", "four")
PROMISE = re.compile(
    r"\bIn about (?:(?P<minutes>\d+) minutes"
    rf"|(?P<hours>{'|'.join(HOURS[1:])})(?P<half> and a half)? hours?)\b"
)


@dataclass(frozen=True)
class Course:
    """One course folder. Lessons are read when they are asked for, and again only when one changed."""

    root: Path

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        """All lessons in order. Raises `LessonError` if one cannot be read."""
        return self._read().lessons

    @property
    def sources(self) -> dict[str, Source]:
        """Every exercise that stands in a lesson, by id, in course order."""
        return self._read().sources

    @property
    def exercises(self) -> dict[str, Exercise]:
        """Every declared exercise by id: in course order, then those that stand in no lesson."""
        declared = exercises.all_exercises()
        try:
            order = [ex for ex in self.sources if ex in declared]
        except LessonError:  # an author's half-written lesson
            order = []
        return {ex: declared[ex] for ex in dict.fromkeys([*order, *declared])}

    def of_week(self, week: int | None = None) -> list[Lesson]:
        """The lessons of one week, or all."""
        return [lesson for lesson in self.lessons if week in (None, lesson.week)]

    def lesson(self, name: str) -> Lesson:
        """By topic, `tensor_autograd`; where weeks share one, by name: `week02_autograd/03_in_pytorch`."""
        found = [lesson for lesson in self.lessons if name in (lesson.topic, lesson.name)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(lesson.name for lesson in found or self.lessons)
        if found:
            raise KeyError(f"{len(found)} lessons are called {name!r}: say which of {names}.")
        raise KeyError(f"There is no lesson {name!r}. There are: {names}.")

    def lesson_of(self, nb: Notebook) -> Lesson | None:
        """The lesson that most cells of a notebook come from, whatever the file is called now."""
        ids = [labkit_of(cell).get("id", cell.get("id")) for cell in nb["cells"]]
        owner = self._read().owner
        found = Counter(owner[id].path for id in ids if id in owner)
        best = found.most_common(1)[0][0] if found else None
        return next((lesson for lesson in self.lessons if lesson.path == best), None)

    def _read(self) -> _Read:
        return _read(self.root, tuple((path, path.stat().st_mtime_ns) for path in lesson_paths(self.root)))


@dataclass(frozen=True)
class _Read:
    """What the lessons say. `owner` has the lesson of every cell id."""

    lessons: tuple[Lesson, ...]
    sources: dict[str, Source]
    owner: dict[str, Lesson]


@lru_cache(maxsize=4)
def _read(root: Path, stamps: tuple[tuple[Path, int], ...]) -> _Read:
    lessons = tuple(read_lesson(root, path) for path, _ in stamps)
    sources = {source.id: source for lesson in lessons for source in sources_of(lesson)}
    return _Read(lessons, sources, {cell.id: lesson for lesson in lessons for cell in lesson.cells})


def lesson_paths(root: Path, week: int | None = None) -> list[Path]:
    """The lesson sources of the course (or of one week), in course order."""
    folder = "week[0-9][0-9]_*" if week is None else f"week{week:02d}_*"
    return sorted((Path(root) / "solutions").glob(f"{folder}/[0-9][0-9]_*.py"))


def week_title(folder: str) -> str:
    """`Week 5: CNN` for week05_cnn. Topics of three letters are abbreviations."""
    number, _, topic = folder.removeprefix("week").partition("_")
    return f"Week {int(number)}: {topic.upper() if len(topic) <= 3 else topic.replace('_', ' ')}"


def lesson_title(lesson: Lesson) -> str:
    """The first heading of a lesson, without the week: `02 Broadcasting and reductions`."""
    for cell in lesson.cells:
        for line in cell.source.splitlines() if cell.kind == "markdown" else ():
            if line.startswith("# "):
                return line[2:].split("·", 1)[-1].strip()
    return lesson.path.stem[3:].replace("_", " ")


def promised_minutes(lesson: Lesson) -> int | None:
    """What the first text of a lesson promises: "In about 75 minutes", "In about two and a half hours"."""
    first = next((cell.source for cell in lesson.cells if cell.kind == "markdown"), "")
    found = PROMISE.search(first)
    if not found:
        return None
    if found["minutes"]:
        return int(found["minutes"])
    return 60 * HOURS.index(found["hours"]) + 30 * bool(found["half"])


def read_lesson(root: Path, path: Path) -> Lesson:
    """Read one source, with the facts of its exercises filled in.

    Raises `LessonError` if it cannot be divided into cells. A reference that leads nowhere stops the build,
    not a learner.
    """
    relative = path.relative_to(root)
    cells, problems = parse(path.read_text(encoding="utf-8"), relative.as_posix())
    if problems:
        raise LessonError(problems)
    return _filled(root, Lesson(relative, tuple(cells)))[0]


def _filled(root: Path, lesson: Lesson) -> tuple[Lesson, list[str]]:
    """The lesson as readers see it, with the facts of its exercises, and what could not be filled in."""
    shown, problems = facts_of(root, root / lesson.path, lesson.cells)
    return Lesson(lesson.path, tuple(fill(lesson.cells, shown))), problems


def facts_of(root: Path, path: Path, cells: Sequence[Cell]) -> tuple[dict[str, list[Filled]], list[str]]:
    """What readers see in the text cells of a source, and what could not be filled in."""

    def number_elsewhere(ex: str) -> int | None:
        for other in lesson_paths(root):
            numbers = exercise_numbers(parse(other.read_text(encoding="utf-8"), other.name)[0])
            if ex in numbers:
                return numbers[ex]
        return None

    asked = {cell.ex for cell in cells if cell.ex} & exercises.all_ids()
    declared = {ex: exercises.get(ex) for ex in asked}
    shown, unknown = filled_lines(cells, declared, number_elsewhere)
    name = path.relative_to(root).as_posix()
    return shown, [f"{name}:{number}: {words}" for number, words in unknown]


def read_course(root: Path, week: int | None = None, known: Collection[str] | None = None) -> list[Lesson]:
    """Read and check the lessons; `LessonError` lists every problem of every file.

    `known` is the set of declared exercise ids, by default what `labkit.exercises` declares. Ids are compared
    across the whole course even when one week is asked for.
    """
    if known is None:
        known = exercises.all_ids()
    wanted = set(lesson_paths(root, week))
    lessons, problems, seen = [], [], dict[str, str]()
    for path in lesson_paths(root):
        name = path.relative_to(root).as_posix()
        cells, found = parse(path.read_text(encoding="utf-8"), name)
        for cell in cells:
            where = f"{name}:{cell.line}"
            if cell.id in seen:
                found.append(f"{where}: the id {cell.id} is already used at {seen[cell.id]}")
            seen.setdefault(cell.id, where)
        if path in wanted:
            written = Lesson(path.relative_to(root), tuple(cells))
            lesson, unknown = _filled(root, written)
            lessons.append(lesson)
            problems += [*found, *_lesson_problems(root, written, known), *unknown]
    if problems:
        raise LessonError(problems)
    return lessons


def _lesson_problems(root: Path, lesson: Lesson, known: Collection[str]) -> Iterator[str]:
    name = lesson.path.as_posix()
    asked: dict[str, Cell] = {}
    checked: dict[str, Cell] = {}
    for cell in lesson.cells:
        where = f"{name}:{cell.line}"
        if cell.ex is not None and cell.ex not in known:
            yield f"{where}: unknown exercise {cell.ex}; declare it in labkit/exercises or correct ex="
        if cell.role == "exercise" and cell.ex:
            asked.setdefault(cell.ex, cell)
            if cell.ex in checked:
                yield f"{where}: the exercise {cell.ex} stands below its check"
        elif cell.role == "check" and cell.ex:
            if cell.ex in checked:
                yield f"{where}: a second check of {cell.ex}"
            checked[cell.ex] = cell
        elif cell.kind == "markdown":
            yield from (f"{name}:{n}: {text}" for n, text in _dead_links(root, lesson, cell))
    for ex in asked.keys() - checked.keys():
        yield f"{name}:{asked[ex].line}: the exercise {ex} has no check cell"
    for ex in checked.keys() - asked.keys():
        yield f"{name}:{checked[ex].line}: the check of {ex} has no exercise cell"


def _dead_links(root: Path, lesson: Lesson, cell: Cell) -> Iterator[tuple[int, str]]:
    """Relative links must lead somewhere from both copies of the notebook. Quoted code is not searched."""
    folders = [(root / lesson.solution).parent]
    if cell.role != "instructor":
        folders.append((root / lesson.notebook).parent)
    lines, fenced = cell.source.split("\n"), False
    for number, line in enumerate(lines, cell.end - len(lines) + 1):
        fenced ^= line.lstrip().startswith("```")
        for match in LINK.finditer("" if fenced else re.sub(r"`[^`]*`", "", line)):
            target = (match[1] or match[2]).partition("#")[0]
            if not target or re.match(r"[a-z][a-z0-9+.-]*:", target, re.I):
                continue
            dead = next((folder for folder in folders if not _leads_somewhere(root, folder / target)), None)
            if dead is not None:
                yield (
                    number,
                    f"dead link {target} (no such file seen from {dead.relative_to(root).as_posix()}/)",
                )


def _leads_somewhere(root: Path, target: Path) -> bool:
    """The file exists, or is a notebook that a lesson source will generate."""
    target = Path(target.as_posix().replace("%20", " ")).resolve()
    if target.exists():
        return True
    source = root.resolve() / "solutions" / target.parent.name / (target.stem + ".py")
    return target.suffix == ".ipynb" and source.exists() and target.parent.parent.parent == root.resolve()
