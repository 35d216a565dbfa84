"""Lessons in percent format: plain Python that linters read and reviewers can diff.

    # %% [markdown] id=w01-strides-md
    # ## Strides
    #
    # How far apart are two neighbors?
    # %% id=w01-strides role=exercise ex=w01.strides
    def strides(shape):
        ### BEGIN SOLUTION
        return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        ### END SOLUTION
    # %% id=w01-strides-check role=check ex=w01.strides points=2
    check("w01.strides", strides)

A header line starts with `# %%` and holds `key=value` pairs: `id` (required, unique in the course), `role`,
`ex`, `points`, `tags=a,b`. Roles: text (default for markdown), demo (default for code), setup, exercise,
check, instructor.

The learner gets `raise NotImplementedError("your code here")` in place of a solution. To give another start,
put it after `### STUB` inside the block, as comments; the learner gets those lines without their `# `:

    ### BEGIN SOLUTION
    prediction = {"a": 12, "b": 3}
    ### STUB
    # prediction = {"a": ..., "b": ...}
    ### END SOLUTION

Markers are read here and nowhere else (`stretches`, `parts`). What a text leaves to the build, such as an
exercise's number and title, is in `facts.py`.
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROLES = ("text", "setup", "exercise", "check", "demo", "instructor")
KEYS = ("id", "role", "ex", "points", "tags")
STUB = 'raise NotImplementedError("your code here")'
HEADER = re.compile(r"# %%(?: \[(?P<kind>\w+)\])?(?P<pairs>(?:\s.*)?)$")
MARKER = re.compile(r"(?P<indent>\s*)### (?P<name>BEGIN SOLUTION|STUB|END SOLUTION)\s*$")
SILENCING = ("raises-exception", "nbval-skip", "nbval-raises-exception")


class LessonError(Exception):
    """Every problem found in the sources, one `file:line: what and what to do` per line."""

    def __init__(self, problems: list[str]):
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True)
class Cell:
    id: str
    kind: str  # "markdown" or "code"
    role: str
    source: str
    ex: str | None = None
    points: int = 1
    tags: tuple[str, ...] = ()
    line: int = 0  # of the header, from 1
    end: int = 0  # the last line of the body, blank lines after it not counted

    @property
    def learner_source(self) -> str:
        return parts(self.source)[0]

    @property
    def solution(self) -> str:
        """The text as the solution notebook shows it."""
        return parts(self.source)[1]


@dataclass(frozen=True)
class Lesson:
    """One source file. Its paths are below the course folder, or below that of a learner's work."""

    path: Path  # solutions/week01_topic/01_name.py
    cells: tuple[Cell, ...]

    @property
    def folder(self) -> str:
        """`week01_topic`, in `solutions/` as in `weeks/`."""
        return self.path.parent.name

    @property
    def week(self) -> int:
        return week_of_folder(self.folder)

    @property
    def name(self) -> str:
        """`week01_topic/01_name`: what a notebook's metadata calls its lesson."""
        return f"{self.folder}/{self.path.stem}"

    @property
    def number(self) -> int:
        """1 of 01_name."""
        return int(self.path.stem[:2])

    @property
    def topic(self) -> str:
        """`name` of 01_name."""
        return self.path.stem.partition("_")[2]

    @property
    def notebook(self) -> Path:
        """The learner's: weeks/week01_topic/01_name.ipynb."""
        return Path("weeks") / self.folder / f"{self.path.stem}.ipynb"

    @property
    def solution(self) -> Path:
        """The executed one: solutions/week01_topic/01_name.ipynb."""
        return self.path.with_suffix(".ipynb")

    @property
    def exercises(self) -> tuple[str, ...]:
        """The ids of its exercises, in the order of the page."""
        return tuple(cell.ex for cell in self.cells if cell.role == "check" and cell.ex)


