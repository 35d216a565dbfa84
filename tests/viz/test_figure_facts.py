"""Each picture says what is true, in words; bad input is refused in plain words."""

import re

import numpy as np
import pytest
import torch
from figure_gallery import Value, chain, expression
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit
from labkit import viz
from labkit.viz.charts import draw_lines, new_chart
from labkit.viz.svg import TIMES, spread


def test_strides_reads_what_torch_reads():
    x = torch.arange(12).reshape(3, 4)[1:, ::2]
    text = viz.strides(x).text
    assert "shape (2, 2)   stride (4, 2)   offset 4" in text
    assert "[0, :]    4@4    6@6" in text and "[1, :]    8@8  10@10" in text
    assert "(@5=5)" in text and "not read" in text


def test_strides_of_numpy_agrees_with_torch():
    base = np.arange(12.0).reshape(3, 4)
    for cut in (np.s_[:, 1:3], np.s_[2], np.s_[1:, ::3]):
        assert viz.strides(base[cut]) == viz.strides(torch.from_numpy(base)[cut])
    assert "stride (-1,)   offset 5" in viz.strides(np.arange(6)[::-1]).text
    assert "stride (1, 3)   offset 0" in viz.strides(np.asfortranarray(np.ones((3, 2)))).text


def test_strides_of_a_labkit_tensor():
    assert (
        "shape (2, 3)   stride (3, 1)   offset 0" in viz.strides(labkit.tensor([[1.0, 2, 3], [4, 5, 6]])).text
    )


def test_strides_counts_repeated_reads():
    assert "@0=7x4" in viz.strides(torch.tensor([7]).expand(4)).text
    assert "@2x3" in viz.strides((3, 3), (1, 1)).text


def test_strides_explains_the_signs_it_uses_and_no_others():
    plain = viz.strides(torch.arange(6).reshape(2, 3)).svg
    assert ">@n: place n of the storage.<" in plain and "(stays)" not in plain
    repeated = viz.strides((3, 2), (0, 1), 0, 4).svg
    assert f">{TIMES}3<" in repeated and "axis 0: +0 (stays)" in repeated
    for words in ("Dashed: not read.", "White: read by more than one row.", f"{TIMES}n: read n times."):
        assert words in repeated and words not in plain
    assert "✕: outside the storage." in viz.strides((3, 4), (5, 1), 0, 12, check=False).svg


@pytest.mark.parametrize(
    ("values", "some"),
    [
        ([6.0, 5.0, 4.2], {"5", "6"}),
        ([20.0, 0.5], {"1", "10"}),
        ([1e-9, 1.0], {"$\\mathdefault{10^{-8}}$"}),
    ],
)
def test_log_axes_have_plain_numbers_where_they_are_easy_to_read(values, some):
    with new_chart() as chart:
        draw_lines(chart.ax, {"": np.arange(len(values))}, {"": np.array(values)}, "y")
        chart.page.draw_without_rendering()
        ticks = chart.ax.get_yticklabels() + chart.ax.get_yticklabels(minor=True)
        shown = {tick.get_text() for tick in ticks}
        assert some <= shown and not any("times" in words for words in shown)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ((3, 4), (5, 1), 0, 12),
            r"index \[2, 2\] would read storage position 12, but the storage has 12 cells",
        ),
        (((4,), (-1,), 1), "before the first cell. Raise the offset to 3"),
        (((3, 4), (1,)), "one stride per axis"),
        (((-1,),), "no negative sizes"),
        (((9, 9),), "up to 40 cells"),
        (((10**6, 10**6),), "up to 40 cells"),
        (((1, 1, 1, 1),), "up to 3 axes"),
    ],
)
def test_strides_refuses_in_plain_words(arguments, words):
    with pytest.raises(ValueError, match=words):
        viz.strides(*arguments)


def test_strides_wants_whole_numbers():
    with pytest.raises(TypeError, match="whole numbers"):
        viz.strides("3, 4")
    with pytest.raises(TypeError, match="whole numbers"):
        viz.strides((3, 4.5))


sizes = st.lists(st.sampled_from([0, 1, 1, 2, 3]), max_size=4).map(tuple)


@settings(deadline=None)
@given(sizes, sizes)
def test_broadcast_agrees_with_torch(a, b):
    text = viz.broadcast(a, b).text
    try:
        assert f"result: {tuple(torch.broadcast_shapes(a, b))}" in text
    except RuntimeError:
        assert "fails at axis" in text and "!!" in text


