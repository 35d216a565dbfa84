"""Functional ops against torch where its operator database is thin: values, gradients, refusals, messages."""

import numpy as np
import pytest
import torch
import torch.nn.functional as TF

import labkit
import labkit.nn.functional as F
from labkit.errors import NotSupported
from labkit.ops import recurrent

RNG = np.random.default_rng(0)


@pytest.fixture(params=["numpy", "cpu"], autouse=True)
def kernels(request):
    with labkit.use_kernels(request.param):
        yield request.param


def real(*shape, dtype=np.float64):
    return RNG.standard_normal(shape).astype(dtype)


def whole(high, *shape):
    return RNG.integers(0, high, shape)


def check(ours, theirs, *arrays, tolerance=1e-10):
    """Both functions on the same arrays: equal outputs and equal gradients of every float array."""
    xs = [labkit.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    ts = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    y, t = ours(*xs), theirs(*ts)
    outputs = list(zip(y, t, strict=True)) if isinstance(y, (tuple, list)) else [(y, t)]
    seeds = [RNG.standard_normal(tuple(b.shape)) for _, b in outputs]
    for a, b in outputs:
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.data, b.detach().numpy(), rtol=tolerance, atol=tolerance)
    if t_inputs := [x for x in ts if x.requires_grad]:
        torch.autograd.backward([b for _, b in outputs], [torch.tensor(g) for g in seeds])
        labkit.autograd.backward([a for a, _ in outputs], [labkit.tensor(g) for g in seeds])
        for x, t in zip([x for x in xs if x.requires_grad], t_inputs, strict=True):
            if t.grad is not None:
                np.testing.assert_allclose(x.grad.data, t.grad.numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("relu", {}),
        ("gelu", {}),
        ("gelu", {"approximate": "tanh"}),
        ("silu", {}),
        ("leaky_relu", {"negative_slope": 0.3}),
        ("elu", {"alpha": 0.7}),
        ("softplus", {"beta": 2.0, "threshold": 1.0}),
        ("logsigmoid", {}),
    ],
)
def test_activations_at_ordinary_and_extreme_values(name, params):
    x = np.concatenate((real(50), [-800.0, -30.0, 30.0, 800.0]))
    check(lambda x: getattr(F, name)(x, **params), lambda x: getattr(TF, name)(x, **params), x)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_rnn_equals_torch(nonlinearity):
    layer = torch.nn.RNN(3, 5, nonlinearity=nonlinearity, dtype=torch.float64)
    check(
        lambda x, h, *w: recurrent.rnn(x, h, *w, nonlinearity=nonlinearity),
        lambda x, h, *w: _torch_layer(layer, x, h[None], w)[0],
        *_recurrent_arrays(1),
    )


def test_lstm_equals_torch():
    """Gradients of every hidden state and of the last cell state together."""
    layer = torch.nn.LSTM(3, 5, dtype=torch.float64)

    def ours(x, h, c, *w):
        y, cells = recurrent.lstm(x, h, c, *w)
        return y, cells[-1]

    def theirs(x, h, c, *w):
        y, (_, c_n) = _torch_layer(layer, x, (h[None], c[None]), w)
        return y, c_n[0]

    x, h, *w = _recurrent_arrays(4)
    check(ours, theirs, x, h, real(2, 5), *w)


def test_gru_equals_torch():
    layer = torch.nn.GRU(3, 5, dtype=torch.float64)
    check(recurrent.gru, lambda x, h, *w: _torch_layer(layer, x, h[None], w)[0], *_recurrent_arrays(3))


def _recurrent_arrays(gates):
    return real(7, 2, 3), real(2, 5), real(gates * 5, 3), real(gates * 5, 5), real(gates * 5), real(gates * 5)


def _torch_layer(layer, x, state, weights):
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (x, state))


def test_recurrent_without_bias_and_without_steps():
    x, h, w_ih, w_hh, *_ = (labkit.tensor(a) for a in _recurrent_arrays(3))
    zero = labkit.tensor(np.zeros(15))
    plain, biased = recurrent.gru(x, h, w_ih, w_hh), recurrent.gru(x, h, w_ih, w_hh, zero, zero)
    np.testing.assert_allclose(plain.data, biased.data)
    assert recurrent.gru(x[:0], h, w_ih, w_hh).shape == (0, 2, 5)


