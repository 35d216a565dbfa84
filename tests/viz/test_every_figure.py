"""True of every picture: same bytes twice, alt text, plain words, readable type, no label on a label."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import pytest
from figure_gallery import FIGURES

from labkit.viz.svg import text_width

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(params=FIGURES, scope="module")
def figure(request):
    return FIGURES[request.param]()


@pytest.mark.parametrize("name", FIGURES)
def test_same_bytes_twice(name):
    assert FIGURES[name]() == FIGURES[name]()


def test_same_bytes_in_another_process():
    code = "from figure_gallery import FIGURES; import hashlib; print(hashlib.sha256(''.join("
    code += "FIGURES[n]().svg for n in ('graph', 'curves', 'boundary', 'images')).encode()).hexdigest())"
    here = Path(__file__).parent
    runs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=here,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1


def test_svg_is_one_labeled_image(figure):
    root = ET.fromstring(figure.svg)
    assert root.get("role") == "img"
    assert root.get("aria-label") == figure.alt == root.findtext(f"{SVG}title")
    assert len(figure.alt) > 12 and figure.alt.endswith(".")


def test_nothing_is_loaded_from_elsewhere(figure):
    links = re.findall(r'(?:href|src)="([^"#]+)"|url\(([^#)][^)]*)\)', figure.svg)
    assert all(link.startswith("data:") for pair in links for link in pair if link)
    assert "<script" not in figure.svg


def test_bundle_has_a_picture_with_alt_text_and_plain_text(figure):
    bundle = figure._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    image = ET.fromstring(bundle["text/html"].replace(">", "/>"))
    assert image.tag == "img" and image.get("alt") == figure.alt
    assert bundle["text/plain"] == figure.text


def test_words_are_plain_ascii_of_bearable_width(figure):
    assert figure.text.isascii()
    assert max(map(len, figure.text.splitlines())) < 150


def _texts(svg):
    """(box, words, size) of every text element: roughly, from the number of characters."""
    for element in ET.fromstring(svg).iter(f"{SVG}text"):
        size = float(element.get("font-size"))
        width = text_width(element.text or "", size) * 0.95
        left = (
            float(element.get("x"))
            - {"start": 0, "middle": width / 2, "end": width}[element.get("text-anchor")]
        )
        bottom = float(element.get("y"))
        yield (left, bottom - 0.75 * size, left + width, bottom + 0.1 * size), element.text, size


def test_labels_do_not_overlap_and_stay_on_the_card(figure):
    texts = [t for t in _texts(figure.svg) if t[1]]
    for (a, one, _), (b, other, _) in combinations(texts, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, f"{one!r} overlaps {other!r}"
    x, y, w, h = map(float, ET.fromstring(figure.svg).get("viewBox").split())
    for box, words, _ in texts:
        assert x <= box[0] and box[2] <= x + w and y <= box[1] and box[3] <= y + h, words


def test_type_is_12_to_14_pixels(figure):
    assert all(12 <= size <= 14 for _, _, size in _texts(figure.svg))


def test_width_fits_a_notebook(figure):
    assert int(ET.fromstring(figure.svg).get("width")) <= 860


def test_importing_viz_is_cheap():
    heavy = "numpy torch matplotlib ipywidgets IPython PIL"
    code = f"import sys, labkit.viz; print([m for m in {heavy.split()!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_save(tmp_path):
    figure = FIGURES["broadcast"]()
    assert figure.save(tmp_path / "a.svg").read_text(encoding="utf-8") == figure.svg
    assert figure.save(tmp_path / "a.txt").read_text(encoding="utf-8") == figure.text + "\n"
    with pytest.raises(ValueError, match=r"end the name with \.svg"):
        figure.save(tmp_path / "a.gif")
