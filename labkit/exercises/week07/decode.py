"""Decode tokens back to a text."""

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.exercises.week07.shared import TABLE


def _spelled(merges, flip=False):
    table = [bytes([byte]) for byte in range(256)]
    for first, second in merges:
        table.append(table[second] + table[first] if flip else table[first] + table[second])
    return table


def _decode(ids, merges, *, flip=False, codec="utf-8", errors="replace"):
    return b"".join(_spelled(merges, flip)[token] for token in ids).decode(codec, errors)


def _decode_each(ids, merges):
    return "".join(_spelled(merges)[token].decode("utf-8", "replace") for token in ids)


def _decode_shallow(ids, merges):
    """New tokens are taken for pairs of bytes."""
    pairs = ((token,) if token < 256 else merges[token - 256] for token in ids)
    return b"".join(bytes(pair) for pair in pairs).decode("utf-8", "replace")


exercise = Implement(
    title="Decode",
    minutes=8,
    needs=("w07.train_bpe",),
    engine="python",
    reference="the rule above",
    cases=[
        Case("bytes", lambda draw: {"ids": [104, 105, 33], "merges": []}),
        Case("tokens of tokens", lambda draw: {"ids": [259, 120, 258, 97, 260], "merges": list(TABLE)}),
        Case("a letter in two tokens", lambda draw: {"ids": [97, 195, 169, 98], "merges": list(TABLE)}),
        Case("a letter in one token", lambda draw: {"ids": [257, 256], "merges": [(195, 169), (97, 256)]}),
        Case("half a letter", lambda draw: {"ids": [97, 195], "merges": [(97, 98)]}),
        Case("nothing", lambda draw: {"ids": [], "merges": [(97, 98)]}, extreme=True),
    ],
    oracle=lambda ids, merges: _decode(ids, merges),
    excused={"delegation": "torch has no tokenizer"},
    mistakes=[
        Mistake(
            "token by token",
            "Each token is turned into text by itself, so a letter that lies in two tokens is lost. Join the bytes first.",
            _decode_each,
        ),
        Mistake(
            "strict",
            'Half a letter raises an error. A model may stop there: errors="replace".',
            vary(_decode, errors="strict"),
        ),
        Mistake(
            "broken letters dropped",
            'What is not valid UTF-8 disappears; it should be seen: errors="replace".',
            vary(_decode, errors="ignore"),
        ),
        Mistake(
            "a byte is a letter",
            "Every byte is taken for a letter (latin-1, or chr). In UTF-8 a letter may have several bytes.",
            vary(_decode, codec="latin-1"),
        ),
        Mistake(
            "second half first",
            "The halves of a new token are joined in the wrong order.",
            vary(_decode, flip=True),
        ),
        Mistake(
            "pairs of bytes only",
            "A pair may be made of new tokens, not only of bytes: build the table in order, and look both halves up in it.",
            _decode_shallow,
        ),
    ],
    hints=(
        "First a table: what does each token spell? Then a look-up for each token.",
        "spelled = [bytes([b]) for b in range(256)], then append spelled[first] + spelled[second] for each pair.",
        'return b"".join(spelled[token] for token in ids).decode("utf-8", errors="replace")',
    ),
    passed="Any text at all survives encode and decode, in any language, because its bytes do.",
)
