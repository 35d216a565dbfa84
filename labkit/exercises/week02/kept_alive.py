"""A log of losses that keeps every graph alive: name the fault and mend it."""

from labkit.exercises.declare import Case, Fix, Mistake, vary
from labkit.lazy import torch


def _graph_nodes(value):
    """How many nodes of the graph a value keeps alive."""
    start = getattr(value, "grad_fn", None)
    seen, waiting = set(), [start] if start is not None else []
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += [parent for parent, _ in node.next_functions if parent is not None]
    return len(seen)


def _evaluate_logged(batches, w):
    return [((x @ w - y) ** 2).mean() for x, y in batches]


def _evaluate(batches, w):
    return [loss.item() for loss in _evaluate_logged(batches, w)]


def _evaluate_frozen(batches, w):
    w.requires_grad_(False)
    return _evaluate_logged(batches, w)


def _use_evaluate(evaluate, batches, w):
    w.requires_grad_(True)
    log = list(evaluate(batches, w))
    numbers = [value.detach() if hasattr(value, "detach") else value for value in log]
    return {
        "losses": torch.tensor([float(value) for value in numbers]),
        "nodes kept": sum(_graph_nodes(value) for value in log),
        "w still learns": w.requires_grad,
    }


def _batches(sizes, features, turned=False):
    def make(draw):
        pairs = [
            (draw.transposed(n, features) if turned else draw.normal(n, features), draw.normal(n))
            for n in sizes
        ]
        return {"batches": pairs, "w": draw.normal(features)}

    return make


exercise = Fix(
    title="Memory that grows",
    minutes=8,
    needs=("w02.kept",),
    cases=[
        Case("three batches", _batches((4, 5, 2), 3)),
        Case("one batch", _batches((5,), 2)),
        Case("not contiguous", _batches((3, 4), 2, turned=True)),
        Case("one feature", _batches((4, 3), 1)),
    ],
    use=_use_evaluate,
    oracle=vary(_use_evaluate, evaluate=_evaluate),
    broken=_evaluate_logged,
    fault="the log keeps the graph",
    menu={
        "the log keeps the graph": "",
        "the list is too long": "A list of a few thousand numbers is nothing. It is what else hangs on its entries.",
        "backward is missing": "Validation needs no backward. A backward would free what was kept, and add to w.grad as well.",
        "w is copied in each batch": "w is one tensor, used by all batches.",
    },
    mistakes=[
        Mistake(
            "cloned",
            "A clone has a history too: it is one more node on top of the graph.",
            lambda batches, w: [loss.clone() for loss in _evaluate_logged(batches, w)],
        ),
        Mistake(
            "w frozen",
            "`w.requires_grad_(False)` lasts: after the first validation w would never learn again. no_grad ends by itself.",
            _evaluate_frozen,
        ),
        Mistake(
            "one number",
            "The losses are averaged over the batches; one for each is asked for.",
            lambda batches, w: [sum(_evaluate(batches, w)) / len(batches)],
        ),
        Mistake(
            "last one kept",
            "Only the last entry still holds its graph: convert that one as well.",
            lambda batches, w: [*_evaluate(batches, w)[:-1], _evaluate_logged(batches, w)[-1]],
        ),
    ],
    hints=(
        "Print `log[0]`. What does it show beside the number?",
        "Keep the number only: `loss.item()`. Or record nothing: `with torch.no_grad():` around the loop.",
        'fault = "the log keeps the graph"; log.append(loss.item())',
    ),
    passed="`running += loss` has the same fault, and hides it better: one long graph over all batches.",
    excused={"delegation": "no function of torch's does it; the mend is one call"},
)
