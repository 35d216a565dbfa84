"""A loop that never clears its gradients: name the fault and mend it."""

from labkit.exercises.declare import Fix, Mistake
from labkit.exercises.week04.shared import CLASS_CASES, NO_TRAINER, STEPS, train_with, trained

exercise = Fix(
    title="The run that overshoots",
    minutes=6,
    needs=("w04.epoch",),
    dtype="float64",
    reduces=STEPS,
    cases=CLASS_CASES,
    use=trained,
    oracle=lambda x, y, batch_size: trained(train_with(), x, y, batch_size),
    broken=train_with(zero="never"),
    fault="no zero_grad",
    menu={
        "no zero_grad": "",
        "learning rate too high": "The same rate trains the healthy run well. What makes every step larger than the one before?",
        "model too small": "A small model learns little; it does not get worse. Look at what is added up.",
    },
    mistakes=[
        Mistake(
            "once per epoch",
            "The gradients go away once per epoch; within it they still pile up. Every batch needs it.",
            train_with(zero="epoch"),
        ),
        Mistake(
            "between backward and step",
            "The gradients go away between backward and step, so the step has nothing to go by and no weight moves.",
            train_with(zero="late"),
        ),
        Mistake(
            "smaller steps",
            "A smaller learning rate hides it for a while; the gradients still pile up.",
            train_with(zero="never", rate=0.5),
        ),
        Mistake(
            "rate and zero_grad",
            "The gradients are right now; the learning rate was changed as well. Mend one thing at a time.",
            train_with(rate=0.5),
        ),
    ],
    hints=(
        "Print the norm of one weight's gradient for the first ten steps.",
        "`backward` adds to `.grad`. What sets it back, and how often must that happen?",
        'fault = "no zero_grad"; optimizer.zero_grad() as the first line of the loop over batches',
    ),
    passed="Adding gradients up is useful, too: week 10 does it on purpose, to imitate a batch that does not fit into memory.",
    excused={"delegation": NO_TRAINER},
)
