"""A mean loss over real steps only."""

import numpy as np

from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.exercises.week06.shared import real_steps
from labkit.lazy import F, torch


def _loss_inputs(lengths, letters, make="normal", hostile=False):
    def made(draw):
        steps, count = max(lengths), len(lengths)
        logits = getattr(draw, make)(steps, count, letters)
        if hostile:
            logits[np.arange(steps)[:, None] >= np.array(lengths)] = np.inf
        return {
            "logits": logits,
            "targets": draw.integers(0, letters, steps, count),
            "lengths": np.array(lengths),
        }

    return made


def _each_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").reshape(targets.shape)


def _masked_loss(logits, targets, lengths, shift=0, turn=False, reduction="mean"):
    real = real_steps(lengths, len(logits), shift)
    real = ~real if turn else real
    return F.cross_entropy(logits[real], targets[real], reduction=reduction)


def _loss_by_product(logits, targets, lengths, divide="real"):
    real = real_steps(lengths, len(logits)).to(logits.dtype)
    total = (_each_loss(logits, targets) * real).sum()
    return total / (real.sum() if divide == "real" else real.numel())


def _mean_of_means(logits, targets, lengths):
    real = real_steps(lengths, len(logits))
    return (torch.where(real, _each_loss(logits, targets), 0.0).sum(0) / lengths).mean()


def _zero_targets_ignored(logits, targets, lengths):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=0)


exercise = Implement(
    title="A loss without padding",
    minutes=10,
    needs=("w06.last_state",),
    dtype="float64",
    cases=[
        Case("three sequences", _loss_inputs([2, 5, 4], 6)),
        Case("four sequences", _loss_inputs([6, 1, 3, 5], 7)),
        Case("not contiguous", _loss_inputs([3, 6], 4, "transposed")),
        Case("one sequence", _loss_inputs([5], 3)),
        Case("infinite logits in the padding", _loss_inputs([2, 4, 3], 5, hostile=True), extreme=True),
    ],
    oracle=_masked_loss,
    grads=("logits",),
    excused={
        "delegation": "torch has no function for it: its cross-entropy is given, the choice of steps is asked for"
    },
    mistakes=[
        Mistake(
            "reads the pad step",
            "The padding counts as well: the mean is over all T * N steps. Leave out the steps from lengths[n] on.",
            lambda logits, targets, lengths: _each_loss(logits, targets).mean(),
        ),
        Mistake(
            "divided by everything",
            "The padding is left out of the sum, and still divides it: divide by the number of real steps.",
            vary(_loss_by_product, divide="all"),
        ),
        Mistake(
            "sum for mean",
            "The losses of the real steps are added up; divide by how many there are.",
            vary(_masked_loss, reduction="sum"),
        ),
        Mistake(
            "padding set to zero",
            "The padded logits are set to 0 and still counted: equal scores cost ln V each. Leave those steps out.",
            lambda logits, targets, lengths: _each_loss(
                torch.where(real_steps(lengths, len(logits))[..., None], logits, 0.0), targets
            ).mean(),
        ),
        Mistake(
            "one step too few",
            "The last real step of every sequence is missing: step t is real if t < lengths[n].",
            vary(_masked_loss, shift=-1),
        ),
        Mistake(
            "axis",
            "The mask is (N, T); logits and targets are time first: torch.arange(T)[:, None] < lengths is (T, N).",
            lambda logits, targets, lengths: F.cross_entropy(
                logits[real_steps(lengths, len(logits)).T], targets[real_steps(lengths, len(logits)).T]
            ),
        ),
        Mistake(
            "mean of means",
            "Each sequence is averaged first, so that a letter of a short name counts more. Average over all real steps at once.",
            _mean_of_means,
        ),
        Mistake(
            "one step too many",
            "One step of padding is counted: step t is real if t < lengths[n].",
            vary(_masked_loss, shift=1),
        ),
        Mistake(
            "mask inverted",
            "Only the padding is counted: the mask is the wrong way around.",
            vary(_masked_loss, turn=True),
        ),
        Mistake(
            "token 0 ignored",
            "Every target 0 is left out, also the real ones. Padding is where t >= lengths[n], whatever stands there.",
            _zero_targets_ignored,
        ),
        Mistake(
            "zero times infinity",
            "The loss of a padded step is multiplied by 0, and 0 * inf is nan. Choose the real steps, or use torch.where.",
            _loss_by_product,
        ),
    ],
    hints=(
        "A mask of (T, N): torch.arange(T)[:, None] < lengths. True where a step is real.",
        "logits[mask] has one row per real step, (real, V); targets[mask] one number. That is what cross-entropy takes.",
        "F.cross_entropy(logits[mask], targets[mask])",
    ),
    passed="The mean is over letters, not names: batches of other lengths can be compared.",
)
