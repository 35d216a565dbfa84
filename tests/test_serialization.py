import io
import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import labkit
from labkit import load, nn, optim, save
from labkit.serialization import CheckpointError

DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def same(a, b):
    if isinstance(a, labkit.Tensor):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        assert a.numpy().tobytes() == b.numpy().tobytes()
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, list | tuple):
        assert type(a) is type(b)
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_state_dicts_come_back(tmp_path, suffix):
    state = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).state_dict()
    state |= {dtype: labkit.tensor(np.arange(6).reshape(2, 3).astype(dtype)).T for dtype in DTYPES}
    state["empty"] = labkit.zeros(0, 3)
    save(state, tmp_path / f"model{suffix}")
    same(load(tmp_path / f"model{suffix}"), state)
    assert os.listdir(tmp_path) == [f"model{suffix}"]


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_checkpoints_come_back(tmp_path, suffix):
    net = nn.Linear(3, 2)
    optimizer = optim.Adam(net.parameters())
    net(labkit.ones(1, 3)).sum().backward()
    optimizer.step()
    checkpoint = {
        "model": net.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "history": [1.5, None, "x", True, (1, labkit.ones(2))],
    }
    save(checkpoint, tmp_path / f"run{suffix}")
    again = load(tmp_path / f"run{suffix}")
    same(again, checkpoint)
    fresh = optim.Adam(net.parameters())
    fresh.load_state_dict(again["optimizer"])
    same(fresh.state_dict(), optimizer.state_dict())


def test_one_tensor(tmp_path):
    save(labkit.arange(5), tmp_path / "x.npy")
    same(load(tmp_path / "x.npy"), labkit.arange(5))
    with pytest.raises(TypeError, match=r"a \.npy file holds one tensor, got dict"):
        save({}, tmp_path / "y.npy")


def test_bfloat16(tmp_path):
    x = labkit.tensor([1.0, 2.5]).to(labkit.bfloat16)
    save({"x": x}, tmp_path / "x.safetensors")
    same(load(tmp_path / "x.safetensors"), {"x": x})
    with pytest.raises(TypeError, match=r"no bfloat16: save to \.safetensors"):
        save({"x": x}, tmp_path / "x.npz")
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_other_programs_read_our_files_and_we_theirs(tmp_path):
    from safetensors.torch import load_file, save_file

    net, other = torch.nn.Linear(3, 2), nn.Linear(3, 2)
    save_file(net.state_dict(), tmp_path / "torch.safetensors")
    other.load_state_dict(load(tmp_path / "torch.safetensors"))
    save(other.state_dict(), tmp_path / "labkit.safetensors")
    assert (load_file(tmp_path / "labkit.safetensors")["weight"] == net.weight).all()
    np.savez_compressed(tmp_path / "numpy.npz", a=np.arange(3), b=np.ones((2, 2), order="F"))
    same(load(tmp_path / "numpy.npz"), {"a": labkit.arange(3), "b": labkit.ones(2, 2, dtype=labkit.float64)})
    save({"a": labkit.arange(3)}, tmp_path / "labkit.npz")
    assert np.load(tmp_path / "labkit.npz")["a"].tolist() == [0, 1, 2]


def test_what_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match=r"cannot save model: it is a Linear.*state_dict\(\)"):
        save({"model": nn.Linear(1, 1)}, tmp_path / "x.safetensors")
    with pytest.raises(TypeError, match=r"the key \(1, 2\)"):
        save({(1, 2): labkit.ones(1)}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match=r"the name 'a\.b' is taken"):
        save({"a.b": labkit.ones(1), "a": {"b": labkit.ones(1)}}, tmp_path / "x.npz")
    with pytest.raises(ValueError, match=r"ending in \.safetensors, \.npz, \.npy"):
        save({}, tmp_path / "x.pt")
    assert os.listdir(tmp_path) == []


