"""Every explorer: a control is moved in the browser, and the kernel's state and the picture follow."""

import pytest

from .lesson import THEMES, assert_readable

STRIDES = "weeks/week01_tensors/01_storage_and_strides.ipynb", "w01a-explorer"
BROADCAST = "weeks/week01_tensors/02_broadcasting.ipynb", "w01b-explorer"
LEARNING_RATE = "weeks/week03_networks/02_modules_and_optimizers.ipynb", "w03b-explorer"
CONVOLUTION = "weeks/week05_cnn/01_convolution.ipynb", "w05a-explorer"
ATTENTION = "weeks/week07_transformers/01_attention.ipynb", "w07a-explorer"
SAMPLING = "weeks/week07_transformers/02_the_block_and_the_gpt.ipynb", "w07b-explorer"


class Explorer:
    """An explorer on the page. Its cell shows it without a name, so the kernel knows it as `Out[n]`."""

    def __init__(self, lesson, id):
        self.lesson, self.page = lesson, lesson.page
        lesson.run(lesson.cells("setup")[0]["id"])
        lesson.run(id)
        self.name = f"Out[{lesson.cell(id)['execution_count']}]"
        self.box = lesson.box(id)
        self.box.locator(".widget-vbox").wait_for()

    def control(self, label):
        return self.box.locator(".widget-inline-hbox", has=self.page.get_by_text(label, exact=True))

    def wait_for(self, condition):
        """Until `condition` holds in the kernel, where `f` are the values of the fields."""
        self.lesson.wait_until_true(f"(lambda f: {condition})({self.name}.values)")

    def wait_for_picture(self):
        """Until the page shows the picture of where the controls stand; returns its words."""
        self.lesson.wait_until_true(
            f"{self.name}.drawn == {self.name}.values"
        )  # drawn beside the kernel's cells
        alt = self.lesson.ask(f"{self.name}.figure.alt")
        self.box.get_by_role("img", name=alt, exact=True).wait_for()
        return self.lesson.ask(f"{self.name}.figure.text")

    def drag(self, label, by):
        """Drag the handle of a slider `by` pixels to the right; wait until the kernel knows of its end."""
        slider = self.control(label)
        handle = slider.locator(".noUi-handle")
        handle.scroll_into_view_if_needed()
        at = handle.bounding_box()
        x, y = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x + by, y, steps=4)
        self.page.mouse.up()
        shown = slider.locator(".widget-readout").inner_text()
        self.lesson.wait_until_true(
            f"any(f.description == {label!r} and format(f.value, f.readout_format) == {shown!r}"
            f" for f in {self.name}.fields.values())"
        )

    def type(self, label, text):
        self.control(label).locator("input").click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.type(text)


def keep_pictures(explorer, picture, name):
    """In both themes, and readable in both."""
    explorer.wait_for_picture()
    for theme in THEMES:
        explorer.lesson.choose_theme(theme)
        assert_readable(explorer.box.locator(".jp-OutputArea"))
        picture(explorer.box, f"explorer-{name}-{theme}")


def test_strides(open_lesson, picture):
    path, cell = STRIDES
    lesson = open_lesson(path)
    explorer = Explorer(lesson, cell)
    assert "offset 0" in explorer.wait_for_picture()
    note = explorer.box.locator(".labkit-still")
    assert note.count() == 1 and not note.is_visible(), "the controls are there"
    explorer.control("storage").locator(".noUi-handle").press("ArrowRight")
    explorer.wait_for("f['storage'] == 13")
    assert "shape (3, 4)" in explorer.wait_for_picture()

    explorer.drag("storage", 60)
    explorer.wait_for("f['storage'] > 13")
    explorer.drag("offset", 30)
    explorer.wait_for("f['offset'] > 0")
    offset = lesson.ask(f"{explorer.name}.fields['offset'].value")
    assert explorer.control("offset").locator(".widget-readout").inner_text() == str(offset)
    assert f"offset {offset}" in explorer.wait_for_picture()

    explorer.control("example").locator("select").select_option("one row repeated")
    explorer.wait_for("f['stride'] == '0, 1'")
    assert "stride (0, 1)" in explorer.wait_for_picture()

    explorer.type("shape", "3, x")
    explorer.box.get_by_text("is not a list of whole numbers").wait_for()
    assert explorer.control("example").locator("select").input_value() == "choose"
    keep_pictures(explorer, picture, "strides")


