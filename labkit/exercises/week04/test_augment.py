"""Write a test for a random flip."""

from labkit.exercises.declare import Mistake, WriteTest
from labkit.exercises.week04.shared import seeded
from labkit.lazy import torch


def _mirror_where(chosen, images):
    return torch.where(chosen[:, None, None], images.flip(2), images)


def _draws(images, generator):
    return torch.rand(len(images), generator=generator) < 0.5


def _flip(images, generator):
    return _mirror_where(_draws(images, generator), images)


def _flip_by_loop(images, generator):
    coins = torch.randint(2, (len(images),), generator=generator)
    return torch.stack([image.flip(1) if coin else image for image, coin in zip(images, coins, strict=True)])


def _flip_in_place(images, generator):
    images[:] = _flip(images, generator)
    return images


def _check_flip_half(flip):
    images = torch.arange(480.0).reshape(40, 3, 4)
    after = flip(images, seeded(0))
    assert sum(torch.equal(a, b) for a, b in zip(after, images, strict=True)) == 20


def _check_flip_one_call(flip):
    images = torch.arange(480.0).reshape(40, 3, 4)
    after = flip(images.clone(), seeded(0))
    same = [torch.equal(a, b) for a, b in zip(after, images, strict=True)]
    mirrored = [torch.equal(a, b.flip(1)) for a, b in zip(after, images, strict=True)]
    assert all(a or b for a, b in zip(same, mirrored, strict=True)) and any(same) and any(mirrored)


def _flip_all_or_none(images, generator):
    coin = torch.rand(1, generator=generator) < 0.5
    return images.flip(2) if coin else images.clone()


def _flip_rows(images, generator):
    chosen = torch.rand(images.shape[:2], generator=generator) < 0.5
    return torch.where(chosen[..., None], images.flip(2), images)


def _flip_same_seed(images, generator):
    return _flip(images, seeded(0))


def _check_flip_shape(flip):
    images = torch.arange(24.0).reshape(2, 3, 4)
    assert flip(images, seeded(0)).shape == images.shape


def _check_flip_repeats(flip):
    images = torch.arange(240.0).reshape(20, 3, 4)
    assert torch.equal(flip(images, seeded(0)), flip(images, seeded(0)))


def _check_flip_mirror(flip):
    images = torch.arange(240.0).reshape(20, 3, 4)
    for before, after in zip(images, flip(images.clone(), seeded(0)), strict=True):
        assert torch.equal(after, before) or torch.equal(after, before.flip(1))


def _check_flip_every(flip):
    images = torch.arange(240.0).reshape(20, 3, 4)
    assert torch.equal(flip(images, seeded(0)), images.flip(2))


def _check_flip_pattern(flip):
    images = torch.arange(240.0).reshape(20, 3, 4)
    assert torch.equal(flip(images, seeded(0)), _flip(images, seeded(0)))


exercise = WriteTest(
    title="Test what is random",
    minutes=12,
    needs=("w04.batches",),
    good=[_flip, _flip_by_loop],
    bugs={
        "upside down": (
            "it turns pictures upside down instead of left to right.",
            lambda images, generator: torch.where(
                _draws(images, generator)[:, None, None], images.flip(1), images
            ),
        ),
        "all": ("it mirrors every picture.", lambda images, generator: images.flip(2)),
        "none": ("it mirrors no picture.", lambda images, generator: images.clone()),
        "all or none": (
            "it draws once for the whole batch: all pictures are mirrored, or none.",
            _flip_all_or_none,
        ),
        "rows": ("each row of a picture is mirrored or not on its own.", _flip_rows),
        "global": (
            "it draws from torch's global generator, so the same seed gives something else.",
            lambda images, generator: _flip(images, None),
        ),
        "same every time": (
            "it starts a generator of its own at each call: every epoch mirrors the same pictures.",
            _flip_same_seed,
        ),
        "in place": ("it changes the pictures it was given.", _flip_in_place),
    },
    mistakes=[
        Mistake(
            "only the shape",
            "Nothing is asserted that a bug breaks: no assert, or the shape only. What must be true of each picture?",
            _check_flip_shape,
        ),
        Mistake(
            "only that it repeats",
            "The test asks that the same seed gives the same result. A function that does nothing passes that.",
            _check_flip_repeats,
        ),
        Mistake(
            "only each picture",
            "Each picture is its old self or its mirror image: good. Not tested: some of each, seeds, and the input left alone.",
            _check_flip_mirror,
        ),
        Mistake(
            "expects every picture mirrored",
            "The test wants every picture mirrored; each one is mirrored with probability ½.",
            _check_flip_every,
        ),
        Mistake(
            "exactly half",
            "The test wants exactly 20 of 40. A fair coin seldom falls on exactly half: leave room, say 8 to 32.",
            _check_flip_half,
        ),
        Mistake(
            "one call only",
            "What one call does to each picture is tested well. Not tested: a second call, the same seed again, and the input left alone.",
            _check_flip_one_call,
        ),
        Mistake(
            "one pattern written down",
            "The test wants one particular pattern. Another right implementation draws in another way: test what must hold for all.",
            _check_flip_pattern,
        ),
    ],
    hints=(
        "Use 40 pictures with all values different. Then what was done to each of them can be seen.",
        "Six things: own self or mirror image; some of each; same seed, same result; a second call with the same generator differs; input unchanged.",
        "torch.equal(after, before) or torch.equal(after, before.flip(1)), for each picture; count how many are mirrored",
    ),
    passed="Random code is tested by what holds for every draw, and by its seed.",
)
