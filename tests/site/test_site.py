"""The website of the real course: whole, self-contained, findable, and without the answers unless asked."""

import json
import re
import shutil
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import pytest

from labkit import paths, site
from labkit.book.course import lesson_paths, read_lesson
from labkit.book.notebook import labkit_of
from labkit.site.pages import FOR_AUTHORS, asks, lesson_page, without_files
from labkit.site.search import phrases
from labkit.viz.explore import STILL_HTML

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """Collects what a page loads and what it links to, by tag."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads, self.links, self.ids, self.pictures = list[str](), list[str](), set[str](), 0
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if given.get("id"):
            self.ids.add(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif tag in ("script", "img", "link", "iframe", "source"):
            self.loads += [given[name] for name in ("src", "href") if given.get(name)]
            self.pictures += tag == "img"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("course") / "site"
    site.build(ROOT, folder)
    return folder


@pytest.fixture(scope="module")
def pages(built) -> dict[Path, Page]:
    return {path: Page(path) for path in built.rglob("*.html")}


def test_every_lesson_has_a_page_with_its_figures(pages, built):
    for path in lesson_paths(ROOT):
        lesson = read_lesson(ROOT, path)
        stored = [out for cell in lesson_page(ROOT, lesson)["cells"] for out in cell.get("outputs", [])]
        figures = sum("<img " in out.get("data", {}).get("text/html", "") for out in stored)
        page = pages[built / path.parent.name / f"{path.stem}.html"]
        assert page.pictures >= figures, path


def test_nothing_is_loaded_from_elsewhere(pages, built):
    for path, page in pages.items():
        for target in page.loads:
            if target.startswith("data:"):
                continue
            assert not re.match(r"[a-z]+:|//", target), f"{path.name} loads {target}"
            assert (path.parent / unquote(re.split(r"[?#]", target)[0])).exists(), f"{path.name}: {target}"
    for style in built.rglob("*.css"):
        assert not re.search(
            r"url\(\s*['\"]?(https?:)?//|@import\s+['\"]http", style.read_text(encoding="utf-8")
        )


def test_links_inside_the_site_lead_somewhere(pages):
    for path, page in pages.items():
        for target in page.links:
            file, _, anchor = unquote(target).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            there = (path.parent / file).resolve() if file else path
            assert there.exists(), f"{path.name} links to {target}"
            if anchor and there in pages:
                assert anchor in pages[there].ids, f"{path.name} links to {target}"


def test_search_knows_the_lessons(built):
    index = (built / "searchindex.js").read_text(encoding="utf-8")
    assert "week05_cnn/01_convolution" in index and '"im2col"' in index


def test_search_has_every_exercise_as_a_place_of_its_own(built, pages):
    text = (built / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    headings = {tuple(place) for places in index["alltitles"].values() for place in places}
    for path in lesson_paths(ROOT):
        for ex in {cell.ex for cell in read_lesson(ROOT, path).cells if cell.role == "exercise"}:
            [[page, anchor, _]] = index["indexentries"][ex]
            assert index["docnames"][page] == f"{path.parent.name}/{path.stem}", ex
            assert (page, anchor) in headings and anchor.startswith("exercise-"), ex


def test_an_exercise_is_found_by_what_is_written_in_it_and_by_other_words():
    assert set(phrases("w07.multi_head", "class MultiHeadAttention: ...\ndef given(): ...")) == {
        *("w07.multi_head", "multi_head", "multihead", "MultiHeadAttention", "Multi Head Attention", "given")
    }
    assert "RoPE" in phrases("w07.rotary", "def rotary(): ...")


def test_formulas_are_drawn_by_the_browser(built):
    text = (built / "week05_cnn/01_convolution.html").read_text(encoding="utf-8")
    assert "<math" in text and "<mo>&#x02211;</mo>" in text and "\\sum" not in text


def solution_lines(lesson) -> set[str]:
    """Lines that are in the solutions and in nothing that learners get."""
    given = {line.strip() for cell in lesson.cells for line in cell.learner_source.split("\n")}
    exercises = [cell for cell in lesson.cells if cell.role == "exercise"]
    return {line.strip() for cell in exercises for line in cell.solution.split("\n")} - given


def test_solutions_are_left_out_or_folded():
    lesson = read_lesson(ROOT, ROOT / "solutions/week05_cnn/01_convolution.py")
    secret = solution_lines(lesson)
    assert len(secret) > 20

    def shown(cells):
        return {line.strip() for cell in cells for line in cell["source"].split("\n")}

    assert not secret & shown(lesson_page(ROOT, lesson)["cells"])
    cells = lesson_page(ROOT, lesson, solutions=True)["cells"]
    folded = [cell for cell in cells if "hide-input" in cell["metadata"].get("tags", [])]
    assert secret <= shown(folded) and not secret & shown([cell for cell in cells if cell not in folded])
    assert not [line for line in shown(folded) if line.startswith(("###", "# prediction ="))], (
        "markers, stubs"
    )


def test_a_page_shows_demonstrations_and_no_verdicts():
    lesson = read_lesson(ROOT, ROOT / "solutions/week01_tensors/01_storage_and_strides.py")
    cells = [cell for cell in lesson_page(ROOT, lesson)["cells"] if cell.get("outputs")]
    assert cells and {labkit_of(cell)["role"] for cell in cells} == {"demo"}


def test_what_a_text_asks_to_predict_is_folded():
    cells = lesson_page(ROOT, read_lesson(ROOT, ROOT / "solutions/week05_cnn/01_convolution.py"))["cells"]
    folded = {cell["id"] for cell in cells if "hide-output" in cell["metadata"].get("tags", [])}
    assert folded == {"w05a-surprise-code", "w05a-col2im-demo"}
    assert asks("Long.\n\nGuess what the cell prints, then run it.")
    assert asks("A line.\n\nTwo lines. What do *they print?*")
    assert not asks("Guess it.\n\nIts best guess is a prediction.")
    assert not asks("What is it for? Look at the picture.")


ASKED = """w01c-index-write w01d-loss-symptom w01d-loss-fig w01d-table-demo w02a-diamond-symptom
    w02d-kept-symptom w03d-exploding-symptom w03d-exploding-fig w03d-unregistered-symptom
    w04a-workers w04b-rare w04c-surprise-code w04c-files w05c-fewshot w05d-single-symptom
    w06b-surprise-code w06d-leak-symptom w07a-sentence w07d-keep-symptom""".split()
LOOKED_AT = "w03d-picture w03d-picture-wrong w04b-regression w05d-clothes w05d-filters w07b-explorer".split()


def test_an_answer_is_folded_and_what_is_to_be_looked_at_is_not():
    folded = dict[str, bool]()
    for path in lesson_paths(ROOT):
        for cell in lesson_page(ROOT, read_lesson(ROOT, path))["cells"]:
            if cell.get("outputs"):
                folded[cell["id"]] = "hide-output" in cell["metadata"].get("tags", [])
    assert [id for id in ASKED if not folded[id]] == []
    assert [id for id in LOOKED_AT if folded[id]] == []


def test_links_to_files_of_the_course_become_words():
    kept = "[next](02_ragged.ipynb), [docs](https://a.b/c), ![p](p.png)"
    assert without_files(f"[the loader](../../labkit/data/loader.py), {kept}") == f"the loader, {kept}"
    assert without_files("beside torch\n([figures](bench/README.md)).") == "beside torch."
    assert without_files("as there ([docs](https://a.b/c))") == "as there ([docs](https://a.b/c))"


def test_the_front_page_leaves_out_what_only_authors_need(built):
    assert FOR_AUTHORS.sub("", "## A\n\na\n\n## For authors\n\nb\n\n## C\n") == "## A\n\na\n\n## C\n"
    front = (built / "index.html").read_text(encoding="utf-8")
    assert "CONTRIBUTING" not in front and "(figures)" not in front and "The engine" in front


def test_nothing_is_written_beside_the_site(built):
    assert list(built.parent.iterdir()) == [built]
    assert (built / ".nojekyll").exists()  # or GitHub Pages leaves out _static and with it every style


def test_the_front_page_leads_to_every_week(built, pages):
    targets = set(pages[built / "index.html"].links)
    for week in {path.parent.name for path in lesson_paths(ROOT)}:
        first = sorted(path.stem for path in lesson_paths(ROOT) if path.parent.name == week)[0]
        row = re.compile(rf'<td><p><a class="reference internal" href="{week}/{first}.html"')
        assert f"{week}/{first}.html" in targets
        assert row.search((built / "index.html").read_text(encoding="utf-8")), week


def test_a_still_of_an_explorer_says_where_it_moves():
    seen = 0
    for path in lesson_paths(ROOT):
        cells = lesson_page(ROOT, read_lesson(ROOT, path))["cells"]
        for cell, after in pairwise(cells):
            if cell["cell_type"] == "code" and "_explorer(" in cell["source"]:
                seen += 1
                assert "<img " in "".join(cell["outputs"][0]["data"]["text/html"])
                assert f"weeks/{path.parent.name}/{path.stem}.ipynb" in after["source"]
    assert seen >= 6


def test_a_still_of_an_explorer_says_it_once(monkeypatch):
    """What stands below the picture in a stored notebook is said by the cell that follows it."""
    lesson = read_lesson(ROOT, ROOT / "solutions/week01_tensors/02_broadcasting.py")
    stored = site.pages._stored(ROOT, lesson)
    picture = {
        "output_type": "display_data",
        "data": {"text/html": f"<img alt='a'>{STILL_HTML}"},
        "metadata": {},
    }
    stored["w01b-explorer"]["outputs"] = [picture]
    monkeypatch.setattr(site.pages, "_stored", lambda root, lesson: stored)
    (cell,) = [c for c in lesson_page(ROOT, lesson)["cells"] if c["id"] == "w01b-explorer"]
    assert cell["outputs"][0]["data"]["text/html"] == "<img alt='a'>"


def test_an_earlier_site_is_replaced_and_hidden_files_stay(tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / "week99_gone").mkdir()
    (tmp_path / "week99_gone/old.html").write_text("old")
    made = tmp_path / ".made"
    made.mkdir()
    (made / "index.html").write_text("new")
    site._replace(tmp_path, made)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".git", ".made", "index.html"]


@pytest.mark.parametrize(
    ("target", "words"), [("notes.txt", "is a file"), ("notes.txt/x", "cannot be written")]
)
def test_a_place_that_cannot_hold_a_site_is_refused_before_any_work(target, words, tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert site.main(["--to", str(tmp_path / target)]) == 2
    said = capsys.readouterr()
    assert words in said.err and "--to" in said.err and not said.out
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_folder_with_something_else_is_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.txt").write_text("years of work")
    assert site.main(["--to", str(tmp_path)]) == 2
    assert "--to" in capsys.readouterr().err and (tmp_path / "thesis.txt").exists()


def test_what_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setattr(site.importlib.util, "find_spec", lambda name: None if name == "furo" else object())
    assert site.main([]) == 2
    assert "needs furo" in capsys.readouterr().err


@pytest.fixture
def small(tmp_path) -> Path:
    """The source of week 0, in a course of its own; its notebook is beside it."""
    shutil.copytree(ROOT / "solutions/week00_start", tmp_path / "solutions/week00_start")
    (tmp_path / "README.md").write_text("# A course\n")
    return tmp_path / "solutions/week00_start/01_start.py"


def test_a_lesson_without_its_notebook_says_to_build(small, tmp_path):
    small.write_text(small.read_text() + "# %% [markdown] id=w00-new\n# News.\n")
    with pytest.raises(site.SiteError, match=r"01_start\.py is newer than its notebook. Run `make build`"):
        site.build(tmp_path, tmp_path / "out")
    small.with_suffix(".ipynb").unlink()
    with pytest.raises(site.SiteError, match=r"01_start\.py has no executed notebook yet. Run `make build`"):
        site.build(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_broken_lesson_is_reported_with_its_page(small, tmp_path):
    small.write_text(
        small.read_text().replace("# Some exercises ask", "# [lost](nowhere.ipynb) Some exercises ask")
    )
    with pytest.raises(site.SiteError, match=r"week00_start/01_start.*nowhere"):
        site.build(tmp_path, tmp_path / "out")
    assert paths.root() == ROOT
