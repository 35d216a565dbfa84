"""Explorers redraw on change, explain bad input, and leave a still picture in the output."""

from threading import Event, Thread

import pytest
from IPython.utils.capture import RichOutput, capture_output

from labkit import viz
from labkit.viz.explore import STILL


@pytest.fixture
def strides():
    return viz.strides_explorer()


def test_starts_with_a_picture(strides):
    assert "shape (3, 4)   stride (4, 1)   offset 0" in strides.figure.text
    assert strides.message == ""


def test_slider_moves_the_view(strides):
    strides.fields["storage"].value = 20
    strides.fields["offset"].value = 5
    assert "offset 5" in strides.figure.text and "@16" in strides.figure.text
    assert strides.message == ""


def test_drawn_are_the_values_of_the_picture_not_of_the_controls(strides):
    """While a picture is made the controls may move on: JupyterLab does that in another thread."""
    seen = []
    make = strides._draw
    strides._draw = lambda **values: (
        seen.append((strides.drawn["offset"], values["offset"])),
        make(**values),
    )[1]
    strides.fields["offset"].value = 2
    assert seen == [(0, 2)], "what is shown is still the picture from before"
    assert strides.drawn == strides.values and strides.drawn["offset"] == 2
    strides.fields["shape"].value = "3, x"
    assert strides.drawn == strides.values, "the message belongs to what was typed"


def test_a_slow_picture_does_not_replace_a_newer_one(strides):
    """Two controls moved in two threads: the first picture takes its time, the second is ready at once."""
    begun, goes_on, make = Event(), Event(), strides._draw

    def draw(**values):
        if values["storage"] == 12:
            begun.set()
            assert goes_on.wait(10)
        return make(**values)

    strides._draw = draw
    slow = Thread(target=lambda: setattr(strides.fields["offset"], "value", 2))
    quick = Thread(target=lambda: setattr(strides.fields["storage"], "value", 20))
    slow.start()
    assert begun.wait(10)
    quick.start()
    quick.join(0.2)  # over by now, unless it waits for its turn
    goes_on.set()
    for thread in (slow, quick):
        thread.join(10)
    assert strides.drawn == strides.values == strides.drawn | {"offset": 2, "storage": 20}
    assert "offset 2" in strides.figure.text


def test_outside_is_drawn_and_explained(strides):
    strides.fields["offset"].value = 3
    assert "@12!" in strides.figure.text
    assert strides.message.startswith("index [2, 1] would read storage position 12")


def test_an_example_can_be_chosen_again(strides):
    examples = strides.controls.children[0]
    examples.value = "diagonal"
    assert "stride (5,)" in strides.figure.text and examples.value == "diagonal"
    strides.fields["stride"].value = "4"
    assert examples.value == "choose"
    examples.value = "diagonal"
    assert strides.fields["stride"].value == "5" and "stride (5,)" in strides.figure.text


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("shape", "3, x", "“3, x” is not a list of whole numbers"),
        ("shape", "3, -4", "no negative sizes"),
        ("shape", "1000000, 1000000", "up to 40 cells"),
        ("stride", "4", "one stride per axis"),
        ("stride", "4, 1.5", "not a list of whole numbers"),
    ],
)
def test_bad_text_is_explained_and_the_picture_stays(strides, field, value, words):
    before = strides.figure
    strides.fields[field].value = value
    assert words in strides.message and "last numbers that worked" in strides.message
    assert strides.figure == before


def test_good_text_clears_the_message(strides):
    strides.fields["shape"].value = "3, x"
    strides.fields["shape"].value = "(2, 4)"
    assert strides.message == "" and "shape (2, 4)" in strides.figure.text


def test_empty_stride_means_row_major(strides):
    strides.set(shape="2, 5", stride="")
    assert "stride (5, 1)" in strides.figure.text


def test_every_example_stays_inside(strides):
    examples = strides.controls.children[0]
    for name in examples.options[1:]:
        examples.value = name
        assert strides.message == "", name


def test_broadcast_explorer():
    explorer = viz.broadcast_explorer()
    explorer.fields["a"].value = "3, 4"
    explorer.fields["b"].value = "3"
    assert "fails at axis -1" in explorer.figure.text
    explorer.fields["b"].value = "three"
    assert "not a list of whole numbers" in explorer.message


def _shown(explorer) -> list[RichOutput]:
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.instance()
    with capture_output() as captured:
        explorer._ipython_display_()
    InteractiveShell.clear_instance()
    return captured.outputs


def test_output_holds_controls_and_a_still_picture(strides, monkeypatch):
    monkeypatch.delenv("LABKIT_LANE", raising=False)
    controls, picture = _shown(strides)
    assert "application/vnd.jupyter.widget-view+json" in controls.data
    assert controls.data["text/plain"] == "[controls of the picture below]"  # what GitHub and paper show
    _assert_picture_and_note(picture, strides.figure)


def _assert_picture_and_note(output, figure):
    """GitHub, paper and exported pages have no controls, or some that move nothing: the picture says so."""
    assert output.data["text/html"].startswith(figure.html + '<div class="labkit-still">')
    assert output.data["text/html"].endswith("<code>make lab</code>, then run this cell.</div>")
    assert output.data["text/plain"] == f"{figure.text}\n{STILL}"


def test_static_output_is_the_picture_and_where_the_controls_are(strides, monkeypatch):
    monkeypatch.setenv("LABKIT_LANE", "1")
    (picture,) = _shown(strides)
    _assert_picture_and_note(picture, strides.figure)


def test_a_new_picture_keeps_the_note(strides, monkeypatch):
    monkeypatch.delenv("LABKIT_LANE", raising=False)
    from IPython.core.interactiveshell import InteractiveShell

    InteractiveShell.instance()
    with capture_output() as captured:
        strides._ipython_display_()
        strides.fields["storage"].value = 20
    InteractiveShell.clear_instance()
    _assert_picture_and_note(captured.outputs[-1], strides.figure)
    assert "(@19)" in captured.outputs[-1].data["text/plain"]
