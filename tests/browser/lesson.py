"""One notebook, open in one tab: what a learner does with it, and what it then holds."""

from __future__ import annotations

import ast
from typing import Any

from playwright.sync_api import Locator, Page

from labkit.verdict import RECORD_MIME

from .server import LabServer


def own_id(cell: dict[str, Any]) -> str:
    """The id that the lesson gave a cell; in older file formats JupyterLab's own are missing."""
    return cell["metadata"].get("labkit", {}).get("id") or cell.get("id", "")


THEMES = ("light", "dark")
STUB = "raise NotImplementedError"


class Lesson:
    """Everything done here is done with mouse and keyboard; everything read is read from the model."""

    def __init__(self, page: Page, lab: LabServer, path: str) -> None:
        self.page, self.lab, self.path = page, lab, path

    def open(self) -> Lesson:
        self.page.goto(self.lab.url(f"/lab/tree/{self.path}"))
        return self.wait_until_ready()

    def reload(self) -> Lesson:
        self.page.reload()
        return self.wait_until_ready()

    # reading

    def _js(self, name: str, *arguments: Any) -> Any:
        return self.page.evaluate(
            "([name, ...rest]) => lessons[name](...rest)", [name, self.path, *arguments]
        )

    def wait_until(self, name: str, *arguments: Any) -> None:
        self.page.wait_for_function(
            "([name, ...rest]) => window.lessons[name](...rest)", arg=[name, self.path, *arguments]
        )

    def wait_until_ready(self) -> Lesson:
        self.wait_until("isReady")
        return self

    @property
    def notebook(self) -> dict[str, Any]:
        return self._js("notebook")

    def cells(self, role: str | None = None) -> list[dict[str, Any]]:
        cells = self.notebook["cells"]
        return [c for c in cells if role is None or c["metadata"].get("labkit", {}).get("role") == role]

    def cell(self, id: str) -> dict[str, Any]:
        return next(cell for cell in self.cells() if own_id(cell) == id)

    def source(self, id: str) -> str:
        return self.cell(id)["source"]

    def verdict(self, id: str) -> dict[str, Any] | None:
        """The record that a check cell left, or None if it has not been run."""
        records = [
            o["data"][RECORD_MIME] for o in self.cell(id)["outputs"] if RECORD_MIME in o.get("data", {})
        ]
        return records[-1] if records else None

    def ask(self, expression: str) -> Any:
        """A Python literal from the kernel: `ask("x.shape")` is whatever `x.shape` is there."""
        return ast.literal_eval(self._js("ask", expression))

    def wait_until_true(self, expression: str) -> None:
        """Until a Python expression is true in the kernel."""
        self._ask_until("isTrue", expression)

    def wait_until_closed(self) -> None:
        """Until the server knows of no window and no kernel that has the notebook open."""
        self._ask_until("isClosed")

    def _ask_until(self, name: str, *arguments: Any) -> None:
        # Not `wait_for_function`: it takes the promise of an answer for a yes.
        self.page.evaluate("all => lessons.until(...all)", [name, self.path, *arguments])

    @property
    def is_dirty(self) -> bool:
        """Whether the tab holds something that the file does not."""
        return self._js("isDirty")

    # doing

    def meet_another_kernel(self) -> None:
        """What the notebook says of its language changes, as when a kernel of another version connects."""
        self._js("meetAnotherKernel")

    def box(self, id: str) -> Locator:
        """A cell on the page, scrolled into view."""
        ids = [own_id(cell) for cell in self.cells()]
        panel = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        found = panel.locator(f'.jp-Cell[data-windowed-list-index="{ids.index(id)}"]')
        found.evaluate("node => lessons.reveal(node)")
        return found

    def words(self, id: str) -> str:
        """What the page shows below a cell, as one line."""
        return " ".join(self.box(id).locator(".jp-OutputArea").inner_text().split())

    def type_over(self, id: str, line: str, text: str) -> None:
        """Put the cursor into the line of a cell that contains `line`, and type `text` in its place."""
        self.box(id).locator(".cm-line", has_text=line).first.click()
        for key in ("Home", "Shift+End", "Delete"):
            self.page.keyboard.press(key)
        self.page.keyboard.type(text)

    def write(self, id: str, source: str) -> None:
        """Select everything in a cell and paste `source` over it."""
        self.box(id).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(source)

    def start(self, id: str) -> None:
        """Shift+Enter in a cell."""
        self._js("watch", id)
        self.box(id).locator(".jp-InputPrompt").click()
        self.page.keyboard.press("Shift+Enter")

    def run(self, id: str) -> None:
        """Shift+Enter in a cell, and wait for its end."""
        self.start(id)
        self.wait_until("hasRun")

    def run_all(self) -> None:
        self.menu("Run", "Run All Cells")
        self.wait_until("isDone")

    def menu(self, *names: str) -> None:
        """Choose from the menu bar: `menu("Run", "Run All Cells")`."""
        first, *rest = names
        self.page.locator(".lm-MenuBar-itemLabel").get_by_text(first, exact=True).click()
        for name in rest:
            self.page.locator(".lm-Menu-itemLabel").get_by_text(name, exact=True).click()

    def join_undo_steps(self, id: str) -> None:
        """Let one undo take back all that is typed into a cell: JupyterLab joins what follows quickly."""
        self._js("joinUndoSteps", id)

    def choose_theme(self, scheme: str) -> None:
        """JupyterLab's theme "light" or "dark"."""
        name = f"JupyterLab {scheme.title()}"
        self.menu("Settings", "Theme", name)
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    def save(self) -> None:
        self.menu("File", "Save Notebook")
        self.page.wait_for_function("path => !window.lessons.isDirty(path)", arg=self.path)

    def check(self, id: str) -> dict[str, Any]:
        """Run an exercise cell and its check; returns the verdict."""
        self.run(id)
        self.run(f"{id}-check")
        verdict = self.verdict(f"{id}-check")
        assert verdict is not None
        return verdict


def assert_outlined(part: Locator) -> None:
    """What can be pressed, and the progress made, is told from what is around it (WCAG 2.2, level AA)."""
    contrast = part.evaluate("element => lessons.faintestOutline(element)")
    assert contrast >= 3, f"an outline has a contrast of {contrast:.2f}, below 3"
    _, *contrasts = part.locator(".labkit-meter").evaluate("element => lessons.meter(element)")
    assert min(contrasts) >= 3, f"the bar of progress has contrasts of {contrasts}, below 3"


def assert_readable(part: Locator) -> None:
    """Every text in a part of a page has the contrast that small print needs (WCAG 2.2, level AA)."""
    contrast, words = part.evaluate("element => lessons.hardestToRead(element)")
    assert contrast >= 4.5, f"“{words}” has a contrast of {contrast:.2f}, below 4.5"
