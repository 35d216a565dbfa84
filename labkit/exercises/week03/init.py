"""Measure which size of first weights keeps activations the same through all layers."""

from labkit.exercises.declare import Measure, Mistake


def _accept_factor(value):
    if 1.36 <= value <= 1.47:
        return None
    growth = value**2 / 2
    words = "grow" if growth > 1 else "shrink"
    return f"with c = {value:g} the squares of the activations {words} to {growth:.3g} times per layer."


exercise = Measure(
    title="How large are the first weights?",
    minutes=10,
    needs=("w03.hidden",),
    also=(
        "weight initialization",
        "Kaiming",
        "He initialization",
    ),
    accept=_accept_factor,
    mistakes=[
        Mistake(
            "no room for the bend",
            "That is the factor for layers without a bend. The ReLU throws away half of the squares; make up for it.",
            1.0,
            when=lambda value: 0.95 <= value <= 1.05,
        ),
        Mistake(
            "variance for deviation",
            "2 is the right factor for the variance, 2 / fan_in. The deviation is its root.",
            2.0,
            when=lambda value: 1.95 <= value <= 2.05,
        ),
        Mistake(
            "the deviation itself",
            "That is c / sqrt(256), the deviation of the weights. The factor c is asked for.",
            0.0884,
            when=lambda value: 0.08 <= value <= 0.1,
        ),
        Mistake(
            "half",
            "Half of the squares are lost in each layer, so the weights must be larger, not smaller.",
            0.7071,
            when=lambda value: 0.45 <= value <= 0.75,
        ),
    ],
    hints=(
        "Try values between 1 and 2 and look at the last line of the table: does the spread grow or shrink?",
        "Without a bend c = 1 keeps the spread. The ReLU sets half of the units to 0, and with them half of the squares.",
        "c squared must make up for the factor ½: c = sqrt(2).",
    ),
    passed="This is He initialization, torch's `nn.init.kaiming_normal_`. Without a bend the same argument gives Xavier's.",
)
