"""A writer that always takes the likeliest letter: name the fault and mend it."""

from labkit.exercises.declare import Case, Equivalent, Fix, Mistake, vary
from labkit.lazy import F, torch


def _toy_logits(state, tokens):
    """Logits of a toy model: they depend on the step and, from the second on, on the letter before."""
    table = torch.tensor([[2.0, 0.5, -1.0, 1.0], [-0.5, 1.5, 0.0, 2.5]], dtype=torch.float64)
    shift = torch.tensor([0.0, 0.9, -0.8, 1.6], dtype=torch.float64)
    return table[min(state, 1)] + torch.outer(shift[tokens], torch.tensor([1.0, -1.0, 0.5, 0.0]).double())


def _toy_step(tokens, state):
    if tokens.ndim != 1:
        raise ValueError(
            f"`step` takes letters (count,), one number per name; these are {tuple(tokens.shape)}"
        )
    state = 0 if state is None else state + 1
    return _toy_logits(state, tokens), state


def _use_write(answer, temperature, steps):
    count = 12000
    random = torch.Generator().manual_seed(0)
    table = answer(_toy_step, count, steps, temperature, random)
    again = answer(_toy_step, count, steps, temperature, torch.Generator().manual_seed(0))
    more = answer(_toy_step, count, steps, temperature, random)
    if table.shape != (steps, count):
        return {"shape": tuple(table.shape)}
    first, second = table[0], table[1]
    zero = torch.zeros(1, dtype=torch.int64)
    ways = {
        "softmax(logits / temperature)": lambda z: (z / temperature).softmax(-1),
        "softmax(logits)": lambda z: z.softmax(-1),
        "softmax(logits * temperature)": lambda z: (z * temperature).softmax(-1),
        "all letters alike": lambda z: torch.full_like(z, 1 / z.shape[-1]),
        "the largest logit only": lambda z: F.one_hot(z.argmax(-1), z.shape[-1]).double(),
    }
    chances = {name: way(_toy_logits(0, zero)[0]) for name, way in ways.items()}
    drawn = _nearest(first, chances)
    common = int(first[first > 0].mode().values) if (first > 0).any() else 0
    way = ways.get(drawn, ways["softmax(logits / temperature)"])
    letter = torch.tensor([common])
    followers = {
        "the state and the letter before": way(_toy_logits(1, letter)[0]),
        "the letter before, a fresh state": way(_toy_logits(0, letter)[0]),
        "the state, always letter 0": way(_toy_logits(1, zero)[0]),
    }
    return {
        "shape": tuple(table.shape),
        "first letters drawn from": drawn,
        "second letters follow": _nearest(second[first == common], followers),
        "same seed, same names": bool(torch.equal(table, again)),
        "the generator goes on, other names": not torch.equal(table, more),
    }


def _nearest(tokens, candidates):
    """The candidate whose chances the drawn letters have, or "something else"."""
    shares = torch.bincount(tokens, minlength=4).double() / len(tokens)
    for name, chances in candidates.items():
        if (shares - chances).abs().max() < 0.05:
            return name
    return "something else"


def _write(
    step,
    count,
    steps,
    temperature,
    random,
    chances=None,
    feed="drawn",
    keep=True,
    pick=None,
    seeded=True,
    squeeze=True,
):
    """The answer, with one thing changed."""
    tokens, state, rows = torch.zeros(count, dtype=torch.int64), None, []
    for _ in range(steps):
        logits, new = step(tokens, state)
        state = new if keep else None
        share = chances(logits, temperature) if chances else (logits / temperature).softmax(-1)
        source = random if seeded else None
        drawn = pick(logits) if pick else torch.multinomial(share, 1, generator=source)
        drawn = drawn.flatten() if squeeze else drawn
        tokens = drawn if feed == "drawn" else tokens
        rows.append(drawn)
    return torch.stack(rows)


exercise = Fix(
    title="The same name, again and again",
    minutes=10,
    needs=("w06.masked_loss",),
    engine="python",
    cases=[
        Case("temperature 0.6", lambda draw: {"temperature": 0.6, "steps": 3}),
        Case("temperature 2", lambda draw: {"temperature": 2.0, "steps": 2}),
        Case("temperature 1", lambda draw: {"temperature": 1.0, "steps": 2}),
    ],
    use=_use_write,
    oracle=vary(_use_write, answer=_write),
    reference="what the model's probabilities say",
    broken=vary(_write, pick=lambda logits: logits.argmax(-1)),
    fault="always the most likely",
    menu={
        "always the most likely": "",
        "the state is lost": "The state is passed on: `step` gets what it returned. Look at how a letter is chosen.",
        "trained too little": "The loss has fallen well below that of letters by frequency. More training makes the most likely letter likelier still.",
    },
    mistakes=[
        Mistake(
            "temperature ignored",
            "The letters are drawn, but from softmax(logits): the temperature does nothing. Divide the logits by it.",
            vary(_write, chances=lambda logits, t: logits.softmax(-1)),
        ),
        Mistake(
            "temperature upside down",
            "The logits are multiplied by the temperature; divide by it: a low one makes likely letters likelier.",
            vary(_write, chances=lambda logits, t: (logits * t).softmax(-1)),
        ),
        Mistake(
            "all letters alike",
            "All letters are equally likely: the model is not asked. Draw from the softmax of its logits.",
            vary(_write, chances=lambda logits, t: torch.ones_like(logits)),
        ),
        Mistake(
            "state lost",
            "The letters are drawn now, but every one from a fresh state: pass on the state that `step` returns.",
            vary(_write, keep=False),
        ),
        Mistake(
            "letter not read",
            "The drawn letter is not read: `step` gets letter 0 every time. What was drawn is the next input.",
            vary(_write, feed="none"),
        ),
        Mistake(
            "a column drawn",
            "torch.multinomial returns (count, 1), and `step` takes letters (count,): squeeze(1), or [:, 0].",
            vary(_write, squeeze=False),
        ),
        Mistake(
            "generator set back",
            "Every call draws the same names: the generator was made anew or seeded again inside. Use the one that was handed in.",
            lambda step, count, steps, temperature, random: _write(
                step, count, steps, temperature, torch.Generator().manual_seed(0)
            ),
        ),
        Mistake(
            "generator not used",
            "The names differ from run to run: give torch.multinomial the generator.",
            vary(_write, seeded=False),
        ),
    ],
    hints=(
        "Every name of a batch is the same. Which line could make two of them differ?",
        "Draw: torch.multinomial(chances, 1, generator=random) gives (count, 1), with chances = (logits / temperature).softmax(-1).",
        'fault = "always the most likely"; letters = torch.multinomial(chances, 1, generator=random).squeeze(1)',
    ),
    passed="A loss is about probabilities. Whoever takes only the largest throws the rest of them away.",
    excused={"delegation": "torch has no function for it: multinomial is one of the tools"},
    equivalent=(
        Equivalent(
            before="chances = (logits / temperature).softmax(-1)",
            after="chances = (logits / temperature).softmax(1)",
            reason="the logits of one step have two axes: the last is axis 1",
        ),
    ),
)
