"""Training that stops when validation no longer improves and goes back to the best epoch."""

import copy
import math

from labkit.exercises.declare import Case, Implement, Mistake
from labkit.exercises.week04.shared import NO_TRAINER
from labkit.lazy import torch


def _patience_with(
    better=None,
    copied=True,
    reset=True,
    extra=0,
    start=-math.inf,
    early=False,
    previous=False,
    only_if_stopped=False,
):
    """Early stopping with one thing about it changed."""

    def fit_with_patience(model, train_once, validate, patience, most):
        best, best_weights, waited, scores = start, copy.deepcopy(model.state_dict()), 0, []
        for _ in range(most):
            score = validate() if early else None
            train_once()
            scores.append(score if early else validate())
            if (better or (lambda score, best: score > best))(scores[-1], best):
                best = scores[-1]
                waited = 0 if reset else waited
                best_weights = copy.deepcopy(model.state_dict()) if copied else model.state_dict()
            else:
                waited += 1
                best = scores[-1] if previous else best
                if waited >= patience + extra:
                    break
        if not only_if_stopped or waited >= patience:
            model.load_state_dict(best_weights)
        return scores

    return fit_with_patience


def _lower_is_better(score, best):
    return best == -math.inf or score < best


def _scripted(fit_with_patience, scores, patience, most):
    """Training that adds 1 to a weight per epoch, and a validation that says what the case has for that weight."""
    model = torch.nn.Linear(1, 1, bias=False).double()
    torch.nn.init.zeros_(model.weight)

    def train_once():
        with torch.no_grad():
            model.weight += 1

    def validate():
        return [-1.0, *scores, *[0.0] * 99][int(model.weight.item())]

    seen = fit_with_patience(model, train_once, validate, patience, most)
    return {"scores": seen, "weight afterward": int(model.weight.item())}


exercise = Implement(
    title="Loop 5: stop when it no longer helps",
    minutes=12,
    needs=("w04.auroc",),
    also=(
        "overfitting",
        "early stopping",
    ),
    engine="python",
    cases=[
        Case(
            "best in the middle",
            lambda draw: {"scores": [0.5, 0.7, 0.6, 0.65, 0.9, 0.95], "patience": 2, "most": 6},
        ),
        Case(
            "a dip, then better",
            lambda draw: {"scores": [0.6, 0.5, 0.7, 0.65, 0.8, 0.7, 0.79, 0.6], "patience": 2, "most": 8},
        ),
        Case("no end to it", lambda draw: {"scores": [0.1, 0.2, 0.3, 0.4], "patience": 1, "most": 4}),
        Case("a tie is not better", lambda draw: {"scores": [0.4, 0.4, 0.4, 0.6], "patience": 2, "most": 4}),
        Case("all below zero", lambda draw: {"scores": [-0.9, -0.4, -0.6, -0.5], "patience": 2, "most": 4}),
        Case("no time to lose patience", lambda draw: {"scores": [0.2, 0.9, 0.5], "patience": 2, "most": 3}),
        Case("patience of one", lambda draw: {"scores": [0.8, 0.3, 0.9], "patience": 1, "most": 3}),
        Case("one epoch", lambda draw: {"scores": [0.3], "patience": 3, "most": 1}, extreme=True),
    ],
    use=_scripted,
    oracle=lambda scores, patience, most: _scripted(_patience_with(), scores, patience, most),
    reference="the page",
    mistakes=[
        Mistake(
            "last weights kept",
            "The model ends with its last weights. `state_dict()` is no copy: `copy.deepcopy` it when best, load it at the end.",
            _patience_with(copied=False),
        ),
        Mistake(
            "waiting never starts again",
            "The count of bad epochs goes on after a better one: start it again at 0. Patience means in a row.",
            _patience_with(reset=False),
        ),
        Mistake(
            "one epoch too many",
            "It waits one epoch too long: stop as soon as `patience` epochs in a row brought nothing.",
            _patience_with(extra=1),
        ),
        Mistake(
            "a tie counts as better",
            "A score that only equals the best counts as better: a model that has stopped learning would never stop.",
            _patience_with(better=lambda score, best: score >= best),
        ),
        Mistake(
            "better than 0",
            "The first best score is 0, and a score may be below that: R² is, at first. Start from -inf.",
            _patience_with(start=0.0),
        ),
        Mistake(
            "restored only after a stop",
            "If the epochs run out before patience does, the best weights are not put back. Load them after the loop.",
            _patience_with(only_if_stopped=True),
        ),
        Mistake(
            "compared with the epoch before",
            "Each score is compared with the one before it; compare with the best so far.",
            _patience_with(previous=True),
        ),
        Mistake(
            "validated before training",
            "`validate` is called before `train_once`: the score and the weights that are kept do not belong together.",
            _patience_with(early=True),
        ),
        Mistake(
            "lower is better",
            "It looks for the lowest score. This one is a score, not a loss: higher is better.",
            _patience_with(better=_lower_is_better),
        ),
    ],
    hints=(
        "Three things to remember between epochs: the best score, when that was, and a copy of the weights it had.",
        "If better: remember score, epoch and a deep copy of `model.state_dict()`. Else: stop if that epoch is `patience` epochs ago.",
        "best_weights = copy.deepcopy(model.state_dict()); at the end model.load_state_dict(best_weights); return scores",
    ),
    passed="You chose an epoch by looking at the validation part, so it is part of training now: the test part has the last word.",
    excused={"delegation": NO_TRAINER},
)
