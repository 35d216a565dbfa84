"""What the fork server imports before anything is graded, so that no fork has to.

torch imports sympy and its compiler when it first meets certain operations; that takes seconds. No tensor
operation runs here, because thread pools do not survive a fork.
"""

import gc
import importlib
import os
from contextlib import suppress

from labkit import exercises
from labkit.grade.lanes.child import ENVIRONMENT, shell

LESSONS_USE = (
    *("torch", "sympy", "torch._dynamo", "matplotlib.pyplot", "ipywidgets", "PIL.Image"),
    *("labkit.engine", "labkit.viz", "labkit.grade.lanes.first_cell"),
)

os.environ.update(ENVIRONMENT)  # matplotlib reads it when it is imported
exercises.all_exercises()
for name in LESSONS_USE:
    with suppress(ImportError):  # the cell that needs it will say so
        importlib.import_module(name)
shell()
gc.freeze()  # what is here by now is never garbage; forks need not look through it
