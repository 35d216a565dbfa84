"""Gradients clipped after the step: name the fault and mend it."""

from labkit.exercises.declare import Case, Fix, Mistake, vary
from labkit.lazy import torch


def _use_step(answer, w_ih, w_hh, x, target, max_norm):
    """One step on a plain RNN with the given weights; old gradients lie around, as after any step."""
    size = w_hh.shape[0]
    model = torch.nn.RNN(w_ih.shape[1], size, nonlinearity="relu").to(x.dtype)
    with torch.no_grad():
        for p, value in zip(model.parameters(), (w_ih, w_hh), strict=False):
            p.copy_(value)
        model.bias_ih_l0.fill_(0.1)
        model.bias_hh_l0.fill_(0.0)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norm = answer(model, optimizer, x, target, max_norm)
    # As float32: torch divides by the norm plus 1e-6, and clipping by hand without that is right too.
    return {
        "norm": float(norm),
        "parameters": {name: p.detach().float() for name, p in model.named_parameters()},
    }


def _step(model, optimizer, x, target, max_norm, order="zero loss clip step", clip="norm", returned="before"):
    """One training step, its parts in the given order."""
    from torch.nn.utils import clip_grad_norm_, clip_grad_value_

    norm = torch.tensor(0.0)
    for part in order.split():
        if part == "zero":
            optimizer.zero_grad()
        elif part == "loss":
            (model(x)[0][-1] - target).square().mean().backward()
        elif part == "step":
            optimizer.step()
        elif clip == "value":
            clip_grad_value_(model.parameters(), max_norm)
        elif clip == "always":
            norm = clip_grad_norm_(model.parameters(), max_norm)
            for p in model.parameters():
                p.grad *= max(1.0, max_norm / float(norm))
        elif clip == "each":
            norm = max(clip_grad_norm_([p], max_norm) for p in model.parameters())
        else:
            norm = clip_grad_norm_(model.parameters(), max_norm)
    if returned == "after":
        norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    return float(norm)


def _step_case(steps, batch, inputs, hidden, max_norm, scale=2.0, make="normal"):
    def made(draw):
        return {
            "w_ih": draw.normal(hidden, inputs),
            "w_hh": scale * draw.normal(hidden, hidden) / hidden**0.5,
            "x": getattr(draw, make)(steps, batch, inputs),
            "target": draw.normal(batch, hidden),
            "max_norm": max_norm,
        }

    return made


exercise = Fix(
    title="The step that was too long",
    minutes=10,
    needs=("w06.vanish",),
    also=("exploding gradient",),
    dtype="float64",
    cases=[
        Case("norm 1", _step_case(8, 3, 2, 5, 1.0)),
        Case("norm 0.1", _step_case(6, 2, 3, 4, 0.1)),
        Case("not contiguous", _step_case(7, 2, 4, 3, 0.5, 2.0, "transposed")),
        Case("short enough already", _step_case(2, 4, 1, 3, 1000.0, 0.1)),
        Case("a thousand times too long", _step_case(30, 2, 3, 5, 1.0, 4.0), extreme=True),
    ],
    use=_use_step,
    oracle=lambda *inputs: _use_step(_step, *inputs),
    reduces=1000,
    broken=vary(_step, order="zero loss step clip"),
    fault="clipped too late",
    menu={
        "clipped too late": "",
        "learning rate too high": "A smaller rate makes the same leap later: the gradient grows by powers, the rate does not.",
        "wrong loss": "The loss is right: it falls on short sequences. Look at what happens between backward and step.",
    },
    mistakes=[
        Mistake(
            "clipped too early",
            "The step takes the whole gradient: clipped before backward has made it, or not at all. Clip between backward and step.",
            vary(_step, order="zero clip loss step"),
        ),
        Mistake(
            "value by value",
            "Each number is cut off by itself, which turns the gradient. Shorten all of them together: clip_grad_norm_.",
            vary(_step, clip="value"),
        ),
        Mistake(
            "each parameter by itself",
            "Each parameter is clipped by itself, which turns the gradient. One call for all parameters.",
            vary(_step, clip="each"),
        ),
        Mistake(
            "short ones lengthened",
            "A gradient that is short enough is stretched to max_norm. Clipping only shortens.",
            vary(_step, clip="always"),
        ),
        Mistake(
            "old gradients",
            "The gradients of the last step are still in there: zero_grad() comes first.",
            vary(_step, order="loss clip step"),
        ),
        Mistake(
            "zeroed before the step",
            "zero_grad() comes after backward and takes the gradient away before the step can use it.",
            vary(_step, order="loss clip zero step"),
        ),
        Mistake(
            "norm after clipping",
            "The norm that is returned is the one after clipping; the one before tells you that something exploded.",
            vary(_step, returned="after"),
        ),
    ],
    hints=(
        "Write down the order of the five lines. What does optimizer.step() use, and when is that shortened?",
        "Clip between backward and step.",
        'fault = "clipped too late"; loss.backward(); norm = clip_grad_norm_(model.parameters(), max_norm); optimizer.step()',
    ),
    passed="Log the norm that clip_grad_norm_ returns: it is the earliest warning a training run gives.",
    excused={
        "delegation": "torch has no function for it: five lines in their right order",
        "equal axes": "the recurrent weight of a plain RNN is square",
        "distinct": "the recurrent weight of a plain RNN is square",
    },
)
