"""A checkpoint from which a run goes on as if it had never stopped."""

import os
import tempfile

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.exercises.week04.shared import regression_net, seeded
from labkit.lazy import F, torch


class _Checkpoint:
    """Everything that a run needs to go on as if nothing had happened."""

    leave_out: tuple[str, ...] = ()

    def __init__(self, model, optimizer, scheduler, generator):
        self.parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
        self.generator = generator

    def save(self, path, epoch):
        state = {name: part.state_dict() for name, part in self.parts.items() if name not in self.leave_out}
        state |= {"order": self.generator.get_state(), "chance": torch.get_rng_state(), "epoch": epoch}
        torch.save(state, path)

    def load(self, path):
        state = torch.load(path)
        for name in state.keys() & self.parts.keys():
            self.parts[name].load_state_dict(state[name])
        if "order" not in self.leave_out:
            self.generator.set_state(state["order"])
        if "chance" not in self.leave_out:
            torch.set_rng_state(state["chance"])
        return state["epoch"]


class _CheckpointModel(_Checkpoint):
    leave_out = ("optimizer", "scheduler", "order", "chance")


class _CheckpointNoOptimizer(_Checkpoint):
    leave_out = ("optimizer",)


class _CheckpointNoScheduler(_Checkpoint):
    leave_out = ("scheduler",)


class _CheckpointNoOrder(_Checkpoint):
    leave_out = ("order",)


class _CheckpointNoChance(_Checkpoint):
    leave_out = ("chance",)


class _CheckpointOneMore(_Checkpoint):
    def load(self, path):
        return super().load(path) + 1


class _CheckpointReplaces(_Checkpoint):
    def save(self, path, epoch):
        torch.save(
            {
                **self.parts,
                "order": self.generator.get_state(),
                "chance": torch.get_rng_state(),
                "epoch": epoch,
            },
            path,
        )

    def load(self, path):
        state = torch.load(path, weights_only=False)
        self.parts = {name: state[name] for name in self.parts}
        self.generator.set_state(state["order"])
        torch.set_rng_state(state["chance"])
        return state["epoch"]


class _CheckpointObjects(_CheckpointReplaces):
    def load(self, path):
        return torch.load(path)["epoch"]


class _CheckpointSeeds(_Checkpoint):
    def save(self, path, epoch):
        super().save(path, epoch)
        seeds = {"order": self.generator.initial_seed(), "chance": torch.initial_seed()}
        torch.save({**torch.load(path), **seeds}, path)

    def load(self, path):
        state = torch.load(path)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        self.generator.manual_seed(state["order"])
        torch.manual_seed(state["chance"])
        return state["epoch"]


