"""One epoch of training with its mean loss."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, vary
from labkit.exercises.week04.shared import (
    NO_TRAINER,
    STEPS,
    parameters,
    plain_loader,
    regression_net,
    reproducible,
)
from labkit.lazy import F, torch


def _epoch_with(
    zero="batch", train=True, weighted=True, table=False, step_first=False, last=False, added=False, mode=True
):
    """One epoch with one thing about it changed."""

    def train_epoch(model, loader, optimizer):
        if train:
            model.train()
        if zero == "epoch":
            optimizer.zero_grad()
        losses, sizes = [], []
        for x, y in loader:
            if zero == "batch":
                optimizer.zero_grad()
            output = model(x) if table else model(x).squeeze(1)
            loss = ((output - y) ** 2).sum() if added else ((output - y) ** 2).mean()
            if step_first:
                optimizer.step()
                loss.backward()
            else:
                loss.backward()
                optimizer.step()
            losses.append(loss.item() / (len(x) if added else 1))
            sizes.append(len(x) if weighted else 1)
        model.train(mode and model.training)
        if last:
            return losses[-1]
        total = sum(loss * size for loss, size in zip(losses, sizes, strict=True))
        return total / (len(loader) if weighted == "divided by batches" else sum(sizes))

    return train_epoch


def _epoch_of_torch(model, loader, optimizer):
    model.train()
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x)[:, 0], y, reduction="sum")
        (loss / len(x)).backward()
        optimizer.step()
        total += loss.item()
    return total / sum(len(x) for x, _ in loader)


def _two_epochs(train_epoch, x, y, batch_size):
    """Two epochs of a small network that was left in eval mode."""
    model = reproducible(regression_net)
    model.eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = plain_loader(batch_size, x, y)
    losses = [train_epoch(model, loader, optimizer) for _ in range(2)]
    return {"losses": losses, "training mode": model.training, "weights": parameters(model)}


exercise = Implement(
    title="Loop 1: one epoch",
    minutes=12,
    needs=("w04.r2",),
    dtype="float64",
    reduces=STEPS,
    cases=[
        Case(
            "seven rows in threes",
            lambda draw: {"x": draw.normal(7, 3), "y": draw.normal(7) + 1, "batch_size": 3},
        ),
        Case("all in one batch", lambda draw: {"x": draw.normal(5, 3), "y": draw.normal(5), "batch_size": 5}),
        Case(
            "not contiguous",
            lambda draw: {"x": draw.transposed(8, 3), "y": draw.strided(8) * 2, "batch_size": 5},
        ),
        Case("batches of one", lambda draw: {"x": draw.normal(1, 3), "y": draw.normal(1), "batch_size": 1}),
    ],
    use=_two_epochs,
    oracle=vary(_two_epochs, train_epoch=_epoch_of_torch),
    mistakes=[
        Mistake(
            "no zero_grad",
            "The gradients of earlier batches are still there: `backward` adds to them. `optimizer.zero_grad()` before it.",
            _epoch_with(zero="never"),
        ),
        Mistake(
            "zero_grad once",
            "The gradients go away once, before the loop; within it they pile up. `zero_grad` for every batch.",
            _epoch_with(zero="epoch"),
        ),
        Mistake(
            "losses added up",
            "The step follows the *sum* of the squared errors of a batch, so larger batches take larger steps. Their mean is wanted.",
            _epoch_with(added=True),
        ),
        Mistake(
            "divided by the number of batches",
            "The weights are right; the total over all rows is divided by the number of batches. Divide by the number of rows.",
            _epoch_with(weighted="divided by batches"),
        ),
        Mistake(
            "left in eval mode",
            "The weights are right, but the model is put into eval mode at the end. That is the business of whoever evaluates.",
            _epoch_with(mode=False),
        ),
        Mistake(
            "no train mode",
            "The model came in eval mode and stayed there, so dropout did nothing. `model.train()` at the top.",
            _epoch_with(train=False),
        ),
        Mistake(
            "mean of means",
            "The weights are right; the loss is a mean of batch means, which counts the smaller last batch too much. Weight by len(x).",
            _epoch_with(weighted=False),
        ),
        Mistake(
            "(n, 1) against (n,)",
            "The model gives (n, 1), the targets are (n,): their difference is a table. `squeeze(1)` the output.",
            _epoch_with(table=True),
        ),
        Mistake(
            "weights never move",
            "The weights never move: `step` is missing, or finds gradients of 0. Order: zero_grad, backward, step.",
            _epoch_with(step_first=True),
        ),
        Mistake(
            "last batch only",
            "The weights are right; the loss returned is that of the last batch. The mean over all rows is wanted.",
            _epoch_with(last=True),
        ),
    ],
    hints=(
        "Say the five things aloud: mode, gradients away, loss, backward, step. Which of them stand inside the loop over batches?",
        "`loss.item()` is the mean over the batch: add up `loss.item() * len(x)`, and divide by the number of rows at the end.",
        "for x, y in loader: optimizer.zero_grad(); loss = F.mse_loss(model(x).squeeze(1), y); loss.backward(); optimizer.step()",
    ),
    passed="Every training program you will read has these lines in it, under more or less clothing.",
    excused={"delegation": NO_TRAINER},
    equivalent=(
        Equivalent(
            before="loss = F.mse_loss(model(x).squeeze(1), y)",
            after="loss = F.mse_loss(y, model(x).squeeze(1))",
            reason="the square of a difference does not depend on its sign",
        ),
    ),
)
