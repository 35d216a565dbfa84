"""How this process runs a notebook: for a person who works in it, or for one of the graders.

A grader names its lane in `LABKIT_LANE` for the processes it starts; everything else asks `current()`.
"""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Lane:
    """`remembers`: checks record attempts; `reference`: `labkit.mine` gives the solutions, whatever stands in
    weeks/; `still`: explorers draw a picture without controls."""

    remembers: bool = False
    reference: bool = False
    still: bool = True


NOTEBOOK = Lane(remembers=True, still=False)
GRADED = Lane()  # check, watch, panel, audit, bench: they keep their own record
REFERENCE = Lane(reference=True)  # build, solutions
LANES = {
    "check": GRADED,
    "watch": GRADED,
    "audit": GRADED,
    "bench": GRADED,
    "build": REFERENCE,
    "solutions": REFERENCE,
}


def current() -> Lane:
    name = os.environ.get("LABKIT_LANE")
    return LANES.get(name, GRADED) if name else NOTEBOOK
