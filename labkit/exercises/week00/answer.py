"""The first check: a function that returns 42."""

from labkit.exercises.declare import Case, Implement, Mistake

exercise = Implement(
    title="Return a constant",
    minutes=2,
    engine="python",
    cases=[Case("answer()", lambda draw: {})],
    oracle=lambda: 42,
    reference="the page",
    mistakes=[
        Mistake(
            "not returned",
            "Nothing is handed back: `print(42)`, or a line with 42 alone, leaves None. `return 42` hands it back.",
            lambda: None,
        ),
        Mistake("string", 'The number is in quotes: `"42"` is text, 42 is a number.', lambda: "42"),
        Mistake("off by one", "41 is one short: the page asks for 42.", lambda: 41),
    ],
    hints=(
        "A function hands its result back with the word `return`.",
        "Replace the line that says `raise NotImplementedError` with one line that starts with `return`.",
        "return 42",
    ),
    passed="You have seen a pass. `make check` runs every check of the course again, from a fresh start.",
    excused={"size one": "there is no input", "not contiguous": "there is no input"},
)
