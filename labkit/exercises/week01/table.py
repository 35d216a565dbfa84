"""Measure from which n on a table of all pairs takes more than a gigabyte."""

from labkit.exercises.declare import Measure, Mistake

_GIGABYTE = 10**9


def _accept_table(n):
    if n != int(n) or n < 1:
        return "a batch has a whole number of examples, at least one."
    if 4 * n * n <= _GIGABYTE:
        return f"for n = {int(n):,} the table takes {4 * int(n) ** 2:,} bytes: it still fits."
    if 4 * (n - 1) ** 2 > _GIGABYTE:
        return f"for n = {int(n):,} it is over, but already n = {int(n) - 1:,} is."
    return None


exercise = Measure(
    title="What the table costs",
    minutes=6,
    needs=("w01.silent_loss", "w01.expand"),
    accept=_accept_table,
    mistakes=[
        Mistake(
            "last that fits", "That is the largest n that still fits; the next one is asked for.", 15_811
        ),
        Mistake(
            "elements",
            "That many elements are a gigabyte only if each takes one byte; a float32 takes 4.",
            31_623,
            when=lambda n: abs(n - 31_623) <= 1,
        ),
        Mistake(
            "eight bytes",
            "That is the answer for float64; torch's default float32 takes 4 bytes.",
            11_181,
            when=lambda n: abs(n - 11_181) <= 1,
        ),
        Mistake(
            "gibibyte",
            "That is the answer for 2**30 bytes; a gigabyte is 10**9 here.",
            16_385,
            when=lambda n: 16_384 <= n <= 16_385,
        ),
        Mistake(
            "a row, not a table",
            "That is a row of n numbers. (n, 1) against (n,) makes n times n.",
            250_000_001,
            when=lambda n: abs(n - 250_000_000) <= 1,
        ),
    ],
    hints=(
        "Try `table_bytes(1000)` and `table_bytes(2000)`. How does the size grow?",
        "It is 4 n² bytes. Look for the first n where that exceeds 10**9.",
        "The square root of 10**9 / 4 is 15811.4.",
    ),
    passed="Costs that grow with the square of something are where memory goes: week 7 meets this table again as attention.",
)
