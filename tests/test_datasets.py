"""Every shipped set is what its card says, and the real downloader's loader reads the same images."""

import re
import struct

import numpy as np
import pytest

from labkit import datasets, paths


def test_digits():
    digits = datasets.digits()
    assert digits.images.shape == (1797, 8, 8) and digits.images.dtype == np.float32
    assert (digits.images.min(), digits.images.max()) == (0.0, 1.0)
    counts = np.bincount(digits.labels)
    assert (counts.min(), counts.max()) == (174, 183)


@pytest.mark.parametrize(("split", "each"), [("train", 1000), ("test", 200)])
def test_fashion_mnist(split, each):
    clothes = datasets.fashion_mnist(split)
    assert clothes.images.shape == (10 * each, 28, 28)
    assert np.bincount(clothes.labels).tolist() == [each] * 10
    assert len(clothes.classes) == 10 and 0.25 < clothes.images.mean() < 0.32


def test_fashion_mnist_refuses_an_unknown_split():
    with pytest.raises(ValueError, match="'train' or 'test'"):
        datasets.fashion_mnist("validation")


def test_full_fashion_mnist_comes_in_the_same_form(tmp_path, monkeypatch):
    """torchvision's own class, on its own files, made from the shipped images as if downloaded before."""
    shipped = {"train": datasets.fashion_mnist("train"), "t10k": datasets.fashion_mnist("test")}
    folder = tmp_path / "datasets" / "downloads" / "FashionMNIST" / "raw"
    folder.mkdir(parents=True)
    for split, part in shipped.items():
        _write_idx(folder / f"{split}-images-idx3-ubyte", np.round(part.images * 255).astype(np.uint8))
        _write_idx(folder / f"{split}-labels-idx1-ubyte", part.labels.astype(np.uint8))
    monkeypatch.setattr(paths, "root", lambda: tmp_path)
    for split, part in zip(("train", "test"), shipped.values(), strict=True):
        full = datasets.fashion_mnist(split, full=True)
        assert full.classes == part.classes
        for mine, theirs in zip(full[:2], part[:2], strict=True):
            assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs)


def test_a_download_that_fails_says_what_to_do(tmp_path):
    with pytest.raises(ConnectionError, match="leave out full=True"):
        datasets._full_fashion_mnist(train=True, folder=tmp_path, download=False)


def _write_idx(path, array):
    head = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    path.write_bytes(head + array.tobytes())


def test_penguins():
    table = datasets.penguins()
    assert table.inputs.shape == (333, 7) and table.target.shape == (333,)
    assert (table.inputs[:, 4:].sum(axis=1) == 1).all(), "each penguin is of one species"
    assert 2700 <= table.target.min() and table.target.max() <= 6300


def test_two_moons_is_balanced_and_repeatable():
    points, labels = datasets.two_moons(60, seed=3)
    again, _ = datasets.two_moons(60, seed=3)
    assert points.shape == (60, 2) and labels.sum() == 30 and np.array_equal(points, again)


def test_names_have_one_language_each():
    names = datasets.names()
    everyone = [name for group in names.values() for name in group]
    assert len(names) == 13 and len(everyone) == len(set(everyone)) == 11_420


def test_shakespeare():
    text = datasets.shakespeare()
    assert len(text) == 1_068_102 and text.isascii() and "MACBETH" in text


def test_sunspots():
    months, values = datasets.sunspots()
    assert (months[0], months[-1], len(values)) == ("1749-01", "2008-12", 3120)


def test_a_missing_file_says_what_to_do():
    with pytest.raises(FileNotFoundError, match="git checkout datasets"):
        datasets.file("digits/nothing.npz")


def test_every_set_has_a_card_with_source_and_license():
    folder = paths.root() / "datasets"
    sets = [path for path in folder.iterdir() if path.is_dir() and path.name != "downloads"]
    assert len(sets) == 6
    for path in sets:
        card = (path / "README.md").read_text()
        assert re.search(r"\*\*Source\.\*\*", card) and re.search(r"\*\*License\.\*\*", card), path.name