def test_broadcast(open_lesson, picture):
    path, cell = BROADCAST
    explorer = Explorer(open_lesson(path), cell)
    explorer.type("shape a", "5, 3")
    explorer.wait_for("f['a'] == '5, 3'")
    assert "(2, 5, 3)" in explorer.wait_for_picture()
    explorer.type("shape a", "5, 2")
    explorer.wait_for("f['a'] == '5, 2'")
    assert "(2, 5, 3)" not in explorer.wait_for_picture()
    keep_pictures(explorer, picture, "broadcast")


def test_learning_rate(open_lesson, picture):
    path, cell = LEARNING_RATE
    explorer = Explorer(open_lesson(path), cell)
    before = explorer.wait_for_picture()
    explorer.drag("momentum", 90)
    explorer.wait_for("f['momentum'] > 0")
    explorer.control("surface").locator("select").select_option("two basins")
    explorer.wait_for("f['surface'] == 'two basins'")
    assert explorer.wait_for_picture() != before
    keep_pictures(explorer, picture, "learning-rate")


def test_attention(open_lesson, picture):
    path, cell = ATTENTION
    lesson = open_lesson(path)
    lesson.run("w07a-setup")
    lesson.write(
        "w07a-weights",
        "attention_weights = lambda q, k: torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)",
    )
    lesson.run("w07a-weights")
    lesson.run("w07a-sentence")
    explorer = Explorer(lesson, cell)
    before = explorer.wait_for_picture()
    explorer.drag("head", 140)
    explorer.wait_for("f['head'] > 0")
    explorer.control("token").locator("select").select_option("6: it")
    explorer.wait_for("f['token'] == 6")
    assert explorer.wait_for_picture() != before
    keep_pictures(explorer, picture, "attention")


def test_sampling(open_lesson, picture):
    path, cell = SAMPLING
    explorer = Explorer(open_lesson(path), cell)
    before = explorer.wait_for_picture()
    explorer.drag("temperature", 80)
    explorer.wait_for("f['temperature'] > 0.8")
    explorer.drag("top-k", -60)
    explorer.wait_for("f['top_k'] < 10")
    assert explorer.wait_for_picture() != before
    keep_pictures(explorer, picture, "sampling")


def test_convolution(open_lesson, picture):
    path, cell = CONVOLUTION
    lesson = open_lesson(path)
    explorer = Explorer(lesson, cell)
    before = explorer.wait_for_picture()
    explorer.drag("padding", 120)
    explorer.wait_for("f['padding'] > 0")
    explorer.drag("position", 40)
    explorer.wait_for("f['step'] > 5")
    assert explorer.wait_for_picture() != before
    keep_pictures(explorer, picture, "convolution")


@pytest.mark.console("widget model not found", "ipywidgets' own line for controls without their kernel")
def test_a_picture_stays_when_the_kernel_is_gone(open_lesson, picture):
    """Reloaded without its kernel, the notebook shows the last picture, and how to get the controls back."""
    path, cell = STRIDES
    lesson = open_lesson(path)
    explorer = Explorer(lesson, cell)
    explorer.type("shape", "2, 6")
    explorer.wait_for("f['shape'] == '2, 6'")
    words = explorer.wait_for_picture()
    lesson.save()
    lesson.lab.shut_down_kernels()
    lesson.reload()
    outputs = lesson.cell(cell)["outputs"]
    assert outputs[-1]["data"]["text/plain"].startswith(words)
    box = lesson.box(cell)
    box.get_by_role("img").last.wait_for()
    box.get_by_text("Run this cell to have them back").wait_for()
    picture(box, "explorer-without-kernel")
