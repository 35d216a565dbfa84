import gc
import sys
import tracemalloc

import pytest
import torch

import labkit
from labkit import nn
from labkit.nn.utils import rnn

from .conftest import compare, tensors, translate

KINDS = ["RNN", "LSTM", "GRU"]
SETTINGS = [
    {},
    {"num_layers": 2, "bias": False},
    {"bidirectional": True, "batch_first": True},
    {"num_layers": 3, "bidirectional": True},
]


def states(kind, layers, batch=(4,), hidden=6):
    generator = torch.Generator().manual_seed(3)
    h = torch.randn((layers, *batch, hidden), generator=generator, requires_grad=True)
    c = torch.randn((layers, *batch, hidden), generator=generator, requires_grad=True)
    return (h, c) if kind == "LSTM" else h


def build(kind, **settings):
    torch.manual_seed(0)
    return getattr(nn, kind)(5, 6, **settings), getattr(torch.nn, kind)(5, 6, **settings)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_layers_equal_torch(same_as_torch, kind, settings):
    ours, theirs = build(kind, **settings)
    x = torch.randn(4, 7, 5) if settings.get("batch_first") else torch.randn(7, 4, 5)
    same_as_torch(ours, theirs, x.requires_grad_())
    rows = settings.get("num_layers", 1) * (2 if settings.get("bidirectional") else 1)
    ours, theirs = build(kind, **settings)
    same_as_torch(ours, theirs, x, states(kind, rows))
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_batch_axis(same_as_torch, kind):
    same_as_torch(*build(kind), torch.randn(7, 5))
    same_as_torch(*build(kind, bidirectional=True), torch.randn(7, 5), states(kind, 2, batch=()))


def test_relu(same_as_torch):
    same_as_torch(*build("RNN", nonlinearity="relu"), torch.randn(7, 4, 5))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sort", [True, False])
def test_packed_sequences_equal_torch(kernels, kind, sort):
    ours, theirs = build(kind, num_layers=2, bidirectional=True)
    ours.load_state_dict(theirs.state_dict())
    lengths = [7, 5, 5, 1] if sort else [5, 1, 7, 5]
    x, hx = torch.randn(7, 4, 5, requires_grad=True), states(kind, 4)
    pack_torch = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=sort)
    y_torch, last_torch = theirs(pack_torch, hx)
    out_torch, n_torch = torch.nn.utils.rnn.pad_packed_sequence(y_torch)

    x_ours, hx_ours = translate(x), translate(hx)
    pack = rnn.pack_padded_sequence(x_ours, labkit.tensor(lengths), enforce_sorted=sort)
    compare(pack.batch_sizes, pack_torch.batch_sizes, 0)
    y, last = ours(pack, hx_ours)
    out, n = rnn.pad_packed_sequence(y)
    assert n.tolist() == n_torch.tolist() == lengths
    compare(out, out_torch, 1e-5)
    compare(last, last_torch, 1e-5)

    weight = torch.randn_like(out_torch)
    ((out_torch * weight).sum() + sum(t.sum() for t in tensors(last_torch))).backward()
    ((out * translate(weight)).sum() + sum(t.sum() for t in tensors(last))).backward()
    compare(x_ours.grad, x.grad, 1e-4)
    for a, b in zip(tensors(hx_ours), tensors(hx), strict=True):
        compare(a.grad, b.grad, 1e-4)
    for name, p in theirs.named_parameters():
        compare(ours.get_parameter(name).grad, p.grad, 1e-4, name)


def test_dropout_acts_between_layers_in_training():
    labkit.manual_seed(0)
    layer, x = nn.GRU(5, 6, num_layers=2, dropout=0.5), labkit.randn(3, 2, 5)
    assert (layer(x)[0].detach().numpy() != layer(x)[0].detach().numpy()).any()
    layer.eval()
    assert (layer(x)[0].detach().numpy() == layer(x)[0].detach().numpy()).all()
    with pytest.warns(UserWarning, match="dropout=0.5 has no effect"):
        nn.LSTM(5, 6, dropout=0.5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [(4,), ()])
def test_cells_equal_torch(same_as_torch, kind, batch):
    ours, theirs = getattr(nn, kind + "Cell")(5, 6), getattr(torch.nn, kind + "Cell")(5, 6)
    x = torch.randn(*batch, 5)
    same_as_torch(ours, theirs, x)
    theirs.zero_grad()
    ours.zero_grad()
    h = torch.randn(*batch, 6)
    same_as_torch(ours, theirs, x, (h, -h) if kind == "LSTM" else h)


