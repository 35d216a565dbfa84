"""The checkpoint of week 4: stop after two epochs, go on for two, and get four epochs bit for bit."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from labkit import datasets
from labkit.book.answers import answer
from labkit.book.work import here


@pytest.fixture(scope="module")
def checkpoint_class():
    """`Checkpoint` as the solution notebook has it."""
    found, _ = answer(here().course.sources["w04.resume"])
    return found


class Run:
    """A network for digits, with chance wherever there can be chance: first weights, order, dropout."""

    def __init__(self, checkpoint_class: type, seed: int) -> None:
        torch.manual_seed(seed)
        digits = datasets.digits()
        x, y = torch.from_numpy(digits.images[:400]).flatten(1), torch.from_numpy(digits.labels[:400])
        order = torch.Generator().manual_seed(seed)
        self.loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True, generator=order)
        self.model = nn.Sequential(
            nn.Linear(64, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 10)
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=6)
        self.checkpoint = checkpoint_class(self.model, self.optimizer, self.scheduler, order)

    def train(self, epochs: int) -> list[float]:
        losses = []
        for _ in range(epochs):
            for x, y in self.loader:
                self.optimizer.zero_grad()
                loss = F.cross_entropy(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                losses.append(loss.item())
            self.scheduler.step()
        return losses

    def state(self) -> list[torch.Tensor]:
        """Weights, running statistics and the optimizer's averages."""
        averages = [value for per in self.optimizer.state_dict()["state"].values() for value in per.values()]
        return [*self.model.state_dict().values(), *averages]


@pytest.mark.parametrize("stop", [0, 2, 3])
def test_an_interrupted_run_equals_one_in_one_piece(
    checkpoint_class: type, tmp_path: Path, stop: int
) -> None:
    whole = Run(checkpoint_class, seed=0)
    expected = whole.train(4)

    first = Run(checkpoint_class, seed=0)
    losses = first.train(stop)
    first.checkpoint.save(tmp_path / "run.pt", stop)
    second = Run(checkpoint_class, seed=5)
    losses += second.train(4 - second.checkpoint.load(tmp_path / "run.pt"))

    assert losses == expected
    pairs = zip(second.state(), whole.state(), strict=True)
    assert all(torch.equal(mine, theirs) for mine, theirs in pairs)
    assert second.scheduler.get_last_lr() == whole.scheduler.get_last_lr()


def test_the_test_sees_a_run_that_starts_anew(checkpoint_class: type) -> None:
    """Two seeds give two runs: the equality above is not there by itself."""
    assert Run(checkpoint_class, seed=0).train(1) != Run(checkpoint_class, seed=5).train(1)
