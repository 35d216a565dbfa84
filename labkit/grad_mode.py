"""Whether ops are recorded (`no_grad`), and whether gradients are searched for NaN (`detect_anomaly`)."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Mode(threading.local):
    recording = True
    anomaly = False


mode = _Mode()  # each thread has its own


class set_grad_enabled:
    """Turn recording on or off, at once or for the length of a `with` block."""

    def __init__(self, enabled: bool) -> None:
        self.before, mode.recording = mode.recording, bool(enabled)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        mode.recording = self.before


@contextmanager
def no_grad() -> Iterator[None]:
    """Compute without recording: `with no_grad(): ...` or `@no_grad()`."""
    with set_grad_enabled(False):
        yield


@contextmanager
def enable_grad() -> Iterator[None]:
    """Record again inside a `no_grad` block."""
    with set_grad_enabled(True):
        yield


@contextmanager
def inference_mode(enabled: bool = True) -> Iterator[None]:
    """Like `no_grad`. (Torch also forbids using the results in autograd later; labkit does not.)"""
    with set_grad_enabled(mode.recording and not enabled):
        yield


def is_grad_enabled() -> bool:
    """Is recording on?"""
    return mode.recording


@contextmanager
def detect_anomaly() -> Iterator[None]:
    """Stop at the first op whose gradient is NaN and show where that op was called."""
    before, mode.anomaly = mode.anomaly, True
    try:
        yield
    finally:
        mode.anomaly = before
