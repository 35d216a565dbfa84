"""Write a test that a model does not see the future."""

from labkit.exercises.declare import Mistake, WriteTest, vary
from labkit.exercises.week07.shared import causal
from labkit.lazy import F, torch


def _language_model(mix):
    """tokens (B, T) -> logits (B, T, 11), the same for the same tokens; `mix(x)` exchanges between places."""

    def model(tokens):
        random = torch.Generator().manual_seed(5)
        embedding, out = (torch.randn(11, 16, generator=random) for _ in range(2))
        places = torch.randn(64, 16, generator=random)
        x = embedding[tokens] + 0.3 * places[: tokens.shape[1]]
        return (x + mix(x)) @ out.T

    return model


def _mixed_by(mask):
    """Attention of x to itself; `mask(T)` says who may look, a row without any sees everything alike."""
    return lambda x: (x @ x.mT / 8).masked_fill(~mask(x.shape[1]), -1e9).softmax(-1) @ x


def _triangle(diagonal=0):
    return lambda t: causal(t, 0, diagonal)


def _short(t):
    mask = torch.ones(t, t, dtype=torch.bool)
    mask[:8, :8] = causal(min(t, 8), 0)
    mask[:8, 8:] = False
    return mask


def _summary_first(t):
    mask = causal(t, 0)
    mask[0] = True
    return mask


def _prefix(t):
    mask = causal(t, 0)
    mask[:4, :4] = True
    return mask


def _looks_at_neighbor(x):
    ahead = F.pad(x[:, 1:], (0, 0, 0, 1)).roll(1, 0) if len(x) > 1 else 0
    return _mixed_by(_triangle())(x) + ahead


def _over_time(x):
    return _mixed_by(_triangle())(x - x.mean(1, keepdim=True))


def _recurrent(tokens):
    torch.manual_seed(3)
    cell, embedding = torch.nn.GRU(6, 11, batch_first=True), torch.randn(11, 6)
    with torch.no_grad():
        return cell(embedding[tokens])[0]


def _try_causal(model, *, sentences=3, length=20, looks=lambda t: slice(0, t), values=True, places=None):
    """Change everything from t on, for every t of `places`, and compare the places that `looks` names."""
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(11, (sentences, length), generator=random)
    before = model(tokens)
    for t in places or range(1, length):
        changed = tokens.clone()
        changed[:, t:] = torch.randint(11, (sentences, length - t), generator=random)
        after = model(changed)
        assert after.shape == before.shape
        assert not values or torch.allclose(after[:, looks(t)], before[:, looks(t)], atol=1e-5)


exercise = WriteTest(
    title="A test for the future",
    minutes=12,
    needs=("w07.leak",),
    good=[
        _language_model(_mixed_by(_triangle())),
        _language_model(lambda x: x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]),
        _recurrent,
    ],
    bugs={
        "no mask": ("it has no mask at all.", _language_model(_mixed_by(lambda t: causal(t, 0) | True))),
        "one ahead": ("every place sees one token ahead.", _language_model(_mixed_by(_triangle(1)))),
        "only the future": (
            "the triangle is the upper one.",
            _language_model(_mixed_by(lambda t: causal(t, 0).T)),
        ),
        "normalized over time": (
            "the mask is right, and a mean over all tokens is taken before it.",
            _language_model(_over_time),
        ),
        "short mask": (
            "its mask was made for 8 tokens; later places see everything.",
            _language_model(_mixed_by(_short)),
        ),
        "a place for the summary": (
            "the first place sees the whole text, the others do not.",
            _language_model(_mixed_by(_summary_first)),
        ),
        "an open beginning": (
            "the first four places see each other, the others do not see ahead.",
            _language_model(_mixed_by(_prefix)),
        ),
        "the neighbor's future": (
            "a sentence sees one token ahead in another sentence of the batch.",
            _language_model(_looks_at_neighbor),
        ),
    },
    mistakes=[
        Mistake(
            "only the shape",
            "Nothing is caught: the test looks at shapes, or at places that nothing could reach. Compare values before the change.",
            vary(_try_causal, values=False),
        ),
        Mistake(
            "too short",
            "Nearly all are caught. One mask was made for a few tokens only: test with a longer text, 20 or more.",
            vary(_try_causal, length=8),
        ),
        Mistake(
            "one sentence",
            "Nearly all are caught. With a single sentence nobody can look at a neighbor in the batch: use several.",
            vary(_try_causal, sentences=1),
        ),
        Mistake(
            "one place of change",
            "Nearly all are caught. One leak shows at the beginning only: change from every place t on, from 1 to the last.",
            lambda model: _try_causal(model, places=[10]),
        ),
        Mistake(
            "one sentence, and short",
            "Most are caught. Use several sentences, and more tokens than a small mask would hold.",
            vary(_try_causal, sentences=1, length=6),
        ),
        Mistake(
            "only the place before",
            "Only the place right before the change is compared. A leak may reach further back, to the very first place.",
            vary(_try_causal, looks=lambda t: slice(max(t - 1, 1), max(t, 1))),
        ),
        Mistake(
            "the changed place too",
            "The place that was changed is compared as well. It may change; only those before it may not.",
            vary(_try_causal, looks=lambda t: slice(0, t + 1)),
        ),
    ],
    hints=(
        "logits = model(tokens). Change tokens from place t on, ask again, and compare the logits before t.",
        "Use several sentences of 20 tokens, and every t from 1 to 19; compare all places before t.",
        "changed = tokens.clone(); changed[:, t:] = other tokens; assert torch.allclose(model(changed)[:, :t], logits[:, :t], atol=1e-5)",
    ),
    passed="It holds for any causal model, recurrent ones too, and needs no reference implementation. Run it on everything you write.",
)
