"""Pictures for the lessons. Each function returns a `Figure` that shows itself in a notebook.

Importing this package is cheap: NumPy, matplotlib, torch and ipywidgets are loaded by the picture that
needs them.
"""

from labkit.viz.arrays import compare as compare
from labkit.viz.arrays import image_grid as image_grid
from labkit.viz.attention import attention as attention
from labkit.viz.attention import attention_explorer as attention_explorer
from labkit.viz.convolution import convolution as convolution
from labkit.viz.convolution import convolution_explorer as convolution_explorer
from labkit.viz.descent import descent as descent
from labkit.viz.descent import learning_rate_explorer as learning_rate_explorer
from labkit.viz.explore import broadcast_explorer as broadcast_explorer
from labkit.viz.explore import strides_explorer as strides_explorer
from labkit.viz.figure import Figure as Figure
from labkit.viz.graphs import graph as graph
from labkit.viz.plots import curves as curves
from labkit.viz.plots import decision_boundary as decision_boundary
from labkit.viz.plots import error_vs_epsilon as error_vs_epsilon
from labkit.viz.plots import histogram as histogram
from labkit.viz.plots import lr_range as lr_range
from labkit.viz.plots import variance_by_depth as variance_by_depth
from labkit.viz.recurrent import padded_batch as padded_batch
from labkit.viz.sampling import sampling as sampling
from labkit.viz.sampling import sampling_explorer as sampling_explorer
from labkit.viz.shapes import broadcast as broadcast
from labkit.viz.shapes import broadcast_grid as broadcast_grid
from labkit.viz.storage import strides as strides
