"""The panel's questions over HTTP, under `labkit/api/`. Each needs the token, or the cookie and XSRF token.

GET  state                         weeks, exercises, progress
GET  open                          the notebooks that some window has open
POST open    {window, paths}       a window says what it has open
POST problem {path}                why a notebook cannot be opened
POST check   {path, notebook}      one JSON object per line as the check goes on; `modified`: when it was read
POST hint    {ex}                  one more hint
POST reset   {path, notebook, ex}  a backup, then the cells to start again from
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado.iostream import StreamClosedError
from tornado.web import HTTPError, authenticated

from labkit.grade.lanes import fork
from labkit.panel.desk import Check, Desk, Refused

# Grading has a thread of its own: the server's event loop never waits for it.
_grading = ThreadPoolExecutor(1, thread_name_prefix="labkit-check")


def handlers(base_url: str, desk: Desk) -> list[tuple[str, type[APIHandler], dict[str, Any]]]:
    found: dict[str, type[Question]] = {
        "state": State,
        "open": Open,
        "problem": Broken,
        "check": Checks,
        "hint": Hint,
        "reset": Reset,
    }
    return [
        (url_path_join(base_url, "labkit", "api", name), handler, {"desk": desk})
        for name, handler in found.items()
    ]


class Question(APIHandler):
    """Common to all: the desk, and refusals as JSON with a sentence."""

    def initialize(self, desk: Desk) -> None:
        self.desk = desk

    async def answer(self, ask: Callable[..., dict[str, Any]], *names: str) -> None:
        """Ask the desk about fields of the request, outside of the event loop; finish with what it says."""
        try:
            self.finish(await asyncio.to_thread(ask, *self.given(*names)))
        except Refused as refused:
            self.refuse(refused)

    def refuse(self, refused: Refused) -> None:
        self.set_status(refused.status)
        self.finish({"message": str(refused)})

    def given(self, *names: str) -> list[Any]:
        """Fields of the request's body. What is not there is None: the desk says what is wrong with it."""
        try:
            body = self.get_json_body() if names else None
        except (ValueError, RecursionError, HTTPError):  # bytes that are no text, or no JSON
            raise Refused(400, "The request cannot be read: it is not JSON.") from None
        return [body.get(name) if isinstance(body, dict) else None for name in names]


class State(Question):
    warm = False

    @authenticated
    async def get(self) -> None:
        await self.answer(self.desk.state)
        if not State.warm:  # the page is there: torch is imported while it is read
            State.warm = True
            threading.Thread(target=fork.warm_up, daemon=True).start()


class Open(Question):
    @authenticated
    async def get(self) -> None:
        await self.answer(self.desk.opened)

    @authenticated
    async def post(self) -> None:
        await self.answer(self.desk.hear_opened, "window", "paths")


class Broken(Question):
    @authenticated
    async def post(self) -> None:
        await self.answer(self.desk.problem, "path")


class Checks(Question):
    check: Check | None = None

    @authenticated
    async def post(self) -> None:
        loop, lines = asyncio.get_running_loop(), asyncio.Queue[dict[str, Any] | None]()

        def say(line: dict[str, Any] | None) -> None:
            loop.call_soon_threadsafe(lines.put_nowait, line)

        try:
            given = self.given("path", "notebook", "modified")
            self.check = check = await asyncio.to_thread(self.desk.begin, *given)
        except Refused as refused:
            self.refuse(refused)
            return
        self.set_header("Content-Type", "application/x-ndjson")
        done = loop.run_in_executor(_grading, _run, self.desk, check, say)
        try:
            while (line := await lines.get()) is not None:
                self.write(json.dumps(line) + "\n")
                await self.flush()
        except StreamClosedError:
            check.stop()
        await done
        self.finish(set_content_type="application/x-ndjson")

    def on_connection_close(self) -> None:
        """The page was closed, or its Stop button pressed: nobody waits for the verdicts any more."""
        if self.check is not None:
            self.check.stop()


def _run(desk: Desk, check: Check, say: Callable[[dict[str, Any] | None], None]) -> None:
    """In the grading thread: the check, its place given back, and None as the last word."""
    try:
        check.run(say)
    except Exception as error:
        say({"kind": "error", "message": f"The check broke off ({type(error).__name__}: {error})."})
    finally:
        desk.end(check)
        say(None)


class Hint(Question):
    @authenticated
    async def post(self) -> None:
        await self.answer(self.desk.hint, "ex")


class Reset(Question):
    @authenticated
    async def post(self) -> None:
        await self.answer(self.desk.reset, "path", "notebook", "ex")
