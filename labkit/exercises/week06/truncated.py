"""Backpropagation through time in segments, with the state carried over."""

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.exercises.week06.shared import layer_weights, one_layer
from labkit.lazy import torch


def _segments_case(steps, batch, inputs, hidden, length, make="normal"):
    def made(draw):
        return {
            "x": getattr(draw, make)(steps, batch, inputs),
            "target": draw.normal(steps, batch, hidden),
            "state": (draw.normal(batch, hidden), draw.normal(batch, hidden)),
            "weights": tuple(layer_weights(draw, 4, inputs, hidden).values()),
            "length": length,
        }

    return made


def _most_kept(run):
    """The most bytes that graphs hold on to at one time while `run()` runs."""
    alive = most = 0

    class Kept:
        def __init__(self, tensor):
            nonlocal alive, most
            self.tensor = tensor.detach()
            alive += tensor.nbytes
            most = max(most, alive)

        def __del__(self):
            nonlocal alive
            alive -= self.tensor.nbytes

    with torch.autograd.graph.saved_tensors_hooks(Kept, lambda kept: kept.tensor):
        run()
    return most


def _use_truncated(answer, x, target, state, weights, length):
    def fresh():
        return tuple(w.detach().clone().requires_grad_() for w in weights)

    own = fresh()
    loss, last = answer(x, target, state, own, length)
    names = ("w_ih", "w_hh", "b_ih", "b_hh")
    all_kept = _most_kept(lambda: answer(x, target, state, fresh(), length))
    one_kept = _most_kept(lambda: answer(x[:length], target[:length], state, fresh(), length))
    return {
        "loss": float(loss),
        "loss carries a graph": bool(getattr(loss, "requires_grad", False)),
        "gradients": {
            name: torch.zeros_like(w) if w.grad is None else w.grad
            for name, w in zip(names, own, strict=True)
        },
        "state": tuple(s.detach() for s in last),
        "state carries a graph": any(s.requires_grad for s in last),
        "more than one segment's graph is kept": all_kept > 1.6 * max(one_kept, 1),
    }


def _squares(errors):
    return errors.square().sum()


def _truncated(x, target, state, weights, length, cut=None, fresh=False, drop=False, loss_of=_squares):
    """The answer with torch's LSTM: `cut` detaches the state, `fresh` starts each segment anew."""
    total, first = 0.0, state
    for start in range(0, len(x), length):
        part = x[start : start + length]
        if drop and len(part) < length:
            break
        outputs, state = one_layer(part, first if fresh else state, weights)
        loss = loss_of(outputs - target[start : start + length])
        loss.backward()
        total += loss.item()
        state = cut(state) if cut else tuple(s.detach() for s in state)
    return total, state


def _truncated_with_the_graph(
    x, target, state, weights, length, keep_loss=False, last=True, back=True, c_too=True
):
    """The answer, but something still hangs on its graph, or backward is not called."""
    total = 0.0
    for start in range(0, len(x), length):
        state = (state[0].detach(), state[1].detach() if c_too else state[1])
        outputs, state = one_layer(x[start : start + length], state, weights)
        loss = _squares(outputs - target[start : start + length])
        if back:
            loss.backward()
        total = total + (loss if keep_loss else loss.item())
    return total, tuple(s.detach() for s in state) if last else state


def _truncated_everywhere(x, target, state, weights, length):
    return _truncated(x, target, state, weights, 1)


def _truncated_nowhere(x, target, state, weights, length):
    return _truncated(x, target, state, weights, len(x))


def _truncated_at_the_end(x, target, state, weights, length):
    total = 0.0
    for start in range(0, len(x), length):
        outputs, state = one_layer(x[start : start + length], state, weights)
        total = total + (outputs - target[start : start + length]).square().sum()
        state = tuple(s.detach() for s in state)
    total.backward()
    return total.item(), state


