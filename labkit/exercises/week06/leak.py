"""A state that leaks from one batch into the next: name the fault and mend it."""

from labkit.exercises.declare import Case, Fix, Mistake, vary
from labkit.exercises.week06.shared import filled
from labkit.lazy import torch


def _gru_for(batches):
    layer = torch.nn.GRU(batches[0].shape[2], 4).to(batches[0].dtype)
    return filled(layer)


def _use_leak(answer, *batches):
    layer = _gru_for(batches)
    return [value.detach() for value in answer(layer, list(batches))]


def _leak_as_found(layer, batches):
    answers, state = [], None
    with torch.no_grad():
        for x in batches:
            outputs, state = layer(x, state)
            answers.append(outputs[-1])
    return answers


def _leak_case(make="normal", *batch_shapes):
    return lambda draw: {f"batch {n}": getattr(draw, make)(*shape) for n, shape in enumerate(batch_shapes)}


def _leak_mended(layer, batches, pick=lambda outputs: outputs[-1]):
    return [pick(layer(x)[0]) for x in batches]


def _leak_first_kept(layer, batches):
    answers, state = [], None
    for x in batches:
        outputs, last = layer(x, state)
        state = last if state is None else state
        answers.append(outputs[-1])
    return answers


def _leak_every_second(layer, batches):
    answers, state = [], None
    for n, x in enumerate(batches):
        outputs, state = layer(x, state if n % 2 else None)
        answers.append(outputs[-1])
    return answers


exercise = Fix(
    title="What the last batch left behind",
    minutes=8,
    needs=("w06.rnn",),
    dtype="float64",
    cases=[
        Case("two batches", _leak_case("normal", (5, 3, 2), (4, 3, 2))),
        Case("three batches", _leak_case("normal", (3, 2, 5), (6, 2, 5), (4, 2, 5))),
        Case("not contiguous", _leak_case("transposed", (4, 2, 3), (5, 2, 3), (3, 2, 3))),
        Case("one sequence each", _leak_case("normal", (4, 1, 3), (6, 1, 3))),
        Case("a smaller last batch", _leak_case("normal", (4, 3, 2), (5, 1, 2)), extreme=True),
    ],
    use=_use_leak,
    oracle=lambda *batches: _use_leak(_leak_mended, *batches),
    reduces=100,
    broken=_leak_as_found,
    fault="the state leaks",
    menu={
        "the state leaks": "",
        "no detach": "Under no_grad there is no graph to cut. Detached or not, the numbers of the last batch go into this one.",
        "wrong step": "outputs[-1] is the last step of every sequence, time first: that part is right.",
    },
    mistakes=[
        Mistake(
            "first batch's state for all",
            "The state of the first batch is now the start of all others. Each batch starts from nothing: pass no state.",
            _leak_first_kept,
        ),
        Mistake(
            "every second batch",
            "Every second batch still starts from the state of the one before.",
            _leak_every_second,
        ),
        Mistake(
            "first step",
            "No state leaks any more, but these are the outputs of the first step; the last is wanted.",
            vary(_leak_mended, pick=lambda outputs: outputs[0]),
        ),
        Mistake(
            "all steps",
            "No state leaks any more, but all steps are returned; the last is wanted.",
            vary(_leak_mended, pick=lambda outputs: outputs),
        ),
        Mistake(
            "forgets inside",
            "Each answer comes from the last input alone: the state was reset at every step, not at every batch.",
            lambda layer, batches: [layer(x[-1:])[0][-1] for x in batches],
        ),
    ],
    hints=(
        "Ask for the same batch twice. What differs between the two calls of the layer?",
        "`state` outlives the loop's turn: the second batch starts where the first ended. Its sequences have nothing to do with those.",
        'fault = "the state leaks"; outputs, _ = layer(x)',
    ),
    passed="Carry a state only where the next batch continues the same sequences, as in truncated training.",
    excused={
        "delegation": "torch has no function for it: the fault is one argument",
        "equal axes": "batches of one case share sizes",
    },
)
