"""First weights that are all negative and silence a layer: name the fault and mend it."""

import math

from labkit.exercises.declare import Case, Fix, Mistake


def _uniform(noise):
    return (2 * noise - 1) / math.sqrt(noise.shape[1])


exercise = Fix(
    title="The layer that says nothing",
    minutes=10,
    needs=("w03.linear",),
    cases=[
        Case("4 by 3", lambda draw: {"noise": draw.uniform(0, 1, 4, 3)}),
        Case("2 by 7", lambda draw: {"noise": draw.uniform(0, 1, 2, 7)}),
        Case("not contiguous", lambda draw: {"noise": draw.uniform(0, 1, 3, 10)[:, ::2]}),
        Case("one input", lambda draw: {"noise": draw.uniform(0, 1, 5, 1)}),
        Case("one unit", lambda draw: {"noise": draw.uniform(0, 1, 1, 6)}),
    ],
    oracle=_uniform,
    broken=lambda noise: (noise - 1) / math.sqrt(noise.shape[1]),
    fault="weights all negative",
    menu={
        "weights all negative": "",
        "weights too small": "A small weight makes a small sum, not a negative one. Look at the signs.",
        "no bias": "A layer without bias can learn; this one gets no gradient. Print the smallest and the largest weight.",
    },
    mistakes=[
        Mistake(
            "all positive",
            "Now all weights are positive. No unit is dead, but every unit adds up all pixels: they are nearly twins.",
            lambda noise: noise / math.sqrt(noise.shape[1]),
        ),
        Mistake(
            "half the range",
            "The weights are centered, from -½ to ½ of the bound. Stretch the noise to -1 … 1.",
            lambda noise: (noise - 0.5) / math.sqrt(noise.shape[1]),
        ),
        Mistake(
            "twice too low",
            "2 * noise - 2 runs from -2 to 0: still all negative, only larger.",
            lambda noise: (2 * noise - 2) / math.sqrt(noise.shape[1]),
        ),
        Mistake(
            "bound lost",
            "The range is -1 to 1 now; the division by the root of the number of inputs got lost.",
            lambda noise: 2 * noise - 1,
        ),
        Mistake(
            "outputs counted",
            "The range is made from the number of rows. A unit sums over its inputs: the columns.",
            lambda noise: (2 * noise - 1) / math.sqrt(noise.shape[0]),
        ),
    ],
    hints=(
        "What are the smallest and the largest weight? What does a sum of pixels, none of them negative, become with them?",
        "noise lies in [0, 1), so noise - 1 lies in [-1, 0). You want [-1, 1).",
        'fault = "weights all negative"; return (2 * noise - 1) / math.sqrt(noise.shape[1])',
    ),
    passed="A unit that is 0 for every input has gradient 0 for every weight: no optimizer brings it back to life.",
    excused={"delegation": "one line of arithmetic; the exercise is to see the signs"},
)
