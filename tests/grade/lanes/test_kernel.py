"""Kernels that grade: another start where the first one died, and how long failures are shown."""

import nbval.kernel
import pytest

from labkit.grade.lanes import nbval_strict
from labkit.grade.lanes.kernel import STARTS, KernelSession, StartedKernel
from labkit.grade.lanes.run_solutions import SHOWN_FIRST, SHOWN_LAST, _readable

DIED = "Kernel died before replying to kernel_info"  # what jupyter_client says when a port was taken


@pytest.mark.parametrize("deaths", [1, STARTS])
def test_a_kernel_that_dies_at_once_is_started_again(monkeypatch, tmp_path, deaths):
    start, starts = nbval.kernel.start_new_kernel, []

    def dies_first(**named):
        starts.append(named)
        if len(starts) <= deaths:
            raise RuntimeError(DIED)
        return start(**named)

    monkeypatch.setattr(nbval.kernel, "start_new_kernel", dies_first)
    if deaths < STARTS:
        session = KernelSession(str(tmp_path))
        assert session.run("assert 1 + 1 == 2", 30).error is None
        session.close()
    else:
        with pytest.raises(RuntimeError, match=DIED):
            KernelSession(str(tmp_path))
    assert len(starts) == min(deaths + 1, STARTS)
    for named in starts:
        named["stderr"].close()  # nbval leaves that to the garbage collection


def test_solutions_run_in_such_kernels(monkeypatch):
    monkeypatch.setattr(nbval_strict.plugin, "RunningKernel", None)
    nbval_strict.pytest_configure(None)
    assert nbval_strict.plugin.RunningKernel is StartedKernel


def test_a_long_failure_shows_where_it_was_and_what_it_came_to():
    lines = [f"line {n}" for n in range(46)]
    shown = [line.strip() for line in _readable("\n".join(lines))]
    assert shown == [*lines[:SHOWN_FIRST], "... 21 lines left out", *lines[-SHOWN_LAST:]]
    assert _readable("one\ntwo") == ["  one", "  two"]
