"""Beam search for the likeliest sequence."""

from labkit.exercises.declare import Case, Implement, Mistake, vary


def _beam_search(log_probs, start, width, steps, *, keep=None, worst=False, per_beam=False, combine="add"):
    """The answer, with one thing changed."""
    beams = [((start,), 1.0 if combine == "mul" else 0.0)]
    for _ in range(steps):
        grown = []
        for sequence, score in beams:
            scores = log_probs(sequence).tolist()
            more = [
                (
                    (*sequence, token),
                    score + s if combine == "add" else score * s if combine == "mul" else s,
                )
                for token, s in enumerate(scores)
            ]
            grown += [max(more, key=lambda beam: beam[1])] if per_beam and len(beams) >= width else more
        beams = sorted(grown, key=lambda beam: beam[1], reverse=not worst)[: keep or width]
    return beams


def _use_beam(answer, table, start, width, steps):
    """A model whose next token depends on the last token and on how many there are."""

    def log_probs(sequence):
        return (table[sequence[-1]] * (1 + len(sequence) / 4)).log_softmax(-1)

    return answer(log_probs, start, width, steps)


def _beam_case(vocab, start, width, steps, make="normal"):
    return lambda draw: {
        "table": getattr(draw, make)(vocab, vocab),
        "start": start,
        "width": width,
        "steps": steps,
    }


_SQUARE_TABLE = "a table from token to token is square"


exercise = Implement(
    title="Beam search",
    minutes=12,
    dtype="float64",
    reference="the definition",
    cases=[
        Case("three beams", _beam_case(5, 1, 3, 4)),
        Case("two beams, six steps", _beam_case(4, 0, 2, 6)),
        Case("greedy", _beam_case(6, 2, 1, 5)),
        Case("not contiguous", _beam_case(5, 4, 4, 3, "transposed")),
        Case("more beams than sentences", _beam_case(3, 1, 20, 2)),
        Case("no step", _beam_case(3, 2, 4, 0), extreme=True),
    ],
    use=_use_beam,
    oracle=lambda *inputs: _use_beam(_beam_search, *inputs),
    excused={
        "delegation": "torch has no beam search",
        "equal axes": _SQUARE_TABLE,
        "distinct": _SQUARE_TABLE,
        "size one": "a vocabulary of one token has nothing to search",
    },
    mistakes=[
        Mistake(
            "greedy",
            "Only the best sentence is kept after each step, whatever the width.",
            vary(_beam_search, keep=1),
        ),
        Mistake(
            "each beam keeps its best",
            "Each beam goes on with its own best token. All continuations of all beams compete for the places.",
            vary(_beam_search, per_beam=True),
        ),
        Mistake(
            "worst first",
            "The least likely sentences are kept: sort with reverse=True.",
            vary(_beam_search, worst=True),
        ),
        Mistake(
            "last step only",
            "A score is that of the last token alone. Add it to the score of the sentence so far.",
            vary(_beam_search, combine="last"),
        ),
        Mistake(
            "multiplied",
            "Log-probabilities are multiplied. Probabilities multiply; their logarithms add up.",
            vary(_beam_search, combine="mul"),
        ),
        Mistake(
            "best only",
            "Only the best sentence is returned; the whole list of beams is asked for, best first.",
            lambda log_probs, start, width, steps: _beam_search(log_probs, start, width, steps)[:1],
        ),
    ],
    hints=(
        "In each step: grow every beam by every token, then keep the best `width` of all of them.",
        "A grown beam is ((*sequence, token), score + log_prob); log_probs(sequence).tolist() gives one number per token.",
        "beams = sorted(grown, key=lambda beam: beam[1], reverse=True)[:width]",
    ),
    passed="With width 1 this is greedy; with a width of all sentences it is exact. Translators use 4 to 10.",
)
