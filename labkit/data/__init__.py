"""Datasets and their batches, under the names of `torch.utils.data`."""

# ruff: noqa: F401
from .collate import default_collate
from .dataset import ConcatDataset, Dataset, IterableDataset, Subset, TensorDataset, random_split
from .loader import DataLoader
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)  # fmt: skip
from .worker import WorkerInfo, get_worker_info
