"""Training with several labels per row and a schedule."""

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.exercises.week04.shared import NO_TRAINER, STEPS, parameters, plain_loader, reproducible
from labkit.lazy import F, torch


def _label_net():
    return torch.nn.Sequential(
        torch.nn.Linear(3, 5), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(5, 4)
    )


def _softmax_loss(output, y):
    return F.cross_entropy(output, y / y.sum(1, keepdim=True).clamp(min=1))


def _label_loop(loss=None, step="batch", zero=True, train=True, weighted=True, anew=True, moves=True):
    """The multi-label loop with one thing about it changed."""

    def fit_labels(model, loader, optimizer, scheduler, epochs):
        losses = []
        total, count = 0.0, 0
        for _ in range(epochs):
            if train:
                model.train()
            if anew:
                total, count = 0.0, 0
            for x, y in loader:
                if zero:
                    optimizer.zero_grad()
                found = (loss or F.binary_cross_entropy_with_logits)(model(x), y)
                found.backward()
                if step == "before":
                    scheduler.step()
                if moves:
                    optimizer.step()
                if step == "batch":
                    scheduler.step()
                size = len(x) if weighted else 1
                total, count = total + found.item() * size, count + size
            if step == "epoch":
                scheduler.step()
            losses.append(total / count)
        return losses

    return fit_labels


def _sigmoid_twice(output, y):
    return F.binary_cross_entropy_with_logits(torch.sigmoid(output), y)


def _label_run(fit_labels, x, y, batch_size, epochs):
    model = reproducible(_label_net)
    model.eval()
    loader = plain_loader(batch_size, x, y)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    losses = fit_labels(model, loader, optimizer, scheduler, epochs)
    return {
        "losses": losses,
        "learning rate": optimizer.param_groups[0]["lr"],
        "weights": parameters(model),
    }


def _label_case(n, batch_size, epochs):
    def make(draw):
        y = draw.bools(n, 4, share=0.4).astype("float64")
        y[0] = [0, 1, 1, 1]
        return {"x": draw.normal(n, 3), "y": y, "batch_size": batch_size, "epochs": epochs}

    return make


def _label_strided(draw):
    case = _label_case(6, 4, 3)(draw)
    return {**case, "x": draw.transposed(6, 3)}


exercise = Implement(
    title="Loop 3: several labels, and a schedule",
    minutes=12,
    needs=("w04.epoch", "w04.f1"),
    dtype="float64",
    reduces=STEPS,
    cases=[
        Case("seven rows in threes", _label_case(7, 3, 2)),
        Case("one batch", _label_case(5, 5, 3)),
        Case("not contiguous", _label_strided),
        Case("one row", _label_case(1, 1, 2)),
    ],
    use=_label_run,
    oracle=lambda x, y, batch_size, epochs: _label_run(_label_loop(), x, y, batch_size, epochs),
    mistakes=[
        Mistake(
            "one label only",
            "Softmax lets the labels compete, as if one of them were right. Here each is a yes or no of its own.",
            _label_loop(loss=_softmax_loss),
        ),
        Mistake(
            "sigmoid twice",
            "There is a sigmoid before a loss that takes logits and has one inside. Give it the logits.",
            _label_loop(loss=_sigmoid_twice),
        ),
        Mistake(
            "schedule per epoch",
            "The schedule takes one step per epoch; it was made for one step per batch, and hardly moves.",
            _label_loop(step="epoch"),
        ),
        Mistake(
            "schedule never stepped",
            "The schedule never takes a step: the learning rate stays where it was. `scheduler.step()` after `optimizer.step()`.",
            _label_loop(step="never"),
        ),
        Mistake(
            "no zero_grad",
            "The gradients of earlier batches are still there. `optimizer.zero_grad()` for each batch.",
            _label_loop(zero=False),
        ),
        Mistake(
            "no train mode",
            "The model came in eval mode and stayed there, so dropout did nothing. `model.train()` before the first batch.",
            _label_loop(train=False),
        ),
        Mistake(
            "softmax over the labels",
            "`F.cross_entropy` lets the labels compete, as if one of them were right. Here each is a yes or no of its own.",
            _label_loop(loss=lambda output, y: F.cross_entropy(output, y)),
        ),
        Mistake(
            "schedule before the step",
            "The schedule moves before the optimizer does, so the first learning rate is never used: `optimizer.step()` first.",
            _label_loop(step="before"),
        ),
        Mistake(
            "mean of means",
            "The weights are right; the loss is a mean of batch means, which counts the smaller last batch too much. Weight by len(x).",
            _label_loop(weighted=False),
        ),
        Mistake(
            "total never set back",
            "The weights are right; from the second epoch on the loss is a mean over all epochs so far. Start the total anew in each.",
            _label_loop(anew=False),
        ),
        Mistake(
            "weights never move",
            "The weights never move: `optimizer.step()` is missing.",
            _label_loop(moves=False),
        ),
    ],
    hints=(
        "Two loops, epochs outside and batches inside. What stands in which?",
        "`F.binary_cross_entropy_with_logits(model(x), y)`; after `optimizer.step()`, `scheduler.step()`, both for every batch.",
        "As loop 1 inside `for _ in range(epochs)`, with another loss and one more line; collect total / count at the end of each epoch.",
    ),
    passed="Which unit a schedule counts in is not written on it: here it was made with epochs * len(loader) steps.",
    excused={"delegation": NO_TRAINER},
)