@pytest.mark.parametrize("params", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "padding": (1, 0)}])
def test_fold_and_unfold_equal_torch(params):
    check(lambda x: F.unfold(x, (2, 3), **params), lambda x: TF.unfold(x, (2, 3), **params), real(2, 3, 7, 8))
    columns = TF.unfold(torch.zeros(2, 3, 7, 8), (2, 3), **params).shape
    check(
        lambda x: F.fold(x, (7, 8), (2, 3), **params),
        lambda x: TF.fold(x, (7, 8), (2, 3), **params),
        real(*columns),
    )


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # torch's, about its own speed
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("padding", [0, (2, 1), "same"])
@pytest.mark.parametrize("dilation", [1, (1, 2)])
def test_conv2d_equals_torch(groups, padding, dilation):
    check(
        lambda x, w, b: F.conv2d(x, w, b, padding=padding, dilation=dilation, groups=groups),
        lambda x, w, b: TF.conv2d(x, w, b, padding=padding, dilation=dilation, groups=groups),
        real(2, 4, 6, 7),
        real(6, 4 // groups, 2, 3),
        real(6),
    )


def test_conv2d_in_float32_at_a_training_size():
    x, w, b = (real(*s, dtype=np.float32) for s in ((4, 16, 14, 14), (32, 16, 3, 3), (32,)))
    check(lambda *a: F.conv2d(*a, padding=1), lambda *a: TF.conv2d(*a, padding=1), x, w, b, tolerance=1e-4)


def test_strided_inputs():
    x = real(6, 4, 7, 2).transpose(0, 3, 1, 2)
    check(lambda x, w: F.conv2d(x, w), lambda x, w: TF.conv2d(x, w), x, real(3, 2, 2, 2)[:, :, ::-1].copy())
    check(lambda x: F.max_pool2d(x, 2), lambda x: TF.max_pool2d(x, 2), x)
    check(lambda x: F.layer_norm(x, (7,)), lambda x: TF.layer_norm(x, (7,)), x)


def test_max_pool2d_of_minus_infinity_points_into_the_input():
    y, indices = F.max_pool2d(labkit.tensor(np.full((1, 1, 3, 3), -np.inf)), 2, 1, 1, return_indices=True)
    assert np.isneginf(y.data).all()
    assert ((indices.data >= 0) & (indices.data < 9)).all()


def test_batch_norm_moves_running_statistics_in_place():
    x, mean, var = real(4, 3, 5), real(3), np.abs(real(3))
    ours = [labkit.tensor(a) for a in (x, mean, var)]
    theirs = [torch.tensor(a) for a in (x, mean, var)]
    F.batch_norm(*ours, training=True, momentum=0.3)
    TF.batch_norm(*theirs, training=True, momentum=0.3)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.data, b.numpy(), rtol=1e-12)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_gradients(training):
    mean, var = real(3), np.abs(real(3))
    check(
        lambda x, w, b: F.batch_norm(x, labkit.tensor(mean), labkit.tensor(var), w, b, training),
        lambda x, w, b: TF.batch_norm(x, torch.tensor(mean), torch.tensor(var), w, b, training),
        real(4, 3, 2, 5),
        real(3),
        real(3),
    )


def test_layer_norm_rms_norm_group_norm_gradients():
    x, w, b = real(3, 4, 6), real(4, 6), real(4, 6)
    check(
        lambda x, w, b: F.layer_norm(x, (4, 6), w, b), lambda x, w, b: TF.layer_norm(x, (4, 6), w, b), x, w, b
    )
    check(lambda x, w: F.rms_norm(x, (4, 6), w), lambda x, w: TF.rms_norm(x, (4, 6), w), x, w)
    check(
        lambda x, w, b: F.group_norm(x, 2, w, b),
        lambda x, w, b: TF.group_norm(x, 2, w, b),
        x,
        real(4),
        real(4),
    )


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy_equals_torch(reduction, smoothing, weighted):
    target = whole(5, 4, 3)
    target[0, 0] = 2
    weight = np.abs(real(5))
    options = {"reduction": reduction, "label_smoothing": smoothing, "ignore_index": 2}
    check(
        lambda x: F.cross_entropy(
            x, labkit.tensor(target), labkit.tensor(weight) if weighted else None, **options
        ),
        lambda x: TF.cross_entropy(
            x, torch.tensor(target), torch.tensor(weight) if weighted else None, **options
        ),
        real(4, 5, 3) * 10,
    )


def test_cross_entropy_of_probabilities_sends_gradients_to_both():
    options = {"label_smoothing": 0.1}
    p = np.abs(real(4, 5, 3))
    check(
        lambda x, p: F.cross_entropy(x, p, **options),
        lambda x, p: TF.cross_entropy(x, p, **options),
        real(4, 5, 3),
        p,
    )


