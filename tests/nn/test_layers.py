import numpy as np
import pytest
import torch

import labkit
from labkit import nn


def image(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def ids(*shape):
    return torch.randint(0, 7, shape, generator=torch.Generator().manual_seed(0))


LAYERS = [
    ("Linear", (5, 3), {}, image(4, 5)),
    ("Linear", (5, 3), {}, image(2, 4, 5)),
    ("Linear", (5, 1), {"bias": False}, image(5)),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1}, image(2, 4, 9)),
    ("Conv1d", (4, 6, 3), {"groups": 2, "dilation": 2, "bias": False}, image(2, 4, 9)),
    ("Conv2d", (3, 4, 3), {}, image(2, 3, 7, 6)),
    ("Conv2d", (4, 8, (3, 1)), {"stride": (2, 1), "padding": (1, 0), "groups": 4}, image(1, 4, 7, 6)),
    ("Conv2d", (3, 4, 3), {"padding": "same", "bias": False}, image(2, 3, 5, 5)),
    ("ConvTranspose2d", (3, 4, 3), {"stride": 2, "padding": 1, "output_padding": 1}, image(2, 3, 4, 5)),
    ("ConvTranspose2d", (4, 4, 2), {"groups": 2, "bias": False}, image(2, 4, 4, 5)),
    ("MaxPool2d", (2,), {}, image(2, 3, 6, 7)),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, image(2, 3, 6, 7)),
    ("AvgPool2d", (2,), {"stride": 1}, image(2, 3, 6, 7)),
    ("AvgPool2d", (3,), {"padding": 1, "count_include_pad": False}, image(2, 3, 6, 7)),
    ("AdaptiveAvgPool2d", (1,), {}, image(2, 3, 6, 7)),
    ("AdaptiveAvgPool2d", ((3, None),), {}, image(2, 3, 7, 5)),
    ("BatchNorm1d", (5,), {}, image(8, 5)),
    ("BatchNorm1d", (5,), {"momentum": None}, image(8, 5, 3)),
    ("BatchNorm1d", (5,), {"affine": False, "track_running_stats": False}, image(8, 5)),
    ("BatchNorm2d", (3,), {"eps": 1e-3, "momentum": 0.3}, image(4, 3, 5, 2)),
    ("LayerNorm", (6,), {}, image(2, 4, 6)),
    ("LayerNorm", ((4, 6),), {"bias": False}, image(2, 4, 6)),
    ("LayerNorm", (6,), {"elementwise_affine": False}, image(2, 4, 6)),
    ("RMSNorm", (6,), {}, image(2, 4, 6)),
    ("RMSNorm", (6,), {"eps": 1e-2}, image(2, 4, 6)),
    ("GroupNorm", (2, 6), {}, image(3, 6, 4)),
    ("GroupNorm", (3, 6), {"affine": False}, image(3, 6, 4, 2)),
    ("Embedding", (7, 4), {}, ids(3, 5)),
    ("Embedding", (7, 4), {"padding_idx": 2}, ids(3, 5)),
    ("Flatten", (), {}, image(2, 3, 4)),
    ("Unflatten", (1, (2, 3)), {}, image(2, 6)),
    ("Identity", (), {}, image(2, 6)),
    ("ReLU", (), {}, image(3, 4)),
    ("LeakyReLU", (0.2,), {}, image(3, 4)),
    ("ELU", (0.7,), {}, image(3, 4)),
    ("SiLU", (), {}, image(3, 4)),
    ("GELU", (), {}, image(3, 4)),
    ("GELU", ("tanh",), {}, image(3, 4)),
    ("Softplus", (2.0,), {}, image(3, 4)),
    ("Sigmoid", (), {}, image(3, 4)),
    ("LogSigmoid", (), {}, image(3, 4)),
    ("Tanh", (), {}, image(3, 4)),
    ("Softmax", (1,), {}, image(3, 4)),
    ("LogSoftmax", (0,), {}, image(3, 4)),
    ("Dropout", (0.0,), {}, image(3, 4)),
]


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "x"), LAYERS, ids=lambda v: v if isinstance(v, str) else ""
)
def test_layer_equals_torch(same_as_torch, name, args, kwargs, x):
    ours, theirs = getattr(nn, name)(*args, **kwargs), getattr(torch.nn, name)(*args, **kwargs)
    x = x.clone().requires_grad_(x.is_floating_point())
    same_as_torch(ours, theirs, x)
    assert repr(ours) == repr(theirs)


