"""JupyterLab in a real browser: one server for all tests; a fresh course and browser profile for each.

A test fails on any error in the browser's console. Screenshots are kept in `reports/browser/`.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .server import REPOSITORY, LabServer

SCREENSHOTS = REPOSITORY / "reports" / "browser"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MISSING = (
    "no Chromium on this machine. Install it (Debian, Ubuntu: apt-get install chromium; macOS: brew install "
    "--cask chromium, then set LABKIT_CHROMIUM to its program) and run: pytest tests/browser"
)
PATIENCE = 60_000  # milliseconds for any one thing to happen; only a hanging test waits so long
# What JupyterLab itself writes to the console as an error while all is well: (words, why).
NOISE = (
    (
        "Comm not found for comm id",
        "two tabs share a kernel, and each hears the answers to the other's widgets",
    ),
)


def find_chromium() -> str | None:
    named = os.environ.get("LABKIT_CHROMIUM")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, BROWSERS)), None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """The system's Chromium. Without one the tests are skipped, but continuous integration fails."""
    program = find_chromium()
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(MISSING)
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]  # as root, in a container
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def shared_lab(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    lab = LabServer(tmp_path_factory.mktemp("lab"))
    lab.start()
    yield lab
    lab.stop()


@pytest.fixture
def lab(shared_lab: LabServer) -> Iterator[LabServer]:
    """The server, with every notebook as released, no kernel running and JupyterLab's own settings."""
    shared_lab.restore()
    yield shared_lab
    shared_lab.shut_down_kernels()


@pytest.fixture
def context(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A browser profile of its own; fails the test if the console shows an error."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(PATIENCE)
    context.add_init_script(path=Path(__file__).with_name("lesson.js"))
    errors: list[str] = []
    context.on("console", lambda m: errors.append(_words(m)) if m.type == "error" else None)
    context.on("weberror", lambda e: errors.append(f"uncaught: {e.error}"))
    yield context
    if request.node.stash.get(FAILED, False):
        for n, page in enumerate(context.pages):
            page.screenshot(path=SCREENSHOTS / f"failed-{_file_name(request.node.name)}-{n}.png")
    for page in context.pages:  # as a person leaves: the panel tells the server that this window is closed
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto("about:blank")
    context.close()
    expected = [*NOISE, *(mark.args for mark in request.node.iter_markers("console"))]
    unexpected = [words for words in errors if not any(known in words for known, _ in expected)]
    assert not unexpected, "errors in the browser's console:\n" + "\n".join(unexpected)


def _words(message: Any) -> str:
    return f"{message.text}  ({message.location.get('url', '')})"


@pytest.fixture
def open_lesson(lab: LabServer, context: Any) -> Callable[..., Any]:
    """`open_lesson("weeks/week00_start/01_start.ipynb")`: the lesson in a new tab, with its kernel ready."""
    from .lesson import Lesson

    return lambda path: Lesson(context.new_page(), lab, path).open()


@pytest.fixture
def picture() -> Callable[..., Path]:
    """`picture(lesson.page, "pass-box")` keeps a screenshot of a page or of a part of it.

    Of a page it is what the window shows, or with `whole=True` all that scrolling would.
    """

    def take(what: Any, name: str, whole: bool = False) -> Path:
        path = SCREENSHOTS / f"{_file_name(name)}.png"
        what.screenshot(path=path, **({"full_page": True} if whole else {}))
        return path

    return take


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-")


# what is printed at the end

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Any:
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One line per case with its time, server and browser start included in the first."""
    seconds: dict[str, float] = {}
    result: dict[str, str] = {}
    for outcome, reports in terminalreporter.stats.items():
        for report in reports:
            if "browser" in getattr(report, "keywords", {}) and hasattr(report, "when"):
                name = report.nodeid.removeprefix("tests/browser/")
                seconds[name] = seconds.get(name, 0.0) + report.duration
                if outcome:
                    result[name] = outcome
    if not result:
        return
    if set(result.values()) == {"skipped"}:
        terminalreporter.write_line(f"Browser tests skipped: {MISSING}")
        return
    terminalreporter.section("browser tests: seconds")
    for name, spent in seconds.items():
        terminalreporter.write_line(f"{spent:7.1f}  {result.get(name, ''):8}{name}")
    terminalreporter.write_line(
        f"{sum(seconds.values()):7.1f}  {len(seconds)} cases; pictures in {SCREENSHOTS}"
    )
