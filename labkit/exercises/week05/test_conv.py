"""Write a test for conv2d."""

from labkit.exercises.declare import Mistake, WriteTest, vary
from labkit.lazy import F, torch


def _by_columns(x, weight, bias, stride, padding):
    columns = F.unfold(x, weight.shape[2:], padding=padding, stride=stride)
    sides = [(n + 2 * padding - k) // stride + 1 for n, k in zip(x.shape[2:], weight.shape[2:], strict=True)]
    return (weight.flatten(1) @ columns + bias[:, None]).reshape(len(x), len(weight), *sides)


def _stride_ignored(x, weight, bias, stride, padding):
    """The right size, from windows one pixel apart."""
    rows, columns = F.conv2d(x, weight, bias, stride, padding).shape[2:]
    return F.conv2d(x, weight, bias, 1, padding)[:, :, :rows, :columns]


def _exchanged(x, weight, bias, stride, padding):
    same = weight.shape[0] == weight.shape[1]
    return F.conv2d(x, weight.transpose(0, 1) if same else weight, bias, stride, padding)


def _one_sided(x, weight, bias, stride, padding):
    return F.conv2d(F.pad(x, (0, 2 * padding, 0, 2 * padding)), weight, bias, stride)


def _framed(mode):
    def convolved(x, weight, bias, stride, padding):
        return F.conv2d(F.pad(x, (padding,) * 4, mode=mode), weight, bias, stride)

    return convolved


def _try(conv2d, *, channels=2, filters=3, stride=1, padding=0, ones=False, bias=True, shape_only=False):
    """One comparison with torch, of the kind that a first test makes."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(1, channels, 6, 7, generator=random)
    weight = torch.randn(filters, channels, 3, 3, generator=random)
    weight = torch.ones_like(weight) if ones else weight
    shift = torch.randn(filters, generator=random) if bias else torch.zeros(filters)
    result, truth = (f(x, weight, shift, stride, padding) for f in (conv2d, F.conv2d))
    assert result.shape == truth.shape
    assert shape_only or torch.allclose(result, truth, atol=1e-5)


exercise = WriteTest(
    title="A test for convolution",
    minutes=12,
    needs=("w05.conv2d",),
    good=[lambda x, weight, bias, stride, padding: F.conv2d(x, weight, bias, stride, padding), _by_columns],
    bugs={
        "flipped": (
            "it turns the kernel by 180 degrees.",
            lambda x, weight, bias, *rest: F.conv2d(x, weight.flip(2, 3), bias, *rest),
        ),
        "stride": (
            "it ignores the stride; the size is right, the windows are one pixel apart.",
            _stride_ignored,
        ),
        "border": ("it pads with copies of the border, not with zeros.", _framed("replicate")),
        "one side": ("it puts all the padding at the bottom and the right.", _one_sided),
        "first channel": (
            "it looks at the first channel only.",
            lambda x, weight, bias, *rest: F.conv2d(x[:, :1], weight[:, :1], bias, *rest),
        ),
        "channels exchanged": (
            "where there are as many filters as channels, it exchanges the two.",
            _exchanged,
        ),
        "bias": (
            "it forgets the bias.",
            lambda x, weight, bias, *rest: F.conv2d(x, weight, None, *rest),
        ),
        "sign": (
            "it cuts off negative results, as if a ReLU were part of it.",
            lambda *inputs: F.conv2d(*inputs).relu(),
        ),
    },
    mistakes=[
        Mistake(
            "only the shape",
            "The test looks at the shape only, or asserts nothing; every bug here has the right shape. Compare values.",
            vary(_try, stride=2, padding=1, shape_only=True),
        ),
        Mistake(
            "kernel of ones",
            "A kernel of ones looks the same from all sides: neither a flip nor exchanged channels can be seen. Use random numbers.",
            vary(_try, stride=2, padding=1, ones=True, filters=2),
        ),
        Mistake(
            "no stride, no padding",
            "Stride 1 and padding 0 are tested well. Whatever goes wrong with a stride or with padding stays unseen.",
            vary(_try, filters=2),
        ),
        Mistake(
            "plain, and never as many filters as channels",
            "Only stride 1 and padding 0 are tried, and never as many filters as channels. What needs those stays unseen.",
            lambda conv2d: _try(conv2d),
        ),
        Mistake(
            "one channel",
            "With one channel nothing can go wrong between channels. Use several, and as many filters once.",
            vary(_try, stride=2, padding=1, channels=1),
        ),
        Mistake(
            "never as many filters as channels",
            "Nearly all are caught. One bug shows only where there are as many filters as channels: add such a case.",
            vary(_try, stride=2, padding=1),
        ),
        Mistake(
            "bias of zeros",
            "A bias of zeros hides a bias that is forgotten. Use numbers that show.",
            vary(_try, stride=2, padding=1, filters=2, bias=False),
        ),
    ],
    hints=(
        "Draw random x, weight and bias, and compare with F.conv2d(x, weight, bias, stride, padding).",
        "Then vary: stride 2 with padding 1, several channels, once as many filters as channels, a bias that is not 0.",
        "for channels, filters, stride, padding in [(3, 4, 1, 0), (2, 2, 2, 1)]: compare on random tensors",
    ),
    passed="This is how torch tests its own layers: a table of shapes, and a slower implementation to compare with.",
)
