"""First weights scaled by the outputs instead of the inputs: name the fault and mend it."""

import math

from labkit.exercises.declare import Case, Fix, Mistake


def _scaled(noise):
    return noise * math.sqrt(2 / noise.shape[1])


exercise = Fix(
    title="The loss that starts too high",
    minutes=10,
    needs=("w03.init", "w03.loss_at_start"),
    cases=[
        Case("4 by 3", lambda draw: {"noise": draw.normal(4, 3)}),
        Case("2 by 9", lambda draw: {"noise": draw.normal(2, 9)}),
        Case("not contiguous", lambda draw: {"noise": draw.transposed(3, 5)}),
        Case("one input", lambda draw: {"noise": draw.normal(6, 1)}),
        Case("one unit", lambda draw: {"noise": draw.normal(1, 8)}),
    ],
    oracle=_scaled,
    broken=lambda noise: noise * math.sqrt(2 / noise.shape[0]),
    fault="outputs counted for inputs",
    menu={
        "outputs counted for inputs": "",
        "too many layers": "Five layers are few: with the right scale fifty keep their spread, as in notebook 01.",
        "factor 2 too large": "2 is right for the variance of ReLU layers. It is divided by the wrong thing.",
    },
    mistakes=[
        Mistake(
            "root lost",
            "The division is right, but the root got lost: sqrt(2 / n) is the deviation, 2 / n the variance.",
            lambda noise: noise * 2 / noise.shape[1],
        ),
        Mistake(
            "ReLU forgotten",
            "1 / n keeps the spread without a bend. The ReLU throws away half of the squares: 2 / n.",
            lambda noise: noise / math.sqrt(noise.shape[1]),
        ),
        Mistake(
            "both counted",
            "The mean of inputs and outputs is a compromise between forward and backward, Xavier's. Inputs alone are asked for.",
            lambda noise: noise * math.sqrt(2 / sum(noise.shape) * 2),
        ),
        Mistake(
            "all entries counted",
            "The scale is made from all entries of the matrix. One unit sums over one row.",
            lambda noise: noise * math.sqrt(2 / noise.numel()),
        ),
        Mistake(
            "cut off",
            "The large weights are cut off; the others have the old scale. Change the scale instead.",
            lambda noise: (noise * math.sqrt(2 / noise.shape[0])).clamp(-0.5, 0.5),
        ),
    ],
    hints=(
        "The rule of notebook 01 is std = sqrt(2 / fan_in). What is fan_in for a weight of shape (out, in)?",
        "A unit is a row of the weight; it sums over the columns. fan_in is the number of columns.",
        'fault = "outputs counted for inputs"; return noise * math.sqrt(2 / noise.shape[1])',
    ),
    passed="For a square weight both numbers agree: a test on (256, 256) would never have found it.",
    excused={"delegation": "one line of arithmetic; the exercise is to see which axis counts"},
)
