"""The labkit panel of JupyterLab: progress, checks, hints and resets beside the notebook.

course      the lessons, and where the learner stands in each, as the front end draws it
desk        what the panel asks for: the state of the course, a check, a hint, a reset
handlers    the same over HTTP, for whoever has the token of the server
labextensions/labkit/   the front end: plain JavaScript that JupyterLab loads as it is
config/     JupyterLab's settings where the course needs others (long lines wrap, no Node), and its login page

`make lab` (`labkit/lab.py`) switches both halves on. A check grades what the browser sends, saved or not;
no notebook is ever written from here.
"""

import os
from pathlib import Path
from typing import Any

LABEXTENSIONS = Path(__file__).parent / "labextensions"
CONFIG = Path(__file__).parent / "config"


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "labkit.panel"}]


def _load_jupyter_server_extension(app: Any) -> None:
    """What Jupyter calls when it loads `labkit.panel`."""
    from labkit.book.work import here
    from labkit.panel.desk import Desk
    from labkit.panel.handlers import handlers

    app.identity_provider.token  # noqa: B018  # read from the environment, where kernels need not find it
    os.environ.pop("JUPYTER_TOKEN", None)
    desk = Desk(here(), Path(app.root_dir).resolve())
    app.web_app.add_handlers(".*$", handlers(app.web_app.settings["base_url"], desk))
