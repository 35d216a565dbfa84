"""Predict what the shape of a batch of images says about strides, places and memory."""

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import torch


def _batch_stride(axis):
    return lambda: torch.empty(64, 3, 224, 224, device="meta").stride(axis)


exercise = Predict(
    title="What (64, 3, 224, 224) means",
    minutes=6,
    needs=("w01.position",),
    items={
        "images": Item("how many images are in the batch?", lambda: 64),
        "next image": Item(
            "how many elements is it from one image to the same place in the next?", _batch_stride(0)
        ),
        "next channel": Item("from the red to the green of the same pixel?", _batch_stride(1)),
        "pixel below": Item("from a pixel to the one below it, same channel?", _batch_stride(2)),
        "megabytes": Item("how large is it in memory?", lambda: 64 * 3 * 224 * 224 * 4 / 1e6),
        "position": Item("where does element [1, 2, 0, 5] lie?", lambda: 3 * 224 * 224 + 2 * 224 * 224 + 5),
    },
    mistakes=[
        Mistake("three images", "The first axis is the batch: 64 images of 3 channels each.", {"images": 3}),
        Mistake(
            "one channel",
            "One image has three channels: the next image is 3 * 224 * 224 elements away.",
            {"next image": 224 * 224},
        ),
        Mistake(
            "channels interleaved",
            "Red and green of a pixel are not neighbors here: the whole red plane lies between them.",
            {"next channel": 1},
        ),
        Mistake(
            "rows are columns",
            "The pixel to the right is 1 away; the one below is a row away.",
            {"pixel below": 1},
        ),
        Mistake("one byte each", "A float32 takes 4 bytes.", {"megabytes": 64 * 3 * 224 * 224 / 1e6}),
        Mistake(
            "batch forgotten",
            "The 1 in front steps over one whole image.",
            {"position": 2 * 224 * 224 + 5},
        ),
        Mistake(
            "bytes",
            "These are bytes: a megabyte is a million of them.",
            {"megabytes": 64 * 3 * 224 * 224 * 4},
        ),
        Mistake(
            "mebibytes",
            "This counts 1024 * 1024 bytes to a megabyte; here it is a million.",
            {"megabytes": 64 * 3 * 224 * 224 * 4 / 2**20},
        ),
        Mistake(
            "one row on",
            "That is one row further in the same channel; a whole plane of 224 * 224 lies between red and green.",
            {"next channel": 224},
        ),
        Mistake(
            "width as height",
            "The last index, 5, counts along the row: its stride is 1, not 224.",
            {"position": 3 * 224 * 224 + 2 * 224 * 224 + 5 * 224},
        ),
    ],
    hints=(
        "Write the strides of (64, 3, 224, 224) first; you have a function for it.",
        "Axes are batch, channel, height, width. A stride is the product of the sizes to its right.",
        "strides: (150528, 50176, 224, 1). Position: 1 * 150528 + 2 * 50176 + 0 * 224 + 5.",
    ),
    passed="This layout is called NCHW. Channels-last (NHWC) is the same shape with permuted strides.",
)
