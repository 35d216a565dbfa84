"""Each exercise in the search index by its id, by what is written in it, and by other words for it.

Sphinx puts every heading and every index entry with its anchor into searchindex.js; static/search.js ranks
them. So an exercise is found, and landed on, as a place of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes

from labkit import exercises


def phrases(ex: str, source: str) -> Iterator[str]:
    """What the exercise `ex` is found by, besides its heading: `w05.batch_norm`, `BatchNorm2d`, ..."""
    name = ex.partition(".")[2]
    yield from (ex, name, name.replace("_", ""))
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
            yield re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", node.name)  # MultiHeadAttention: three words
    if ex in exercises.all_ids():
        yield from exercises.get(ex).also


def _section(node: nodes.Node) -> nodes.section:
    while not isinstance(node, nodes.section):
        node = node.parent
    return node


def _enter(app: Any, tree: nodes.document) -> None:
    for cell in list(tree.findall(nodes.container)):
        about = cell.get("cell_metadata", {}).get("labkit", {})
        if about.get("role") == "exercise":
            source = next(cell.findall(nodes.literal_block)).astext()
            section = _section(cell)
            words = sorted(set(phrases(about["ex"], source)))
            entries = [("single", word, section["ids"][0], "main", None) for word in words]
            section.append(addnodes.index(entries=entries))


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", _enter)
    return {"parallel_read_safe": True}
