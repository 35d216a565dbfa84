"""A picture leads to itself: a screenshot is shown on a phone at a quarter of its size."""

from __future__ import annotations

from typing import Any

from docutils import nodes


def _link(app: Any, tree: nodes.document) -> None:
    above = "../" * app.env.docname.count("/")
    for picture in list(tree.findall(nodes.image)):
        name = app.env.images[picture["uri"]][1]
        link = nodes.reference("", "", refuri=f"{above}_images/{name}", classes=picture["classes"])
        picture.replace_self(link)
        picture["classes"] = []  # the theme hides the whole link, or an empty one could be tabbed to
        link += picture


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", _link)
    return {"parallel_read_safe": True}
