"""A pytest plugin for `make solutions`: tell how each cell fared under nbval, by the id of the cell."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from nbval import plugin
from nbval.plugin import IPyNbCell

from labkit.grade.lanes.kernel import StartedKernel
from labkit.grade.lanes.nbval_run import tell


def pytest_configure(config: Any) -> None:
    plugin.RunningKernel = StartedKernel


def pytest_runtest_setup(item: Any) -> None:
    """Do not compare stderr: progress bars and timings go there, and `make build` does not store it."""
    if isinstance(item, IPyNbCell):
        item.parent.skip_compare = (*item.parent.skip_compare, "stderr")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Generator[None, Any, Any]:
    report = yield
    if isinstance(item, IPyNbCell) and (call.when == "call" or report.failed):
        text = str(report.longrepr) if report.failed else ""
        cell = item.cell.get("id", item.name)
        tell(file=str(item.path), cell=cell, outcome=report.outcome, compared=_compared(item), text=text)
    return report


def _compared(item: Any) -> bool:
    """Whether nbval compares this cell: not if it was never run, or asks not to be."""
    return bool(item.options["check"]) and item.cell.execution_count is not None
