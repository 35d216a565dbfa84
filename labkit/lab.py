"""`make lab`: JupyterLab on this machine only, with a token, open at the start page with the labkit panel."""

from __future__ import annotations

import argparse
import os
import secrets
import socket
import sys
import webbrowser
from pathlib import Path

from labkit.book.work import Work, here
from labkit.panel import CONFIG, LABEXTENSIONS


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def command(port: int, browser: bool, work: Work) -> list[str]:
    """The JupyterLab command line: this machine only, the labkit panel on, quiet unless something is wrong.

    The token is not here, where every user of the machine could read it: see `environment`.
    """
    line = [
        *(sys.executable, "-m", "jupyterlab"),
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={work.folder}",
        "--ServerApp.jpserver_extensions=labkit.panel=True",
        f"--ServerApp.extra_template_paths={CONFIG / 'templates'}",
        f"--LabApp.extra_labextensions_path={LABEXTENSIONS}",
        f"--LabApp.workspaces_dir={work.progress / 'workspaces'}",  # the layout of this course alone
        *("--log-level=ERROR", "--LabApp.log_level=ERROR"),
        "--LanguageServerManager.autodetect=False",  # would run npm to look for more of them
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if not browser:
        line.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        line.append("--allow-root")
    return line


def environment(token: str, work: Work) -> dict[str, str]:
    """What JupyterLab, its kernels and the panel find: the token, the settings, and which course this is."""
    settings = os.pathsep.join(filter(None, [os.environ.get("JUPYTER_CONFIG_PATH"), str(CONFIG)]))
    own = {"JUPYTER_TOKEN": token, "JUPYTER_CONFIG_PATH": settings}
    return {**os.environ, **own, **work.environment()}


def already_running(root: Path) -> str | None:
    """The address of a JupyterLab that `make lab` started for this course before and that still runs."""
    from labkit.book.update import has_panel, servers

    for url, token, top in servers():
        if top.resolve() == root.resolve() and has_panel(url, token):
            return f"{url}lab?token={token}"
    return None


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="labkit lab", description=__doc__)
    parser.add_argument("--port", type=int, help="serve here and nowhere else")
    parser.add_argument("--no-browser", action="store_true", help="print the address instead of opening it")
    options = parser.parse_args(argv)
    if options.port and not is_free(options.port):
        print(
            f"Port {options.port} is taken. Choose another: make lab PORT={options.port + 1}", file=sys.stderr
        )
        return 2
    work = here()
    address = None if options.port else already_running(work.folder)
    if address:
        print(f"JupyterLab is running already: {address}\nFor a second one: make lab PORT=8899", flush=True)
        if not options.no_browser:
            webbrowser.open(address)
        return 0
    from labkit import warm
    from labkit.book.driver import install_merge_driver

    warm.main([])
    install_merge_driver(work.folder)
    os.chdir(work.folder)
    port = options.port or next(port for port in range(8888, 65536) if is_free(port))
    token = secrets.token_hex(24)
    print(f"JupyterLab: http://127.0.0.1:{port}/lab?token={token}", flush=True)
    print("Leave this window open while you work; Control-C ends it.", flush=True)
    line = command(port, not options.no_browser, work)
    if os.name == "nt":
        import subprocess

        return subprocess.call(line, env=environment(token, work))
    os.execve(line[0], line, environment(token, work))
