"""A pipeline of transforms, with chance in it for training only."""

import importlib

import numpy as np

from labkit import compat
from labkit.exercises.declare import Case, Implement, Mistake, vary
from labkit.lazy import torch


def _pipeline(
    training, mean, std, scale=True, flips=None, normalize=True, flip="RandomHorizontalFlip", p=0.5
):
    compat.torchvision()
    v2 = importlib.import_module("torchvision.transforms.v2")
    middle = [getattr(v2, flip)(p)] if (training if flips is None else flips) else []
    last = [v2.Normalize([mean], [std])] if normalize else []
    return v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=scale), *middle, *last])


def _pipeline_vertical(training, mean, std):
    return _pipeline(training, mean, std, flip="RandomVerticalFlip")


def _pipeline_swapped(training, mean, std):
    return _pipeline(training, std, mean)


def _transformed(pipeline, images, mean, std):
    """What both pipelines make of some pictures, chance set back before each."""
    found = {}
    for name, training in (("training", True), ("evaluation", False)):
        transform = pipeline(training, mean, std)
        torch.manual_seed(0)
        found[name] = torch.stack([transform(image.numpy()) for image in images])
    return found


def _photos(n, height, width):
    return lambda draw: {
        "images": draw.integers(0, 256, n, height, width).astype(np.uint8),
        "mean": 0.25,
        "std": 0.4,
    }


exercise = Implement(
    title="One pipeline for training, one for evaluation",
    minutes=8,
    needs=("w04.test_augment", "w04.standardize"),
    cases=[
        Case("sixty pictures", _photos(60, 4, 5)),
        Case("narrow pictures", _photos(7, 6, 2)),
        Case("one row of pixels", _photos(9, 1, 8)),
        Case(
            "not contiguous",
            lambda draw: {"images": _photos(6, 5, 8)(draw)["images"][..., ::2], "mean": 0.6, "std": 0.15},
        ),
    ],
    use=_transformed,
    oracle=vary(_transformed, pipeline=_pipeline),
    reference="torchvision's transforms in this order",
    mistakes=[
        Mistake(
            "not scaled",
            "The pixels still go from 0 to 255: `ToDtype` divides by 255 only with scale=True.",
            vary(_pipeline, scale=False),
        ),
        Mistake(
            "augments in evaluation",
            "Pictures are mirrored in evaluation as well: the same picture would get another score each time.",
            vary(_pipeline, flips=True),
        ),
        Mistake(
            "never augments",
            "Nothing is mirrored, also not in training.",
            vary(_pipeline, flips=False),
        ),
        Mistake(
            "the other way around",
            "Pictures are mirrored in evaluation and not in training: the condition is reversed.",
            lambda training, mean, std: _pipeline(training, mean, std, flips=not training),
        ),
        Mistake(
            "always mirrored",
            "Every picture is mirrored in training: the probability is ½.",
            vary(_pipeline, p=1.0),
        ),
        Mistake(
            "not normalized",
            "The pixels lie between 0 and 1; `Normalize` is missing.",
            vary(_pipeline, normalize=False),
        ),
        Mistake(
            "mean and deviation swapped",
            "Mean and deviation are swapped: Normalize takes the means first.",
            _pipeline_swapped,
        ),
        Mistake(
            "upside down",
            "Pictures are turned upside down. `RandomHorizontalFlip` exchanges left and right.",
            _pipeline_vertical,
        ),
    ],
    hints=(
        "Four steps in a list, one of them only in training, and `v2.Compose(list)` around it.",
        "`v2.ToImage()`, `v2.ToDtype(torch.float32, scale=True)`, `v2.RandomHorizontalFlip(0.5)`, `v2.Normalize([mean], [std])`.",
        "steps = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]; if training: steps.append(...); steps.append(v2.Normalize([mean], [std]))",
    ),
    passed="Evaluation has no chance in it: a score that changes from run to run cannot be compared with anything.",
    excused={"delegation": "torchvision's transforms are what this exercise is about"},
)