def test_broadcast_names_what_happens():
    text = viz.broadcast((4, 1), (2, 1, 3)).text
    assert "a: axis -3 is added and stretches 1 -> 2, axis -1 stretches 1 -> 3" in text
    assert "fails at axis -1: a has 4, b has 3" in viz.broadcast((3, 4), torch.ones(3)).text


def test_broadcast_alt_says_what_stretches():
    meant, happened = viz.broadcast((3, 3), (3, 1)).alt, viz.broadcast((3, 3), (3,)).alt
    assert "a (3, 3) and b (3, 1); b: axis -1 stretches from 1 to 3; result: (3, 3)" in meant
    assert "b: axis -2 is added and stretches from 1 to 3" in happened
    assert "fails at axis -1: a has 4, b has 3" in viz.broadcast((3, 4), (3,)).alt


@pytest.mark.parametrize(
    ("shapes", "error", "words"),
    [
        ((), ValueError, "at least one shape"),
        (((2, -1),), ValueError, "negative"),
        (("ab",), TypeError, "whole numbers"),
        ((2.5,), TypeError, "whole numbers"),
    ],
)
def test_broadcast_refuses_in_plain_words(shapes, error, words):
    with pytest.raises(error, match=words):
        viz.broadcast(*shapes)


def test_broadcast_grid_marks_what_is_repeated():
    text = viz.broadcast_grid([[0], [10]], [1, 2, 3]).text
    assert "10  [10]  [10]" in text and "11  12  13" in text
    assert "fails at axis -1" in viz.broadcast_grid(np.ones((2, 3)), np.ones(2)).text
    with pytest.raises(ValueError, match="8 by 8"):
        viz.broadcast_grid(np.ones(9), 1)
    with pytest.raises(ValueError, match="op must be one of"):
        viz.broadcast_grid(1, 2, "@")


def test_graph_states_values_gradients_and_parents():
    lines = viz.graph(expression()).text.splitlines()
    assert any(line.startswith("a ") and "value 2" in line and "grad 0.5" in line for line in lines)
    assert lines[-1].startswith("loss = +(") and "value -22" in lines[-1]


def test_graph_alt_tells_before_from_after_a_backward_pass():
    x, y = (torch.tensor(v, requires_grad=True) for v in (2.0, -3.5))
    out = x * y
    before = viz.graph(out, names={"x": x, "y": y}).alt
    out.backward()
    after = viz.graph(out, names={"x": x, "y": y}).alt
    assert before.endswith("with value -7.") and after.endswith("; gradients of the leaves: x -3.5, y 2.")


def test_graph_alt_stays_short():
    leaves = [Value(1.0, label=f"x{i}") for i in range(9)]
    assert viz.graph(sum(leaves[1:], leaves[0])).alt.count("0.5") == 6
    assert viz.graph(sum(leaves[1:], leaves[0])).alt.endswith(", and more.")


def test_graph_draws_each_edge_once():
    x = Value(3.0, label="x")
    square = viz.graph(x * x, parents=lambda n: [x, x] if n is not x else [])
    assert square.text.splitlines()[-1].startswith("v1 = *(x, x)")
    assert square.svg.count('fill="none"') == 2


def test_graph_of_labkit_and_torch_agree():
    texts = []
    for library in (labkit, torch):
        w = library.tensor([1.0, 2.0, 3.0], requires_grad=True)
        loss = (w * 2).sum()
        loss.backward()
        texts.append(viz.graph(loss, names={"w": w}).text.lower())
    assert texts[0] == texts[1]
    assert texts[0].splitlines()[-1].startswith("v2 = sum(v1)") and "value 12" in texts[0]


def test_graph_takes_accessors():
    tree = {"out": ["left", "right"], "left": ["in"], "right": ["in"], "in": []}
    drawn = viz.graph("out", parents=lambda n: tree[n], label=lambda n: n, value=len, grad=lambda n: None)
    assert drawn.text.splitlines()[-1].split() == ["v3", "=", "out(v1,", "v2)", "value", "3"]


def test_long_graph_is_summarized():
    text = viz.graph(chain(5000)).text
    assert text.startswith("5002 nodes, the 12 nearest the result are drawn. Most frequent: + x5000, leaf x2")
    assert "..." in text and len(text.splitlines()) == 13


