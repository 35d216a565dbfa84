"""Measure where in the picture the mark is that a network reads instead of the object."""

from labkit.exercises.declare import Measure, Mistake

_MARK = (1, 25)


def _accept_mark(place):
    if len(place) != 2 or not all(isinstance(i, int) and 0 <= i < 28 for i in place):
        return "a place is (row, column), two whole numbers from 0 to 27."
    if tuple(place) == _MARK:
        return None
    covers = all(abs(given - true) <= 1 for given, true in zip(place, _MARK, strict=True))
    return (
        "the square at that place covers a part of the mark; another covers it whole."
        if covers
        else f"covering the square at {tuple(place)} does not take the bag away."
    )


exercise = Measure(
    title="Right for the wrong reason",
    minutes=12,
    accept=_accept_mark,
    answer_type=(tuple, list),
    mistakes=[
        Mistake(
            "column first",
            "Row and column have changed places: `divmod(position, 27)` gives the row first.",
            (25, 1),
        ),
        Mistake(
            "divided by 28",
            "The map has 27 columns, not 28: the place is divmod(position, 27).",
            divmod(1 * 27 + 25, 28),
        ),
        Mistake("counted from 1", "Rows and columns are counted from 0.", (2, 26)),
        Mistake(
            "where the bag is",
            "That is where the bag is. Take the lowest entry of the map: the score that is left when a square is covered.",
            (14, 14),
            when=lambda place: all(6 <= i <= 21 for i in place),
        ),
    ],
    hints=(
        "Draw it: viz.image_grid([occlusion_map(suspect, theirs[bags][0], 8)]). Where is it darkest?",
        "position = occlusion_map(suspect, theirs[bags][0], 8).argmin().item(); row and column are divmod(position, 27).",
        "It is in the upper right corner, one pixel away from the upper border.",
    ),
    passed="Networks have been caught reading hospital tags on X-rays and rulers beside moles. Looking is part of testing.",
)
