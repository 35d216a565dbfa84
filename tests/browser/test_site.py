"""`make site` as a reader meets it: from a web server and from disk, on a phone, in the dark, by keyboard."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from labkit import site
from labkit.book.course import lesson_paths

from .lesson import THEMES, assert_readable
from .server import REPOSITORY

WIDTHS = (360, 820, 1010, 1366, 1440)  # phone, tablets, laptops: each a different layout of the theme
MATH = "week05_cnn/01_convolution.html"
LOOKED_AT = ("index.html", "week00_start/01_start.html", MATH, "search.html?q=stride")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None: ...


@pytest.fixture(scope="module")
def folder(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site.build(REPOSITORY, tmp_path_factory.mktemp("site") / "site").parent


class BelowCourse(Quiet):
    """As a host of static pages does it: in a folder, and with 404.html for what is not there."""

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix("/course")) if path.startswith("/course/") else ""

    def send_error(self, code: int, *_: Any) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(Path(self.directory, "404.html").read_bytes())


@contextmanager
def serving(folder: Path, handler: type[Quiet]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[str]:
    with serving(folder, Quiet) as address:
        yield address


@pytest.fixture(scope="module")
def served_below(folder: Path) -> Iterator[str]:
    with serving(folder, BelowCourse) as address:
        yield f"{address}course/"


@pytest.fixture
def reader(context: Any) -> Iterator[Any]:
    """A page of the browser. Whatever it asks for is on the site: nothing from elsewhere, nothing missing."""
    page = context.new_page()
    asked, failed = list[str](), list[Any]()
    page.on("request", lambda request: asked.append(request.url))
    page.on("requestfailed", lambda request: failed.append(request))
    yield page
    elsewhere = [
        url for url in asked if not url.startswith(("http://127.0.0.1:", "file:", "data:", "about:"))
    ]
    assert asked and not elsewhere, f"asked for from elsewhere: {elsewhere}"
    # A browser gives up what it was still loading when the page is left: that must be there all the same.
    refused = [r.url for r in failed if r.failure != "net::ERR_ABORTED" or not _is_there(page, r.url)]
    assert not refused, f"could not be had: {refused}"


def _is_there(page: Any, url: str) -> bool:
    if url.startswith("file:"):
        return Path(url2pathname(urlsplit(url).path)).exists()
    return page.request.get(url).ok


@pytest.mark.parametrize("from_disk", [False, True], ids=["served", "from disk"])
def test_a_reader_begins_turns_pages_and_searches_without_a_mouse(from_disk, served, folder, reader):
    reader.goto((folder / "index.html").as_uri() if from_disk else served)
    reader.get_by_role("link", name="Begin with week 0").click()
    assert reader.title().startswith("Week 0 · Start here")
    reader.locator(".next-page").click()
    assert reader.title().startswith("Week 1 · 01 Storage and strides")
    reader.locator(".prev-page").click()
    assert reader.title().startswith("Week 0 · Start here")

    reader.wait_for_load_state("load")
    reader.keyboard.press("/")
    reader.keyboard.type("im2col")
    reader.keyboard.press("Enter")
    found = reader.locator("#search-results li a")
    found.first.wait_for()
    assert found.first.inner_text() == "Week 5 · 01 Convolution > Exercise 5 · And back: col2im"
    found.first.focus()
    reader.keyboard.press("Enter")
    reader.wait_for_url("**/week05_cnn/01_convolution.html#exercise-5*")
    assert_arrives_at(reader, reader.get_by_role("heading", name="Exercise 5 · And back: col2im"))


def assert_arrives_at(reader, target):
    """The page comes to rest (the theme scrolls smoothly) with the target in the window."""
    reader.wait_for_function(
        "e => { const top = e.getBoundingClientRect().top; return 0 <= top && top < innerHeight }",
        arg=target.element_handle(),
    )


FIRST_HITS = {  # a query: where the thing is taught
    "broadcasting": "week01_tensors/02_broadcasting.html#exercise-1-",
    "stride": "week01_tensors/01_storage_and_strides.html#exercise-1-",
    "adam": "week03_networks/02_modules_and_optimizers.html#exercise-4-",
    "adam optimizer": "week03_networks/02_modules_and_optimizers.html#exercise-4-",
    "softmax": "week02_autograd/02_tensor_autograd.html#exercise-7-",
    "w03.adam": "week03_networks/02_modules_and_optimizers.html#exercise-4-",
    "w01.strides": "week01_tensors/01_storage_and_strides.html#exercise-1-",
    "attention mask": "week07_transformers/01_attention.html#exercise-4-",
    "dropout": "week03_networks/01_from_a_line_to_a_network.html#exercise-6-",
    "RoPE": "week07_transformers/01_attention.html#exercise-9-",
    "backpropagation": "week02_autograd/01_scalar_autograd.html#exercise-7-",
    "overfitting": "week04_training/02_five_loops.html#exercise-8-",
    "checkpoint": "week04_training/02_five_loops.html#exercise-6-",
    "batch norm": "week05_cnn/02_a_network_that_trains.html#exercise-1-",
    "LSTM": "week06_rnn/01_rnn_and_lstm.html#exercise-4-",
    "tokenizer": "week07_transformers/02_the_block_and_the_gpt.html#exercise-7-",
    "layernorm": "week07_transformers/02_the_block_and_the_gpt.html#exercise-1-",
    "autograd": "week02_autograd/01_scalar_autograd.html",
}


def found_for(reader, served, query):
    """Where the results for a query lead to, best first."""
    reader.goto(f"{served}search.html?q={query}")
    reader.wait_for_function("document.querySelector('.search-summary')?.innerText")
    links = reader.locator("#search-results li a").evaluate_all("all => all.map(a => a.href)")
    return [link.removeprefix(served) for link in links]


def test_search_begins_with_where_a_thing_is_taught(served, reader):
    first = {query: found_for(reader, served, query)[:1] for query in FIRST_HITS}
    wrong = {
        query: hit for query, hit in first.items() if not hit or not hit[0].startswith(FIRST_HITS[query])
    }
    assert wrong == {}


def test_search_ranks_the_front_page_last_and_knows_whole_words(served, reader):
    assert found_for(reader, served, "softmax")[-1] == "index.html"
    assert len(found_for(reader, served, "RoPE")) == 1  # and not every page with a property


def test_what_is_found_by_its_text_opens_at_the_word(served, reader):
    pages = found_for(reader, served, "pickle")
    assert pages and "#" not in pages[0]
    reader.locator("#search-results li a").first.click()
    mark = reader.locator("article .highlighted").first
    mark.wait_for()
    assert_arrives_at(reader, mark)
    reader.goto(served + "search.html?q=pickle")
    reader.locator("#search-results li a").first.wait_for()
    reader.locator(".sidebar-tree a", has_text="02 Broadcasting").click()  # not what was found
    reader.wait_for_url("**/02_broadcasting.html")
    assert reader.evaluate("localStorage.getItem('sphinx_highlight_terms')") is None


def test_the_search_page_has_a_heading_and_says_what_to_try(served, reader):
    assert found_for(reader, served, "xyzzy") == []
    assert reader.locator("h1").all_inner_texts() == ["Search"]
    words = reader.locator(".search-summary").inner_text()
    assert words.startswith("Nothing found. Try one word") and "categories" not in words
    reader.locator("article input").fill("adam")
    reader.get_by_role("button", name="Search", exact=True).click()
    reader.locator("#search-results li a").first.wait_for()


@pytest.mark.parametrize("theme", THEMES)
def test_the_search_box_shows_that_it_has_the_keyboard(theme, served, reader):
    reader.emulate_media(color_scheme=theme)
    reader.goto(served + "search.html")
    for box in (".sidebar-search", ".search-again input"):
        reader.locator(box).focus()
        line = (
            "e => [getComputedStyle(e).outlineStyle, lessons.contrast(getComputedStyle(e).outlineColor, e)]"
        )
        style, contrast = reader.locator(box).evaluate(line)
        assert style == "solid" and contrast >= 3


def test_the_contents_show_where_the_reader_is(served, reader):
    reader.set_viewport_size({"width": 1280, "height": 900})
    for name in ("week00_start/01_start.html", MATH, "week07_transformers/04_clinic.html"):
        reader.goto(served + name)
        place = reader.locator(".sidebar-tree .current-page").bounding_box()
        assert 0 < place["y"] < 900 - place["height"], name
        assert reader.evaluate("scrollY") == 0


def test_figures_stay_readable_on_a_phone(served, reader, picture):
    """Their labels are 12 pixels where they are drawn; below 10 nobody reads them."""
    reader.set_viewport_size({"width": 390, "height": 844})
    for name in ("week03_networks/02_modules_and_optimizers.html", "week07_transformers/01_attention.html"):
        reader.goto(served + name)
        reader.locator("details.hide").evaluate_all("all => all.forEach(fold => fold.open = true)")
        scales = reader.locator(".cell_output img").evaluate_all(
            "all => all.map(i => i.getBoundingClientRect().width / i.getAttribute('width'))"
        )
        assert scales and min(scales) > 0.84, name
        assert reader.evaluate("document.documentElement.scrollWidth") <= 390
        wide = reader.locator(".cell_output .text_html").filter(has=reader.locator("img")).first
        wide.focus()
        reader.keyboard.press("ArrowRight")
        reader.wait_for_function("e => e.scrollLeft > 0", arg=wide.element_handle())
        picture(wide, f"site-figure-phone-{name[:6]}")


def test_the_screenshot_leads_to_itself(served, reader):
    reader.goto(served)
    links = reader.locator("article a:has(img):visible")
    assert links.count() == 1
    shown = links.locator("img").evaluate("i => i.src")
    assert links.evaluate("a => a.href") == shown


@pytest.mark.console("404", "the page that says so is what is tested")
@pytest.mark.parametrize("address", ["gone.html", "week03_networks/gone.html", "a/b/c/"])
def test_a_missing_page_leads_back_from_any_depth(address, served_below, context, picture):
    page = context.new_page()
    page.goto(served_below + address)
    for name in ("index.html", "index.html#the-course", "search.html"):
        page.wait_for_function(
            "url => [...document.links].some(a => a.href === url)", arg=served_below + name
        )
    picture(page, "site-not-found")
    page.get_by_role("textbox").fill("adam")
    page.get_by_role("button").click()
    page.locator("#search-results li a").first.wait_for()


def test_every_page_is_whole_at_every_width(served, reader):
    """Every picture loads and has a sentence for those who cannot see it; headings are in order; nothing
    sticks out of the window, from a small phone to a large screen."""
    pages = ["index.html", *(f"{path.parent.name}/{path.stem}.html" for path in lesson_paths(REPOSITORY))]
    for name in pages:
        reader.goto(served + name)
        facts = reader.evaluate(
            """() => ({
                lang: document.documentElement.lang,
                lost: [...document.images].filter(i => !i.naturalWidth).map(i => i.src.slice(0, 80)),
                alts: [...document.querySelectorAll("article img")].map(i => i.alt),
                levels: [...document.querySelectorAll("article :is(h1,h2,h3,h4)")].map(h => +h.tagName[1]),
            })"""
        )
        assert facts["lang"] == "en" and not facts["lost"], name
        wordless = [alt for alt in facts["alts"] if len(alt.split()) < 3]
        assert not wordless, f"{name}: alt texts that say nothing: {wordless}"
        levels = facts["levels"]
        jumps = [pair for pair in pairwise(levels) if pair[1] > pair[0] + 1]
        assert levels[0] == 1 and levels.count(1) == 1 and not jumps, f"{name}: headings {levels}"
        for width in WIDTHS:
            reader.set_viewport_size({"width": width, "height": 800})
            wide = reader.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} wide in a window of {width}"


@pytest.mark.parametrize("theme", THEMES)
def test_pages_are_readable_in_light_and_dark(theme, served, reader, picture):
    reader.emulate_media(color_scheme=theme)
    for name in LOOKED_AT:
        reader.goto(served + name)
        if "search" in name:
            reader.locator("#search-results li a").first.wait_for()
        assert_readable(reader.locator("body"))
        for kind, width in (("screen", 1280), ("phone", 400)):
            reader.set_viewport_size({"width": width, "height": 900})
            picture(reader, f"site-{name.partition('.')[0].replace('/', '-')}-{kind}-{theme}", whole=True)


@pytest.mark.parametrize("theme", THEMES)
def test_small_things_can_be_seen_in_light_and_dark(theme, served, reader):
    reader.emulate_media(color_scheme=theme)
    reader.goto(served)
    hint = "e => lessons.contrast(getComputedStyle(e, '::placeholder').color, e)"
    assert reader.locator(".sidebar-search").evaluate(hint) >= 4.5
    line = "e => lessons.contrast(getComputedStyle(e).textDecorationColor, e)"
    assert reader.get_by_role("link", name="Begin with week 0").evaluate(line) >= 3
    shown = reader.locator("article img:visible").evaluate_all("all => all.map(i => i.src.split('/').pop())")
    assert shown == ["panel.png" if theme == "light" else "panel-dark.png"]


def test_a_command_is_not_broken_on_a_phone(served, reader):
    reader.set_viewport_size({"width": 360, "height": 800})
    for name in LOOKED_AT[:3]:
        reader.goto(served + name)
        broken = reader.locator("article :is(p, li) code").evaluate_all(
            """all => all.filter(c => c.innerText.length < 20).filter(c => new Set(
                [...c.querySelectorAll(".pre")].map(word => Math.round(word.getBoundingClientRect().top))
            ).size > 1).map(c => c.innerText)"""
        )
        assert broken == []


@pytest.mark.parametrize("from_disk", [False, True], ids=["served", "from disk"])
def test_a_prediction_is_not_given_away(from_disk, served, folder, reader, picture):
    name = "week00_start/01_start.html"
    reader.goto((folder / name).as_uri() if from_disk else served + name)
    fold = reader.locator("details", has=reader.get_by_text("What comes out", exact=True)).first
    printed = fold.locator(".cell_output")
    assert not printed.is_visible()
    fold.scroll_into_view_if_needed()
    picture(reader, "site-prediction-folded")
    reader.emulate_media(media="print")
    assert printed.evaluate("e => e.checkVisibility() && e.getBoundingClientRect().height > 10")
    reader.emulate_media(media="screen")
    fold.locator("summary").click()
    assert printed.is_visible()


def test_the_theme_is_chosen_by_a_button_and_kept(served, reader):
    reader.emulate_media(color_scheme="light")
    reader.goto(served)
    paper = "getComputedStyle(document.body).backgroundColor"
    light = reader.evaluate(paper)
    for _ in range(3):  # the button goes round: the system's choice, light, dark
        if reader.evaluate(paper) != light:
            break
        reader.locator(".content-icon-container .theme-toggle").click()
    dark = reader.evaluate(paper)
    assert dark != light
    reader.goto(served + MATH)
    assert reader.evaluate(paper) == dark


def test_formulas_stretch_with_what_they_enclose(served, reader):
    """Without a font for mathematics a floor bracket is as high as a letter; the site brings its own."""
    reader.goto(served + MATH)
    loaded = reader.evaluate("document.fonts.ready.then(() => [...document.fonts].map(font => font.status))")
    assert loaded == ["loaded"]
    bracket = reader.locator("math mo", has_text="⌊").first.bounding_box()
    fraction = reader.locator("math mfrac").first.bounding_box()
    assert bracket["height"] >= 0.9 * fraction["height"]


def test_on_paper_nothing_is_cut_off(served, reader, picture):
    reader.emulate_media(media="print")
    reader.set_viewport_size({"width": 700, "height": 1000})  # the width of an A4 sheet between its margins
    boxes = "[...document.querySelectorAll('pre, .cell_output .text_html')]"
    for name in ("week03_networks/02_modules_and_optimizers.html", MATH):
        reader.goto(served + name)
        assert reader.evaluate(f"{boxes}.filter(b => b.scrollWidth > b.clientWidth + 1).length") == 0, name
    for part in (".sidebar-drawer", ".toc-drawer", ".mobile-header"):
        assert not reader.locator(part).is_visible()
    picture(reader, "site-print", whole=True)


def test_solutions_are_there_only_when_asked_for_and_folded(served, reader, tmp_path, picture):
    answer = reader.locator("article .highlight", has_text=re.compile(r"\breturn 42$", re.MULTILINE))
    reader.goto(served + "week00_start/01_start.html")
    folds = reader.locator("details", has=reader.get_by_text("Solution", exact=True))
    assert answer.count() == 0 and folds.count() == 0 and reader.locator("details.above-input").count() == 0

    shutil.copytree(REPOSITORY / "solutions/week00_start", tmp_path / "solutions/week00_start")
    (tmp_path / "README.md").write_text("# A course\n")
    first = site.build(tmp_path, tmp_path / "site", solutions=True)
    reader.goto((first.parent / "week00_start/01_start.html").as_uri())
    assert answer.count() == 1 and not answer.is_visible()
    assert folds.count() == reader.locator("details.above-input").count() > 1
    folds.first.scroll_into_view_if_needed()
    picture(reader, "site-solution-folded")
    folds.first.locator("summary").click()
    assert answer.is_visible()
    picture(reader, "site-solution-open")
