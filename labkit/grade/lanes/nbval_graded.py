"""A pytest plugin for nbval: run a graded copy, one verdict per exercise.

`make check` starts pytest with `--nbval-lax -p labkit.grade.lanes.nbval_graded` on graded copies. nbval
collects the cells and starts the kernel; its own comparison never runs. What a cell's result means is decided
in `steps.py`. Every verdict is also printed as a line of JSON, for the process that writes the report.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest
from nbval.plugin import IPyNbCell, IPyNbFile

from labkit.grade.lanes.kernel import KernelSession
from labkit.grade.lanes.nbval_run import tell
from labkit.grade.lanes.papers import step
from labkit.grade.lanes.steps import Grading


class NotPassed(Exception):
    """Fails the item of a check that did not pass."""


class GradedFile(IPyNbFile):
    """A graded copy, run in the folder of the learner's own file."""

    grading: Grading

    def setup(self) -> None:
        option = self.config.option
        folder = self.nb.metadata.labkit.folder
        self.grading = Grading(
            lambda: KernelSession(folder, option.nbval_kernel_startup_timeout), option.nbval_cell_timeout
        )

    def collect(self) -> Iterator[GradedCell]:
        for item in super().collect():
            cell = item.cell
            meta = cell.metadata.labkit
            name = meta.ex if meta.role == "check" else f"{meta.role} {cell.id}"
            yield GradedCell.from_parent(
                self, name=name, cell_num=item.cell_num, cell=cell, options=item.options
            )

    def teardown(self) -> None:
        self.grading.close()


class GradedCell(IPyNbCell):
    """One cell. Comments and tags that would have nbval skip it, or expect its failure, are not looked at."""

    def setup(self) -> None:
        pass

    def runtest(self) -> None:
        verdict = self.parent.grading.do(step(self.cell))
        if verdict is not None:
            tell(paper=self.parent.path.stem, **verdict.record())
            if not verdict.passed:
                raise NotPassed(verdict.text())

    def repr_failure(self, excinfo: Any) -> str:
        if isinstance(excinfo.value, NotPassed):
            return str(excinfo.value)
        return str(excinfo.getrepr(style="short"))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Any, parent: Any) -> Generator[None, list[Any], list[Any]]:
    found = yield
    return [
        GradedFile.from_parent(parent, path=file_path) if isinstance(item, IPyNbFile) else item
        for item in found
    ]
