"""Explorers: pictures with controls, built from plain ipywidgets.

The picture is an ordinary output below the controls, replaced as they move, not part of the widget. So the
saved notebook always holds the last picture, and shows it when no kernel is running. With LABKIT_LANE set
(as when the lesson notebooks are built) only the picture is shown: stored notebooks have no dead controls.

Below the picture stands where the controls work. It is part of the picture's output, which every page shows;
the place of the controls may be empty there, or hold some that move nothing. Where they work, in JupyterLab,
labkit.css hides it.
"""

from collections.abc import Callable
from html import escape
from threading import RLock
from typing import Any

from labkit import lane
from labkit.viz.figure import Figure
from labkit.viz.shapes import broadcast
from labkit.viz.storage import outside, row_major, strides, view_of

EXAMPLES = {  # name: (shape, stride, offset, storage)
    "row-major": ("3, 4", "4, 1", 0, 12),
    "transposed": ("4, 3", "1, 4", 0, 12),
    "every second column": ("3, 2", "4, 2", 0, 12),
    "reversed": ("12", "-1", 11, 12),
    "diagonal": ("3", "5", 0, 12),
    "windows of 3": ("10, 3", "1, 1", 0, 12),
    "one row repeated": ("3, 4", "0, 1", 4, 12),
}
PLACE = "[controls of the picture below]"  # where there are none; ipywidgets would say VBox(children=(...
STILL = "The controls work in a running notebook: make lab, then run this cell."
STILL_HTML = f'<div class="labkit-still">{STILL.replace("make lab", "<code>make lab</code>")}</div>'


class Explorer:
    """Controls, one message line, and the picture they make.

    `draw` turns the values of `fields` into a figure and a remark (empty if all is well); a ValueError or
    TypeError from it is shown as the message and the last picture stays. `drawn` are the values that picture
    and message belong to: controls move on while a picture is being drawn. JupyterLab may give each control a
    thread of its own in the kernel, so pictures are drawn one after the other, always of the latest values.
    """

    _drawing = RLock()  # of all explorers: matplotlib is not made for threads

    def __init__(
        self, fields: dict[str, Any], draw: Callable[..., tuple[Figure, str]], extra: tuple = ()
    ) -> None:
        import ipywidgets as widgets

        self.fields, self._draw = fields, draw
        self.message = ""
        self.drawn = self.values
        self.figure, _ = draw(**self.drawn)
        self._note = widgets.HTML()
        self._handle: Any = None
        self._paused = False
        self.controls = widgets.VBox([*extra, *fields.values(), self._note])
        for field in fields.values():
            field.observe(self._changed, names="value")

    @property
    def values(self) -> dict[str, Any]:
        """Where the controls stand, by name."""
        return {name: field.value for name, field in self.fields.items()}

    def set(self, **values: Any) -> None:
        """Set several fields and redraw once."""
        self._paused = True
        for name, value in values.items():
            self.fields[name].value = value
        self._paused = False
        self._changed()

    def _changed(self, _: Any = None) -> None:
        if self._paused:
            return
        with self._drawing:
            values = self.values
            if values != self.drawn:
                self._redraw(values)

    def _redraw(self, values: dict[str, Any]) -> None:
        try:
            self.figure, self.message = self._draw(**values)
        except (ValueError, TypeError) as error:
            self.message = f"{str(error).rstrip('.')}. The picture shows the last numbers that worked."
        note = f'<div role="status" style="line-height:1.4"><b>Note:</b> {escape(self.message)}</div>'
        self._note.value = note if self.message else ""
        if self._handle is not None:
            self._handle.update(self._picture(), raw=True)
        self.drawn = values

    def _ipython_display_(self) -> None:
        from IPython.display import display

        if not lane.current().still:
            display(self.controls._repr_mimebundle_() | {"text/plain": PLACE}, raw=True)
        self._handle = display(self._picture(), raw=True, display_id=True)

    def _picture(self) -> dict[str, str]:
        """The figure, and below it where the controls work."""
        return {"text/html": self.figure.html + STILL_HTML, "text/plain": f"{self.figure.text}\n{STILL}"}


def _numbers(text: str, what: str) -> tuple[int, ...]:
    """(3, 4) from "3, 4", "(3, 4)" or "3 4"; () from an empty field."""
    words = text.strip().strip("()[]").replace(",", " ").split()
    try:
        return tuple(int(word) for word in words)
    except ValueError:
        raise ValueError(f"{what} “{text}” is not a list of whole numbers; write for example 3, 4") from None


def strides_explorer(
    shape: tuple[int, ...] = (3, 4), stride: tuple[int, ...] | None = None, offset: int = 0, storage: int = 12
) -> Explorer:
    """Change shape, stride, offset and storage size, and see which cells the view reads.

    An index outside the storage is drawn with a cross and explained below the controls.
    """
    import ipywidgets as widgets

    def draw(shape: str, stride: str, offset: int, storage: int) -> tuple[Figure, str]:
        sizes = _numbers(shape, "shape")
        steps = _numbers(stride, "stride") if stride.strip() else row_major(sizes)
        figure = strides(sizes, steps, offset, storage, check=False)
        return figure, outside(view_of(sizes, steps, offset, storage))

    wide = {"style": {"description_width": "6em"}, "layout": widgets.Layout(width="28em")}
    steps = row_major(shape) if stride is None else stride
    fields = {
        "shape": widgets.Text(", ".join(map(str, shape)), description="shape", **wide),
        "stride": widgets.Text(
            ", ".join(map(str, steps)), description="stride", placeholder="row-major", **wide
        ),
        "offset": widgets.IntSlider(offset, 0, 39, description="offset", **wide),
        "storage": widgets.IntSlider(storage, 1, 40, description="storage", **wide),
    }
    examples = widgets.Dropdown(options=["choose", *EXAMPLES], description="example", **wide)
    explorer = Explorer(fields, draw, (examples,))

    def choose(change: dict[str, Any]) -> None:
        if change["new"] in EXAMPLES:
            explorer.set(**dict(zip(fields, EXAMPLES[change["new"]], strict=True)))

    def leave(_: Any) -> None:
        """Numbers changed by hand are no example any more, and the same one can be chosen again."""
        if not explorer._paused:
            examples.value = "choose"

    examples.observe(choose, names="value")
    for field in fields.values():
        field.observe(leave, names="value")
    return explorer


def broadcast_explorer(a: tuple[int, ...] = (4, 1), b: tuple[int, ...] = (2, 1, 3)) -> Explorer:
    """Type two shapes and see how their axes pair, or where they clash."""
    import ipywidgets as widgets

    def draw(a: str, b: str) -> tuple[Figure, str]:
        return broadcast(_numbers(a, "shape a"), _numbers(b, "shape b")), ""

    wide = {"style": {"description_width": "6em"}, "layout": widgets.Layout(width="28em")}
    fields = {
        "a": widgets.Text(", ".join(map(str, a)), description="shape a", **wide),
        "b": widgets.Text(", ".join(map(str, b)), description="shape b", **wide),
    }
    return Explorer(fields, draw)
