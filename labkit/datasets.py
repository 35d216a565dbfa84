"""Small real data, shipped with the course: no download at lesson time. Each has a card in `datasets/`.

Images come as float32 from 0 to 1, labels as int64, all as NumPy arrays, so that any engine can take them.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np

from labkit import paths

FASHION = (
    *("T-shirt", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)


class Images(NamedTuple):
    """images (N, height, width) float32 in [0, 1], labels (N,) int64, and the name of each class."""

    images: np.ndarray
    labels: np.ndarray
    classes: tuple[str, ...]


class Table(NamedTuple):
    """inputs (N, columns) float32, target (N,) float32, and the name of each column and of the target."""

    inputs: np.ndarray
    target: np.ndarray
    columns: tuple[str, ...]
    target_name: str


def file(name: str) -> Path:
    """The path of a shipped file, or an error that says where it should be."""
    path = paths.root() / "datasets" / name
    if not path.exists():
        raise FileNotFoundError(
            f"The data file {path} is missing. It is part of the course: `git checkout datasets`."
        )
    return path


def digits() -> Images:
    """1,797 handwritten digits of 8 by 8 pixels."""
    with np.load(file("digits/digits.npz")) as data:
        images, labels = data["images"], data["labels"]
    return Images((images / 16).astype(np.float32), labels.astype(np.int64), tuple("0123456789"))


def fashion_mnist(split: str = "train", *, full: bool = False) -> Images:
    """Clothes of ten kinds, 28 by 28 pixels: 10,000 for training and 2,000 for test, shipped.

    `full=True` takes all 60,000 and 10,000 through torchvision, which downloads them once.
    """
    if split not in ("train", "test"):
        raise ValueError(f"split is 'train' or 'test', not {split!r}")
    if full:
        images, labels = _full_fashion_mnist(split == "train", paths.root() / "datasets" / "downloads")
    else:
        with np.load(file("fashion_mnist/fashion_mnist.npz")) as data:
            images, labels = data[f"{split}_images"], data[f"{split}_labels"]
    return Images((images / 255).astype(np.float32), labels.astype(np.int64), FASHION)


def _full_fashion_mnist(train: bool, folder: Path, download: bool = True) -> tuple[np.ndarray, np.ndarray]:
    from labkit.compat import torchvision

    try:
        whole = torchvision().datasets.FashionMNIST(str(folder), train=train, download=download)
    except (OSError, RuntimeError) as error:
        raise ConnectionError(
            f"All of Fashion-MNIST could not be downloaded into {folder}. Try again with a network, "
            "or leave out full=True: a fifth of it is shipped with the course."
        ) from error
    return whole.data.numpy(), whole.targets.numpy()


def penguins() -> Table:
    """333 penguins: bill, flipper, sex and species against body mass in grams."""
    with open(file("penguins/penguins.csv"), newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    measured = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm")
    species = ("Adelie", "Chinstrap", "Gentoo")
    inputs = [
        [
            *(float(row[name]) for name in measured),
            row["sex"] == "male",
            *(row["species"] == s for s in species),
        ]
        for row in rows
    ]
    target = np.array([float(row["body_mass_g"]) for row in rows], dtype=np.float32)
    return Table(np.array(inputs, dtype=np.float32), target, (*measured, "male", *species), "body_mass_g")


def two_moons(count: int = 200, noise: float = 0.12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two half circles that no line separates: points (count, 2) float32, labels (count,) int64, 0 or 1."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    angle = rng.uniform(0, np.pi, count)
    x = np.where(labels == 0, np.cos(angle), 1 - np.cos(angle))
    y = np.where(labels == 0, np.sin(angle), 0.5 - np.sin(angle))
    points = np.stack([x, y], axis=1) + noise * rng.standard_normal((count, 2))
    return points.astype(np.float32), labels.astype(np.int64)


def names() -> dict[str, list[str]]:
    """11,420 surnames by language, thirteen languages."""
    found: dict[str, list[str]] = {}
    for line in file("names/names.tsv").read_text(encoding="utf-8").splitlines():
        name, language = line.split("\t")
        found.setdefault(language, []).append(name)
    return found


def shakespeare() -> str:
    """Nine plays, about 1.07 million characters."""
    return file("shakespeare/shakespeare.txt").read_text(encoding="ascii")


def sunspots() -> tuple[list[str], np.ndarray]:
    """The mean number of sunspots of each month from 1749 to 2008: months ("1749-01") and values float32."""
    with open(file("sunspots/sunspots.csv"), newline="", encoding="ascii") as lines:
        rows = list(csv.DictReader(lines))
    return [row["month"] for row in rows], np.array([row["sunspots"] for row in rows], dtype=np.float32)
