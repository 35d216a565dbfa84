"""What happened, one JSON object per line, only ever appended: attempts, predictions, hints.

Every event is written with a newline on both sides, so that a torn line never swallows its neighbor.
Progress is always derived from this file, never edited.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time
from pathlib import Path
from typing import Any

from labkit.book import disk

_said: set[str] = set()  # every trouble is told once


def append(file: Path, kind: str, **content: Any) -> str | None:
    """Add one event. What cannot be written costs the memory of it, never the lesson.

    Then the learner is told once, on the terminal or below the cell, and the sentence is returned.
    """
    try:
        line = json.dumps({"kind": kind, "at": round(time.time(), 1), **content}, default=repr, skipkeys=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        _add(file, f"\n{line}\n".encode())
    except (OSError, ValueError, RecursionError) as error:  # no room, or an answer that contains itself
        why = error.strerror if isinstance(error, OSError) else "it cannot be written as text"
        words = f"This {kind} could not be recorded ({why}), so `make progress` will not count it: {file}"
        if words not in _said:
            _said.add(words)
            print(words, file=sys.stderr)
        return words
    return None


def _add(file: Path, data: bytes) -> None:
    """Append in one piece. What a full disk took only a part of is as good as not written."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)  # a pipe would block
    descriptor = os.open(file, flags, 0o644)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(None, "it is not a regular file")
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(descriptor)


def read(file: Path) -> list[dict[str, Any]]:
    """All events in order; lines that are not whole are skipped."""
    try:
        text = disk.read_bytes(file).decode("utf-8", errors="replace")
    except OSError:
        return []
    events = []
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and "kind" in event:
            events.append(event)
    return events
