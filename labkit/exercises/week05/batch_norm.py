"""BatchNorm2d, in training with running averages and in evaluation."""

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake, Rules
from labkit.lazy import torch


def _normalize(
    layer,
    x,
    axes=(0, 2, 3),
    correction=0,
    record=1,
    old=False,
    always=False,
    outside=False,
    graph=False,
    recorded="in training",
    affine=True,
    running=False,
    detached=False,
    power=0.5,
    eps=None,
    momentum=None,
):
    """The forward of batch norm, with one thing changed. `record`: the correction of the running variance."""
    mean, var = layer.running_mean, layer.running_var
    if layer.training or always:
        mean, var = x.mean(axes), x.var(axes, correction=correction)
        if detached:
            mean, var = mean.detach(), var.detach()
    if recorded == "always" or (layer.training and recorded == "in training"):
        weight = 1 - layer.momentum if old else momentum or layer.momentum
        new_mean, new_var = x.mean((0, 2, 3)), x.var((0, 2, 3), correction=record)
        if not graph:
            new_mean, new_var = new_mean.detach(), new_var.detach()
        layer.running_mean = (1 - weight) * layer.running_mean + weight * new_mean
        layer.running_var = (1 - weight) * layer.running_var + weight * new_var
    if running:
        mean, var = layer.running_mean, layer.running_var
    if axes == (0, 2, 3) or not (layer.training or always):
        mean, var = mean[:, None, None], var[:, None, None]
    elif axes == (2, 3):
        mean, var = mean[:, :, None, None], var[:, :, None, None]
    root = var.sqrt() + layer.eps if outside else (var + (eps or layer.eps)) ** power
    normal = (x - mean) / root
    return normal * layer.weight[:, None, None] + layer.bias[:, None, None] if affine else normal


def _batch_norm(**changes):
    """What makes a batch norm with one thing changed."""

    def make(channels, eps=1e-5, momentum=0.1):
        class BatchNorm2d(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.eps, self.momentum = eps, momentum
                self.weight = torch.nn.Parameter(torch.ones(channels))
                self.bias = torch.nn.Parameter(torch.zeros(channels))
                self.register_buffer("running_mean", torch.zeros(channels))
                self.register_buffer("running_var", torch.ones(channels))

            def forward(self, x):
                return _normalize(self, x, **changes)

        return BatchNorm2d()

    return make


def _use_batch_norm(answer, x, more, weight, bias, eps, momentum):
    """Two batches in training mode, then one in evaluation; scale and shift are handed in."""
    layer = answer(x.shape[1], eps, momentum).to(x.dtype)

    def call(batch):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (batch,))

    result = {"1 training": call(x), "2 training, second batch": call(more)}
    layer.eval()
    result["3 evaluation"] = call(x)
    result["4 running_mean"], result["5 running_var"] = layer.running_mean, layer.running_var
    return result


def _torch_batch_norm(channels, eps, momentum):
    return torch.nn.BatchNorm2d(channels, eps, momentum)


def _norm_case(shape, more, eps, momentum, make="normal"):
    return lambda draw: {
        "x": 2 * getattr(draw, make)(*shape) + 3,
        "more": 0.5 * draw.normal(*more) - 1,
        "weight": draw.uniform(0.5, 2, shape[1]),
        "bias": draw.normal(shape[1]),
        "eps": eps,
        "momentum": momentum,
    }


