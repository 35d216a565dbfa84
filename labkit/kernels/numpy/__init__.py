"""Reference kernels: the shortest correct form, any dtype."""

import importlib
import pkgutil
import warnings

# Every module of this folder, and every public function in it.
KERNELS = {}
for _found in pkgutil.iter_modules(__path__):
    _module = importlib.import_module(f"{__name__}.{_found.name}")
    KERNELS[_found.name] = {
        name for name, value in vars(_module).items() if callable(value) and not name.startswith("_")
    }

# As in torch, 0 / 0 and overflow are values (nan, inf), not warnings. A filter costs nothing per call, but it
# does not reach into NumPy's own Python code: kernels write out what a.var() would do there.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"labkit\.(ops|kernels|autograd)\b")
