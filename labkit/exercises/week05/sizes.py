"""Predict the size of the output of a convolution."""

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import F, torch


def _side(n, kernel, stride, padding, dilation):
    def truth():
        image, weight = torch.zeros(1, 1, n, n), torch.zeros(1, 1, kernel, kernel)
        return F.conv2d(image, weight, None, stride, padding, dilation).shape[-1]

    return truth


exercise = Predict(
    title="How large is the output?",
    minutes=8,
    needs=("w05.correlate",),
    items={
        "a": Item("n = 28, k = 3, s = 1, p = 0, d = 1", _side(28, 3, 1, 0, 1)),
        "b": Item("n = 28, k = 3, s = 1, p = 1, d = 1", _side(28, 3, 1, 1, 1)),
        "c": Item("n = 28, k = 5, s = 2, p = 2, d = 1", _side(28, 5, 2, 2, 1)),
        "d": Item("n = 224, k = 7, s = 2, p = 3, d = 1: the first layer of a ResNet", _side(224, 7, 2, 3, 1)),
        "e": Item("n = 9, k = 3, s = 1, p = 0, d = 2", _side(9, 3, 1, 0, 2)),
        "f": Item(
            "n = 7, k = 2, s = 2, p = 0, d = 1: the usual pooling, on an odd side", _side(7, 2, 2, 0, 1)
        ),
        "g": Item("n = 12, k = 3, s = 1, p = 4, d = 4", _side(12, 3, 1, 4, 4)),
        "h": Item("n = 5, k = 3, s = 1, p = 2, d = 1", _side(5, 3, 1, 2, 1)),
    },
    mistakes=[
        Mistake("kept", "a: without padding the border is lost, one pixel on each side.", {"a": 28}),
        Mistake("one too few", "a: 28 - 3 is 25, and one more: the window at the start counts.", {"a": 25}),
        Mistake("one side only", "b: the padding is added on both sides.", {"b": 27}),
        Mistake(
            "start not counted", "c: 27 / 2 is 13 steps; the window before the first step counts.", {"c": 13}
        ),
        Mistake("start not counted in d", "d: 111 steps of 2, and the first window.", {"d": 111}),
        Mistake("dilation ignored", "e: at dilation 2 a kernel of 3 covers 5 pixels.", {"e": 7}),
        Mistake("covers six", "e: two gaps of one pixel: the kernel covers 5 pixels, not 6.", {"e": 4}),
        Mistake(
            "rounded up",
            "f: the last pixel has no partner; the window that would need one is left out.",
            {"f": 4},
        ),
        Mistake("dilation ignored in g", "g: at dilation 4 a kernel of 3 covers 9 pixels.", {"g": 18}),
        Mistake("same", "h: padding 1 would keep the size; 2 makes it larger.", {"h": 5}),
    ],
    hints=(
        "First the pixels that the kernel covers: d (k - 1) + 1. Then how many steps fit into what is left.",
        "out = (n + 2 p - d (k - 1) - 1) // s + 1, whole-number division.",
        "c: (28 + 4 - 4 - 1) // 2 + 1 = 14. e: (9 - 4 - 1) + 1 = 5. f: (7 - 1 - 1) // 2 + 1 = 3.",
    ),
    passed="Padding d (k - 1) / 2 keeps the size at stride 1, which is why kernels have odd sides.",
)
