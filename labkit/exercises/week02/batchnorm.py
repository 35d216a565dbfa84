"""The backward pass of batch norm by hand."""

from labkit.exercises.declare import Case, Implement, Mistake, Rules, vary
from labkit.lazy import torch

_STEPS = ("beta", "gamma", "normal", "rstd", "var", "centered", "mean", "x")


def _batchnorm(g, x, gamma, eps, wrong=()):
    """All gradients of batch norm in order; a step named in `wrong` is replaced."""
    n, centered = len(x), x - x.mean(0)
    rstd = (centered.square().mean(0) + eps) ** -0.5
    done = {}
    right = {
        "beta": lambda: g.sum(0),
        "gamma": lambda: (g * centered * rstd).sum(0),
        "normal": lambda: g * gamma,
        "rstd": lambda: (done["normal"] * centered).sum(0),
        "var": lambda: done["rstd"] * -0.5 * rstd**3,
        "centered": lambda: done["normal"] * rstd + done["var"] * 2 * centered / n,
        "mean": lambda: -done["centered"].sum(0),
        "x": lambda: done["centered"] + done["mean"] / n,
    }
    for name in _STEPS:
        done[name] = wrong[name](done, centered, rstd) if name in wrong else right[name]()
    return done


def _use_batchnorm(batchnorm_backward, g, x, gamma, eps):
    found = batchnorm_backward(g, x, gamma, eps)
    return {f"{k} {name}": found[name] for k, name in enumerate(_STEPS, 1)}


def _batchnorm_by_torch(g, x, gamma, eps):
    x, gamma = x.clone().requires_grad_(), gamma.clone().requires_grad_()
    beta = torch.zeros_like(gamma).requires_grad_()
    mean = x.mean(0)
    centered = x - mean
    var = centered.square().mean(0)
    rstd = (var + eps) ** -0.5
    normal = centered * rstd
    y = gamma * normal + beta
    steps = (beta, gamma, normal, rstd, var, centered, mean, x)
    return dict(zip(_STEPS, torch.autograd.grad(y, steps, g), strict=True))


def _batchnorm_inputs(n, features, x=None):
    def make(draw):
        data = draw.normal(n, features) if x is None else x(draw)
        return {"g": draw.normal(n, features), "x": data, "gamma": draw.normal(features), "eps": 1e-5}

    return make


def _wrong_batchnorm(**wrong):
    return lambda g, x, gamma, eps: _batchnorm(g, x, gamma, eps, wrong)


exercise = Implement(
    title="Batch norm by hand",
    minutes=15,
    needs=("w02.unbroadcast", "w02.div"),
    dtype="float64",
    cases=[
        Case("five by three", _batchnorm_inputs(5, 3)),
        Case("three by four", _batchnorm_inputs(3, 4)),
        Case("not contiguous", _batchnorm_inputs(4, 3, lambda draw: draw.transposed(4, 3))),
        Case("one feature", _batchnorm_inputs(6, 1)),
        Case("one example", _batchnorm_inputs(1, 3), extreme=True),
    ],
    use=_use_batchnorm,
    oracle=vary(_use_batchnorm, batchnorm_backward=_batchnorm_by_torch),
    delegate=_batchnorm_by_torch,
    rules=Rules(forbids=("grad", "backward", "batch_norm", "native_batch_norm", "requires_grad", "vjp")),
    memory="any",
    mistakes=[
        Mistake(
            "not summed",
            "beta was added to every row, so its gradient is the sum over the rows.",
            lambda g, x, gamma, eps: {**_batchnorm(g, x, gamma, eps), "beta": g},
        ),
        Mistake(
            "gamma without normal",
            "gamma is multiplied by the normalized values: its gradient is the sum of g times them.",
            lambda g, x, gamma, eps: {**_batchnorm(g, x, gamma, eps), "gamma": g.sum(0)},
        ),
        Mistake(
            "power of one",
            "rstd is (var + eps) to the power of -1/2. The exponent goes down by one, to -3/2: that is rstd cubed.",
            _wrong_batchnorm(var=lambda done, centered, rstd: done["rstd"] * -0.5 * rstd),
        ),
        Mistake(
            "variance forgotten",
            "centered goes two ways: into the product with rstd and into the variance. The second part is missing.",
            _wrong_batchnorm(centered=lambda done, centered, rstd: done["normal"] * rstd),
        ),
        Mistake(
            "two forgotten",
            "The slope of centered squared is 2 * centered; the 2 is missing.",
            _wrong_batchnorm(
                centered=lambda done, centered, rstd: (
                    done["normal"] * rstd + done["var"] * centered / len(centered)
                )
            ),
        ),
        Mistake(
            "not divided by n",
            "The variance is a mean: each square has the weight 1 / n.",
            _wrong_batchnorm(
                centered=lambda done, centered, rstd: done["normal"] * rstd + done["var"] * 2 * centered
            ),
        ),
        Mistake(
            "mean forgotten",
            "x goes two ways: directly, and through the mean. The second part is missing from its gradient.",
            _wrong_batchnorm(x=lambda done, centered, rstd: done["centered"]),
        ),
        Mistake(
            "mean with a plus",
            "The mean is subtracted: the sign of its gradient is negative.",
            _wrong_batchnorm(mean=lambda done, centered, rstd: done["centered"].sum(0)),
        ),
    ],
    hints=(
        "Go through the forward lines from the last to the first. For each: what goes in, and what is its local derivative?",
        "What was broadcast is summed back; what is used twice (centered, x) gets two contributions. A mean gives each 1 / n.",
        "var: d_rstd * -0.5 * rstd**3. centered: d_normal * rstd + d_var * 2 * centered / n. x: d_centered + d_mean / n.",
    ),
    passed="Written as one formula this is the backward of torch's batch_norm; the order of steps is how one finds it.",
    excused={"equal axes": "g and x have the same shape, (n, features)"},
)