def test_a_failed_save_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.npz"
    save({"a": labkit.ones(1)}, path)
    before = path.read_bytes()
    with pytest.raises(TypeError):
        save({"a": labkit.ones(1), "b": object()}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["x.npz"]


# ---- files that must be refused ----


class Bomb:
    """Unpickling it leaves a mark."""

    def __reduce__(self):
        return os.putenv, ("LABKIT_BOMB", "exploded")


@pytest.fixture
def no_unpickling(monkeypatch):
    def refuse(*args, **kwargs):
        pytest.fail("a file was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)


def npy(array, **settings):
    file = io.BytesIO()
    np.save(file, array, **settings)
    return file.getvalue()


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/").replace("_npy", ".npy").replace("_pkl", ".pkl"), content)
    return file.getvalue()


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


HUGE = {"descr": "<f4", "fortran_order": False, "shape": (10**12,)}


def header_only(header):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, header)
    return file.getvalue()


CORPUS = {
    "empty.safetensors": b"",
    "short.safetensors": b"\x10\0\0",
    "header_too_long.safetensors": struct.pack("<Q", 2**60) + b"{}",
    "not_json.safetensors": safetensors(b"{not json"),
    "bad_offsets.safetensors": safetensors(
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 999]}}, b"12345678"
    ),
    "overlap.safetensors": safetensors(
        {
            "a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]},
            "b": {"dtype": "U8", "shape": [4], "data_offsets": [2, 6]},
        },
        b"123456",
    ),
    "wrong_size.safetensors": safetensors(
        {"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, b"12345678"
    ),
    "unknown_type.safetensors": safetensors(
        {"a": {"dtype": "F4", "shape": [1], "data_offsets": [0, 1]}}, b"1"
    ),
    "bad_tree.safetensors": safetensors({"__metadata__": {"labkit": '{"tensor": "missing"}'}}),
    "evil_tree.safetensors": safetensors({"__metadata__": {"labkit": '{"eval": ["1"]}'}}),
    "text.npz": b"hello",
    "cut.npz": zipped(a_npy=npy(np.ones(100)))[:200],
    "objects.npz": zipped(a_npy=npy(np.array([Bomb()], dtype=object), allow_pickle=True)),
    "not_an_array.npz": zipped(a_npy=b"hello"),
    "huge.npz": zipped(a_npy=header_only(HUGE)),
    "bad_tree.npz": zipped(labkit_npy=npy(np.array("{"))),
    "empty.npy": b"",
    "cut.npy": npy(np.ones(100))[:200],
    "objects.npy": npy(np.array([Bomb()], dtype=object), allow_pickle=True),
    "huge.npy": header_only(HUGE),
    "negative.npy": header_only({"descr": "<f4", "fortran_order": False, "shape": (-1, 3)}),
    "text_dtype.npy": npy(np.array(["a", "b"])),
    "complex.npy": npy(np.ones(2, np.complex64)),
    "bare_pickle.npy": pickle.dumps(Bomb()),
    "bare_pickle.safetensors": pickle.dumps({"a": 1}),
    "torch_zip.npz": zipped(archive__data_pkl=pickle.dumps(Bomb())),
    "unknown.xyz": b"hello",
    "old.pt": b"whatever",
}


@pytest.mark.parametrize("name", CORPUS)
def test_malformed_files_are_refused(tmp_path, name, no_unpickling):
    path = tmp_path / name
    path.write_bytes(CORPUS[name])
    with pytest.raises(CheckpointError) as error:
        load(path)
    assert name in str(error.value)


def test_torchs_own_files_are_refused_with_what_to_do(tmp_path, no_unpickling):
    path = tmp_path / "model.pt"
    torch.save({"a": torch.ones(2)}, path)
    with pytest.raises(
        CheckpointError, match=r"(?s)pickle.*torch\.load\('model\.pt', weights_only=True\).*save_file"
    ):
        load(path)
    path.rename(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="pickle"):
        load(tmp_path / "model.safetensors")


@pytest.mark.parametrize("length", [640, 896, 0x7D0280])
def test_a_header_length_that_looks_like_a_pickle(tmp_path, length):
    header = json.dumps({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}}).encode()
    (tmp_path / "x.safetensors").write_bytes(safetensors(header.ljust(length), b"\x01\x02"))
    assert load(tmp_path / "x.safetensors")["a"].tolist() == [1, 2]


def test_a_missing_file_is_the_usual_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.npz")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    where=st.integers(0, 10**6),
    value=st.integers(0, 255),
    suffix=st.sampled_from([".safetensors", ".npz", ".npy"]),
)
def test_a_flipped_byte_is_read_or_refused_never_worse(tmp_path, where, value, suffix):
    path = tmp_path / f"x{suffix}"
    save(
        labkit.arange(4.0) if suffix == ".npy" else {"a": labkit.ones(3), "b": {"c": [1, labkit.zeros(2)]}},
        path,
    )
    content = bytearray(path.read_bytes())
    content[where % len(content)] = value
    path.write_bytes(content)
    try:
        load(path)
    except CheckpointError:
        pass
