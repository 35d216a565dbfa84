"""Replace a pair of tokens by a new one, from left to right."""

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.exercises.week07.shared import merge_pair


def _merge_in_place(ids, pair, new):
    i = 0
    while i < len(ids) - 1:
        if (ids[i], ids[i + 1]) == pair:
            ids[i : i + 2] = [new]
        i += 1
    return ids


def _merge_again(ids, pair, new):
    merged = []
    for token in ids:
        if merged and (merged[-1], token) == pair:
            merged[-1] = new
        else:
            merged.append(token)
    return merged


def _merge_overlapping(ids, pair, new):
    """Every pair of neighbors on its own, so that a token in the middle is used twice."""
    hits = [tuple(ids[i : i + 2]) == pair for i in range(len(ids))]
    used = {i for i, hit in enumerate(hits) if hit} | {i + 1 for i, hit in enumerate(hits) if hit}
    return [new if hits[i] else ids[i] for i in range(len(ids)) if hits[i] or i not in used]


def _merge_case(ids, pair, new):
    return lambda draw: {"ids": list(ids), "pair": pair, "new": new}


exercise = Implement(
    title="Join a pair",
    minutes=6,
    engine="python",
    reference="the rule above",
    cases=[
        Case("two places", _merge_case([1, 2, 3, 1, 2, 4], (1, 2), 9)),
        Case("at the end", _merge_case([5, 1, 2], (1, 2), 300)),
        Case("three in a row", _merge_case([7, 7, 7, 1], (7, 7), 256)),
        Case("five in a row", _merge_case([1, 7, 7, 7, 7, 7], (7, 7), 256)),
        Case("the other way around", _merge_case([2, 1, 1, 3], (1, 2), 9)),
        Case("new meets old", _merge_case([1, 2, 2, 3], (1, 2), 1)),
        Case("longer numbers", _merge_case([11, 2, 1, 22, 1, 2], (1, 2), 9)),
        Case("nothing", _merge_case([], (1, 2), 9), extreme=True),
        Case("one token", _merge_case([1], (1, 1), 9), extreme=True),
    ],
    oracle=lambda ids, pair, new: merge_pair(ids, pair, new),
    excused={"delegation": "torch has no tokenizer"},
    mistakes=[
        Mistake(
            "used twice",
            "A token in the middle belongs to two pairs: [7, 7, 7] became two new tokens. Once joined, it is used up.",
            _merge_overlapping,
        ),
        Mistake(
            "one step after a match",
            "After a match the second token of the pair is still there: go on by two.",
            vary(merge_pair, step=1),
        ),
        Mistake(
            "first place only",
            "Only the first occurrence is replaced; replace all of them.",
            vary(merge_pair, first_only=True),
        ),
        Mistake(
            "last token lost",
            "The last token is gone when it is not part of a pair: the loop ends one too early.",
            vary(merge_pair, end=1),
        ),
        Mistake(
            "in place",
            "The list that was given is changed. Build a new one: training needs the old one unharmed.",
            _merge_in_place,
        ),
        Mistake(
            "merged again",
            "What was joined is joined again with its neighbor. One pass: a new token is not looked at in the same round.",
            _merge_again,
        ),
        Mistake(
            "from the right",
            "Pairs are taken from the right: in [7, 7, 7] the first two are joined, not the last two.",
            lambda ids, pair, new: merge_pair(ids[::-1], pair[::-1], new)[::-1],
        ),
    ],
    hints=(
        "A while loop with its own index: sometimes it goes on by one, sometimes by two.",
        "tuple(ids[i : i + 2]) == pair is safe at the end: there the slice is shorter.",
        "if it matches: merged.append(new); i += 2; else: merged.append(ids[i]); i += 1",
    ),
    passed="One pass, left to right. The whole tokenizer is this function and a rule for choosing pairs.",
)