def _truncated_last_only(x, target, state, weights, length):
    for start in range(0, len(x), length):
        outputs, state = one_layer(x[start : start + length], state, weights)
        loss = (outputs - target[start : start + length]).square().sum()
        for w in weights:
            w.grad = None
        loss.backward()
        state = tuple(s.detach() for s in state)
    return loss.item(), state


exercise = Implement(
    title="Cut the past, keep the state",
    minutes=12,
    needs=("w06.stack",),
    also=(
        "truncated backpropagation through time",
        "BPTT",
    ),
    dtype="float64",
    cases=[
        Case("three segments", _segments_case(6, 3, 2, 5, 2)),
        Case("the last one shorter", _segments_case(7, 2, 4, 3, 3)),
        Case("not contiguous", _segments_case(8, 3, 5, 2, 3, "transposed")),
        Case("one sequence", _segments_case(5, 1, 2, 3, 2)),
        Case("one segment", _segments_case(4, 2, 3, 5, 9), extreme=True),
    ],
    use=_use_truncated,
    oracle=lambda *inputs: _use_truncated(_truncated, *inputs),
    reference="torch, segment by segment",
    excused={"delegation": "torch has no function for it: a loop, backward and detach are the tools"},
    mistakes=[
        Mistake(
            "not detached",
            "The state still carries the last segment's graph, which backward has freed. Detach both h and c.",
            vary(_truncated, cut=lambda state: state),
        ),
        Mistake(
            "only h detached",
            "h is detached and c is not: the last segment's graph hangs on c as well. Detach both.",
            vary(_truncated_with_the_graph, c_too=False),
        ),
        Mistake(
            "losses added as tensors",
            "The loss that is returned carries a graph: a sum of loss tensors keeps every segment's graph alive. Add loss.item().",
            vary(_truncated_with_the_graph, keep_loss=True),
        ),
        Mistake(
            "last state not detached",
            "The state that is returned still carries the last segment's graph; it is to be detached as well.",
            vary(_truncated_with_the_graph, last=False),
        ),
        Mistake(
            "no backward",
            "The weights have no gradients: call loss.backward() for every segment.",
            vary(_truncated_with_the_graph, back=False),
        ),
        Mistake(
            "mean for sum",
            "The squared differences are averaged; their sum is asked for.",
            vary(_truncated, loss_of=lambda errors: errors.square().mean()),
        ),
        Mistake(
            "state forgotten",
            "Every segment starts from the first state. The values are to be carried on; only the graph is cut.",
            vary(_truncated, fresh=True),
        ),
        Mistake(
            "zeros carried",
            "Each segment but the first starts from zeros: that cuts the memory, not only the graph. Use detach().",
            vary(_truncated, cut=lambda state: tuple(torch.zeros_like(s) for s in state)),
        ),
        Mistake(
            "cut at every step",
            "The graph is cut after every step, so no gradient goes further back than one. Cut after `length` steps.",
            _truncated_everywhere,
        ),
        Mistake(
            "never cut",
            "The gradients go through the whole sequence: it is one segment. Cut x and target into pieces of `length`.",
            _truncated_nowhere,
        ),
        Mistake(
            "rest left out",
            "The last segment, shorter than the others, is missing.",
            vary(_truncated, drop=True),
        ),
        Mistake(
            "one backward at the end",
            "The numbers are right, but backward comes once, at the end: until then every segment's graph is kept. Call it per segment.",
            _truncated_at_the_end,
        ),
        Mistake(
            "last segment only",
            "Loss and gradients are those of the last segment. Add up the losses, and let backward add up the gradients.",
            _truncated_last_only,
        ),
    ],
    hints=(
        "for start in range(0, len(x), length): the segment is x[start : start + length], its target alike.",
        "For each: outputs, state = lstm(...), loss, loss.backward(), then state = tuple(s.detach() for s in state).",
        "total += loss.item() after loss.backward(); return total, state",
    ),
    passed="Sequences without an end can be trained on: the memory needed is that of one segment.",
)