def test_curves_states_first_lowest_last_and_gaps():
    text = viz.curves({"run": [3.0, 0.5, float("nan"), 1.0]}).text
    assert "run       4      3     0.5        1     1" in text
    assert "1 of 4 points left out; point 2 is not finite" in text
    assert "not above 0" in viz.curves([1.0, 0.0], log="y").text


def test_curves_states_a_peak_where_there_is_one():
    figure = viz.curves({"rate": [0.1, 0.4, 0.2, 0.0]}, title="up, then down")
    assert (
        figure.text.splitlines()[1].split() == "run points first lowest at step highest at step last".split()
    )
    assert figure.text.splitlines()[2].split() == "rate 4 0.1 0 3 0.4 1 0".split()
    assert "rate goes from 0.1 to 0, highest 0.4 at step 1." in figure.alt
    falling = viz.curves([3.0, 1.0, 2.0])
    assert "highest" not in falling.text and falling.alt.endswith("from 3 to 2, lowest 1 at step 1.")
    assert viz.curves([0.0, 1.01, 1.0]).alt.endswith("goes from 0 to 1."), "noise is no peak"


def test_curves_begin_and_end_at_numbers():
    nan = float("nan")
    figure = viz.curves({"late": [nan, 5.0, 7.0, nan], "never": [nan, nan]})
    assert "late goes from 5 to 7; never has no finite value." in figure.alt
    assert figure.text.splitlines()[2].split() == "late 4 5 5 1 7".split()
    assert figure.text.splitlines()[3].split() == "never 2 - - - -".split()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: viz.curves({}), "at least one run"),
        (lambda: viz.curves({"a": []}), "'a' is empty"),
        (lambda: viz.curves({str(i): [1] for i in range(7)}), "up to 6 runs"),
        (lambda: viz.curves([1, 2, 3], x=[1]), "x has 1 value but the longest run has 3"),
        (lambda: viz.curves([1, 2], log="z"), "log must be"),
        (lambda: viz.decision_boundary(lambda p: p, [[1, 2, 3]], [0]), r"shape \(n, 2\)"),
        (lambda: viz.decision_boundary(lambda p: p[:3, 0], [[1, 2]], [0]), "one score per point"),
        (lambda: viz.decision_boundary(lambda p: p, [[1, 2]] * 3, [0, 1, 2]), "two classes, got 3"),
        (lambda: viz.decision_boundary(lambda p: p, [[1, 2]], [0, 1]), "1 point but 2 labels"),
        (lambda: viz.variance_by_depth([]), "at least one layer"),
        (lambda: viz.histogram([float("nan")]), "none of the values is finite"),
        (lambda: viz.image_grid([]), "1 to 64 images"),
        (lambda: viz.image_grid([np.ones(3)]), "an image has shape"),
        (lambda: viz.image_grid([np.ones((2, 2))], ["a", "b"]), "2 titles for 1 image"),
        (lambda: viz.compare([[1], [2, 3]], 1), "different lengths"),
    ],
)
def test_bad_input_is_refused_in_plain_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_error_vs_epsilon_finds_the_best_step():
    steps = [1e-2, 1e-5, 1e-9]
    text = viz.error_vs_epsilon(steps, {"central": [1e-4, 1e-11, 1e-7]}).text
    assert "central: smallest 1e-11 at epsilon 1e-05" in text


def test_variance_by_depth_states_the_variance():
    text = viz.variance_by_depth([[0.0, 2.0], [1.0, float("inf")]]).text
    assert "1             1     1" in text and text.splitlines()[-1].endswith("1")


def test_decision_boundary_counts_points_on_the_right_side():
    points, labels = [[-1.0, 0.0], [1.0, 0.0], [2.0, 1.0]], [0, 1, 0]
    for predict in (
        lambda p: p[:, 0] > 0,
        lambda p: np.stack([-p[:, 0], p[:, 0]], 1),
        lambda p: torch.tensor(p[:, :1] + 0.5),
    ):
        assert "2 of 3 points on the right side" in viz.decision_boundary(predict, points, labels).text


def test_lr_range_names_both_rates():
    text = viz.lr_range([1e-4, 1e-3, 1e-2, 1e-1], [2.3, 2.2, 1.1, 9.0]).text
    assert "steepest fall at learning rate 0.001" in text
    assert "lowest loss at learning rate 0.01" in text