def test_cross_entropy_of_huge_logits_is_finite():
    loss = F.cross_entropy(labkit.tensor([[1e4, -1e4], [3e4, 3e4]]), labkit.tensor([1, 0]))
    np.testing.assert_allclose(loss.data, (2e4 + np.log(2)) / 2)


@pytest.mark.parametrize("kind", ["none", "bool", "float", "causal", "scale"])
def test_attention_equals_torch(kind):
    q, k, v = real(2, 3, 4, 6), real(2, 3, 5, 6), real(2, 3, 5, 7)
    keep = RNG.random((4, 5)) < 0.6
    keep[:, 0] = True
    extra = {"bool": [keep], "float": [real(2, 1, 4, 5)]}.get(kind, [])
    options = {"causal": {"is_causal": True}, "scale": {"scale": 0.5}}.get(kind, {})
    check(
        lambda *a: F.scaled_dot_product_attention(*a, **options),
        lambda *a: TF.scaled_dot_product_attention(*a, **options),
        q, k, v, *extra,
    )  # fmt: skip


def test_attention_with_shared_heads_equals_torch():
    check(
        lambda *a: F.scaled_dot_product_attention(*a, enable_gqa=True),
        lambda *a: TF.scaled_dot_product_attention(*a, enable_gqa=True),
        real(2, 4, 3, 6), real(2, 2, 5, 6), real(2, 2, 5, 6),
    )  # fmt: skip


def test_a_query_that_may_see_nothing_gets_zeros_and_no_nan_gradient():
    q, k, v = (labkit.tensor(real(1, 2, 3), requires_grad=True) for _ in range(3))
    y = F.scaled_dot_product_attention(q, k, v, labkit.tensor([[True, True], [False, False]]))
    y.sum().backward()
    assert (y.data[0, 1] == 0).all()
    assert all(np.isfinite(t.grad.data).all() for t in (q, k, v))


def test_dropout_keeps_the_mean_and_sends_gradients_through_what_it_kept():
    labkit.manual_seed(0)
    x = labkit.tensor(np.ones((200, 100)), requires_grad=True)
    y = F.dropout(x, 0.25)
    assert set(np.unique(y.data)) == {0.0, 1 / 0.75}
    assert abs(y.data.mean() - 1) < 0.02
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.data, y.data)
    assert F.dropout(x, 0.5, training=False) is x
    planes = F.dropout2d(labkit.tensor(np.ones((8, 8, 3, 3))), 0.5).data
    assert set(np.unique(planes.reshape(64, 9).sum(1))) == {0.0, 18.0}


def test_dropout_is_repeated_by_the_seed():
    x = labkit.tensor(np.ones(100))
    labkit.manual_seed(3)
    first = F.dropout(x).data
    labkit.manual_seed(3)
    np.testing.assert_array_equal(F.dropout(x).data, first)


def test_embedding_adds_repeated_rows_and_skips_padding():
    index = np.array([[1, 3, 1], [0, 3, 3]])
    check(
        lambda w: F.embedding(labkit.tensor(index), w, padding_idx=-4),
        lambda w: TF.embedding(torch.tensor(index), w, padding_idx=-4),
        real(4, 5),
    )


@pytest.mark.parametrize("index", [np.array(3), whole(4, 5), whole(6, 2, 3)])
@pytest.mark.parametrize("classes", [-1, 7])
def test_one_hot_equals_torch(index, classes):
    ours, theirs = F.one_hot(labkit.tensor(index), classes), TF.one_hot(torch.tensor(index), classes)
    assert ours.dtype == labkit.int64
    np.testing.assert_array_equal(ours.data, theirs.numpy())


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(3, 11), (1, 1), (10, 4)])
def test_interpolate_equals_torch(mode, align_corners, size):
    options = {"size": size, "mode": mode, "align_corners": align_corners}
    check(lambda x: F.interpolate(x, **options), lambda x: TF.interpolate(x, **options), real(2, 3, 5, 7))


def test_nearest_interpolation_does_not_spread_nan():
    x = np.zeros((1, 1, 2, 2))
    x[0, 0, 0, 0] = np.nan
    assert np.isnan(F.interpolate(labkit.tensor(x), scale_factor=2).data).sum() == 4


def zeros(*shape):
    return labkit.tensor(np.zeros(shape, np.float32))


