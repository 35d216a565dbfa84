"""Turn a list of samples into one batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import labkit
from labkit.tensor import Tensor, tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Stack tensors, arrays and numbers along a new first axis; do the same inside dicts, tuples and lists.

    As in torch, tuples of samples become a list, strings are left alone, and Python floats become
    float64. Arrays of other libraries (a torch tensor from a torchvision transform) become labkit tensors.
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _stack(batch)
    if isinstance(first, bool | int):
        return tensor(list(batch))
    if isinstance(first, float):
        return tensor(list(batch), dtype=labkit.float64)
    if isinstance(first, str | bytes):
        return batch
    if hasattr(first, "__array__"):
        return _stack([tensor(np.asarray(sample)) for sample in batch])
    if isinstance(first, Mapping):
        return {key: default_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError(f"samples of one batch have different lengths: {[len(s) for s in batch]}")
        fields = [default_collate(field) for field in zip(*batch, strict=True)]
        return type(first)(*fields) if hasattr(first, "_fields") else fields  # a namedtuple stays one
    raise TypeError(
        f"cannot make a batch of {type(first).__name__} objects: return tensors, arrays, numbers, strings, "
        "dicts or tuples of these from __getitem__, or pass your own collate_fn"
    )


def _stack(samples: Sequence[Tensor]) -> Tensor:
    for i, sample in enumerate(samples):
        if sample.shape != samples[0].shape:
            raise RuntimeError(
                f"samples of one batch differ in shape: sample 0 is {tuple(samples[0].shape)}, sample {i} "
                f"is {tuple(sample.shape)}; pad them in collate_fn, or resize them in the dataset"
            )
    return labkit.stack(list(samples))
