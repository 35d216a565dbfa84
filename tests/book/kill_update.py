"""Break off `make update`, `make reset` and a panel check at every moment, and look for what was lost.

    python -m tests.book.kill_update [--trials 300] [--seed 0] [--command update reset panel] [--full]

Each trial copies a small course with a learner's work in it, runs a command in a forked process and ends
it: KILL, TERM, HUP or INT, before one of its steps (every file it opens, flushes, renames or removes, every
git it starts or has started) or at a random moment, alone or together with its git. `--full` adds a disk
that is full from a step on, for every step; `--small` a real one with little room, where a file system can be
mounted. Then it looks at the files, types the next command, and lets an update run to its end. `test_kill.py`
runs the fixed part of this.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import errno
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from labkit import __main__ as command_line
from labkit.book import changes, update
from labkit.book.build import build
from labkit.book.driver import ATTRIBUTES
from labkit.book.notebook import make_cell, read, write

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
KNOWN = {"f1.strides", "f1.predict", "f2.line", "f2.model"}
FIRST = "weeks/week01_arrays/01_strides.ipynb"  # the new release changes it
SECOND = "weeks/week02_models/01_linear.ipynb"  # the new release leaves it alone
START = "weeks/week00_start/01_start.ipynb"  # for the panel
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
LINES = {FIRST: "mine_a = 'LINE-A'", SECOND: "mine_b = 'LINE-B'"}
NEXT = (["update"], ["progress"], ["hint", "w00.answer"], ["reset", "f2.line"])
EXPLAINED = ("was broken off before it changed anything", "It has been finished now")
SECONDS = 60


# a learner's course


def git(root: Path, *arguments: str) -> str:
    options = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "gc.auto=0")
    done = subprocess.run(["git", "-C", str(root), *options, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def make_world(folder: Path) -> Path:
    """Two releases in `folder/course`, and clones of the first that a learner worked in.

    `ahead`: nothing is committed. `apart`: one answer is, so that git has to merge.
    """
    course = folder / "course"
    shutil.copytree(HERE / "course", course)
    build(course, execute=False, known=KNOWN, say=lambda line: None)
    (course / ".gitignore").write_text("backups/\nprogress/\nreports/\n")
    (course / ".gitattributes").write_text("".join(f"{line}\n" for line in ATTRIBUTES))
    (course / "old.txt").write_text("of the first release\n")
    git(course, "init", "-q", "-b", "main")
    git(course, "add", ".")
    git(course, "commit", "-qm", "first release")
    for name in ("ahead", "apart"):
        git(folder, "clone", "-q", str(course), name)
        mine = folder / name
        for setting in (("user.name", "a"), ("user.email", "a@b.c")):
            git(mine, "config", *setting)
        for path, line in LINES.items():
            nb = read(mine / path)
            nb["cells"].append(make_cell("code", line, "own-cell"))
            write(mine / path, nb)
        if name == "apart":
            git(mine, "commit", "-qm", "my answer", "--", FIRST)
    lesson = course / "solutions/week01_arrays/01_strides.py"
    lesson.write_text(lesson.read_text().replace("neighbors", "elements"))
    build(course, execute=False, known=KNOWN, say=lambda line: None)
    (course / "old.txt").unlink()
    (course / "labkit").mkdir()
    for name in ("part.py", "part.txt"):
        (course / "labkit" / name).write_text("# of the second release\n" * 50)
    git(course, "add", ".")
    git(course, "commit", "-qam", "second release")
    return folder


# a command in a forked process, and its end


@dataclass(frozen=True)
class Blow:
    """What happens to the command: `number` before step `at`, or after `delay` seconds; or a full disk."""

    number: int | None = None
    at: int | None = None
    delay: float | None = None
    git_too: bool = False  # the git that runs is killed first, and cleans up nothing
    full: bool = False  # from step `at` on every write fails

    def __str__(self) -> str:
        if self.full:
            return f"disk full from step {self.at}"
        name = signal.Signals(self.number).name if self.number else "nothing"
        where = f"step {self.at}" if self.at is not None else f"{self.delay or 0:.3f} s"
        return f"{name} at {where}{', and its git' if self.git_too else ''}"


@dataclass
class Ended:
    """How a command ended: its exit code (negative: by that signal), what it said, how many steps it had."""

    code: int
    said: str
    steps: list[str]  # "replace journal.json", "start update-ref"
    seconds: float


class Steps:
    """Counts what a process does to the disk, and strikes before one of these steps."""

    def __init__(self, blow: Blow, log: int) -> None:
        self.blow, self.log, self.count = blow, log, 0
        self.child: subprocess.Popen[Any] | None = None
        self.write = os.write

    def step(self, name: str, subject: Any, writes: bool = False) -> None:
        self.count += 1
        subject = Path(subject).name if isinstance(subject, str | Path) else ""
        self.write(self.log, f"{name} {subject}\n".encode(errors="replace"))
        if self.blow.at is None or self.count < self.blow.at:
            return
        if self.blow.full:
            if writes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif self.count == self.blow.at and self.blow.number:
            if self.blow.git_too and self.child is not None and self.child.poll() is None:
                time.sleep(random.random() * 0.01)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.child.pid, signal.SIGKILL)
                    self.child.wait()
            os.kill(os.getpid(), self.blow.number)

    def install(self) -> None:
        for name, writes in {
            "replace": False,
            "unlink": False,
            "rmdir": False,
            "mkdir": True,
            "fsync": True,
            "chmod": False,
        }.items():
            self._wrap(os, name, lambda *given, writes=writes: writes)
        self._wrap(os, "open", lambda path, flags=0, *rest: bool(flags & os.O_CREAT))
        self._wrap(os, "write", lambda descriptor, data: stat.S_ISREG(os.fstat(descriptor).st_mode))
        self._wrap(builtins, "open", lambda file, mode="r", *rest: any(c in mode for c in "wax+"))
        start = subprocess.Popen.__init__

        def started(process: Any, *given: Any, **named: Any) -> None:
            words = [word for word in given[0][3:] if "=" not in word and word != "-c"]
            self.step("start", words[0] if words else "")
            start(process, *given, **named)
            self.child = process
            self.step("started", words[0] if words else "")

        subprocess.Popen.__init__ = started  # type: ignore[method-assign]

    def _wrap(self, module: Any, name: str, writes: Callable[..., bool]) -> None:
        usual = getattr(module, name)

        def counted(*given: Any, **named: Any) -> Any:
            self.step(name, given[0], writes(*given))
            return usual(*given, **named)

        setattr(module, name, counted)


def run(root: Path, act: Callable[[], int], blow: Blow | None = None) -> Ended:
    """Run `act` in a fork of this process on the course `root`, and strike."""
    blow = blow or Blow()
    notes = root.parent / f"{root.name}.notes"
    notes.mkdir(exist_ok=True)
    said, log = notes / "said", notes / "steps"
    log.write_bytes(b"")
    said.write_bytes(b"")
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _child(root, act, blow, said, log)
    if blow.delay is not None and blow.number:
        time.sleep(blow.delay)
        os.kill(child, blow.number)
    status = _wait(child)
    seconds = time.monotonic() - began
    steps = log.read_text().splitlines()
    return Ended(os.waitstatus_to_exitcode(status), said.read_text(errors="replace"), steps, seconds)


def _wait(child: int) -> int:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"still running after {SECONDS} s")


def _child(root: Path, act: Callable[[], int], blow: Blow, said: Path, log: Path) -> None:
    """In the fork: never returns."""
    code = 98
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # `nohup` has them ignored
        os.setsid()
        os.chdir(root)
        os.environ["LABKIT_ROOT"] = str(root)
        os.environ["JUPYTER_RUNTIME_DIR"] = str(root / "no-jupyter")
        os.environ["PYTHONPATH"] = str(REPOSITORY)  # the merge driver is a process of its own
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(out, number)
        sys.stdout, sys.stderr = (open(number, "w", closefd=False, buffering=1) for number in (1, 2))
        Steps(blow, os.open(log, os.O_WRONLY | os.O_APPEND)).install()
        code = act()
    except SystemExit as ended:
        code = int(ended.code or 0)
    except KeyboardInterrupt:
        code = 130
    finally:
        os._exit(code)


def type_in(*words: str) -> Callable[[], int]:
    return lambda: command_line.main(list(words))


# what is looked at


def lost(root: Path, lines: dict[str, str], in_backups: bool) -> list[str]:
    """The lines of the learner's that are not in their notebook, nor, if that will do, in `backups/`."""
    missing = []
    for name, line in lines.items():
        places = [root / name, *(root.glob(f"backups/*/{name}") if in_backups else ())]
        if not any(path.is_file() and line in path.read_text(errors="replace") for path in places):
            missing.append(line)
    return missing


