import collections

import numpy as np
import pytest
import torch
import torch.utils.data as theirs

import labkit
from labkit import data


def test_datasets():
    x, y = labkit.arange(6).reshape(3, 2), labkit.tensor([7, 8, 9])
    pairs = data.TensorDataset(x, y)
    assert len(pairs) == 3
    assert [t.tolist() for t in pairs[1]] == [[2, 3], 8]
    both = data.Subset(pairs, [2, 0]) + data.TensorDataset(x[:1], y[:1])
    assert [both[i][1].item() for i in range(len(both))] == [9, 7, 7]
    assert both[-3][1].item() == 9
    with pytest.raises(IndexError, match="index 3 is out of range for a dataset of 3 samples"):
        both[3]
    with pytest.raises(ValueError, match=r"same first size, got shapes \(3, 2\), \(2,\)"):
        data.TensorDataset(x, y[:2])
    with pytest.raises(NotImplementedError, match="Mine needs a method __getitem__"):
        type("Mine", (data.Dataset,), {})()[0]


def test_random_split():
    parts = data.random_split(range(10), [3, 7], generator=labkit.Generator().manual_seed(1))
    again = data.random_split(range(10), [3, 7], generator=labkit.Generator().manual_seed(1))
    assert [list(p) for p in parts] == [list(p) for p in again]
    assert sorted([*parts[0], *parts[1]]) == list(range(10))
    assert [len(p) for p in data.random_split(range(10), [0.25, 0.25, 0.5])] == [3, 2, 5]
    lengths = [len(p) for p in theirs.random_split(range(10), [0.25, 0.25, 0.5])]
    assert lengths == [3, 2, 5]
    with pytest.raises(ValueError, match=r"lengths \[3, 8\] add up to 11, but the dataset has 10 samples"):
        data.random_split(range(10), [3, 8])


def test_samplers():
    seeded = labkit.Generator().manual_seed(0)
    assert list(data.SequentialSampler(range(3))) == [0, 1, 2]
    order = data.RandomSampler(range(20), generator=seeded)
    first, second = list(order), list(order)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert len(list(data.RandomSampler(range(3), num_samples=8))) == 8
    drawn = collections.Counter(data.RandomSampler(range(3), replacement=True, num_samples=300))
    assert set(drawn) == {0, 1, 2}
    assert sorted(data.SubsetRandomSampler([4, 2, 9])) == [2, 4, 9]
    drawn = collections.Counter(data.WeightedRandomSampler([0.0, 3.0, 1.0], 4000))
    assert drawn[0] == 0
    assert drawn[1] / drawn[2] == pytest.approx(3, rel=0.2)
    for drop_last in (True, False):
        batches = data.BatchSampler(range(7), 3, drop_last)
        assert list(batches) == list(theirs.BatchSampler(range(7), 3, drop_last))
        assert len(batches) == len(list(batches))
    with pytest.raises(ValueError, match=r"whole number, got 2\.5"):
        data.BatchSampler(range(7), 2.5, False)


Point = collections.namedtuple("Point", "x y")

BATCHES = [
    [1, 2, 3],
    [1.5, 2.5],
    [True, False],
    ["a", "b"],
    [np.float32(1), np.float32(2)],
    [np.arange(3), np.arange(3)],
    [(1, "a"), (2, "b")],
    [{"x": 1.0, "y": [1, 2]}, {"x": 2.0, "y": [3, 4]}],
    [Point(1, 2.0), Point(3, 4.0)],
]


def plain(value):
    """A batch of either library as lists and type names."""
    if isinstance(value, torch.Tensor | labkit.Tensor):
        return str(value.dtype).removeprefix("torch."), tuple(value.shape), value.tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value).__name__, [plain(item) for item in value]
    return value


@pytest.mark.parametrize("batch", BATCHES, ids=str)
def test_collate_equals_torch(batch):
    assert plain(data.default_collate(batch)) == plain(theirs.default_collate(batch))


def test_collate_tensors_of_either_library():
    batch = data.default_collate([labkit.ones(2), labkit.zeros(2)])
    assert batch.tolist() == [[1, 1], [0, 0]]
    batch = data.default_collate([torch.ones(2), torch.zeros(2)])
    assert isinstance(batch, labkit.Tensor)
    assert batch.tolist() == [[1, 1], [0, 0]]


def test_collate_errors():
    with pytest.raises(RuntimeError, match=r"sample 0 is \(2,\), sample 1 is \(3,\); pad them"):
        data.default_collate([labkit.ones(2), labkit.ones(3)])
    with pytest.raises(RuntimeError, match=r"different lengths: \[2, 1\]"):
        data.default_collate([(1, 2), (1,)])
    with pytest.raises(TypeError, match="cannot make a batch of NoneType objects"):
        data.default_collate([None, None])
