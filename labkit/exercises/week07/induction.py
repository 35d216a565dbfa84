"""Measure in which layer a trained model looks far back for what to copy, and how far."""

from labkit.exercises.declare import Measure, Mistake

_FOUND = (1, 11)


def _accept_found(found):
    if found == _FOUND:
        return None
    if len(found) != 2 or not all(isinstance(part, int) for part in found):
        return "a pair of whole numbers is wanted: (layer, n)."
    layer, distance = found
    if distance == _FOUND[1]:
        return f"{distance} back is right; it does not happen in layer {layer}."
    return f"the heads of layer {layer} do not look mostly {distance} back, or that is not a large distance."


exercise = Measure(
    title="What is this head for?",
    minutes=15,
    needs=("w07.rotary", "w07.attention"),
    accept=_accept_found,
    answer_type=tuple,
    mistakes=[
        Mistake(
            "the same token",
            "12 back stands the same token. The head looks at the one after it, since that is the answer. Measure once more.",
            (1, 12),
        ),
        Mistake(
            "the previous token",
            "That is the other half of the trick: heads of layer 0 look one back. Which layer looks far back?",
            (0, 1),
        ),
        Mistake("layers from 1", "The layers are counted from 0: the first index of `maps`.", (2, 11)),
        Mistake(
            "one too far",
            "Off by one on the other side: n is the number in `diagonal(-n)`; n = 0 is the token itself.",
            (1, 13),
        ),
        Mistake("exchanged", "Layer and n have changed places: (layer, n).", (11, 1)),
        Mistake(
            "the wrong layer", "11 back is right. Which layer does it: the first index of `maps`?", (0, 11)
        ),
        Mistake(
            "n with its sign",
            "n is how many tokens back, a positive number: the minus belongs to `diagonal(-n)`.",
            (1, -11),
        ),
    ],
    hints=(
        "Two stripes in the maps run parallel to the diagonal: one close to it, one far away. In which layer is the far one?",
        "for n in range(24): print(n, maps[1, 0].diagonal(-n).mean())",
        "found = (1, n), with the n of the largest mean; the same token stands 12 back, and the head looks at the one after it.",
    ),
    passed="It was never trained on pieces of 12: it does not count, it compares. This is how a model learns from its prompt.",
)
