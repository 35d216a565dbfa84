"""How a tensor looks as text: torch's layout, four digits, the middle of large ones left out."""

from typing import Any

import numpy as np

from labkit import dtypes


def text_of(tensor: Any) -> str:
    """`tensor([...], dtype=..., grad_fn=...)`; what goes without saying is left out."""
    data = tensor.detach().cpu().data
    data = data.astype(np.float32) if tensor.dtype == dtypes.bfloat16 else data
    edge = 3 if data.size > 1000 else max(data.shape, default=0)
    body = np.array2string(
        data,
        separator=", ",
        prefix="tensor(",
        threshold=1000,
        edgeitems=edge,
        max_line_width=80,
        formatter={"all": _formatter(_shown(data, edge))},
    )
    body = body.replace(", ..., ", ",  ..., ")
    notes = []
    if data.size == 0 and data.ndim > 1:
        notes.append(f"size={tuple(tensor.shape)}")
    if tensor.dtype not in (dtypes.get_default_dtype(), dtypes.int64, dtypes.bool_) or (
        data.size == 0 and tensor.dtype != dtypes.get_default_dtype()
    ):
        notes.append(f"dtype=labkit.{tensor.dtype.name}")
    if tensor.device != "cpu":
        notes.append(f"device='{tensor.device}'")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn={tensor.grad_fn!r}")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return ", ".join([f"tensor({body}", *notes]) + ")"


def _shown(data: Any, edge: int) -> Any:
    """The elements that are printed: the format is chosen from these."""
    for axis, n in enumerate(data.shape):
        if n > 2 * edge:
            data = np.take(data, [*range(edge), *range(n - edge, n)], axis)
    return data.ravel()


def _formatter(shown: Any) -> Any:
    """One format for all elements: whole numbers as `1.`, else four digits, else powers of ten."""
    if shown.dtype.kind != "f":
        width = max((len(str(v)) for v in shown.tolist()), default=0)
        return lambda v: str(v).rjust(width)
    finite = shown[np.isfinite(shown) & (shown != 0)].astype(np.float64)
    low, high = (np.abs(finite).min(), np.abs(finite).max()) if finite.size else (1.0, 1.0)
    whole = bool(np.all(finite == np.ceil(finite)))
    if high / low > 1e3 or high > 1e8 or (low < 1e-4 and not whole):
        pattern = "{:.4e}"
    else:
        pattern = "{:.0f}." if whole else "{:.4f}"
    width = max((len(pattern.format(v)) for v in finite.tolist()), default=0)
    return lambda v: (pattern.format(v) if np.isfinite(v) else str(float(v))).rjust(width)
