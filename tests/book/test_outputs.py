"""What is stored in the notebooks survives where nothing runs: VS Code, nbviewer, GitHub, a terminal, paper.

Those show an output's HTML without scripts and style sheets, or its plain text alone.
"""

import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter

from labkit.book.notebook import read
from labkit.verdict import RECORD_MIME

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "solutions").glob("week*/*.ipynb"))
OBJECT = re.compile(r"^<[\w.]+ .*>$|^<.* object at |^\w+\(children=|^Figure\(")


def bundles(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """(cell id, data) of every output of a notebook that is more than a printed line."""
    for cell in read(path)["cells"]:
        for output in cell.get("outputs", ()):
            if "data" in output:
                yield cell["id"], {mime: _joined(value) for mime, value in output["data"].items()}


def _joined(value: Any) -> Any:
    return "".join(value) if isinstance(value, list) else value


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def test_there_are_outputs_to_look_at():
    every = [data for path in NOTEBOOKS for _, data in bundles(path)]
    assert len(NOTEBOOKS) >= 29
    assert sum("<img " in data.get("text/html", "") for data in every) >= 80
    assert sum(RECORD_MIME in data for data in every) >= 170


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: f"{path.parent.name[:6]}-{path.stem}")
def test_every_output_is_there_as_text_and_needs_no_script(path):
    for id, data in bundles(path):
        text, markup = data.get("text/plain", ""), data.get("text/html", "")
        assert text.strip() and not OBJECT.match(text), (
            f"{id}: no words in place of {sorted(data)}: {text[:80]}"
        )
        assert not set(data) - {"text/plain", "text/html", RECORD_MIME}, f"{id}: {sorted(data)}"
        assert not re.search(r"<(script|iframe|style|link|object)\b|\son\w+=|javascript:", markup), id
        assert not re.search(r'\sclass="(?!labkit-)', markup), f"{id}: ours add or hide words in JupyterLab"
        for tag in re.findall(r"<img [^>]*>", markup):
            alt = html.unescape(re.search(r'alt="([^"]*)"', tag)[1])
            assert len(words(alt)) >= 3 and alt.rstrip().endswith((".", "?")), f"{id}: alt text {alt!r}"
            assert re.search(r'src="data:image/', tag), f"{id}: a picture that is not in the file"
        if RECORD_MIME in data:
            said = html.unescape(re.sub(r"<img [^>]*>|<[^>]+>", " ", markup))
            assert words(said) == words(text.replace("`", "")), f"{id}: box and text differ"


@pytest.mark.parametrize("name", ["week00_start/01_start", "week01_tensors/02_broadcasting"])
def test_nbconvert_shows_boxes_and_figures(name):
    """What nbviewer does with a notebook: nothing is dropped."""
    notebook = nbformat.read(ROOT / "solutions" / f"{name}.ipynb", as_version=4)
    page = HTMLExporter(template_name="basic").from_notebook_node(notebook)[0]
    stored = list(bundles(ROOT / "solutions" / f"{name}.ipynb"))
    assert page.count("<img ") == sum(data["text/html"].count("<img ") for _, data in stored)
    assert page.count('role="status"') == sum(RECORD_MIME in data for _, data in stored) > 3