def leftovers(root: Path) -> list[str]:
    """Files that no finished command leaves behind."""
    found = [*root.glob("weeks/**/.*"), *root.glob("backups/**/.*"), *root.glob("backups/unfinished")]
    found += [*root.glob("reports/.*"), *root.glob("progress/.*")]
    found += [*root.glob(".git/**/*.lock"), *root.glob(".git/worktrees/*"), *root.glob(".git/MERGE_HEAD")]
    return [str(path.relative_to(root)) for path in found]


def settled(root: Path) -> list[str]:
    """What is not as a finished update leaves it."""
    wrong = [f"lost {line}" for line in lost(root, LINES, in_backups=False)]
    wrong += [f"left behind {name}" for name in leftovers(root)]
    if "elements?" not in (root / FIRST).read_text():
        wrong.append("the new release is not in the notebook")
    if git(root, "rev-list", "--count", "HEAD..@{upstream}").strip() != "0":
        wrong.append("git is not at the new release")
    changed = {line[3:] for line in git(root, "status", "--porcelain").splitlines()}
    if not changed <= {FIRST, SECOND}:
        wrong.append(f"git sees changes in {sorted(changed - {FIRST, SECOND})}")
    return wrong


@dataclass
class Tally:
    """What came of many trials."""

    trials: int = 0
    hit: int = 0  # the command was still running
    explained: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        codes = ", ".join(f"{code}: {count}" for code, count in sorted(self.codes.items()))
        words = [
            f"{self.trials} trials, {self.hit} broken off",
            f"explained by the next command {self.explained}",
        ]
        return "; ".join([*words, f"exit codes {codes}", f"wrong {len(self.wrong)}", *self.wrong[:10]])


