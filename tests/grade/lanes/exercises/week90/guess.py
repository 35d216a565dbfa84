"""Predict two lengths."""

from labkit.exercises.week90.shared import HINTS

from labkit.exercises.declare import Item, Mistake, Predict

exercise = Predict(
    title="Guess two lengths",
    minutes=1,
    items={
        "a": Item("len('abc')", lambda: len("abc")),
        "b": Item("len([1, [2, 3]])", lambda: len([1, [2, 3]])),
    },
    mistakes=[Mistake("flat", "The inner list counts once.", {"b": 3})],
    hints=HINTS,
    passed="Guessed.",
)
