"""The middle value of a list that was not sorted: name the fault and mend it."""

from labkit.exercises.week90.shared import HINTS

from labkit.exercises.declare import Case, Fix, Mistake


def _broken_middle(values):
    return values[len(values) // 2]


exercise = Fix(
    title="The middle value",
    minutes=1,
    engine="python",
    cases=[
        Case("unsorted", lambda draw: {"values": [3.0, 1.0, 2.0]}),
        Case("five", lambda draw: {"values": [5.0, 1.0, 4.0, 2.0, 3.5]}),
    ],
    oracle=lambda values: sorted(values)[len(values) // 2],
    broken=_broken_middle,
    fault="not sorted",
    menu={"not sorted": "", "off by one": "The index is right for a sorted list."},
    mistakes=[Mistake("smallest", "This is the smallest.", lambda values: min(values))],
    hints=HINTS,
    passed="Mended.",
)
