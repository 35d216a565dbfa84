"""A loss that is averaged twice: name the fault and mend it."""

from labkit.exercises.declare import Fix, Mistake
from labkit.exercises.week04.shared import CLASS_CASES, NO_TRAINER, STEPS, train_with, trained

exercise = Fix(
    title="The run that crawls",
    minutes=6,
    needs=("w04.epoch",),
    dtype="float64",
    reduces=STEPS,
    cases=CLASS_CASES[:3],
    use=trained,
    oracle=lambda x, y, batch_size: trained(train_with(), x, y, batch_size),
    broken=train_with(scale=lambda x, loader: 1 / len(x)),
    fault="loss averaged twice",
    menu={
        "loss averaged twice": "",
        "learning rate too low": "The healthy run has the same rate. But you are near: each step is 50 times too small. Why?",
        "vanishing gradients": "There are two layers; nothing vanishes on so short a way. All gradients are too small by one factor.",
    },
    mistakes=[
        Mistake(
            "sum",
            "The losses of a batch are added up now: a larger batch takes larger steps. Their mean is wanted.",
            train_with(reduction="sum"),
        ),
        Mistake(
            "rate raised",
            "The rate was raised to make up for it. The loss is still wrong, and the smaller last batch gets too large a step.",
            train_with(scale=lambda x, loader: 1 / len(x), rate=lambda loader: float(len(loader[0][0]))),
        ),
        Mistake(
            "only the report",
            "The reported loss is right now; the gradients still come from the loss divided by len(x). Mend the loss itself.",
            train_with(scale=lambda x, loader: 1 / len(x), reported=len),
        ),
        Mistake(
            "only the gradient",
            "The steps are right now; the reported loss is still divided by len(x).",
            train_with(reported=lambda x: 1 / len(x)),
        ),
        Mistake(
            "divided by the number of batches",
            "Each loss is divided by the number of batches: that belongs to the report, not to the gradient.",
            train_with(scale=lambda x, loader: 1 / len(loader)),
        ),
        Mistake(
            "sum over a fixed size",
            "The sum is divided by the size of the first batch; the last one is smaller. Divide by len(x), or take the mean.",
            train_with(reduction="sum", scale=lambda x, loader: 1 / len(loader[0][0])),
        ),
    ],
    hints=(
        "Compare the loss of the very first batch with ln 10.",
        "`F.cross_entropy` returns the mean over the batch. What does the division by len(x) do to a mean?",
        'fault = "loss averaged twice"; loss = F.cross_entropy(model(x), y), and no division',
    ),
    passed="The loss at the start would have told: ln 10 / 50 is 0.05, and no model knows that much before it has seen anything.",
    excused={"size one": "a batch of one has nothing to average", "delegation": NO_TRAINER},
)