def week_of_folder(folder: str) -> int:
    """5 for week05_cnn."""
    return int(folder.removeprefix("week")[:2])


def parse(text: str, name: str = "lesson.py") -> tuple[list[Cell], list[str]]:
    """Divide a source into cells; returns them with the problems found on the way (`name:line: message`)."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if _is_header(line)]
    first = starts[0] if starts else len(lines)
    stray = next((n for n in range(first) if lines[n].strip() and not lines[n].startswith("#")), None)
    problems = [] if stray is None else [f"{name}:{stray + 1}: code before the first `# %%` cell header"]
    cells = []
    for start, stop in zip(starts, [*starts[1:], len(lines)], strict=True):
        while stop > start + 1 and lines[stop - 1].strip() in ("", "#"):
            stop -= 1
        try:
            cells.append(_cell(lines[start], lines[start + 1 : stop], start + 1, stop))
        except _Bad as bad:
            problems.append(f"{name}:{start + 1 + bad.offset}: {bad.message}")
    return cells, problems


@dataclass
class Stretch:
    """Lines of an exercise cell that stand together: given to the learner, or written by the learner."""

    first: int  # the number of the first of `lines`, from 1
    lines: list[str]  # as given, or the solution
    indent: str | None = None  # of the solution's markers; None where the lines are given
    stub: list[str] | None = None  # what follows `### STUB`, comments and all

    @property
    def learner(self) -> list[str]:
        """What the learner gets in place of these lines."""
        if self.indent is None:
            return self.lines
        stub = [re.sub(r"^(\s*)#( |$)", r"\1", line).rstrip() for line in self.stub or ()]
        return stub or [self.indent + STUB]

    @property
    def solution(self) -> list[str]:
        """The lines without the blank ones that set a stub off."""
        lines = self.lines[:]
        while self.stub is not None and lines and not lines[-1].strip():
            lines.pop()
        return lines

    def marked(self, lines: list[str]) -> list[str]:
        """`lines` as a source writes them in place of these, between the same markers, with the same stub."""
        if self.indent is None:
            return lines
        stub = (
            []
            if self.stub is None
            else [*self.lines[len(self.solution) :], f"{self.indent}### STUB", *self.stub]
        )
        return [f"{self.indent}### BEGIN SOLUTION", *lines, *stub, f"{self.indent}### END SOLUTION"]


def stretches(source: str) -> list[Stretch]:
    """Divide an exercise cell at its solution markers. Nothing else in labkit reads them."""
    found = [Stretch(1, [])]
    here = found[0].lines
    for number, line in enumerate(source.split("\n"), 1):
        marker = MARKER.match(line)
        if marker is None:
            here.append(line)
        elif marker["name"] == "STUB":
            here = found[-1].stub = []
        else:
            begins = marker["name"] == "BEGIN SOLUTION"
            found.append(Stretch(number + 1, [], marker["indent"] if begins else None))
            here = found[-1].lines
    return found


def parts(source: str) -> tuple[str, str]:
    """The learner's text, with a stub for every solution, and the solution's, without markers and stubs."""
    found = stretches(source)
    learner = [line for stretch in found for line in stretch.learner]
    return "\n".join(learner), "\n".join(line for stretch in found for line in stretch.solution)


def solution_lines(source: str) -> set[int]:
    """The numbers, from 1, of the lines that a learner writes: those between the solution markers."""
    written = [stretch for stretch in stretches(source) if stretch.indent is not None]
    return {stretch.first + place for stretch in written for place in range(len(stretch.lines))}


class _Bad(Exception):
    def __init__(self, message: str, offset: int = 0):
        self.message, self.offset = message, offset


def _is_header(line: str) -> bool:
    return bool(re.match(r"# %%(\s|$)", line))


def _cell(header: str, body: list[str], line: int, end: int) -> Cell:
    match = HEADER.match(header)
    if match is None or match["kind"] not in (None, "markdown"):
        raise _Bad("cannot read this header; write `# %% [markdown] id=…` or `# %% id=… role=…`")
    words = match["pairs"].split()
    pairs = dict(word.split("=", 1) for word in words if "=" in word)
    strays = [word for word in words if word.split("=", 1)[0] not in KEYS or "=" not in word]
    if strays:
        raise _Bad(f"{strays[0]!r} is not one of {', '.join(key + '=' for key in KEYS)}")
    kind = match["kind"] or "code"
    role = pairs.get("role", "text" if kind == "markdown" else "demo")
    if "id" not in pairs:
        raise _Bad("the cell has no id; add id=… (it must never change afterwards)")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", pairs["id"]):
        raise _Bad(f"the id {pairs['id']!r} may hold letters, digits, - and _ only, at most 64")
    if role not in ROLES:
        raise _Bad(f"unknown role {role!r}; roles are {', '.join(ROLES)}")
    if kind == "markdown" and role not in ("text", "instructor"):
        raise _Bad(f"a markdown cell cannot be {role}")
    if kind == "code" and role == "text":
        raise _Bad("a text cell must be [markdown]")
    if (role in ("exercise", "check")) != ("ex" in pairs):
        raise _Bad("exercise and check cells need ex=…, and no other cell takes it")
    if not pairs.get("points", "1").isdigit():
        raise _Bad(f"points={pairs['points']} is not a whole number")
    tags = tuple(tag for tag in pairs.get("tags", "").split(",") if tag)
    source = _uncomment(body) if kind == "markdown" else "\n".join(body).strip("\n")
    points = int(pairs.get("points", 1))
    cell = Cell(pairs["id"], kind, role, source, pairs.get("ex"), points, tags, line, end)
    _check_body(cell, body)
    return cell


def _uncomment(body: list[str]) -> str:
    for offset, line in enumerate(body, 1):
        if line.strip() and not line.startswith("#"):
            raise _Bad("a line of a markdown cell must start with `# `", offset)
    return "\n".join(re.sub(r"^# ?", "", line) for line in body).strip("\n")


def _check_body(cell: Cell, body: list[str]) -> None:
    """Solution markers balance and stand in exercises only; the code parses, and so does the learner's."""
    markers = [(n, m["name"]) for n, line in enumerate(body, 1) if (m := MARKER.match(line))]
    inside = ""
    for offset, name in markers:
        if (name == "BEGIN SOLUTION") == bool(inside) or name == inside:
            raise _Bad(f"`### {name}` is out of order: BEGIN SOLUTION, STUB if any, END SOLUTION", offset)
        inside = "" if name == "END SOLUTION" else name
    if inside:
        raise _Bad(f"`### {inside}` is never closed with `### END SOLUTION`", markers[-1][0])
    if bool(markers) != (cell.role == "exercise"):
        raise _Bad("exercise cells, and only they, hold `### BEGIN SOLUTION` … `### END SOLUTION`")
    if cell.kind == "code":
        for source, whose in ((cell.source, "this code"), (cell.learner_source, "what the learner gets")):
            try:
                tree = ast.parse(source)
            except SyntaxError as error:
                offset = (error.lineno or 0) if whose == "this code" else 0
                raise _Bad(f"{whose} is not valid Python: {error.msg}", offset) from None
        if cell.role == "check" and not _ends_with_check(tree, cell.ex):
            raise _Bad(f'the last line of a check cell must be check("{cell.ex}", …)', len(body))
    if cell.role in ("exercise", "check") and set(cell.tags) & set(SILENCING):
        raise _Bad(f"tags {', '.join(SILENCING)} would let a wrong answer pass; remove them")


def _ends_with_check(tree: ast.Module, ex: str | None) -> bool:
    match tree.body[-1:]:
        case [ast.Expr(ast.Call(func=ast.Name("check"), args=[ast.Constant(value), _, *_]))]:
            return bool(value == ex)
    return False
