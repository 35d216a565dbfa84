"""Datasets: anything with `__getitem__` and `__len__`, or an iterator."""

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import labkit
from labkit.tensor import Tensor


class Dataset:
    """A map from an index to a sample: subclass it and write `__getitem__` and `__len__`."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} needs a method __getitem__(self, index)")

    def __add__(self, other: "Dataset") -> "ConcatDataset":
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """A stream of samples, for data without an index: subclass it and write `__iter__`."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} needs a method __iter__(self)")


class TensorDataset(Dataset):
    """Sample i is the tuple of row i of each tensor."""

    def __init__(self, *tensors: Tensor) -> None:
        if len({t.shape[0] for t in tensors}) > 1:
            shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
            raise ValueError(f"TensorDataset needs tensors with the same first size, got shapes {shapes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class Subset(Dataset):
    """The samples of `dataset` at `indices`, in that order."""

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: int) -> Any:
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Several datasets one after another."""

    def __init__(self, datasets: Sequence[Any]) -> None:
        self.datasets = list(datasets)
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for a dataset of {len(self)} samples")
        index %= len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        start = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - start]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1] if self.datasets else 0


def random_split(dataset: Any, lengths: Sequence[int | float], generator: Any = None) -> list[Subset]:
    """Split at random into parts of the given lengths; fractions that add up to 1 are allowed."""
    total = len(dataset)
    sizes = (
        _sizes_of_fractions(lengths, total) if math.isclose(sum(lengths), 1) else [int(n) for n in lengths]
    )
    if sum(sizes) != total:
        raise ValueError(
            f"lengths {list(lengths)} add up to {sum(sizes)}, but the dataset has {total} samples"
        )
    order = labkit.randperm(total, generator=generator).tolist()
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _sizes_of_fractions(fractions: Sequence[float], total: int) -> list[int]:
    """Round every part down, then hand out the samples left over one by one from the first part."""
    if min(fractions) < 0:
        raise ValueError(f"lengths must not be negative, got {list(fractions)}")
    sizes = [math.floor(total * fraction) for fraction in fractions]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    return sizes
