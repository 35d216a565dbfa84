"""The labkit panel at the side of JupyterLab, as a learner uses it."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page


class Panel:
    """Opened if it is not; then its buttons, its rows, and what it says."""

    def __init__(self, page: Page) -> None:
        self.page = page
        if not page.locator(".labkit-panel").is_visible():
            page.locator('[data-id="labkit-panel"]').click()
        self.node = page.locator(".labkit-panel")
        self.status = self.node.locator(".labkit-panel-status")
        self.check_button = self.node.locator(".labkit-panel-check")

    def button(self, name: str) -> Locator:
        return self.node.locator(f".labkit-panel-{name}")

    def row(self, ex: str, state: str | None = None) -> Locator:
        """The row of an exercise; with `state`, only once it is in it."""
        end = f'[data-state="{state}"]' if state else ""
        return self.node.locator(f'.labkit-exercise[data-ex="{ex}"]{end}')

    @property
    def place(self) -> str:
        """Where the learner is, in the panel's words."""
        return " ".join(self.node.locator(".labkit-panel-selected").inner_text().split())

    def check(self) -> None:
        """Press *Check this notebook* and wait for the verdicts."""
        self.check_button.click()
        self.wait_for_the_end()

    def wait_for_the_end(self) -> None:
        self.status.get_by_text(re.compile(r"^\d+ exercises: ")).wait_for()
        self.check_button.get_by_text("Check this notebook").wait_for()
