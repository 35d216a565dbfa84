"""Pictures for the lessons. Each function returns a `Figure` that shows itself in a notebook.

Importing this package is cheap: NumPy, matplotlib, torch and ipywidgets are loaded by the picture that
needs them.
"""

from labkit.viz.figure import Figure as Figure
from labkit.viz.shapes import broadcast as broadcast
from labkit.viz.shapes import broadcast_grid as broadcast_grid
from labkit.viz.storage import strides as strides
