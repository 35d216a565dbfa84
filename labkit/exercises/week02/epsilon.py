"""Measure which step of a central difference gives the smallest error."""

from labkit.exercises.declare import Measure, Mistake


def _accept_epsilon(value):
    if 1e-7 < value < 1e-4:
        return None
    return f"{value:g} is not near the bottom of the float64 curve."


exercise = Measure(
    title="Which eps?",
    minutes=6,
    needs=("w02.central_difference",),
    accept=_accept_epsilon,
    mistakes=[
        Mistake(
            "float32",
            "That is the bottom of the float32 curve. Python's own floats are float64.",
            5e-3,
            when=lambda value: 1e-3 <= value <= 2e-2,
        ),
        Mistake(
            "as small as possible",
            "This far to the left the two values agree in nearly all digits: their difference is mostly rounding.",
            1e-12,
            when=lambda value: 0 < value <= 1e-7,
        ),
        Mistake(
            "too wide",
            "This far to the right the curve bends between the two points: the error grows with eps squared.",
            0.1,
            when=lambda value: value >= 1e-4,
        ),
        Mistake(
            "the exponent",
            "This is an exponent; the answer is a step such as 1e-3.",
            -5,
            when=lambda value: value < 0,
        ),
        Mistake("zero", "With eps = 0 there is nothing to divide by.", 0.0),
    ],
    hints=(
        "Look for the lowest point of the float64 curve in the figure.",
        "Two errors fight: rounding grows to the left, bending grows to the right.",
        "The lowest point lies near the cube root of the spacing of float64: sys.float_info.epsilon ** (1 / 3).",
    ),
    passed="In float32 even the best step leaves an error of 1e-6: gradient checks are done in float64.",
)
