"""A small course and a real JupyterLab server on it, as `make lab` starts it."""

import copy
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from labkit import __version__, lab
from labkit.book import course, notebook
from labkit.book.notebook import Notebook
from labkit.book.work import here

REPOSITORY = Path(__file__).parents[2]
LESSONS = ("week00_start/01_start", "week01_tensors/01_storage_and_strides")
START = "weeks/week00_start/01_start.ipynb"
TOKEN = "secret"


@dataclass(frozen=True)
class Live:
    """A running server and the course it serves."""

    url: str
    root: Path
    runtime: Path

    def ask(self, name: str, body: Any = None, token: str | None = TOKEN, timeout: float = 60) -> Any:
        """(status, answer): an object, or a list of them for a check."""
        status, text = self.send(self.request(f"labkit/api/{name}", body, token), timeout=timeout)
        if not text.startswith("{"):
            return status, {"message": text}
        lines = [json.loads(line) for line in text.splitlines()]
        return status, lines if name == "check" and status == 200 else lines[0]

    def send(self, request: urllib.request.Request, *handlers: Any, timeout: float = 60) -> tuple[int, str]:
        """(status, text) of any request to this server, never through a proxy."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), *handlers)
        try:
            with opener.open(request, timeout=timeout) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def request(
        self, path: str, body: Any = None, token: str | None = TOKEN, method: str | None = None
    ) -> urllib.request.Request:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {token}"} if token else {}
        return urllib.request.Request(f"{self.url}{path}", data, headers, method=method)

    def check(self, nb: Notebook, path: str = START) -> dict[str, Any]:
        """What a check says: its lines by kind, and the verdicts by exercise."""
        status, lines = self.ask("check", {"path": path, "notebook": nb})
        assert status == 200, lines
        verdicts = {line["ex"]: line for line in lines if line["kind"] == "verdict"}
        return {**{line["kind"]: line for line in lines}, "verdicts": verdicts}

    def events(self) -> list[dict[str, Any]]:
        file = self.root / "progress" / "events.jsonl"
        return [json.loads(line) for line in file.read_text().split("\n") if line] if file.exists() else []


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    root = tmp_path_factory.mktemp("course")
    for name in LESSONS:
        (root / "solutions" / name).parent.mkdir(parents=True)
        shutil.copy(REPOSITORY / "solutions" / f"{name}.py", root / "solutions" / f"{name}.py")
        lesson = course.read_lesson(root, root / "solutions" / f"{name}.py")
        notebook.write(root / "weeks" / f"{name}.ipynb", notebook.learner_notebook(lesson, __version__))
    runtime = tmp_path_factory.mktemp("jupyter")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_ROOT", str(root))
        for name in ("CONFIG", "DATA", "RUNTIME"):
            patch.setenv(f"JUPYTER_{name}_DIR", str(runtime / name.lower()))
        patch.setenv("LABKIT_TIMEOUT", "20")
        patch.delenv("LABKIT_LANE", raising=False)
        line, environment = (
            lab.command(port, browser=False, work=here(root)),
            lab.environment(TOKEN, here(root)),
        )
    log = runtime / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(line, cwd=root, env=environment, stdout=out, stderr=out)
    server = Live(f"http://127.0.0.1:{port}/", root, runtime / "runtime")
    try:
        _wait(server, process, log)
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _wait(server: Live, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if server.ask("state")[0] == 200:
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"The server did not start:\n{log.read_text()}")


@pytest.fixture
def released(live: Live) -> Notebook:
    """The first lesson as a learner gets it."""
    return notebook.read(live.root / START)


@pytest.fixture
def solved(live: Live) -> Notebook:
    """The first lesson with the reference solution in every answer."""
    return notebook.solved(course.read_lesson(live.root, live.root / "solutions" / f"{LESSONS[0]}.py"))


@pytest.fixture(autouse=True)
def nothing_is_written_to_a_notebook(live: Live) -> Iterator[None]:
    """Whatever a test asks for, the files of the course stay as they are."""
    before = {path: path.read_bytes() for path in (live.root / "weeks").rglob("*.ipynb")}
    yield
    assert {path: path.read_bytes() for path in (live.root / "weeks").rglob("*.ipynb")} == before


def put(nb: Notebook, ex: str, source: str) -> Notebook:
    """The notebook with another answer to one exercise."""
    nb = copy.deepcopy(nb)
    for cell in nb["cells"]:
        labkit = cell["metadata"].get("labkit", {})
        if labkit.get("ex") == ex and labkit["role"] == "exercise":
            cell["source"] = source
    return nb


def without_write_permission(folder: Path) -> None:
    """Make a folder impossible to write to, for root as well: a file stands in its place."""
    if folder.is_dir():
        shutil.rmtree(folder)
    folder.write_text("")
