"""`Figure`: a picture that carries its own words, and the helpers every picture shares.

A figure is one SVG, one sentence of alt text and one plain-text twin that states the same facts, so that it
works in JupyterLab, in print, in a terminal and for a screen reader.
"""

import html
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, repr=False)
class Figure:
    """A picture (`svg`), what it says in one sentence (`alt`), and the same facts in plain text (`text`)."""

    svg: str
    text: str
    alt: str

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}

    @property
    def html(self) -> str:
        """The SVG as an `<img>` with its alt text.

        An image rather than bare `<svg>`: JupyterLab strips `<svg>` from notebooks that are not trusted yet,
        and ids of two drawings on one page cannot meet.
        """
        size = re.search(r'width="(\d+)" height="(\d+)"', self.svg)
        width, height = size.groups() if size else ("600", "400")
        source = quote(self.svg, safe=" =:/,;()'!*?@&+$.-_~")
        return (
            f'<img alt="{html.escape(self.alt)}" width="{width}" height="{height}" '
            f'style="max-width:100%;height:auto" src="data:image/svg+xml,{html.escape(source)}">'
        )

    def save(self, path: str | Path) -> Path:
        """Write the picture to `path` (.svg or .html), or its words (.txt)."""
        path = Path(path)
        contents = {".svg": self.svg, ".html": self.html, ".txt": self.text + "\n"}
        if path.suffix not in contents:
            raise ValueError(f"cannot save a figure as {path.name!r}: end the name with .svg, .html or .txt")
        path.write_text(contents[path.suffix], encoding="utf-8")
        return path

    def __repr__(self) -> str:
        return self.text


def as_array(x: Any) -> Any:
    """`x` as a NumPy array: torch and labkit tensors, arrays, lists and numbers."""
    import numpy as np

    if hasattr(x, "detach"):
        x = x.detach()
    if hasattr(x, "cpu"):
        x = x.cpu()
    if str(getattr(x, "dtype", "")) == "torch.bfloat16":
        x = x.float()
    if hasattr(x, "numpy"):
        x = x.numpy()
    elif not isinstance(x, np.ndarray) and isinstance(getattr(x, "data", None), np.ndarray):
        x = x.data
    try:
        array = np.asarray(x)
    except ValueError:
        raise ValueError("the rows have different lengths, so they do not form an array") from None
    if array.dtype == object or array.dtype.kind in "USO":
        raise TypeError(f"expected numbers, got {type(x).__name__} holding {array.dtype}")
    return array
