"""A run that stays in evaluation mode after it was first validated: name the fault and mend it."""

from labkit.exercises.declare import Fix, Mistake
from labkit.exercises.week04.shared import (
    CLASS_CASES,
    NO_TRAINER,
    STEPS,
    clinic_net,
    parameters,
    plain_loader,
    reproducible,
)
from labkit.lazy import F, torch


def _fit_modes(train="epoch", evaluate=True):
    """Training with validation after each epoch, with one thing about the modes changed."""

    def fit(model, loader, validation, epochs, lr):
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        model.train(train != "never")
        losses = []
        for _ in range(epochs):
            if train == "epoch":
                model.train()
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
                if train == "after a batch":
                    model.train()
            if evaluate:
                model.eval()
            with torch.no_grad():
                losses.append(F.cross_entropy(model(validation[0]), validation[1]).item())
        return losses

    return fit


def _validated(fit, x, y, batch_size):
    model = reproducible(clinic_net)
    losses = fit(model, plain_loader(batch_size, x, y), (x.flip(0) + 0.1, y.flip(0)), 3, 0.3)
    return {"losses": losses, "weights": parameters(model)}


exercise = Fix(
    title="The run that learns by heart",
    minutes=6,
    needs=("w04.predict",),
    also=("train and eval mode",),
    dtype="float64",
    reduces=STEPS,
    cases=CLASS_CASES,
    use=_validated,
    oracle=lambda x, y, batch_size: _validated(_fit_modes(), x, y, batch_size),
    broken=_fit_modes(train="once"),
    fault="eval mode left on",
    menu={
        "eval mode left on": "",
        "dropout too weak": "Half of all units are dropped, in the first epoch. Print `model.training` in the second one.",
        "no_grad left on": "`with` ends with its block: gradients are recorded again, and the training loss does fall.",
    },
    mistakes=[
        Mistake(
            "validates with dropout",
            "Training is right now, but validation runs with dropout: `model.eval()` has to stay, and be undone.",
            _fit_modes(evaluate=False),
        ),
        Mistake(
            "never in training mode",
            "The model is in eval mode all the time, so dropout never drops.",
            _fit_modes(train="never"),
        ),
        Mistake(
            "back one batch too late",
            "The first batch of each epoch still runs in eval mode: switch back before it, not after it.",
            _fit_modes(train="after a batch"),
        ),
    ],
    hints=(
        "Print `model.training` before each batch.",
        "`model.eval()` holds until somebody calls `model.train()`. Where does each epoch need it?",
        'fault = "eval mode left on"; move model.train() to the first line of the loop over epochs',
    ),
    passed="The two modes also decide what batch norm does, in week 5: there a wrong mode is worse than a missing dropout.",
    excused={"delegation": NO_TRAINER},
)
