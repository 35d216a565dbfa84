"""What happened, one JSON object per line, only ever appended: attempts, predictions, hints.

Every event is written with a newline on both sides, so that a torn line never swallows its neighbor.
Progress is always derived from this file, never edited.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


def append(file: Path, kind: str, **content: Any) -> None:
    """Add one event. What cannot be written costs the memory of it, never the lesson."""
    try:
        line = json.dumps({"kind": kind, "at": round(time.time(), 1), **content}, default=repr, skipkeys=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"\n{line}\n".encode())
        finally:
            os.close(descriptor)
    except (OSError, ValueError, RecursionError):  # no permission, or an answer that contains itself
        return


def read(file: Path) -> list[dict[str, Any]]:
    """All events in order; lines that are not whole are skipped."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
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
