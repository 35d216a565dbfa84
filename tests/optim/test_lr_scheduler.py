import pytest
import torch

import labkit
from labkit import nn, optim

SCHEDULES = [
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [7, 2, 2], "gamma": 0.3}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("CosineAnnealingLR", {"T_max": 6, "eta_min": 0.01}),
    ("LinearLR", {}),
    ("LinearLR", {"start_factor": 1.0, "end_factor": 0.1, "total_iters": 8}),
    ("LambdaLR", {"lr_lambda": lambda epoch: 1 / (1 + epoch)}),
    ("LambdaLR", {"lr_lambda": [lambda epoch: 0.5**epoch, lambda epoch: 1 + epoch]}),
    ("OneCycleLR", {"max_lr": 0.7, "total_steps": 30}),
    ("OneCycleLR", {"max_lr": [0.7, 0.2], "epochs": 5, "steps_per_epoch": 6, "anneal_strategy": "linear"}),
    ("OneCycleLR", {"max_lr": 0.7, "total_steps": 30, "pct_start": 0.5, "cycle_momentum": False}),
]


def optimizers(kind="SGD", **settings):
    """An optimizer of two groups in each library."""
    made = []
    for lib, parameter in (
        (optim, nn.Parameter(labkit.ones(1))),
        (torch.optim, torch.nn.Parameter(torch.ones(1))),
    ):
        other = type(parameter)(parameter.detach() + 1)
        made.append(
            getattr(lib, kind)([{"params": [parameter]}, {"params": [other], "lr": 0.3}], lr=0.1, **settings)
        )
    return made


def compare(optimizer, optimizer_torch):
    for ours, theirs in zip(optimizer.param_groups, optimizer_torch.param_groups, strict=True):
        for name in {"lr", "momentum", "betas"} & theirs.keys():
            assert ours[name] == pytest.approx(theirs[name], rel=1e-9, abs=1e-15), name


def follow(ours, theirs, optimizer, optimizer_torch, steps=29):
    compare(optimizer, optimizer_torch)
    for _ in range(steps):
        optimizer_torch.step()
        ours.step()
        theirs.step()
        compare(optimizer, optimizer_torch)
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr())


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize(
    ("name", "settings"), SCHEDULES, ids=lambda value: value if isinstance(value, str) else ",".join(value)
)
def test_every_step_equals_torch(kind, name, settings):
    optimizer, optimizer_torch = optimizers(kind, **({"momentum": 0.9} if kind == "SGD" else {}))
    ours = getattr(optim.lr_scheduler, name)(optimizer, **settings)
    theirs = getattr(torch.optim.lr_scheduler, name)(optimizer_torch, **settings)
    follow(ours, theirs, optimizer, optimizer_torch)


def test_sequence_of_schedules_equals_torch():
    both = optimizers()
    made = []
    for optimizer, lib in zip(both, (optim.lr_scheduler, torch.optim.lr_scheduler), strict=True):
        parts = [
            lib.LinearLR(optimizer, total_iters=4),
            lib.CosineAnnealingLR(optimizer, T_max=10),
            lib.ExponentialLR(optimizer, gamma=0.5),
        ]
        made.append(lib.SequentialLR(optimizer, parts, milestones=[4, 14]))
    follow(*made, *both)


@pytest.mark.parametrize(
    "settings",
    [{}, {"mode": "max", "threshold_mode": "abs", "threshold": 0.1}, {"cooldown": 2, "min_lr": [0.05, 0.01]}],
    ids=str,
)
def test_plateau_equals_torch(settings):
    optimizer, optimizer_torch = optimizers()
    ours = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5, **settings)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer_torch, patience=1, factor=0.5, **settings)
    metrics = [3.0, 2.0, 2.0, 2.0, 2.05, 1.0, 1.2, 1.2, float("nan"), 1.2, 0.9999, -1.0, -1.0001, 5.0]
    for metric in metrics * 2:
        ours.step(labkit.tensor(metric, dtype=labkit.float64))
        theirs.step(metric)
        compare(optimizer, optimizer_torch)


def test_resuming_continues_the_schedule():
    optimizer, _ = optimizers()
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    expected = []
    for i in range(10):
        if i == 5:
            saved, saved_optimizer = schedule.state_dict(), optimizer.state_dict()
        schedule.step()
        expected.append(optimizer.param_groups[0]["lr"])
    resumed_optimizer, _ = optimizers()
    resumed_optimizer.load_state_dict(saved_optimizer)
    resumed = optim.lr_scheduler.CosineAnnealingLR(resumed_optimizer, T_max=20)
    resumed.load_state_dict(saved)
    for lr in expected[5:]:
        resumed.step()
        assert resumed_optimizer.param_groups[0]["lr"] == lr


def test_errors():
    optimizer, _ = optimizers()
    lib = optim.lr_scheduler
    with pytest.raises(KeyError, match="no 'initial_lr'"):
        lib.StepLR(optimizer, 3, last_epoch=5)
    with pytest.raises(ValueError, match="2 schedules need 1 milestones, got 2"):
        lib.SequentialLR(optimizer, [lib.StepLR(optimizer, 3), lib.StepLR(optimizer, 2)], [1, 2])
    with pytest.raises(ValueError, match="got 1 functions for 2 parameter groups"):
        lib.LambdaLR(optimizer, [lambda epoch: 1.0])
    with pytest.raises(ValueError, match="three_phase=True is not supported"):
        lib.OneCycleLR(optimizer, 1.0, 10, three_phase=True)
    cycle = lib.OneCycleLR(optimizer, 1.0, 2)
    cycle.step()
    with pytest.raises(ValueError, match="made for 2 steps, now comes step 3"):
        cycle.step()
    with pytest.raises(ValueError, match="below 1"):
        lib.ReduceLROnPlateau(optimizer, factor=1.0)
