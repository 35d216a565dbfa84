"""Learn the merges of a byte pair encoding."""

import itertools

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.exercises.week07.shared import merge_pair


def _train_bpe(
    counts, size, *, weigh=True, tie="small", start=256, once=False, stop=True, best="most", wrap=tuple
):
    """The answer, with one thing changed."""
    chunks = [(list(chunk), count if weigh else 1) for chunk, count in counts.items()]
    merges, ranked = [], None
    while len(merges) < size:
        pairs = {}
        for ids, count in chunks:
            for pair in itertools.pairwise(ids):
                pairs[pair] = pairs.get(pair, 0) + count
        if not pairs and stop:
            break
        if once:
            ranked = ranked or sorted(pairs, key=lambda pair: (-pairs[pair], pair))
            if len(merges) == len(ranked):
                break
            merges.append(ranked[len(merges)])
            continue
        sign = -1 if best == "most" else 1
        if tie == "small":
            chosen = min(pairs, key=lambda pair: (sign * pairs[pair], pair))
        elif tie == "large":
            chosen = max(pairs, key=lambda pair: (pairs[pair], pair))
        else:
            chosen = max(pairs, key=lambda pair: pairs[pair])
        chunks = [(merge_pair(ids, chosen, start + len(merges)), count) for ids, count in chunks]
        merges.append(chosen)
    return merges


def _train_on_all_rounds(counts, size):
    """The counts of earlier rounds are never cleared."""
    chunks, pairs, merges = [(list(chunk), count) for chunk, count in counts.items()], {}, []
    while len(merges) < size:
        for ids, count in chunks:
            for pair in itertools.pairwise(ids):
                pairs[pair] = pairs.get(pair, 0) + count
        if not pairs:
            break
        merges.append(min(pairs, key=lambda pair: (-pairs[pair], pair)))
        chunks = [(merge_pair(ids, merges[-1], 255 + len(merges)), count) for ids, count in chunks]
    return merges


def _train_joined(counts, size):
    """All chunks in one row: pairs reach from one into the next."""
    return _train_bpe({b"".join(chunk * count for chunk, count in counts.items()): 1}, size)


exercise = Implement(
    title="Train the tokenizer",
    minutes=12,
    needs=("w07.merge",),
    also=(
        "tokenizer",
        "byte pair encoding",
    ),
    engine="python",
    reference="the rule above",
    cases=[
        Case("by hand", lambda draw: {"counts": {b"aab": 2, b"ab": 1}, "size": 2}),
        Case("counts matter", lambda draw: {"counts": {b"xy": 1, b"xyz": 1, b"pq": 5, b"pqr": 1}, "size": 3}),
        Case("a tie", lambda draw: {"counts": {b"has": 3, b"bad": 3, b"gone": 1}, "size": 4}),
        Case(
            "words",
            lambda draw: {
                "counts": {b" the": 9, b" then": 4, b" he": 6, b"\n": 7, b" other": 3, b" hen": 2},
                "size": 6,
            },
        ),
        Case("one letter, again and again", lambda draw: {"counts": {b"aaaaaaa": 1, b"baa": 2}, "size": 3}),
        Case("nothing left to join", lambda draw: {"counts": {b"ab": 1, b"c": 4}, "size": 5}),
        Case("not ASCII", lambda draw: {"counts": {"é à".encode(): 2, "è".encode(): 3}, "size": 3}),
        Case("no text", lambda draw: {"counts": {}, "size": 3}, extreme=True),
    ],
    oracle=lambda counts, size: _train_bpe(counts, size),
    excused={"delegation": "torch has no tokenizer"},
    mistakes=[
        Mistake(
            "every chunk counted once",
            "Each chunk counts once. A pair occurs as often as its chunk does: add its count.",
            vary(_train_bpe, weigh=False),
        ),
        Mistake(
            "ties by first seen",
            "Among equally frequent pairs the one met first wins, so the order of the text decides. Take the smallest pair.",
            vary(_train_bpe, tie="first"),
        ),
        Mistake(
            "ties by largest",
            "Among equally frequent pairs the largest wins; the smallest should: min with the key (-count, pair).",
            vary(_train_bpe, tie="large"),
        ),
        Mistake(
            "counted once at the start",
            "The pairs are counted once and never merged. After each merge the text is another one: count again.",
            vary(_train_bpe, once=True),
        ),
        Mistake(
            "counts of all rounds",
            "The counts of earlier rounds are still there, of pairs that have been merged away. Start each round with none.",
            _train_on_all_rounds,
        ),
        Mistake(
            "numbered from 257",
            "The first new token is number 257; bytes are 0 to 255, so it is 256.",
            vary(_train_bpe, start=257),
        ),
        Mistake(
            "numbered from 0",
            "New tokens are numbered from 0, where the bytes are already: begin with 256.",
            vary(_train_bpe, start=0),
        ),
        Mistake(
            "rarest pair",
            "The rarest pair is chosen; the most frequent one should be.",
            vary(_train_bpe, best="least"),
        ),
        Mistake(
            "across chunks",
            "Pairs reach from one chunk into the next. Count inside each chunk only.",
            _train_joined,
        ),
        Mistake(
            "no stop",
            "When every chunk is a single token there is no pair to choose: stop there.",
            vary(_train_bpe, stop=False),
        ),
    ],
    hints=(
        "Keep a list of (ids, count), one per chunk; the merge makes a new list of them in each round.",
        "pairs[pair] += count for pair in zip(ids, ids[1:]); min(pairs, key=lambda pair: (-pairs[pair], pair)) is the best.",
        "chunks = [(merge(ids, best, 256 + len(merges)), count) for ids, count in chunks]; then merges.append(best)",
    ),
    passed="A stated rule for ties makes the tokenizer the same everywhere, whatever the order of its text.",
)
