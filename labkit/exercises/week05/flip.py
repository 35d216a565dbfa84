"""Pictures mirrored without their labels: name the fault and mend it."""

import numpy as np

from labkit.exercises.declare import Case, Fix, Mistake, vary
from labkit.lazy import torch


def _flip_as_found(images, labels, flip):
    return torch.where(flip[:, None, None], images.flip(2), images), labels


def _flip(images, labels, flip, axis=2):
    return torch.where(flip[:, None, None], images.flip(axis), images), torch.where(flip, 1 - labels, labels)


def _flip_in_place(images, labels, flip):
    images[flip] = images[flip].flip(2)
    return images.clone(), torch.where(flip, 1 - labels, labels)


def _flip_case(make, labels, flip):
    return lambda draw: {"images": make(draw), "labels": np.array(labels), "flip": np.array(flip)}


exercise = Fix(
    title="The flip that lies",
    minutes=8,
    cases=[
        Case(
            "four pictures",
            _flip_case(lambda draw: draw.normal(4, 3, 5), [0, 1, 0, 0], [True, True, False, False]),
        ),
        Case("two pictures", _flip_case(lambda draw: draw.normal(2, 6, 4), [1, 0], [False, True])),
        Case(
            "not contiguous",
            _flip_case(
                lambda draw: draw.transposed(5, 3, 4), [1, 1, 0, 1, 0], [True, False, False, True, True]
            ),
        ),
        Case("one column", _flip_case(lambda draw: draw.normal(3, 4, 1), [0, 1, 1], [True, False, True])),
        Case(
            "none flipped",
            _flip_case(lambda draw: draw.normal(3, 2, 4), [0, 1, 0], [False] * 3),
            extreme=True,
        ),
    ],
    oracle=_flip,
    memory="any",
    broken=_flip_as_found,
    fault="the label is not flipped",
    menu={
        "the label is not flipped": "",
        "wrong axis": "images has axes (n, H, W), and flip(2) mirrors left to right: the pictures are mirrored well.",
        "too many flips": "How many are flipped does not matter; with one single flip the label would be as wrong.",
    },
    mistakes=[
        Mistake(
            "every label",
            "Every label is exchanged now, also where the picture stays as it is.",
            lambda images, labels, flip: (_flip(images, labels, flip)[0], 1 - labels),
        ),
        Mistake(
            "the other labels",
            "The labels are exchanged where the picture is not mirrored: `torch.where(flip, mirrored, as it was)`.",
            lambda images, labels, flip: (
                _flip(images, labels, flip)[0],
                torch.where(flip, labels, 1 - labels),
            ),
        ),
        Mistake(
            "label says whether mirrored",
            "The label now says whether the picture was mirrored; it should say where the toe points. Old labels count.",
            lambda images, labels, flip: (_flip(images, labels, flip)[0], flip.long()),
        ),
        Mistake(
            "bits flipped",
            "`~` flips all bits of a whole number: ~0 is -1. Here the other label is 1 - label.",
            lambda images, labels, flip: (_flip(images, labels, flip)[0], torch.where(flip, ~labels, labels)),
        ),
        Mistake(
            "upside down",
            "The labels are right; the pictures now stand on their heads. Axis 1 is the height, axis 2 the width.",
            vary(_flip, axis=1),
        ),
        Mistake(
            "all flipped",
            "All pictures are mirrored, with their labels. Only those that `flip` names were asked for.",
            lambda images, labels, flip: (images.flip(2), 1 - labels),
        ),
        Mistake(
            "no flip left",
            "The flip is gone, and with it the fault. It was to stay, with the right label.",
            lambda images, labels, flip: (images.clone(), labels.clone()),
        ),
        Mistake(
            "in place",
            "The result is right, but the pictures that came in were changed too.",
            _flip_in_place,
        ),
    ],
    hints=(
        "Take the third shoe: which way does it point after the flip, and what does its label say?",
        "Where flip is True the label becomes 1 - label.",
        'fault = "the label is not flipped"; torch.where(flip, 1 - labels, labels)',
    ),
    passed="torchvision's v2 transforms flip boxes and masks along with the picture; a class label they cannot know.",
    excused={"delegation": "torch has no function for it; one more torch.where is the answer"},
)