exercise = Implement(
    title="Batch norm, training and evaluation",
    minutes=15,
    dtype="float64",
    cases=[
        Case("three channels", _norm_case((2, 3, 4, 5), (5, 3, 2, 4), 1e-5, 0.1)),
        Case("momentum 0.3, eps 0.1", _norm_case((3, 4, 2, 5), (2, 4, 3, 1), 0.1, 0.3)),
        Case("not contiguous", _norm_case((4, 2, 3, 5), (3, 2, 5, 4), 1e-5, 0.1, "transposed")),
        Case("one channel, one row", _norm_case((3, 1, 1, 4), (2, 1, 5, 3), 1e-3, 0.2)),
        Case(
            "one picture, large numbers",
            lambda draw: {
                "x": 1e4 * draw.normal(1, 2, 3, 4),
                "more": draw.normal(3, 2, 4, 5),
                "weight": draw.normal(2),
                "bias": draw.normal(2),
                "eps": 1e-5,
                "momentum": 0.1,
            },
            extreme=True,
        ),
    ],
    oracle=lambda *inputs: _use_batch_norm(_torch_batch_norm, *inputs),
    use=_use_batch_norm,
    delegate=lambda channels, eps, momentum: torch.nn.BatchNorm2d(channels, eps, momentum),
    grads=("x", "weight", "bias"),
    rules=Rules(
        forbids=(
            *(
                "batch_norm",
                "native_batch_norm",
                "BatchNorm1d",
                "BatchNorm2d",
                "BatchNorm3d",
                "SyncBatchNorm",
            ),
            *("LazyBatchNorm2d", "instance_norm", "InstanceNorm2d", "group_norm", "GroupNorm", "layer_norm"),
        )
    ),
    mistakes=[
        Mistake(
            "momentum swapped",
            "Momentum weighs the old value here; in torch it is the weight of the new one: 0.9 of the old, 0.1 of the new.",
            _batch_norm(old=True),
        ),
        Mistake(
            "unbiased to normalize",
            "The batch is normalized by the variance that divides by n - 1. For that, torch divides by n: correction=0.",
            _batch_norm(correction=1),
        ),
        Mistake(
            "biased record",
            "The running variance takes the variance that divides by n. torch keeps the unbiased one, by n - 1.",
            _batch_norm(record=0),
        ),
        Mistake(
            "variances exchanged",
            "The two variances are exchanged: by n to normalize, by n - 1 for the running one.",
            _batch_norm(correction=1, record=0),
        ),
        Mistake(
            "batch axis only",
            "The mean is taken over the images only, one per place. A channel has one mean: over axes 0, 2 and 3.",
            _batch_norm(axes=(0,)),
        ),
        Mistake(
            "each picture by itself",
            "Every picture is normalized by itself (axes 2 and 3): that is instance norm. The batch counts as well.",
            _batch_norm(axes=(2, 3)),
        ),
        Mistake(
            "batch in evaluation",
            "In evaluation the batch is still measured. There the running averages are used, so that neighbors do not matter.",
            _batch_norm(always=True),
        ),
        Mistake(
            "measured and recorded in evaluation",
            "Evaluation does all that training does: it measures the batch and moves the running averages. `if self.training:`",
            _batch_norm(always=True, recorded="always"),
        ),
        Mistake(
            "never recorded",
            "The running averages never move: in training, update them in place.",
            _batch_norm(recorded="never"),
        ),
        Mistake(
            "running averages in training",
            "Training normalizes with the running averages; there the mean and variance of the batch itself are used.",
            _batch_norm(running=True),
        ),
        Mistake(
            "no scale and shift",
            "The scale `self.weight` and the shift `self.bias` are missing, one of each per channel.",
            _batch_norm(affine=False),
        ),
        Mistake(
            "divided by the variance",
            "This divides by the variance; take the root: sqrt(var + eps).",
            _batch_norm(power=1.0),
        ),
        Mistake(
            "statistics detached",
            "The values are right, but the mean and variance of the batch are cut off from the graph. They depend on x; only the record is detached.",
            _batch_norm(detached=True),
        ),
        Mistake(
            "eps written down",
            "eps is 1e-5 here whatever the layer was told: use `self.eps`.",
            _batch_norm(eps=1e-5),
        ),
        Mistake(
            "momentum written down",
            "The momentum is 0.1 here whatever the layer was told: use `self.momentum`.",
            _batch_norm(momentum=0.1),
        ),
        Mistake(
            "eps outside the root",
            "eps is added to the root; it belongs under it: sqrt(var + eps).",
            _batch_norm(outside=True),
        ),
        Mistake(
            "graph in the record",
            "The values are right, but the running averages carry a graph: update them under torch.no_grad().",
            _batch_norm(graph=True),
        ),
    ],
    hints=(
        "Begin with training: mean and variance over (0, 2, 3), then give them two more axes to line up with x.",
        "x.var((0, 2, 3), correction=0) normalizes; x.var((0, 2, 3)) goes into the running variance, weighed by momentum.",
        "with torch.no_grad(): self.running_mean.lerp_(mean, self.momentum); in evaluation mean, var = running_mean, running_var",
    ),
    passed="n and n - 1 differ little for large batches. The two modes differ a lot for small ones: see the clinic.",
    equivalent=(
        Equivalent(
            before="dims = (0, 2, 3)",
            after="dims = (2, 0, 3)",
            reason="a mean and a variance do not depend on the order in which their axes are named",
        ),
        Equivalent(
            before="dims = (0, 2, 3)",
            after="dims = (0, 3, 2)",
            reason="a mean and a variance do not depend on the order in which their axes are named",
        ),
    ),
)