# trials


def try_update(world: Path, kind: str, blow: Blow, follow: list[str], tally: Tally) -> None:
    """One update, broken off; the next command; an update to the end."""
    with copied(world / kind) as root:
        ended = run(root, type_in("update"), blow)
        wrong = [f"lost {line}" for line in lost(root, LINES, in_backups=False)]
        unfinished = changes.journal_of(root).exists()
        _count(tally, blow, ended)
        wrong += _said_well(ended)
        then = run(root, type_in(*follow))
        explained = any(words in then.said for words in EXPLAINED)
        tally.explained += explained
        if then.code != 0:
            wrong.append(f"then {follow[0]} ended with {then.code}: {then.said.strip()!r}")
        if unfinished and not explained:
            wrong.append(f"then {follow[0]} said nothing of it: {then.said!r}")
        last = run(root, type_in("update"))
        if last.code != 0:
            wrong.append(f"the last update ended with {last.code}: {last.said!r}")
        if follow[0] == "reset":
            wrong += [f"lost {line}" for line in lost(root, LINES, in_backups=False)]
        tally.wrong += [f"{kind}, {blow}: {words}" for words in wrong + settled(root)]


def try_reset(world: Path, kind: str, blow: Blow, follow: list[str], tally: Tally) -> None:
    """One reset, broken off: the answer is in the notebook or in `backups/`; another reset works."""
    answers = {FIRST: "return 'LINE-R'"}
    with copied(world / kind) as root:
        nb = read(root / FIRST)
        next(c for c in nb["cells"] if c["id"] == "f1-strides")["source"] = (
            f"def strides(s):\n    {answers[FIRST]}"
        )
        write(root / FIRST, nb)
        ended = run(root, type_in("reset", "f1.strides"), blow)
        _count(tally, blow, ended)
        wrong = _said_well(ended)
        wrong += [f"lost {line}" for line in lost(root, answers, in_backups=True) + lost(root, LINES, False)]
        if read(root / FIRST)["cells"] != nb["cells"] and lost(root, answers, in_backups=False) == []:
            wrong.append("half a reset")
        then = run(root, type_in("reset", "f1.strides"))
        if then.code != 0 or "is back at its start" not in then.said:
            wrong.append(f"then reset ended with {then.code}: {then.said!r}")
        if "Your notebook as it was: backups/" not in then.said:
            wrong.append(f"then reset named no backup: {then.said!r}")
        wrong += [f"lost {line}" for line in lost(root, answers, in_backups=True) + lost(root, LINES, False)]
        wrong += [f"left behind {name}" for name in leftovers(root) if name.startswith("weeks")]
        tally.wrong += [f"reset, {blow}: {words}" for words in wrong]


