"""Short code in a line of text is marked, so that `make lab` is never broken between its two words."""

from __future__ import annotations

from typing import Any

from docutils import nodes

SHORT = 20  # characters; longer code may break, or it would take a phone its table columns


def _mark(app: Any, tree: nodes.document) -> None:
    for code in tree.findall(nodes.literal):
        if len(code.astext()) <= SHORT:
            code["classes"].append("short")


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", _mark)
    return {"parallel_read_safe": True}
