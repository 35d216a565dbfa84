"""Where the course lives on disk, for whoever was started without being told."""

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
