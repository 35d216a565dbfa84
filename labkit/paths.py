"""Where the course lives on disk. Everything else asks here."""

import os
from pathlib import Path


def root() -> Path:
    """The course folder: `LABKIT_ROOT`, else the nearest folder above with `weeks/` and `solutions/`."""
    if "LABKIT_ROOT" in os.environ:
        return Path(os.environ["LABKIT_ROOT"]).resolve()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "weeks").is_dir() and (folder / "solutions").is_dir():
            return folder
    return Path(__file__).resolve().parent.parent


def weeks() -> Path:
    return root() / "weeks"


def solutions() -> Path:
    return root() / "solutions"


def progress() -> Path:
    """Where attempts are remembered. Not hidden: JupyterLab does not serve names that start with a dot."""
    return root() / "progress"
