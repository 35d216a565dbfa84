"""Add up the doubled values; needs the exercise before."""

from labkit.exercises.week90.shared import HINTS, TWO_LISTS

from labkit.exercises.declare import Implement, Mistake

exercise = Implement(
    title="Add up the doubled values",
    minutes=1,
    engine="python",
    cases=TWO_LISTS,
    oracle=lambda values: 2 * sum(values),
    mistakes=[Mistake("not doubled", "These are not doubled.", lambda values: sum(values))],
    gib=0.25,
    hints=HINTS,
    passed="Added up.",
    needs=("w90.double",),
)