def try_panel(world: Path, kind: str, blow: Blow, follow: list[str], tally: Tally) -> None:
    """A check and a reset in the panel: the notebook and what was recorded before stay, whatever happens."""
    with copied(world / "panel") as root:
        before = (root / START).read_bytes()
        forkserver.ensure_running()  # a client that dies while it asks takes this server along
        ended = run(root, lambda: _ask_the_desk(root), blow)
        _count(tally, blow, ended)
        wrong = [] if (root / START).read_bytes() == before else ["the notebook changed"]
        if _recorded(root) < 5:
            wrong.append("earlier attempts are gone")
        for copy in root.glob(f"backups/*/{START}"):
            with contextlib.suppress(ValueError):
                json.loads(copy.read_text())
                continue
            wrong.append("half a backup")
        then = run(root, type_in("progress"))
        if then.code != 0 or "Nothing tried yet" in then.said:
            wrong.append(f"then progress ended with {then.code}: {then.said!r}")
        forkserver.ensure_running()
        again = run(root, lambda: _ask_the_desk(root))
        if again.code != 0:
            wrong.append(f"then a check ended with {again.code}: {again.said!r}")
        tally.wrong += [f"panel, {blow}: {words}" for words in wrong]


def _ask_the_desk(root: Path) -> int:
    """What the server does for Check and Reset."""
    from labkit.book.work import here
    from labkit.panel.desk import Desk

    forkserver._forkserver.ensure_running = lambda: None  # that of the process this was forked from
    desk, content = Desk(here(root), root), json.loads((root / START).read_text())
    check = desk.begin(START, content)
    try:
        check.run(lambda line: print(json.dumps(line)))
    finally:
        desk.end(check)
    print(desk.reset(START, content, "w00.answer")["backup"])
    return 0


def _recorded(root: Path) -> int:
    text = (root / "progress/events.jsonl").read_text(errors="replace")
    return sum(line.startswith('{"kind": "attempt"') and '"old"' in line for line in text.splitlines())


def make_panel_course(world: Path) -> None:
    """Week 0 with an answer in it and five attempts on record; and the process that grades, warm."""
    from labkit import __version__
    from labkit.book import course, notebook
    from labkit.grade.lanes import fork

    root = world / "panel"
    source = root / "solutions/week00_start/01_start.py"
    source.parent.mkdir(parents=True)
    shutil.copy(REPOSITORY / "solutions/week00_start/01_start.py", source)
    nb = notebook.learner_notebook(course.read_lesson(root, source), __version__)
    cell = next(c for c in nb["cells"] if c["metadata"]["labkit"].get("ex") == "w00.answer")
    cell["source"] = "answer = 'LINE-P'"
    notebook.write(root / START, nb)
    (root / "progress").mkdir()
    event = {"kind": "attempt", "at": 1.7e9, "ex": "w00.answer", "status": "values", "lane": "old"}
    (root / "progress/events.jsonl").write_text(f"\n{json.dumps(event)}\n" * 5)
    os.environ["LABKIT_ROOT"] = str(root)
    fork.warm_up()


def _count(tally: Tally, blow: Blow, ended: Ended) -> None:
    tally.trials += 1
    tally.codes[ended.code] += 1
    tally.hit += ended.code != 0 or "You asked to stop" in ended.said


def _said_well(ended: Ended) -> list[str]:
    """Nobody sees a stack trace, and what is said of a stop is true."""
    return [f"a stack trace: {ended.said!r}"] if "Traceback" in ended.said else []


@contextlib.contextmanager
def copied(course: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="trial-", dir=course.parent))
    try:
        yield Path(shutil.copytree(course, folder / "mine", symlinks=True))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def try_little_room(world: Path, kind: str, room: int, command: list[str], tally: Tally) -> None:
    """A command on a disk with `room` kilobytes left, then with room again. Needs the right to mount one."""
    with small_disk(world / kind) as root:
        _fill(root / "filler", room)
        ended = run(root, type_in(*command))
        wrong = [f"lost {line}" for line in lost(root, LINES, in_backups=False)]
        wrong += _said_well(ended)
        if ended.code != 0 and not ended.said.strip():
            wrong.append("nothing was said")
        (root / "filler").unlink()
        _count(tally, Blow(), ended)
        then = run(root, type_in("progress"))
        tally.explained += any(words in then.said for words in EXPLAINED)
        last = run(root, type_in("update"))
        if then.code != 0 or last.code != 0:
            wrong.append(f"then progress {then.code}, update {last.code}: {then.said!r} {last.said!r}")
        tally.wrong += [f"{command[0]}, {room} kB: {words}" for words in wrong + settled(root)]


