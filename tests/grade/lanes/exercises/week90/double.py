"""Double every value of a list."""

from labkit.exercises.week90.shared import HINTS, TWO_LISTS

from labkit.exercises.declare import Implement, Mistake

exercise = Implement(
    title="Double every value",
    minutes=1,
    engine="python",
    cases=TWO_LISTS,
    oracle=lambda values: [2 * value for value in values],
    mistakes=[Mistake("squared", "These are squares.", lambda values: [value * value for value in values])],
    hints=HINTS,
    passed="Doubled.",
)
