"""Cut the features of tokens into heads, without copying."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake
from labkit.exercises.week07.shared import into_heads
from labkit.lazy import torch

exercise = Implement(
    title="Cut into heads",
    minutes=6,
    cases=[
        Case("3 heads of 4", lambda draw: {"x": draw.normal(2, 5, 12), "heads": 3}),
        Case("2 heads of 3", lambda draw: {"x": draw.normal(3, 4, 6), "heads": 2}),
        Case("one sentence", lambda draw: {"x": draw.normal(1, 3, 10), "heads": 5}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(2, 3, 8), "heads": 4}),
        Case("one head", lambda draw: {"x": draw.normal(2, 3, 4), "heads": 1}, extreme=True),
    ],
    oracle=into_heads,
    grads=("x",),
    memory="any",
    reference="torch's chunk and stack",
    mistakes=[
        Mistake(
            "reshaped in one go",
            "The shape is right, the numbers are shuffled: reshape alone mixes tokens into heads. First (B, T, heads, D / heads), then transpose.",
            lambda x, heads: x.reshape(len(x), heads, x.shape[1], -1),
        ),
        Mistake(
            "dealt like cards",
            "Each head gets every n-th feature. A head is a block of neighboring features: (B, T, heads, D / heads) in this order.",
            lambda x, heads: x.reshape(*x.shape[:2], -1, heads).permute(0, 3, 1, 2),
        ),
        Mistake(
            "not transposed",
            "Heads and tokens have to change places: (B, heads, T, D / heads).",
            lambda x, heads: x.reshape(*x.shape[:2], heads, -1),
        ),
        Mistake(
            "features before tokens",
            "Tokens and features have changed places too: (B, heads, T, D / heads).",
            lambda x, heads: into_heads(x, heads).transpose(2, 3),
        ),
        Mistake(
            "that many features",
            "`heads` is the number of heads, not of features in one: each has D / heads of them.",
            lambda x, heads: x.reshape(*x.shape[:2], -1, heads).transpose(1, 2),
        ),
        Mistake(
            "batch in the wrong place",
            "The batch comes first, then the heads: (B, heads, T, D / heads).",
            lambda x, heads: torch.stack(x.chunk(heads, -1)),
        ),
    ],
    hints=(
        "Which axis is cut? Only the features. So first make two axes of that one, and leave the rest alone.",
        "x.reshape(B, T, heads, D // heads), then exchange axes 1 and 2.",
        "return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)",
    ),
    passed="Nothing is copied: the heads are a view of the same numbers, with other strides.",
    excused={"delegation": "torch has no function for it; a reshape and a transpose are the answer"},
    equivalent=(
        Equivalent(
            before="return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)",
            after="return x.reshape(*x.shape[:2], heads, -1).transpose(2, 1)",
            reason="exchanging two axes does not depend on which is named first",
        ),
    ),
)
