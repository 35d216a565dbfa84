"""A convolution with its way back, for input, weight and bias."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules
from labkit.exercises.week05.shared import CONVOLUTIONS, DERIVATIVES, WINDOWS, overwritten
from labkit.lazy import F, torch


def _conv_and_gradients(x, weight, bias, stride, padding, change):
    """(value, backward) with torch's own gradients, `change`d on the way out."""
    leaves = [t.detach().clone().requires_grad_() for t in (x, weight, bias)]
    value = F.conv2d(*leaves, stride, padding)

    def backward(g):
        return change(torch.autograd.grad(value, leaves, g), x, weight, g)

    return value.detach(), backward


def _backward_mistake(change):
    return lambda x, weight, bias, stride, padding: _conv_and_gradients(
        x, weight, bias, stride, padding, change
    )


def _overwriting_backward(x, weight, bias, stride, padding):
    value, backward = _conv_and_gradients(x, weight, bias, stride, padding, lambda grads, *_: grads)
    size = [n + 2 * padding for n in x.shape[2:]]

    def wrong(g):
        columns = weight.flatten(1).T @ g.flatten(2)
        padded = overwritten(columns, size, tuple(weight.shape[2:]), stride, 1)
        cut = padded[:, :, padding : padding + x.shape[2], padding : padding + x.shape[3]]
        return cut, *backward(g)[1:]

    return value, wrong


def _backward_inputs(draw, shape, filters, stride, padding, make="normal"):
    return {
        "x": getattr(draw, make)(*shape),
        "weight": draw.normal(filters[0], shape[1], *filters[1:]),
        "bias": draw.normal(filters[0]),
        "stride": stride,
        "padding": padding,
    }


def _geometry(x, weight, g):
    """(stride, padding) of a convolution, found again from its shapes."""
    for stride in (1, 2):
        for padding in (0, 1, 2):
            sizes = [
                (n + 2 * padding - k) // stride + 1
                for n, k in zip(x.shape[2:], weight.shape[2:], strict=True)
            ]
            if tuple(sizes) == tuple(g.shape[2:]):
                return stride, padding
    raise ValueError("no stride and padding give these shapes")


def _padded_gradient(x, weight, g):
    stride, padding = _geometry(x, weight, g)
    size = [n + 2 * padding for n in x.shape[2:]]
    return F.fold(weight.flatten(1).T @ g.flatten(2), size, weight.shape[2:], stride=stride), padding


def _cut_wrong(grads, x, weight, g):
    return _padded_gradient(x, weight, g)[0][:, :, : x.shape[2], : x.shape[3]], *grads[1:]


def _not_cut(grads, x, weight, g):
    return _padded_gradient(x, weight, g)[0], *grads[1:]


def _cut_to_minus(grads, x, weight, g):
    padded, padding = _padded_gradient(x, weight, g)
    return padded[:, :, padding:-padding, padding:-padding], *grads[1:]


def _weight_gradient_of_one(x, weight, g):
    stride, padding = _geometry(x, weight, g)
    return torch.nn.grad.conv2d_weight(x[:1], weight.shape, g[:1], stride, padding)


exercise = Implement(
    title="The way back through a convolution",
    minutes=12,
    needs=("w05.col2im", "w05.conv2d"),
    dtype="float64",
    cases=[
        Case("stride 1", lambda draw: _backward_inputs(draw, (2, 3, 6, 5), (4, 2, 5), 1, 0)),
        Case("stride 2, padding 1", lambda draw: _backward_inputs(draw, (3, 2, 7, 5), (4, 3, 1), 2, 1)),
        Case("padding 2", lambda draw: _backward_inputs(draw, (2, 1, 4, 3), (5, 3, 2), 1, 2)),
        Case(
            "not contiguous",
            lambda draw: _backward_inputs(draw, (2, 3, 5, 7), (1, 2, 4), 2, 1, "transposed"),
        ),
        Case(
            "one window",
            lambda draw: _backward_inputs(draw, (1, 2, 3, 4), (5, 3, 4), 1, 0),
            extreme=True,
        ),
    ],
    oracle=lambda x, weight, bias, stride, padding: F.conv2d(x, weight, bias, stride, padding),
    grads=("x", "weight", "bias"),
    vjp=True,
    delegate=lambda x, weight, bias, stride, padding: _conv_and_gradients(
        x, weight, bias, stride, padding, lambda grads, *_: grads
    ),
    rules=Rules(forbids=(*CONVOLUTIONS, *WINDOWS, *DERIVATIVES)),
    mistakes=[
        Mistake(
            "batch averaged",
            "The gradient of the weight is averaged over the images. Every image used the same weight: sum.",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1] / len(x), grads[2])),
        ),
        Mistake(
            "bias averaged",
            "The gradient of the bias is a mean; the bias was added at every place, so all of them add up.",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1], g.mean((0, 2, 3)))),
        ),
        Mistake(
            "bias per place",
            "The gradient of the bias is summed over the images only: it has one number per filter, (O,).",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1], g.sum(0))),
        ),
        Mistake(
            "both averaged",
            "The gradients of weight and bias are means. Every image and every place used the same ones: sum.",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1] / len(x), g.mean((0, 2, 3)))),
        ),
        Mistake(
            "bias per image",
            "The gradient of the bias is summed over the places only: sum over the images as well, (O,).",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1], g.sum((2, 3)))),
        ),
        Mistake(
            "weight as a matrix",
            "The gradient of the weight is still a matrix, (O, K). It has the shape of the weight.",
            _backward_mistake(lambda grads, x, weight, g: (grads[0], grads[1].flatten(1), grads[2])),
        ),
        Mistake(
            "weight first",
            "The gradients come in another order: of x, then of the weight, then of the bias.",
            _backward_mistake(lambda grads, x, weight, g: (grads[1], grads[0], grads[2])),
        ),
        Mistake(
            "padding not cut off",
            "The gradient of x has the size of the padded image: cut out the part that was the image.",
            _backward_mistake(lambda *arguments: _not_cut(*arguments)),
        ),
        Mistake(
            "cut to minus padding",
            "`padding:-padding` is an empty slice when padding is 0. End at `padding + x.shape[2]`.",
            _backward_mistake(lambda *arguments: _cut_to_minus(*arguments)),
        ),
        Mistake(
            "padding cut from one side",
            "The image is cut out of its top left corner; it begins `padding` pixels further down and right.",
            _backward_mistake(lambda *arguments: _cut_wrong(*arguments)),
        ),
        Mistake(
            "overlaps overwritten",
            "Where windows overlap, the gradient of x keeps one share; `col2im` has to add them.",
            _overwriting_backward,
        ),
        Mistake(
            "first image only",
            "The gradient of the weight comes from the first image of the batch only.",
            _backward_mistake(
                lambda grads, x, weight, g: (grads[0], _weight_gradient_of_one(x, weight, g), grads[2])
            ),
        ),
    ],
    hints=(
        "Bring g to (N, O, L) first. Then it is the backward pass of a linear layer, three products.",
        'Weight: einsum "nol,nkl->ok" of g and columns. Columns: rows.T @ g, then col2im to the padded size, then cut.',
        "col2im(rows.T @ g, padded.shape[2:], weight.shape[2:], stride)[:, :, padding : padding + h, padding : padding + w]",
    ),
    passed="The gradient for the input is itself a convolution, with the kernel turned: there the flip comes back.",
)
