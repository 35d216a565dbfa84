"""Batches of sequences of similar length."""

from labkit.exercises.declare import Case, Implement, Mistake, vary


def _buckets(lengths, size, key=None, drop=False):
    order = sorted(range(len(lengths)), key=key or (lambda n: lengths[n]))
    batches = [order[start : start + size] for start in range(0, len(order), size)]
    return [batch for batch in batches if len(batch) == size] if drop else batches


def _buckets_of_one_length(lengths, size):
    found = {}
    for n, length in enumerate(lengths):
        found.setdefault(length, []).append(n)
    return [
        group[start : start + size]
        for _, group in sorted(found.items())
        for start in range(0, len(group), size)
    ]


exercise = Implement(
    title="Buckets",
    minutes=6,
    needs=("w06.masked_loss",),
    engine="python",
    cases=[
        Case("seven in threes", lambda draw: {"lengths": [5, 2, 9, 4, 7, 3, 8], "batch_size": 3}),
        Case("equal lengths", lambda draw: {"lengths": [4, 2, 4, 2, 6, 4], "batch_size": 2}),
        Case("one batch", lambda draw: {"lengths": [3, 1, 2], "batch_size": 8}),
        Case("one at a time", lambda draw: {"lengths": [6, 2, 5], "batch_size": 1}),
        Case("no sequences", lambda draw: {"lengths": [], "batch_size": 4}, extreme=True),
    ],
    oracle=_buckets,
    reference="a plain sort",
    excused={"delegation": "torch has no function for it: sorted and a slice are the tools"},
    mistakes=[
        Mistake(
            "not sorted",
            "The batches are cut in the order of the data. Sort the positions by length first.",
            vary(_buckets, key=lambda n: 0),
        ),
        Mistake(
            "lengths for positions",
            "These are the lengths themselves. A batch is a list of positions, to fetch the sequences with.",
            lambda lengths, size: [[lengths[n] for n in batch] for batch in _buckets(lengths, size)],
        ),
        Mistake(
            "longest first",
            "The longest come first here; shortest first is asked for.",
            lambda lengths, size: _buckets(lengths, size, key=lambda n: -lengths[n]),
        ),
        Mistake(
            "rest dropped",
            "The last batch, smaller than the others, is missing.",
            vary(_buckets, drop=True),
        ),
        Mistake(
            "one length per batch",
            "Each batch holds one single length, so many batches are nearly empty. Lengths need only be close: sort, then cut.",
            _buckets_of_one_length,
        ),
    ],
    hints=(
        "sorted(range(n), key=...) sorts positions by something else than themselves.",
        "order = sorted(range(len(lengths)), key=lambda n: lengths[n]); equal lengths keep their order.",
        "[order[start : start + batch_size] for start in range(0, len(order), batch_size)]",
    ),
    passed="Shuffle the batches of each epoch, not their contents, and the order is random enough.",
)
