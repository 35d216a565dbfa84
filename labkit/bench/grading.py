"""How quick the grader is: importing labkit, a verdict after a save or a click, `make check`."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from labkit import lab, paths
from labkit.bench.sections import Options
from labkit.book import course
from labkit.book.notebook import solved, write
from labkit.book.percent import Lesson
from labkit.book.work import here
from labkit.text import ruled

EXERCISES = 3
ROUNDS = 5


def grader_speed(options: Options) -> str:
    """Wall clock, medians of a few rounds; each beside what it is meant to stay under or cannot avoid."""
    with tempfile.TemporaryDirectory(prefix="labkit-bench-") as name:
        root = Path(name)
        lesson = _short_lesson(paths.root(), root)
        rows = [_import_row(), _watch_row(root, lesson), _panel_row(root, lesson), *_check_rows(root, lesson)]
    title = f"A notebook of {EXERCISES} exercises, all answered; seconds, medians of {ROUNDS}\n\n"
    return title + ruled(["what", "seconds", "beside", "seconds", "ratio"], rows)


def _row(what: str, seconds: float, beside: str, other: float) -> list[str]:
    return [what, f"{seconds:.3f}", beside, f"{other:.3f}", f"{seconds / other:.2f}"]


def _import_row() -> list[str]:
    code = "import time, sys; t = time.perf_counter(); import labkit; s = time.perf_counter() - t; "
    code += "print(s, any(name.split('.')[0] in ('torch', 'numpy') for name in sys.modules))"
    runs = [_output([sys.executable, "-c", code]).split() for _ in range(ROUNDS)]
    heavy = "imports torch or numpy" if runs[0][1] == "True" else "no torch, no numpy"
    return _row(f"import labkit ({heavy})", median(float(run[0]) for run in runs), "the budget", 0.1)


def _watch_row(root: Path, lesson: Lesson) -> list[str]:
    """From the save of a file to the last line of its verdicts."""
    path = root / lesson.notebook
    write(path, solved(lesson))
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "labkit", "watch", "--root", str(root)]
    times = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        next(line for line in process.stdout if "Ctrl-C" in line)
        for number in range(ROUNDS):
            nb = solved(lesson)
            nb["cells"][0]["source"] += f"\n\nSave {number}."
            start = time.perf_counter()
            write(path, nb)
            next(line for line in process.stdout if " exercises: " in line)
            times.append(time.perf_counter() - start)
            next(line for line in process.stdout if line.startswith(("All done", "Next")))
        process.kill()
    return _row("watch: verdict after a save", median(times), "the budget", 0.3)


def _panel_row(root: Path, lesson: Lesson) -> list[str]:
    """From a click on the panel's button, as a request to a running server, to its last verdict."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token = secrets.token_hex(8)
    private = {f"JUPYTER_{name}_DIR": str(root / "jupyter" / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    environment = {**lab.environment(token, here(root)), **private}
    line = lab.command(port, browser=False, work=here(root))
    body = json.dumps({"path": lesson.notebook.as_posix(), "notebook": solved(lesson)})
    headers = {"Authorization": f"token {token}"}
    times = []
    with subprocess.Popen(
        line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            _wait_for(port)
            for _ in range(ROUNDS + 1):  # the first imports torch
                start = time.perf_counter()
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
                connection.request("POST", "/labkit/api/check", body, headers)
                last = json.loads(connection.getresponse().read().splitlines()[-1])
                times.append(time.perf_counter() - start)
                connection.close()
                assert last["kind"] == "end" and last["passed"] == EXERCISES, last
        finally:
            server.terminate()
    return _row("panel: verdict after a click", median(times[1:]), "the budget", 1.0)


def _wait_for(port: int, seconds: float = 60) -> None:
    """Until a server listens."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _check_rows(root: Path, lesson: Lesson) -> list[list[str]]:
    """All of `make check`, beside a kernel that starts and runs the same cells; wall and processor time."""
    write(root / lesson.notebook, solved(lesson))
    command = [sys.executable, "-m", "labkit", "check", "--root", str(root)]
    bare, checks = [], []
    for _ in range(ROUNDS):
        bare.append(_timed(lambda: _bare_kernel(root, lesson)))
        checks.append(_timed(lambda: _output(command)))
    rows = []
    for clock, name in enumerate(("wall clock", "processor time")):
        mine, other = [taken[clock] for taken in checks], [taken[clock] for taken in bare]
        extra = median(a - b for a, b in zip(mine, other, strict=True))
        what = f"check: one notebook, {name} ({extra:+.2f} s)"
        rows.append(_row(what, median(mine), "kernel, imports and cells alone", median(other)))
    return rows


def _bare_kernel(root: Path, lesson: Lesson) -> None:
    from labkit.grade.lanes.kernel import KernelSession

    session = KernelSession(str((root / lesson.notebook).parent))
    for cell in lesson.cells:
        if cell.kind == "code" and cell.role != "instructor":
            session.run(cell.source, 120)
    session.close()


def _short_lesson(source_root: Path, root: Path) -> Lesson:
    """The first lesson of the course up to its third check, in a course folder of its own."""
    source = course.lesson_paths(source_root)[0]
    whole = course.read_lesson(source_root, source)
    end = [cell.end for cell in whole.cells if cell.role == "check"][EXERCISES - 1]
    target = root / source.relative_to(source_root)
    target.parent.mkdir(parents=True)
    lines = source.read_text(encoding="utf-8").splitlines()[:end]
    target.write_text("\n".join(lines) + "\n", encoding="utf-8")
    shutil.copytree(source_root / "datasets", root / "datasets", ignore=shutil.ignore_patterns("downloads"))
    return course.read_lesson(root, target)


def _output(command: list[str]) -> str:
    environment = {**os.environ, "LABKIT_LANE": "bench"}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def _timed(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds of wall clock, and of processor time of this process and the children it waited for."""
    before, start = os.times(), time.perf_counter()
    run()
    wall, after = time.perf_counter() - start, os.times()
    return wall, sum(after[:4]) - sum(before[:4])
