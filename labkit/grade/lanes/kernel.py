"""A Jupyter kernel as a `Session`: fresh, watched while it works, killed when it does not end."""

from __future__ import annotations

import time
from queue import Empty
from typing import Any

import zmq
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, RunningKernel

from labkit.grade import processes
from labkit.grade.lanes.steps import Ran
from labkit.verdict import RECORD_MIME

POLL_MS = 100
STARTS = 3


class StartedKernel(RunningKernel):
    """nbval's kernel, started again if it dies at once.

    Its ports are chosen before it binds them. Where several kernels start at the same time, another program
    may have taken one meanwhile.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        for attempt in range(1, STARTS + 1):
            try:
                super().__init__(*given, **named)
                self.pid: int = self.km.provisioner.pid
                return
            except RuntimeError:  # "Kernel died before replying to kernel_info"
                if attempt == STARTS:
                    raise

    def stop(self) -> None:
        self.end()
        super().stop()

    def end(self) -> None:
        """Kill the kernel, which leads a session of its own, and all that its cells started."""
        processes.end_family(self.pid)


class KernelSession:
    """nbval's kernel. Its messages are read while a cell runs, so that no amount of output fills a queue."""

    def __init__(self, folder: str, startup_timeout: float = 60) -> None:
        self.kernel = StartedKernel(CURRENT_ENV_KERNEL_NAME, cwd=folder, startup_timeout=startup_timeout)
        self.client = self.kernel.kc
        self.poller = zmq.Poller()
        for channel in (self.client.shell_channel, self.client.iopub_channel):
            self.poller.register(channel.socket, zmq.POLLIN)

    def run(self, source: str, timeout: float) -> Ran:
        request = self.client.execute(source, store_history=False, allow_stdin=False, stop_on_error=False)
        deadline = time.monotonic() + timeout
        record, reply, idle = None, None, False
        while reply is None or not idle:
            messages = self._messages(request)
            for kind, content in messages:
                if kind == "execute_reply":
                    reply = content
                elif kind == "status":
                    idle = content["execution_state"] == "idle"
                elif kind == "display_data":
                    record = content["data"].get(RECORD_MIME, record)
            if not messages and not self.kernel.is_alive():
                return Ran(ended="died")
            if time.monotonic() > deadline:
                return Ran(ended="slow")
        return Ran(record, _error_of(reply))

    def close(self) -> None:
        if self.kernel.is_alive():
            self.kernel.stop()
        else:
            self.kernel.end()
            self.client.stop_channels()
            self.kernel.km.cleanup_resources()

    def _messages(self, request: str) -> list[tuple[str, dict[str, Any]]]:
        """What has arrived about this request; waits a moment for the first."""
        self.poller.poll(POLL_MS)
        found = []
        for receive in (self.client.get_shell_msg, self.client.get_iopub_msg):
            while True:
                try:
                    message = receive(timeout=0)
                except Empty:
                    break
                if message["parent_header"].get("msg_id") == request:
                    found.append((message["msg_type"], message["content"]))
        return found


def _error_of(reply: dict[str, Any]) -> str | None:
    """The error of a cell. The reply has it even where nothing was shown, as for an unknown magic."""
    if reply["status"] == "ok":
        return None
    name, value = reply.get("ename", "Aborted"), reply.get("evalue", "")
    return f"{name}: {value}".strip().removesuffix(":")