def test_wrong_shapes_name_both():
    layer = nn.LSTM(5, 6, num_layers=2)
    with pytest.raises(RuntimeError, match=r"input_size=5; got \(7, 4, 3\)"):
        layer(labkit.zeros(7, 4, 3))
    with pytest.raises(RuntimeError, match=r"shape \(2, 4, 6\).*got \(1, 4, 6\)"):
        layer(labkit.zeros(7, 4, 5), (labkit.zeros(1, 4, 6), labkit.zeros(1, 4, 6)))


def test_padding_and_packing_equal_torch():
    parts = [torch.randn(n, 2) for n in (3, 5, 1)]
    ours = [translate(p) for p in parts]
    theirs = torch.nn.utils.rnn
    for settings in ({}, {"batch_first": True, "padding_value": -1.0}, {"padding_side": "left"}):
        compare(rnn.pad_sequence(ours, **settings), theirs.pad_sequence(parts, **settings), 0)
    packed, packed_torch = (
        rnn.pack_sequence(ours, enforce_sorted=False),
        theirs.pack_sequence(parts, enforce_sorted=False),
    )
    compare(tuple(packed), tuple(packed_torch), 0)
    for settings in ({}, {"batch_first": True, "padding_value": 9.0, "total_length": 6}):
        padded, padded_torch = (
            rnn.pad_packed_sequence(packed, **settings),
            theirs.pad_packed_sequence(packed_torch, **settings),
        )
        compare(padded, padded_torch, 0)
    padded = rnn.pad_sequence(ours, batch_first=True)
    compare(rnn.unpad_sequence(padded, labkit.tensor([3, 5, 1]), batch_first=True), parts, 0)


def test_lengths_that_do_not_fit():
    x = labkit.zeros(4, 2, 3)
    with pytest.raises(RuntimeError, match=r"lengths \[2, 4\] are not sorted.*enforce_sorted=False"):
        rnn.pack_padded_sequence(x, [2, 4])
    with pytest.raises(ValueError, match="between 1 and the padded length 4"):
        rnn.pack_padded_sequence(x, [5, 4])
    with pytest.raises(ValueError, match="3 lengths for a batch of 2"):
        rnn.pack_padded_sequence(x, [4, 3, 2])


def test_a_chain_of_five_thousand_cells_backpropagates():
    """Far beyond Python's recursion limit, one node of the graph after the other."""
    cell = nn.RNNCell(2, 3)
    start = h = labkit.zeros(1, 3, requires_grad=True)
    x = labkit.full((1, 2), 0.1)
    with torch.no_grad():
        same = torch.nn.RNNCell(2, 3)
        same.load_state_dict({name: torch.tensor(p.detach().numpy()) for name, p in cell.named_parameters()})
    for _ in range(5000):
        h = cell(x, h)
    h.sum().backward()
    theirs = torch.zeros(1, 3)
    for _ in range(5000):
        theirs = same(torch.full((1, 2), 0.1), theirs)
    theirs.sum().backward()
    assert start.grad is not None and sys.getrecursionlimit() < 5000
    compare(h, theirs.detach(), 1e-5)
    for name, p in cell.named_parameters():
        compare(p.grad, same.get_parameter(name).grad, 1e-4)


def bytes_kept(segments, cut):
    """Bytes alive after each segment of a long sequence, with the state detached in between or not."""
    lstm, state, losses, seen = nn.LSTM(3, 8), None, [], []
    book = labkit.randn(segments, 10, 2, 3)
    lstm(book[0])[0].sum().backward()  # whatever is compiled or imported, now
    gc.collect()
    gc.freeze()  # the collections below look at what is made from here on, not at all of torch
    tracemalloc.start()
    for n in range(segments):
        outputs, (h, c) = lstm(book[n], state)
        loss = outputs.square().sum()
        if cut:
            loss.backward()
            lstm.zero_grad()
            state = h.detach(), c.detach()
        else:
            losses.append(loss)
            state = h, c
        del outputs, h, c, loss
        gc.collect()
        seen.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    gc.unfreeze()
    return seen


def test_detached_segments_need_the_memory_of_one():
    flat, growing = bytes_kept(100, cut=True), bytes_kept(100, cut=False)
    one = growing[50] - growing[49]  # what a segment of ten steps keeps
    assert growing[-1] - growing[9] > 80 * one > 0
    assert flat[-1] - flat[9] < one