def test_histogram_counts_everything():
    text = viz.histogram([0.0, 0.0, 1.0, float("inf")], bins=2).text
    assert "3 values" in text and "1 not finite" in text
    assert [int(line.split()[3]) for line in text.splitlines()[2:]] == [2, 1]


def _drawn(figure):
    """The characters of the images in a text, without the blank ones."""
    return "".join(figure.text.splitlines()[2:]).replace(" ", "")


def test_images_in_words_skip_no_pixel():
    thin = np.zeros((64, 64))
    thin[31] = thin[:, 31] = 1.0
    assert "@" in _drawn(viz.image_grid([thin], [""])) and "===" in _drawn(viz.image_grid([thin], [""]))
    field = np.zeros((31, 31))
    field[8:23, 8:23] = 1.0
    rows = viz.image_grid([field], [""]).text.splitlines()[3:]
    assert {len(row.strip()) for row in rows} == {0, 15} and sum(map(bool, rows)) == 8


def test_images_in_words_have_whole_titles_or_say_they_are_cut():
    one = np.eye(4)
    assert "\nhow often each pixel of the input counts\n" in (
        viz.image_grid([one], ["how often each pixel of the input counts"]).text
    )
    several = viz.image_grid([one] * 4, ["three waves, no loop"] * 4).text.splitlines()
    assert several[3] == "  ".join(["three waves, ..."] * 4)


def test_sixteen_images_are_drawn_in_words_and_more_are_named():
    names = [f"n{i}" for i in range(20)]
    text = viz.image_grid([np.eye(4)] * 16, names[:16]).text
    assert "n15" in text and "and:" not in text and text.count("@@") == 32
    assert viz.image_grid([np.eye(4)] * 20, names).text.endswith("and: n16, n17, n18, n19")


def test_compare_names_the_first_difference():
    text = viz.compare(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), [[1.0, 2.0], [7.0, 4.0]]).text
    assert "1 of 4 values differ" in text
    assert "first at [1, 0]: yours 3, torch 7" in text
    assert "3*" in text and "7*" in text and "4*" not in text


def test_compare_explains_shapes_before_values():
    assert "shapes differ: yours (3, 1), torch (3,)" in viz.compare(np.ones((3, 1)), np.ones(3)).text


def test_compare_draws_the_slice_that_differs():
    a, b = np.zeros((2, 2, 3)), np.zeros((2, 2, 3))
    b[1, 1, 2] = 5
    assert "drawn: slice [1, :, :]" in viz.compare(a, b).text
    assert viz.compare(b, b).text.splitlines()[1] == "0 of 12 values differ"


def test_compare_marks_what_a_judge_says_differs():
    a, b = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0 + 1e-9, 3.1])
    assert "1 of 3 values differ" in viz.compare(a, b).text
    judged = viz.compare(a, b, wrong=np.array([False, True, True]), caption=False)
    assert "2 of 3 values differ" in judged.text and "2 of 3 values differ" in judged.alt
    assert ">2 of 3 values differ" not in judged.svg, "the words are in the verdict"


@pytest.mark.parametrize(("columns", "across"), [(2, 2), (8, 1)])
def test_compare_puts_wide_grids_below_each_other(columns, across):
    grid = np.arange(3.0 * columns).reshape(3, columns) + 0.125
    svg = viz.compare(grid, grid + 1).svg
    places = re.findall(r'<text x="([^"]+)" y="([^"]+)"[^>]*>(?:yours|torch)</text>', svg)
    assert len(places) == 2 and len({x for x, _ in places}) == across
    assert len({y for _, y in places}) == 3 - across
    assert int(re.search(r'width="(\d+)"', svg)[1]) <= 640


@given(st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(0.1, 50)), min_size=1, max_size=8))
def test_spread_keeps_order_and_gaps(pairs):
    wanted, gaps = [w for w, _ in pairs], [g for _, g in pairs][1:]
    placed = spread(wanted, gaps)
    assert all(b - a >= gap - 1e-6 for a, b, gap in zip(placed, placed[1:], gaps, strict=False))
    assert sum(placed) == pytest.approx(sum(wanted), abs=1e-6)  # pushed apart evenly, not to one side
