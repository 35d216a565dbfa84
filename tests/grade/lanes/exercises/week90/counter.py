"""A class that counts, judged by its use."""

from labkit.exercises.week90.shared import HINTS

from labkit.exercises.declare import Case, Implement, Mistake


def _count_three(cls, start):
    counter = cls(start)
    return [counter.next() for _ in range(3)]


class _Stuck:
    def __init__(self, start):
        self.value = start

    def next(self):
        return self.value


exercise = Implement(
    title="A counter",
    minutes=1,
    engine="python",
    cases=[Case("from 0", lambda draw: {"start": 0}), Case("from 5", lambda draw: {"start": 5})],
    oracle=lambda start: [start + 1, start + 2, start + 3],
    use=_count_three,
    mistakes=[Mistake("stuck", "It does not move.", _Stuck)],
    seconds=10,
    hints=HINTS,
    passed="Counted.",
)
