"""Predict who sees what under torch's masks."""

import math

from labkit.exercises.declare import Item, Mistake, Predict
from labkit.lazy import F, torch


def _seen(weights):
    """How many keys a query has a weight for."""
    return int((weights > 0).sum())


def _sdpa_sees(mask=None, causal=False, queries=1, keys=5):
    """The weights of the first query: the values are the rows of an identity matrix."""
    q, k, v = torch.zeros(1, queries, 2), torch.zeros(1, keys, 2), torch.eye(keys)[None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)[0, 0]


def _mha_sees(**masks):
    """The weights of one query over five keys in nn.MultiheadAttention."""
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(4, 1, batch_first=True)
    return layer(torch.zeros(1, 1, 4), torch.zeros(1, 5, 4), torch.zeros(1, 5, 4), **masks)[1][0, 0]


def _two_of_five():
    return torch.tensor([[True, True, False, False, False]])


exercise = Predict(
    title="Who sees what",
    minutes=8,
    items={
        "a": Item(
            "`F.scaled_dot_product_attention(q, k, v, attn_mask=two)`",
            lambda: _seen(_sdpa_sees(_two_of_five())),
        ),
        "b": Item(
            "`nn.MultiheadAttention(...)(q, k, v, attn_mask=two)`",
            lambda: _seen(_mha_sees(attn_mask=_two_of_five())),
        ),
        "c": Item(
            "`nn.MultiheadAttention(...)(q, k, v, key_padding_mask=two)`",
            lambda: _seen(_mha_sees(key_padding_mask=_two_of_five())),
        ),
        "d": Item(
            "`F.scaled_dot_product_attention(q, k, v, attn_mask=[[0., -inf, -inf, -inf, 0.]])`, as a float tensor",
            lambda: _seen(_sdpa_sees(torch.tensor([[0.0, -math.inf, -math.inf, -math.inf, 0.0]]))),
        ),
        "e": Item(
            "`F.scaled_dot_product_attention(q, k, v, attn_mask=two.float())`",
            lambda: _seen(_sdpa_sees(_two_of_five().float())),
        ),
        "f": Item(
            "`F.scaled_dot_product_attention(q, k, v, is_causal=True)`",
            lambda: _seen(_sdpa_sees(causal=True)),
        ),
    },
    mistakes=[
        Mistake(
            "MultiheadAttention keeps",
            "In nn.MultiheadAttention True means may NOT look: two of five are hidden, three are seen.",
            {"b": 2},
        ),
        Mistake(
            "the function drops",
            "In scaled_dot_product_attention True means may look: two are seen. The layers have it the other way around.",
            {"a": 3},
        ),
        Mistake(
            "padding keeps",
            "key_padding_mask is True at the padding: those keys are ignored, as with its neighbor attn_mask.",
            {"c": 2},
        ),
        Mistake(
            "a float mask is multiplied",
            "A float mask is added to the scores: -inf hides, 0 leaves a score as it is. So two are seen here.",
            {"d": 3},
        ),
        Mistake(
            "a float mask of ones",
            "1.0 and 0.0 are added to the scores like any other numbers. Nothing is hidden: convert to bool first.",
            {"e": 2},
        ),
        Mistake(
            "the last query",
            "is_causal lines queries and keys up at the first: query 0 sees key 0 only, however many keys there are.",
            {"f": 5},
        ),
    ],
    hints=(
        "Two conventions for bool, one for float. The documentation of each says which; read the three links above.",
        "The function: True may look. The layers: True may not. Float: added to the scores. is_causal: aligned at the top left.",
        "2, 3, 3, 2, 5, 1",
    ),
    passed="With a cache, is_causal=True silently hides the past. Pass a mask, or use causal_lower_right.",
)
