"""Encode a text with learned merges."""

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.exercises.week07.shared import TABLE, merge_pair


def _bpe_case(chunk, merges):
    return lambda draw: {"chunk": chunk, "merges": list(merges)}


def _encode(chunk, merges, *, start=256, backward=False):
    ids = list(chunk)
    order = list(enumerate(merges))
    for number, pair in reversed(order) if backward else order:
        ids = merge_pair(ids, pair, start + number)
    return ids


def _encode_greedy(chunk, merges):
    """The longest token that fits, from left to right."""
    spelled = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        spelled.append(spelled[first] + spelled[second])
    ids, i = [], 0
    while i < len(chunk):
        token = max(
            (t for t, s in enumerate(spelled) if chunk.startswith(s, i)), key=lambda t: len(spelled[t])
        )
        ids.append(token)
        i += len(spelled[token])
    return ids


def _encode_leftmost(chunk, merges):
    """Whatever pair is known and comes first in the text."""
    known = {pair: 256 + number for number, pair in enumerate(merges)}
    ids = list(chunk)
    while True:
        place = next((i for i in range(len(ids) - 1) if (ids[i], ids[i + 1]) in known), None)
        if place is None:
            return ids
        ids[place : place + 2] = [known[ids[place], ids[place + 1]]]


def _encode_one_merge(chunk, merges):
    ids = list(chunk)
    for number, pair in enumerate(merges):
        ids = merge_pair(ids, pair, 256 + number, first_only=True)
    return ids


exercise = Implement(
    title="Encode",
    minutes=6,
    needs=("w07.merge", "w07.train_bpe"),
    engine="python",
    reference="the rule above",
    cases=[
        Case("by hand", _bpe_case(b"aab", [(97, 98), (97, 256)])),
        Case("earlier wins", _bpe_case(b"abcd", TABLE)),
        Case("several pairs", _bpe_case(b"abcabxbcdeeebc", TABLE)),
        Case("not ASCII", _bpe_case("aé".encode(), [(195, 169), (97, 256)])),
        Case("no merges", _bpe_case(b"abc", [])),
        Case("empty", _bpe_case(b"", TABLE), extreme=True),
    ],
    oracle=lambda chunk, merges: _encode(chunk, merges),
    excused={"delegation": "torch has no tokenizer"},
    mistakes=[
        Mistake(
            "last learned first",
            "The merges are applied from the last to the first. Later pairs are made of earlier tokens: begin with the first.",
            vary(_encode, backward=True),
        ),
        Mistake(
            "longest token first",
            "From the left, always the longest token that fits: that is another tokenizer. Apply the merges in the order learned.",
            _encode_greedy,
        ),
        Mistake(
            "leftmost pair first",
            "The leftmost known pair is joined first. The pair that was learned first goes first, wherever it stands.",
            _encode_leftmost,
        ),
        Mistake(
            "numbered from 0",
            "New tokens are numbered from 0; the first one is 256.",
            vary(_encode, start=0),
        ),
        Mistake(
            "bytes only",
            "No merge is applied: these are the bytes.",
            lambda chunk, merges: list(chunk),
        ),
        Mistake(
            "one place per merge",
            "Each merge is applied to one place only; a pair may occur several times.",
            _encode_one_merge,
        ),
    ],
    hints=(
        "The order in which the pairs were learned is the order of the list.",
        "Start from list(chunk); pair number i becomes token 256 + i.",
        "for number, pair in enumerate(merges): ids = merge(ids, pair, 256 + number)",
    ),
    passed="Slow and right. Real tokenizers look up which of the pairs present was learned first; the result is the same.",
)
