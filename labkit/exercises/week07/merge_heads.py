"""Put the heads side by side again."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake
from labkit.exercises.week07.shared import from_heads

exercise = Implement(
    title="And together again",
    minutes=4,
    needs=("w07.split_heads",),
    cases=[
        Case("3 heads of 4", lambda draw: {"x": draw.normal(2, 3, 5, 4)}),
        Case("4 heads of 3", lambda draw: {"x": draw.normal(1, 4, 2, 3)}),
        Case("2 heads of 6", lambda draw: {"x": draw.normal(3, 2, 5, 6)}),
        Case("not contiguous", lambda draw: {"x": draw.transposed(2, 3, 4, 5)}),
        Case("one head", lambda draw: {"x": draw.normal(2, 1, 3, 4)}, extreme=True),
    ],
    oracle=from_heads,
    grads=("x",),
    memory="any",
    reference="torch's unbind and cat",
    mistakes=[
        Mistake(
            "reshaped in one go",
            "The shape is right, the numbers are shuffled: heads and tokens have to change places before the reshape.",
            lambda x: x.reshape(len(x), x.shape[2], -1),
        ),
        Mistake(
            "view",
            "After a transpose the numbers lie in another order, and view refuses to copy. reshape copies where it must.",
            lambda x: x.transpose(1, 2).view(len(x), x.shape[2], -1),
        ),
        Mistake(
            "dealt like cards",
            "The features of the heads are interleaved. They go one head after the other: transpose axes 1 and 2.",
            lambda x: x.permute(0, 2, 3, 1).reshape(len(x), x.shape[2], -1),
        ),
        Mistake(
            "added up",
            "The heads are added. They go side by side: D / heads features each make D together.",
            lambda x: x.sum(1),
        ),
        Mistake(
            "averaged",
            "The heads are averaged. They go side by side: D / heads features each make D together.",
            lambda x: x.mean(1),
        ),
        Mistake(
            "heads left apart",
            "The last two axes are still apart: (B, T, heads, D / heads) becomes (B, T, D).",
            lambda x: x.transpose(1, 2).contiguous(),
        ),
    ],
    hints=(
        "Walk the way of split_heads backward: the last step first.",
        "Exchange axes 1 and 2: (B, T, heads, D / heads). Then make one axis of the last two.",
        "return x.transpose(1, 2).flatten(2)",
    ),
    passed="This one copies: after the transpose the features of a token do not lie side by side.",
    excused={"delegation": "torch has no function for it; a transpose and a reshape are the answer"},
    equivalent=(
        Equivalent(
            before="return x.transpose(1, 2).flatten(2)",
            after="return x.transpose(2, 1).flatten(2)",
            reason="exchanging two axes does not depend on which is named first",
        ),
    ),
)
