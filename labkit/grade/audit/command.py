"""`make audit`: prove the grader. Every exercise, every mistake by name, every mutant of every solution.

python -m labkit audit                                    everything
python -m labkit audit --week 2 --ex w02.unbroadcast      less
python -m labkit audit --mutants changed --sample 200     what `make test` runs: what this branch changed, and
                                                          a sample of the rest, another one for every commit
python -m labkit audit --texts before.json                what every verdict says, to compare two versions
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from labkit import exercises
from labkit.book.course import Course
from labkit.book.source import Source
from labkit.book.work import here
from labkit.exercises.declare import Exercise, week_of
from labkit.grade import processes
from labkit.grade.audit import changed, texts
from labkit.grade.audit.proof import Report, Task, mutants_of, prove
from labkit.text import table

SLOW_CHECK, SECONDS_PER_EXERCISE = 2.0, 900
MORE = 5  # how many times as large the sample is when what judges answers changed


def main(argv: Sequence[str]) -> int:
    options = _parser().parse_args(argv)
    course = here().course
    if options.texts:
        return _texts(course, options)
    try:
        notes = settle(course.root, options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    tasks, strays = plan(course, options)
    print(*notes, sep="\n", end="\n\n" if notes else "", flush=True)
    start = time.perf_counter()
    reports = audit(tasks, bar=sys.stderr.isatty())
    problems = strays + [f"{report.id}: {words}" for report in reports for words in report.problems]
    print("\n\n".join(tables(reports)))
    print(f"\n{summary(reports, problems, time.perf_counter() - start)}")
    for line in problems:
        print(line)
    return 1 if problems else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m labkit audit", description="Prove the grader.")
    parser.add_argument("--week", type=int, help="one week only")
    parser.add_argument("--ex", help="one exercise only")
    parser.add_argument("--mutants", choices=("all", "changed", "none"), default="all")
    parser.add_argument("--base", help="for `changed`: unless given, where the branch left main")
    parser.add_argument("--sample", type=int, default=0, help="with `changed`: this many mutants of the rest")
    parser.add_argument("--seed", type=int, help="of the sample; taken from the commit unless given")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="only write what every verdict says")
    return parser


def _texts(course: Course, options: argparse.Namespace) -> int:
    options.mutants, options.seed = "none", 0
    tasks, strays = plan(course, options)
    _warm()
    problems = strays + texts.write(tasks, options.texts, SECONDS_PER_EXERCISE)
    print(f"What is said about {len(tasks)} exercises is in {options.texts}.", *problems, sep="\n")
    return 1 if problems else 0


def settle(root: Path, options: argparse.Namespace) -> list[str]:
    """Fill in base, seed and size of the sample where they were not given; return what to say about them."""
    head = changed.commit(root)
    if options.seed is None:
        options.seed = int(head[:8], 16) if head else 0
    if options.mutants != "changed":
        return []
    if options.base and not changed.commit(root, options.base):
        raise ValueError(f"There is no revision {options.base!r} to compare with; `git log` shows them.")
    options.base = options.base or changed.base_commit(root)
    notes = []
    if options.base is None:
        notes.append(
            "There is no commit to compare with, as in a shallow clone: only a sample is tried. "
            "`git fetch --unshallow` brings the history."
        )
    elif judging := changed.judging_changed(options.base, root):
        options.sample *= MORE
        notes.append(
            f"What judges answers changed ({', '.join(judging)}): the sample is {MORE} times as large."
        )
    since = f" and of all that changed since {options.base[:10]}" if options.base else ""
    notes.append(f"Mutants: a sample of {options.sample}{since}; to repeat it: --seed {options.seed}")
    return notes


def plan(course: Course, options: argparse.Namespace) -> tuple[list[Task], list[str]]:
    """The exercises to prove, with how many mutants of each; and what is wrong with the list itself."""
    known, places = course.exercises, course.sources
    if options.ex:
        exercises.get(options.ex)  # its KeyError suggests the nearest
    chosen = {
        ex: exercise
        for ex, exercise in known.items()
        if options.ex in (None, ex) and options.week in (None, exercise.week)
    }
    strays = [
        f"{ex}: stands in {place.lesson.path}, but is not declared"
        for ex, place in places.items()
        if ex not in known
    ]
    samples = _samples(chosen, places, course.root, options)
    tasks = [
        Task(
            item,
            place,
            samples.get(ex, 0),
            options.seed,
            folder=course.root / place.lesson.path.parent if place else None,
        )
        for ex, item in chosen.items()
        for place in [places.get(ex)]
    ]
    return tasks, strays


def _samples(
    chosen: dict[str, Exercise], places: dict[str, Source], root: Path, options: argparse.Namespace
) -> dict[str, int | None]:
    """How many mutants to try by exercise: None is all, absent is none."""
    here = {ex: places[ex] for ex in chosen if ex in places}
    if options.mutants != "changed":
        return dict.fromkeys(here, None) if options.mutants == "all" else {}
    edited = changed.changed_since(options.base, here, root) if options.base else set[str]()
    samples: dict[str, int | None] = dict.fromkeys(edited, None)
    rest = [ex for ex in here if ex not in samples for _ in mutants_of(chosen[ex], here[ex])]
    for ex in random.Random(options.seed).sample(rest, min(options.sample, len(rest))):
        samples[ex] = (samples.get(ex) or 0) + 1
    return samples


def audit(tasks: Iterable[Task], jobs: int | None = None, bar: bool = False) -> list[Report]:
    """Prove each task in a fork of its own, as many at a time as there are cores; reports in order."""
    tasks = list(tasks)
    _warm()
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # no second thread: this process forks
    running = processes.forked(tasks, prove, SECONDS_PER_EXERCISE, jobs or processes.cores())
    found = {
        task.exercise.id: _report(task, result)
        for task, result in tqdm(running, total=len(tasks), unit="exercise", disable=not bar, leave=False)
    }
    return [found[task.exercise.id] for task in tasks]


def _warm() -> None:
    """Import torch once for all forks."""
    os.environ["LABKIT_LANE"] = "audit"  # nothing is remembered as a learner's attempt
    processes.one_thread()


def _report(task: Task, result: Report | processes.Lost) -> Report:
    if isinstance(result, Report):
        return result
    return Report(task.exercise.id, task.exercise.kind, problems=[f"could not be proven: {result.why}"])


# the tables

HEAD = ("exercise", "kind", "cases", "mistakes by name", "mutants killed", "delegation", "lint", "check s")


def tables(reports: Sequence[Report]) -> Iterator[str]:
    """One table per week."""
    for week in sorted({week_of(report.id) for report in reports}):
        rows = [HEAD, *(_row(report) for report in reports if week_of(report.id) == week)]
        yield "\n".join([f"Week {week}", *table(rows, left=len(HEAD))])


def _row(report: Report) -> tuple[str, ...]:
    killed = f"{report.killed}/{report.mutants}" if report.mutants else "-"
    killed += f" ({report.equivalent} equivalent)" if report.equivalent else ""
    slow = " slow" if report.seconds > SLOW_CHECK else ""
    return (
        report.id,
        report.kind,
        str(report.cases),
        f"{report.caught}/{report.mistakes}",
        killed,
        report.delegation,
        report.lint,
        f"{report.seconds:.2f}{slow}",
    )


def summary(reports: Sequence[Report], problems: Sequence[str], seconds: float) -> str:
    def total(name: str) -> int:
        return sum(getattr(report, name) for report in reports)

    return (
        f"{len(reports)} exercises; {total('caught')} of {total('mistakes')} mistakes caught by name; "
        f"{total('killed')} of {total('mutants')} mutants killed, {total('equivalent')} equivalent; "
        f"{len(problems)} problems; {seconds:.0f} s."
    )
