"""Save and load tensors: safetensors, .npz and .npy, chosen by the suffix. Never pickle.

A file holds tensors, and nested dicts, lists and plain values around them (a checkpoint with model, optimizer
and epoch). Loading a file never runs code from it: a damaged or foreign file is refused with CheckpointError.
"""

import json
import math
import os
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from labkit.tensor import Tensor, tensor

_TREE = "labkit"  # the entry that holds everything of a nested object but its tensors
_SAFETENSORS = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}  # fmt: skip


class CheckpointError(RuntimeError):
    """A file that cannot be read as tensors; the message says why and what to do."""


def save(obj: Any, path: str | os.PathLike[str]) -> None:
    """Write tensors to `path`: any nesting of dicts and lists to .safetensors or .npz, one tensor to .npy.

    A flat dict of tensors, such as a state dict, becomes a plain file that other programs can read.
    """
    path = Path(path)
    writer = _WRITERS.get(path.suffix)
    if writer is None:
        raise ValueError(f"cannot save to {path.name!r}: choose a name ending in {', '.join(_WRITERS)}")
    unfinished = path.with_name(path.name + ".part")  # a crash must not leave half a checkpoint behind
    try:
        with open(unfinished, "wb") as file:
            writer(file, obj)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote, or any .safetensors, .npz or .npy file of plain numbers."""
    path = Path(path)
    _refuse_pickle(path)
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise CheckpointError(f"cannot load {path.name!r}: labkit reads {', '.join(_READERS)}")
    try:
        return reader(path)
    except Exception as error:
        raise CheckpointError(
            f"{path.name!r} cannot be read as a {path.suffix} file, it may be damaged or cut short: {error}"
        ) from error


# ---- nested objects ----


def _split(obj: Any) -> tuple[dict[str, np.ndarray], str | None]:
    """The tensors of an object by path, and the rest as JSON; no JSON for a flat dict of tensors."""
    arrays: dict[str, np.ndarray] = {}

    def visit(value: Any, path: str) -> Any:
        if isinstance(value, Tensor | np.ndarray):
            if path in arrays or path == _TREE:
                raise ValueError(
                    f"the name {path!r} is taken: two entries of the object would be saved under it"
                )
            array = value.detach().numpy() if isinstance(value, Tensor) else value
            arrays[path] = np.asarray(array, order="C")
            return {"tensor": path}
        dot = path + "." if path else ""
        if isinstance(value, dict):
            items = [[_key(key), visit(item, f"{dot}{key}")] for key, item in value.items()]
            return {"dict": items}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [visit(item, f"{dot}{i}") for i, item in enumerate(value)]}
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise TypeError(
            f"cannot save {path or 'this object'}: it is a {type(value).__name__}. Files hold tensors, "
            "numbers, strings, None, and dicts and lists of these; save model.state_dict(), not the model"
        )

    tree = visit(obj, "")
    flat = isinstance(obj, dict) and all(isinstance(v, Tensor | np.ndarray) for v in obj.values())
    return arrays, None if flat else json.dumps(tree)


def _key(key: Any) -> Any:
    if isinstance(key, str | int) and not isinstance(key, bool):
        return key
    raise TypeError(f"cannot save a dict with the key {key!r}: keys must be strings or whole numbers")


def _join(arrays: dict[str, np.ndarray], tree: str | None) -> Any:
    """The inverse of `_split`."""
    tensors = {name: tensor(array) for name, array in arrays.items()}

    def build(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        ((kind, content),) = node.items()
        if kind == "tensor":
            return tensors[content]
        if kind == "dict":
            return {key: build(item) for key, item in content}
        return {"list": list, "tuple": tuple}[kind](build(item) for item in content)

    return tensors if tree is None else build(json.loads(tree))


# ---- formats ----


def _write_safetensors(file: Any, obj: Any) -> None:
    from safetensors.numpy import save as to_bytes

    arrays, tree = _split(obj)
    file.write(to_bytes(arrays, metadata=None if tree is None else {_TREE: tree}))


def _read_safetensors(path: Path) -> Any:
    from safetensors import deserialize, safe_open

    arrays = {}
    for name, entry in deserialize(path.read_bytes()):
        if entry["dtype"] not in _SAFETENSORS:
            raise ValueError(f"{name} has the type {entry['dtype']}, which labkit does not have")
        arrays[name] = np.frombuffer(entry["data"], _SAFETENSORS[entry["dtype"]]).reshape(entry["shape"])
    with safe_open(path, framework="np") as file:
        return _join(arrays, (file.metadata() or {}).get(_TREE))


def _write_npz(file: Any, obj: Any) -> None:
    arrays, tree = _split(obj)
    if tree is not None:
        arrays[_TREE] = np.array(tree)
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(name + ".npy", "w", force_zip64=True) as member:
                _write_array(member, array)


def _read_npz(path: Path) -> Any:
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            with archive.open(info) as member:
                arrays[info.filename.removesuffix(".npy")] = _read_array(member, info.file_size)
    tree = arrays.pop(_TREE, None)
    return _join(arrays, None if tree is None else str(tree))


def _write_npy(file: Any, obj: Any) -> None:
    if not isinstance(obj, Tensor | np.ndarray):
        raise TypeError(f"a .npy file holds one tensor, got {type(obj).__name__}; use .safetensors or .npz")
    _write_array(file, obj.detach().numpy() if isinstance(obj, Tensor) else obj)


def _read_npy(path: Path) -> Tensor:
    with open(path, "rb") as file:
        return tensor(_read_array(file, path.stat().st_size))


def _write_array(file: Any, array: np.ndarray) -> None:
    if array.dtype == ml_dtypes.bfloat16:
        raise TypeError("NumPy's formats have no bfloat16: save to .safetensors, or convert to float32 first")
    np.lib.format.write_array(file, array, allow_pickle=False)


def _read_array(file: Any, size: int) -> np.ndarray:
    """One array of NumPy's format from a file of `size` bytes, checked before memory is set aside for it."""
    version = np.lib.format.read_magic(file)
    read_header = (
        np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read_header(file)
    if dtype.hasobject:
        raise ValueError(
            "it holds Python objects, which would have to be unpickled: labkit reads numbers only"
        )
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize > size:
        raise ValueError(f"it promises an array of shape {shape} and type {dtype}, but has only {size} bytes")
    array = np.frombuffer(file.read(count * dtype.itemsize), dtype, count)
    return array.reshape(shape, order="F" if fortran else "C")


def _refuse_pickle(path: Path) -> None:
    """Recognize a pickle, torch's or a bare one, by its content, whatever its name says."""
    with open(path, "rb") as file:
        start = file.read(9)
    # A safetensors file whose header is 640 bytes long starts like a pickle as well: 80 02, but then zeros.
    pickled = start[:1] == b"\x80" and start[1:2] in b"\x02\x03\x04\x05" and start[4:] != b"\0\0\0\0{"
    if start.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(path) as archive:
                pickled = any(name.endswith(".pkl") for name in archive.namelist())
        except Exception:  # not a readable archive, in one of many ways
            pickled = False  # the reader of .npz will say so
    if pickled or path.suffix in (".pt", ".pth", ".bin", ".pkl", ".ckpt"):
        raise CheckpointError(
            f"{path.name!r} is a pickle, the format of torch.save: loading one runs whatever code is inside, "
            "so labkit does not. If you trust it, convert it once with torch:\n"
            f"  weights = torch.load({path.name!r}, weights_only=True)\n"
            f"  safetensors.torch.save_file(weights, '{path.stem}.safetensors')"
        )


_WRITERS = {".safetensors": _write_safetensors, ".npz": _write_npz, ".npy": _write_npy}
_READERS = {".safetensors": _read_safetensors, ".npz": _read_npz, ".npy": _read_npy}
