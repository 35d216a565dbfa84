"""Which labkit function answers to which entry of PyTorch's operator database.

Keys are the database's names, with the variant after a slash where it has one. The table is made from what
labkit offers; only what is called in another way is written out. `REFUSED` counts the samples
that labkit refuses by name (`NotSupported`), so that a refusal more or less is noticed.
"""

from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as TF
from torch.testing._internal.common_methods_invocations import op_db

import labkit
import labkit.nn.functional as F
from labkit import Tensor, ops
from labkit.op_table import PUBLIC

# Every function that labkit offers is judged by the entries of its name, and by all their variants.
NAMES = [f"{i.name}/{i.variant_test_name}" if i.variant_test_name else i.name for i in op_db]
NOT_TRIED = dict.fromkeys(
    ["bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "nn.functional.one_hot"],
    "the samples are floats, which torch refuses as well",
)
NOT_TRIED["as_strided/partial_views"] = "views of larger memory, which the way over NumPy cuts off"
_METHODS = {name for own, public in PUBLIC.items() if public.method for name in (own, *public.aliases)}


def _same_name(prefix, functions):
    """key -> function, for every entry of the database that is called like one of the functions"""
    bare = {key: key.removeprefix(prefix).split("/")[0] for key in NAMES if key.startswith(prefix)}
    return {k: functions[name] for k, name in bare.items() if name in functions and k not in NOT_TRIED}


CORE = _same_name("", {name: getattr(Tensor, name) for name in _METHODS} | ops.FUNCTIONS)
CORE["einsum"] = lambda tensors, equation: labkit.einsum(equation, *tensors)
CORE["where"] = lambda input, condition, other: labkit.where(condition, input, other)
CORE["__getitem__"] = Tensor.__getitem__


def _on_torchs_draw(function, torch_mask):
    """`function`, with dropout that keeps what torch keeps; the database seeds each call of torch with 42."""

    def call(*args, **kwargs):
        with torch.random.fork_rng():
            torch.manual_seed(42)
            mask = torch_mask(*args, **kwargs)
        draw = SimpleNamespace(random=lambda shape, dtype: mask.reshape(shape))  # kept if draw >= p
        with (
            patch("labkit.ops.dropout.source", lambda _: draw),
            patch("labkit.ops.attention.source", lambda _: draw),
        ):
            return function(*args, **kwargs)

    return call


def _kept(drop, shape, p):
    """Ones where torch's dropout keeps, zeros where it drops."""
    return drop(torch.ones(shape), p).numpy().astype(bool).astype(np.float32)


def _dropout_mask(input, p=0.5, training=True):
    return _kept(TF.dropout, input.shape, p)


def _dropout2d_mask(input, p=0.5, training=True):
    return _kept(TF.dropout2d, (*input.shape[:2], 1, 1), p)


def _attention_mask(query, key, value, dropout_p=0.0, **_):
    batch = np.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    return _kept(TF.dropout, (*batch, query.shape[-2], key.shape[-2]), dropout_p)


FUNCTIONAL = _same_name("nn.functional.", F.FUNCTIONS)
FUNCTIONAL["nn.functional.embedding"] = lambda weight, index, **kwargs: F.embedding(index, weight, **kwargs)
FUNCTIONAL["nn.functional.dropout"] = _on_torchs_draw(F.dropout, _dropout_mask)
FUNCTIONAL["nn.functional.dropout2d"] = _on_torchs_draw(F.dropout2d, _dropout2d_mask)
FUNCTIONAL["nn.functional.scaled_dot_product_attention"] = _on_torchs_draw(
    F.scaled_dot_product_attention, _attention_mask
)

REFUSED = {"norm/nuc": 2}
