"""Reference kernels: the shortest correct form, any dtype."""

import importlib
import pkgutil

# Every module of this folder, and every public function in it.
KERNELS = {}
for _found in pkgutil.iter_modules(__path__):
    _module = importlib.import_module(f"{__name__}.{_found.name}")
    KERNELS[_found.name] = {
        name for name, value in vars(_module).items() if callable(value) and not name.startswith("_")
    }
