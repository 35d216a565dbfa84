"""One line per kernel module: how many samples of PyTorch's operator database were run."""

from collections import Counter
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    samples: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, value in report.user_properties:
            if name == "opinfo":
                samples[value[0]] += value[1]
                refused[value[0]] += value[2]
    for kernels in samples:
        terminalreporter.write_line(
            f"OpInfo on {kernels} kernels: {samples[kernels]} samples, {refused[kernels]} refused, 0 wrong"
        )
