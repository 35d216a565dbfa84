"""`make audit`: prove the grader. Every exercise, every mistake by name, every mutant of every solution.

python -m labkit audit                                    everything
python -m labkit audit --week 2 --ex w02.unbroadcast      less
python -m labkit audit --mutants changed --sample 200     what `make test` runs
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from labkit import exercises, paths
from labkit.exercises.declare import Exercise
from labkit.grade import pool
from labkit.grade.answers import Source, sources
from labkit.grade.changed import changed_since
from labkit.grade.proof import Report, Task, mutants_of, prove

SLOW_CHECK, SECONDS_PER_EXERCISE = 2.0, 900


def main(argv: Sequence[str]) -> int:
    options = _parser().parse_args(argv)
    root = paths.root()
    tasks, strays = plan(root, options)
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
    parser.add_argument("--base", default="HEAD~1", help="the git revision that `changed` compares with")
    parser.add_argument("--sample", type=int, default=0, help="with `changed`: this many mutants of the rest")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    return parser


def plan(root: Path, options: argparse.Namespace) -> tuple[list[Task], list[str]]:
    """The exercises to prove, with how many mutants of each; and what is wrong with the list itself."""
    known, places = exercises.all_exercises(), sources(root)
    if options.ex:
        exercises.get(options.ex)  # its KeyError suggests the nearest
    in_order = [*(key for key in places if key in known), *(key for key in known if key not in places)]
    chosen = {
        key: known[key]
        for key in in_order
        if options.ex in (None, key) and options.week in (None, known[key].week)
    }
    strays = [
        f"{key}: stands in {place.lesson}, but is not declared"
        for key, place in places.items()
        if key not in known
    ]
    samples = _samples(chosen, places, root, options)
    tasks = [Task(item, places.get(key), samples.get(key, 0), options.seed) for key, item in chosen.items()]
    return tasks, strays


def _samples(
    chosen: dict[str, Exercise], places: dict[str, Source], root: Path, options: argparse.Namespace
) -> dict[str, int | None]:
    """How many mutants to try by exercise: None is all, absent is none."""
    here = {key: places[key] for key in chosen if key in places}
    if options.mutants != "changed":
        return dict.fromkeys(here, None) if options.mutants == "all" else {}
    samples: dict[str, int | None] = dict.fromkeys(changed_since(options.base, here, root), None)
    rest = [key for key in here if key not in samples for _ in mutants_of(chosen[key], here[key])]
    for key in random.Random(options.seed).sample(rest, min(options.sample, len(rest))):
        samples[key] = (samples.get(key) or 0) + 1
    return samples


def audit(tasks: Iterable[Task], jobs: int | None = None, bar: bool = False) -> list[Report]:
    """Prove each task in a fork of its own, as many at a time as there are cores; reports in order."""
    tasks = list(tasks)
    _warm()
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # no second thread: this process forks
    running = pool.forked(tasks, prove, SECONDS_PER_EXERCISE, jobs or pool.cores())
    found = {
        task.exercise.id: _report(task, result)
        for task, result in tqdm(running, total=len(tasks), unit="exercise", disable=not bar, leave=False)
    }
    return [found[task.exercise.id] for task in tasks]


def _warm() -> None:
    """Import torch once for all forks."""
    os.environ["LABKIT_LANE"] = "audit"  # nothing is remembered as a learner's attempt
    pool.one_thread()


def _report(task: Task, result: Report | pool.Lost) -> Report:
    if isinstance(result, Report):
        return result
    return Report(task.exercise.id, task.exercise.kind, problems=[f"could not be proven: {result.why}"])


# the tables

HEAD = ("exercise", "kind", "cases", "mistakes by name", "mutants killed", "delegation", "lint", "check s")


def tables(reports: Sequence[Report]) -> Iterator[str]:
    """One table per week."""
    for week in sorted({report.id[1:3] for report in reports}):
        rows = [HEAD, *(_row(report) for report in reports if report.id[1:3] == week)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
        ]
        yield "\n".join([f"Week {int(week)}", *(line.rstrip() for line in lines)])


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