ERRORS = {
    "channels": (lambda: F.conv2d(zeros(2, 3, 8, 8), zeros(4, 5, 3, 3)), ["(2, 3, 8, 8)", "(4, 5, 3, 3)"]),
    "large filter": (lambda: F.conv2d(zeros(2, 3, 2, 2), zeros(4, 3, 3, 3)), ["larger", "(2, 3, 2, 2)"]),
    "groups": (lambda: F.conv2d(zeros(1, 4, 5, 5), zeros(3, 2, 3, 3), groups=2), ["groups", "4 input"]),
    "bias": (lambda: F.conv2d(zeros(1, 1, 5, 5), zeros(3, 1, 2, 2), zeros(2)), ["bias (2,)", "3 numbers"]),
    "same": (lambda: F.conv2d(zeros(1, 1, 5, 5), zeros(1, 1, 2, 2), None, 2, "same"), ["stride"]),
    "axes": (lambda: F.conv1d(zeros(1, 1, 5, 5), zeros(1, 1, 2)), ["conv1d", "(1, 1, 5, 5)"]),
    "pool padding": (lambda: F.max_pool2d(zeros(1, 1, 5, 5), 2, padding=2), ["half"]),
    "layer norm": (lambda: F.layer_norm(zeros(2, 5), (4,)), ["(2, 5)", "(4,)"]),
    "batch of one": (lambda: F.batch_norm(zeros(1, 3), None, None, training=True), ["more than one"]),
    "group norm": (lambda: F.group_norm(zeros(2, 5), 2), ["num_groups 2", "(2, 5)"]),
    "targets": (lambda: F.cross_entropy(zeros(2, 3), labkit.tensor([0, 1, 2])), ["(2, 3)", "(3,)"]),
    "class": (lambda: F.cross_entropy(zeros(2, 3), labkit.tensor([0, 3])), ["index 3", "3 classes, 0 to 2"]),
    "float class": (lambda: F.cross_entropy(zeros(2, 3), zeros(2)), ["whole numbers", "float32"]),
    "row": (lambda: F.embedding(labkit.tensor([7]), zeros(5, 2)), ["index 7", "5 rows"]),
    "one hot": (lambda: F.one_hot(labkit.tensor([3]), 3), ["index 3", "3 classes"]),
    "lanczos": (lambda: F.interpolate(zeros(1, 1, 4, 4), 2, mode="lanczos"), ["lanczos", "bilinear"]),
    "reflect": (lambda: F.pad(zeros(1, 1, 3), (3, 0), mode="reflect"), ["at most 2", "(1, 1, 3)"]),
    "reduction": (lambda: F.l1_loss(zeros(2), zeros(2), reduction="average"), ["'average'", "'mean'"]),
    "broadcast": (lambda: F.mse_loss(zeros(2, 1), zeros(2)), ["(2, 1)", "(2,)"]),
    "bce": (lambda: F.binary_cross_entropy_with_logits(zeros(2), zeros(3)), ["(2,)", "(3,)"]),
    "query": (lambda: F.scaled_dot_product_attention(zeros(2, 3), zeros(4, 5), zeros(4, 5)), ["(2, 3)"]),
    "gates": (
        lambda: F.lstm(zeros(4, 2, 3), zeros(2, 5), zeros(2, 5), zeros(15, 3), zeros(20, 5)),
        ["w_ih is (15, 3)", "need (20, 3)"],
    ),
    "probability": (lambda: F.dropout(zeros(2), 1.5), ["between 0 and 1"]),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_what_does_not_fit(case):
    call, words = ERRORS[case]
    with pytest.raises((RuntimeError, ValueError, IndexError, TypeError, UserWarning)) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


REFUSED = {
    "max_norm": lambda: F.embedding(labkit.tensor([1]), zeros(5, 2), max_norm=1.0),
    "scale_grad_by_freq": lambda: F.embedding(labkit.tensor([1]), zeros(5, 2), scale_grad_by_freq=True),
    "sparse": lambda: F.embedding(labkit.tensor([1]), zeros(5, 2), sparse=True),
    "antialias": lambda: F.interpolate(zeros(1, 1, 4, 4), 2, antialias=True),
    "size_average": lambda: F.mse_loss(zeros(2), zeros(2), size_average=True),
}


@pytest.mark.parametrize("argument", REFUSED)
def test_unsupported_arguments_are_refused_by_name(argument):
    with pytest.raises(NotSupported, match=argument):
        REFUSED[argument]()
