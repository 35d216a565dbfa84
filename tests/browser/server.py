"""`labkit lab` on a copy of the course, with Jupyter's own folders apart from the user's."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

REPOSITORY = Path(__file__).parents[2]
STARTS_WITHIN = 180  # seconds; compiling the kernels from cold is most of it
ENDS_WITHIN = 20


class LabServer:
    """The command a learner runs, on a course of its own; `start` after `stop` serves at the same address."""

    def __init__(self, home: Path) -> None:
        self.home, self.root = home, home / "course"
        self.root.mkdir(parents=True)
        self.restore()
        shutil.copytree(
            REPOSITORY / "solutions", self.root / "solutions", ignore=shutil.ignore_patterns("*.ipynb")
        )
        (self.root / "datasets").symlink_to(REPOSITORY / "datasets")
        _write_json(home / "config" / "jupyter_lab_config.json", {"LabApp": {"expose_app_in_browser": True}})
        self.node_calls = home / "node-calls"
        for name in ("node", "npm", "jlpm"):  # found first, they would leave a trace
            program = home / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text(f'#!/bin/sh\necho {name} "$@" >> "{self.node_calls}"\nexit 1\n')
            program.chmod(0o755)
        self.port, self.token, self.start_page = _free_port(), "", ""

    def restore(self) -> None:
        """The notebooks as released, nothing done yet, JupyterLab as it is after its installation."""
        for folder in ("course/weeks", "course/progress", "course/backups", "settings", "workspaces"):
            shutil.rmtree(self.home / folder, ignore_errors=True)
        shutil.copytree(REPOSITORY / "weeks", self.root / "weeks")

    @property
    def environment(self) -> dict[str, str]:
        """What every process of this course sees; nothing of it is the user's own."""
        own = {
            name: value for name, value in os.environ.items() if not name.startswith(("LABKIT_", "JUPYTER"))
        }
        folders = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "IPYTHONDIR": "ipython",
        }
        own |= {name: str(self.home / folder) for name, folder in folders.items()}
        paths = [str(REPOSITORY), *filter(None, [own.get("PYTHONPATH")])]
        programs = os.pathsep.join([str(self.home / "bin"), own.get("PATH", os.defpath)])
        return own | {
            "LABKIT_ROOT": str(self.root),
            "PYTHONPATH": os.pathsep.join(paths),
            "PATH": programs,
        }

    def labkit(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command of the course to its end, as in a terminal beside JupyterLab."""
        line = [sys.executable, "-m", "labkit", *arguments]
        return subprocess.run(
            line, env=self.environment, cwd=self.root, capture_output=True, text=True, timeout=STARTS_WITHIN
        )

    def start(self) -> None:
        """Serve, and learn address and token from what a learner reads in the terminal."""
        line = [sys.executable, "-m", "labkit", "lab", "--no-browser", "--port", str(self.port)]
        self.log = (self.home / "server.log").open("a")
        self.process = subprocess.Popen(
            line,
            env=self.environment,
            cwd=self.root,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,
        )
        for words in self.process.stdout:
            if words.startswith("JupyterLab: "):
                address = urlsplit(words.split()[1])
                break
        else:
            self.stop()
            raise RuntimeError(f"labkit lab did not start:\n{self.log_text()}")
        assert (address.hostname, address.port) == ("127.0.0.1", self.port)
        self.token, self.start_page = parse_qs(address.query)["token"][0], address.path
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                self.api("status")
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"JupyterLab did not answer:\n{self.log_text()}") from None
                time.sleep(0.1)

    def stop(self) -> None:
        """End the server and its kernels, as closing its terminal does."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                # A request was under way: Jupyter's thread for it waits for a loop that has ended.
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def log_text(self) -> str:
        return (self.home / "server.log").read_text()

    # addresses

    def url(self, path: str, token: bool = True) -> str:
        end = f"{'&' if '?' in path else '?'}token={self.token}" if token else ""
        return f"http://127.0.0.1:{self.port}{path}{end}"

    def api(self, path: str, method: str = "GET") -> Any:
        """One call of Jupyter's own interface, with the token; returns the JSON of the reply."""
        request = urllib.request.Request(self.url(f"/api/{quote(path)}", token=False), method=method)
        request.add_header("Authorization", f"token {self.token}")
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({})
        )  # loopback, never through a proxy
        with opener.open(request, timeout=30) as reply:
            body = reply.read()
        return json.loads(body) if body else None

    def shut_down_kernels(self) -> None:
        for session in self.api("sessions"):
            self.api(f"sessions/{session['id']}", "DELETE")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
