"""Scaled dot-product attention: each query takes a mean of the values, weighted by how their keys fit."""

import math

from labkit.autograd import op
from labkit.errors import ShapeError
from labkit.op_table import composed
from labkit.ops.shape import broadcast_shapes
from labkit.random import source


@op
def _scaled_dot_product_attention(k, q, key, v, mask, *, scale, is_causal, dropout_p):
    """(..., T, D) (..., S, D) (..., S, E) -> (..., T, E)"""
    drop = None
    if dropout_p > 0:
        batch = broadcast_shapes("scaled_dot_product_attention", q.shape[:-2], key.shape[:-2])
        drop = k.attention_drop((*batch, q.shape[-2], key.shape[-2]), dropout_p, q.dtype, source(None))
    y, p = k.attention(q, key, v, mask, drop, scale, is_causal)

    def backward(g):
        gq, gk, gv, gs = k.attention_grad(g, q, key, v, p, drop, scale)
        return gq, gk, gv, gs

    return y, backward


# ---- composed ----


@composed(functional=True)
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """softmax(query key^T * scale + mask) value over (..., T, D), (..., S, D), (..., S, E) -> (..., T, E).

    A bool mask keeps True; a float mask is added to the scores. scale defaults to 1 / sqrt(D). With
    enable_gqa the heads (axis -3) of key and value are shared by groups of query heads.
    """
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if min(query.ndim, key.ndim, value.ndim) < 2 or query.shape[-1] != key.shape[-1]:
        raise ShapeError(f"scaled_dot_product_attention(): query and key need the same last size: {shapes}")
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"scaled_dot_product_attention(): key and value need one length (axis -2): {shapes}")
    if attn_mask is not None and is_causal:
        raise ValueError("scaled_dot_product_attention(): pass attn_mask or is_causal=True, not both")
    if enable_gqa:
        key, value = (_share_heads(t, query, shapes) for t in (key, value))
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return _scaled_dot_product_attention(
        query, key, value, attn_mask, scale=scale, is_causal=is_causal, dropout_p=dropout_p
    )


def _share_heads(t, query, shapes):
    """(..., H, S, D) -> (..., H * r, S, D): each head repeated r times, one per query head."""
    if t.ndim < 3 or query.shape[-3] % t.shape[-3]:
        raise ShapeError(f"scaled_dot_product_attention(): key heads (axis -3) must divide query's: {shapes}")
    repeat = query.shape[-3] // t.shape[-3]
    t = t.unsqueeze(-3).expand(*t.shape[:-2], repeat, *t.shape[-2:])
    return t.flatten(-4, -3)
