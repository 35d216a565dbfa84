"""What several exercises of the small course that both lanes are tested on need. None of them needs torch."""

from labkit.exercises.declare import Case

HINTS = ("Read the page.", "Read it again.", "It is one line.")
TWO_LISTS = [
    Case("three", lambda draw: {"values": [1.0, -2.0, 4.0]}),
    Case("one", lambda draw: {"values": [7.0]}),
]