def _resume_run(Checkpoint, x, y, batch_size, stop, epochs):
    """Train `stop` epochs, save, make everything anew with other seeds, load, go on; beside a run in one piece."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.pt")
        first = _Run(x, y, batch_size, seed=3)
        losses = first.train(stop)
        Checkpoint(*first.parts).save(path, stop)
        if not os.path.exists(path):
            raise FileNotFoundError("`save` wrote no file at `path`")
        first.train(1)
        Checkpoint(*first.parts).save(os.path.join(folder, "later.pt"), stop + 1)  # not the one to load
        second = _Run(x, y, batch_size, seed=8)
        epoch = Checkpoint(*second.parts).load(path)
        if type(epoch) is not int:
            raise TypeError(f"`load` returns how many epochs are done, an int; yours returned {epoch!r}")
    losses += second.train(epochs - epoch)
    whole = _Run(x, y, batch_size, seed=3)
    straight = whole.train(epochs)
    same = all(
        torch.equal(a, b) for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True)
    )
    return {
        "epoch it goes on from": epoch,
        "losses": losses,
        "bit for bit the run in one piece": losses == straight and same,
    }


class _Run:
    """A small training run with chance in every place where chance can be: weights, order, dropout."""

    def __init__(self, x, y, batch_size, seed):
        torch.manual_seed(seed)
        self.x, self.y, self.batch_size = x, y, batch_size
        self.model = regression_net().double()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 7)
        self.generator = seeded(seed)

    @property
    def parts(self):
        return self.model, self.optimizer, self.scheduler, self.generator

    def train(self, epochs):
        losses = []
        for _ in range(epochs):
            order = torch.randperm(len(self.x), generator=self.generator)
            for rows in order.split(self.batch_size):
                self.optimizer.zero_grad()
                loss = F.mse_loss(self.model(self.x[rows]).squeeze(1), self.y[rows])
                loss.backward()
                self.optimizer.step()
            self.scheduler.step()
            losses.append(loss.item())
        return losses


def _resume_case(n, batch_size, stop, epochs):
    return lambda draw: {
        "x": draw.normal(n, 3),
        "y": draw.normal(n),
        "batch_size": batch_size,
        "stop": stop,
        "epochs": epochs,
    }


exercise = Implement(
    title="Loop 4: stop, and go on as if nothing had happened",
    minutes=15,
    needs=("w04.epoch",),
    also=("checkpoint",),
    dtype="float64",
    cases=[
        Case("two and two epochs", _resume_case(8, 3, 2, 4)),
        Case("one and two epochs", _resume_case(5, 3, 1, 3)),
        Case(
            "not contiguous",
            lambda draw: {
                "x": draw.transposed(7, 3),
                "y": draw.strided(7),
                "batch_size": 4,
                "stop": 1,
                "epochs": 3,
            },
        ),
        Case("batches of one", _resume_case(4, 1, 1, 2)),
    ],
    use=_resume_run,
    oracle=vary(_resume_run, Checkpoint=_Checkpoint),
    reference="the same run in one piece, bit for bit",
    mistakes=[
        Mistake(
            "model only",
            "Only the weights come back. The optimizer's averages, the learning rate and the chance to come are part of the run.",
            _CheckpointModel,
        ),
        Mistake(
            "optimizer forgotten",
            "The optimizer starts anew: Adam's averages of earlier gradients are gone. It has a state_dict, too.",
            _CheckpointNoOptimizer,
        ),
        Mistake(
            "scheduler forgotten",
            "The scheduler starts anew: it counts from epoch 0 again.",
            _CheckpointNoScheduler,
        ),
        Mistake(
            "order forgotten",
            "The order of the batches is another one: save the generator's state, `get_state()`, and `set_state` it.",
            _CheckpointNoOrder,
        ),
        Mistake(
            "dropout forgotten",
            "Order and weights are right, but dropout draws other masks: save torch.get_rng_state() as well.",
            _CheckpointNoChance,
        ),
        Mistake(
            "one epoch too many",
            "`load` returns how many epochs are done, as `save` was told; yours is one more, so one epoch is skipped.",
            _CheckpointOneMore,
        ),
        Mistake(
            "other objects",
            "The stored objects are put in the place of your own, but the training loop still holds the old ones. `load_state_dict` fills those.",
            _CheckpointReplaces,
        ),
        Mistake(
            "whole objects saved",
            "Whole objects were saved; `torch.load` reads tensors, numbers and dicts only, as notebook 03 explains. Save `x.state_dict()`.",
            _CheckpointObjects,
        ),
        Mistake(
            "seeds for states",
            "A seed sets chance back to the *beginning* of the run. Save where it has got to: `get_state()`, `get_rng_state()`.",
            _CheckpointSeeds,
        ),
    ],
    hints=(
        "Which objects change during training? Model, optimizer, scheduler; and two sources of chance.",
        "Three state_dict(), generator.get_state(), torch.get_rng_state(), and the epoch: one dict, `torch.save(state, path)`.",
        "load: state = torch.load(path); three load_state_dict, generator.set_state, torch.set_rng_state, return state['epoch']",
    ),
    passed="A run that can be stopped anywhere can run on machines that are switched off at night, or crash.",
    excused={
        "size one": "x has three columns because the model has three inputs",
        "delegation": "torch.save is the tool to use",
    },
)
