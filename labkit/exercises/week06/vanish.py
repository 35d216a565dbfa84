"""Measure after how many steps the gradient of a recurrent network has vanished."""

from labkit.exercises.declare import Measure, Mistake


def _accept_lag(lag):
    if lag == _LAG:
        return None
    return f"at lag {lag} the gradient is {'already' if lag > _LAG else 'not yet'} below a thousandth of its start."


_LAG, _HUNDREDTH = 42, 28  # of the lesson's RNN with radius 0.9


exercise = Measure(
    title="Where the gradient vanishes",
    minutes=8,
    needs=("w06.rnn",),
    also=("vanishing gradient",),
    accept=_accept_lag,
    answer_type=int,
    mistakes=[
        Mistake(
            "a hundredth",
            "That is where it falls below a hundredth; a thousandth of its value at lag 0 is asked for.",
            _HUNDREDTH,
            when=lambda lag: abs(lag - _HUNDREDTH) <= 1,
        ),
        Mistake(
            "counted from the beginning",
            "That is counted from the first step. The lag is counted back from the last: lag 0 is the last state.",
            100 - _LAG,
            when=lambda lag: abs(lag - (100 - _LAG)) <= 1,
        ),
        Mistake(
            "by the radius alone",
            "0.9 ** 66 is a thousandth: that is the matrix without the tanh, which shrinks the gradient further. Read it off `norms`.",
            66,
            when=lambda lag: 65 <= lag <= 67,
        ),
        Mistake(
            "never",
            "It does fall that low. norms[k] < norms[0] / 1000: which k is the first?",
            100,
            when=lambda lag: lag >= 100,
        ),
    ],
    hints=(
        "norms = gradient_by_lag(0.9) is a list: norms[k] belongs to lag k. Print a few.",
        "The first k with norms[k] < norms[0] / 1000.",
        "next(k for k, norm in enumerate(norms) if norm < norms[0] / 1000)",
    ),
    passed="What happened further back than that cannot teach this network anything.",
)