def test_batch_norm_over_several_batches_and_in_evaluation(same_as_torch):
    ours, theirs = nn.BatchNorm2d(3, momentum=None), torch.nn.BatchNorm2d(3, momentum=None)
    for _ in range(3):
        same_as_torch(ours, theirs, image(4, 3, 5, 2), backward=False)
    same_as_torch(ours.eval(), theirs.eval(), image(4, 3, 5, 2))


def test_batch_norm_refuses_inputs_of_other_rank():
    with pytest.raises(ValueError, match=r"BatchNorm2d needs an input with 4 axes, got shape \(2, 3\)"):
        nn.BatchNorm2d(3)(labkit.zeros(2, 3))


LOSSES = [
    ("MSELoss", {}, image(4, 3), image(4, 3) + 1),
    ("MSELoss", {"reduction": "sum"}, image(4, 3), image(4, 3) + 1),
    ("L1Loss", {"reduction": "none"}, image(4, 3), image(4, 3) + 1),
    ("SmoothL1Loss", {"beta": 0.5}, image(4, 3), -image(4, 3)),
    ("CrossEntropyLoss", {}, image(5, 7), ids(5)),
    ("CrossEntropyLoss", {"weight": torch.rand(7), "label_smoothing": 0.1}, image(5, 7), ids(5)),
    ("CrossEntropyLoss", {"ignore_index": 3, "reduction": "sum"}, image(5, 7, 2), ids(5, 2)),
    ("CrossEntropyLoss", {}, image(5, 7), image(5, 7).softmax(1)),
    ("NLLLoss", {"weight": torch.rand(7)}, image(5, 7).log_softmax(1), ids(5)),
    ("BCEWithLogitsLoss", {"pos_weight": torch.rand(3)}, image(4, 3), (image(4, 3) > 0).float()),
    ("KLDivLoss", {"reduction": "batchmean"}, image(4, 3).log_softmax(1), image(4, 3).softmax(1)),
    ("KLDivLoss", {"log_target": True}, image(4, 3).log_softmax(1), image(4, 3).log_softmax(1)),
]


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize(
    ("name", "kwargs", "x", "target"), LOSSES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_loss_equals_torch(same_as_torch, name, kwargs, x, target):
    ours = getattr(nn, name)(
        **{k: labkit.tensor(v.numpy()) if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    )
    same_as_torch(ours, getattr(torch.nn, name)(**kwargs), x.clone().requires_grad_(), target)


def test_dropout_drops_in_training_only():
    labkit.manual_seed(0)
    layer, x = nn.Dropout(0.25), labkit.ones(1000)
    y = layer(x).numpy()
    np.testing.assert_allclose(y[y > 0], 1 / 0.75, rtol=1e-6)
    assert 700 < (y > 0).sum() < 800
    assert (layer.eval()(x).numpy() == 1).all()


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: nn.ReLU(inplace=True), "inplace=True"),
        (lambda: nn.Conv2d(1, 1, 1, padding_mode="circular"), "padding_mode='circular'"),
        (lambda: nn.Embedding(3, 2, sparse=True), "sparse=True"),
        (lambda: nn.LSTM(2, 3, proj_size=2), "proj_size=2"),
        (lambda: nn.MultiheadAttention(4, 2, add_zero_attn=True), "add_zero_attn=True"),
    ],
)
def test_arguments_we_do_not_have_are_refused_by_name(make, argument):
    with pytest.raises(NotImplementedError, match=argument):
        make()