@contextlib.contextmanager
def small_disk(course: Path) -> Iterator[Path]:
    """A copy of a course on a file system of its own, of four megabytes."""
    folder = Path(tempfile.mkdtemp(prefix="trial-", dir=course.parent))
    root = folder / "mine"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "labkit", str(root)], check=True)
    try:
        shutil.copytree(course, root, symlinks=True, dirs_exist_ok=True)
        yield root
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def _fill(path: Path, room: int) -> None:
    stat = os.statvfs(path.parent)
    path.write_bytes(bytes(max(0, stat.f_bavail * stat.f_frsize - room * 1024)))


TRIALS = {"update": try_update, "reset": try_reset, "panel": try_panel}


def measure(world: Path, command: str, kind: str) -> Ended:
    """The command undisturbed: how many steps it has and how long it takes."""
    found: list[Ended] = []
    usual = globals()["run"]

    def noted(root: Path, act: Callable[[], int], blow: Blow | None = None) -> Ended:
        found.append(usual(root, act, blow))
        return found[-1]

    globals()["run"] = noted
    try:
        tally = Tally()
        TRIALS[command](world, kind, Blow(), ["update"], tally)
    finally:
        globals()["run"] = usual
    assert not tally.wrong, tally.wrong
    return found[0]


def random_blow(chance: random.Random, usual: Ended, signals: list[signal.Signals]) -> Blow:
    """Most of them before a step, the others at any time; one in four of the first takes git along."""
    number = chance.choice(signals)
    if chance.random() < 0.6:
        return Blow(number, at=chance.randint(1, len(usual.steps)), git_too=chance.random() < 0.25)
    return Blow(number, delay=chance.uniform(0, 0.9 * usual.seconds))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--command", nargs="+", choices=TRIALS, default=list(TRIALS))
    parser.add_argument("--signals", nargs="+", default=["KILL", "TERM", "HUP", "INT"])
    parser.add_argument("--full", action="store_true", help="and a full disk at every step")
    parser.add_argument("--small", action="store_true", help="and a real disk with 0 to 400 kB of room")
    options = parser.parse_args(argv)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="labkit-kill-") as folder:
        world = make_world(Path(folder))
        for command in options.command:
            chance = random.Random(f"{options.seed} {command}")
            if command == "panel":
                make_panel_course(world)
            kinds = ("ahead", "apart") if command == "update" else ("ahead",)
            usual = {
                kind: min((measure(world, command, kind) for _ in range(3)), key=lambda ended: ended.seconds)
                for kind in kinds
            }
            times = [f"{kind} {len(e.steps)} steps in {e.seconds:.2f} s" for kind, e in usual.items()]
            about = ", ".join(times)
            print(f"{command} undisturbed: {about}", flush=True)
            tally = Tally()
            for number in range(options.trials):
                kind = kinds[number % 3 == 2] if len(kinds) > 1 else kinds[0]
                blow = random_blow(
                    chance, usual[kind], [signal.Signals[f"SIG{name}"] for name in options.signals]
                )
                TRIALS[command](world, kind, blow, NEXT[number % len(NEXT)], tally)
            print(f"{command}: {tally}", flush=True)
            failed += len(tally.wrong)
            if options.full:
                full = Tally()
                for kind in kinds:
                    for at in range(1, len(usual[kind].steps) + 1):
                        TRIALS[command](world, kind, Blow(at=at, full=True), NEXT[at % len(NEXT)], full)
                print(f"{command}, disk full from each step on: {full}", flush=True)
                failed += len(full.wrong)
        if options.small:
            little = Tally()
            for room in range(0, 401, 4):
                try_little_room(world, ("ahead", "apart")[room % 8 == 4], room, ["update"], little)
                try_little_room(world, "ahead", room % 80, ["reset", "f1.strides"], little)
            print(f"update and reset on a disk with little room: {little}", flush=True)
            failed += len(little.wrong)
    return int(failed > 0)


if __name__ == "__main__":
    for module in (update, changes):
        assert module.__file__ and Path(module.__file__).is_relative_to(REPOSITORY)
    sys.exit(main(sys.argv[1:]))
