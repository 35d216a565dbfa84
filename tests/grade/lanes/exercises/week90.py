"""The exercises of the small course that both lanes are tested on. None of them needs torch."""

from labkit.exercises.declare import Case, Fix, Implement, Item, Mistake, Predict

HINTS = ("Read the page.", "Read it again.", "It is one line.")
TWO_LISTS = [
    Case("three", lambda draw: {"values": [1.0, -2.0, 4.0]}),
    Case("one", lambda draw: {"values": [7.0]}),
]

double = Implement(
    id="w90.double",
    title="Double every value",
    minutes=1,
    level=1,
    engine="python",
    cases=TWO_LISTS,
    oracle=lambda values: [2 * value for value in values],
    mistakes=[Mistake("squared", "These are squares.", lambda values: [value * value for value in values])],
    hints=HINTS,
    passed="Doubled.",
)
total = Implement(
    id="w90.total",
    title="Add up the doubled values",
    minutes=1,
    level=1,
    engine="python",
    cases=TWO_LISTS,
    oracle=lambda values: 2 * sum(values),
    mistakes=[Mistake("not doubled", "These are not doubled.", lambda values: sum(values))],
    hints=HINTS,
    passed="Added up.",
    needs=("w90.double",),
    gib=0.25,
)


def _count_three(cls, start):
    counter = cls(start)
    return [counter.next() for _ in range(3)]


class _Stuck:
    def __init__(self, start):
        self.value = start

    def next(self):
        return self.value


counter = Implement(
    id="w90.counter",
    title="A counter",
    minutes=1,
    level=1,
    engine="python",
    cases=[Case("from 0", lambda draw: {"start": 0}), Case("from 5", lambda draw: {"start": 5})],
    oracle=lambda start: [start + 1, start + 2, start + 3],
    use=_count_three,
    mistakes=[Mistake("stuck", "It does not move.", _Stuck)],
    seconds=10,
    hints=HINTS,
    passed="Counted.",
)
guess = Predict(
    id="w90.guess",
    title="Guess two lengths",
    minutes=1,
    level=1,
    items={
        "a": Item("len('abc')", lambda: len("abc")),
        "b": Item("len([1, [2, 3]])", lambda: len([1, [2, 3]])),
    },
    mistakes=[Mistake("flat", "The inner list counts once.", {"b": 3})],
    hints=HINTS,
    passed="Guessed.",
)


def _broken_middle(values):
    return values[len(values) // 2]


middle = Fix(
    id="w90.middle",
    title="The middle value",
    minutes=1,
    level=1,
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
