"""The milestone of week 7 measures what it says: the same tokens for both models, an honest trigram."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from labkit import paths
from labkit.book import course
from labkit.book.answers import run_code

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lesson() -> dict[str, Any]:
    """What the second notebook defines up to the start of training, made from its solutions."""
    root = Path(paths.root())
    path = next(p for p in course.lesson_paths(root, 7) if p.stem.startswith("02_"))
    space: dict[str, Any] = {"__name__": "__main__"}
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_LANE", "build")  # the reference, whatever stands in weeks/
        for cell in course.read_lesson(root, path).cells:
            if cell.role in ("setup", "exercise") or cell.id in ("w07b-tokenizer", "w07b-trigram"):
                run_code(cell.source, space, f"<{cell.id}>")
            if cell.id == "w07b-train":
                run_code(cell.source.split("torch.manual_seed(0)")[0], space, f"<{cell.id}>")
    yield space
    torch.set_num_threads(threads)


def test_any_text_survives_the_tokenizer(lesson):
    for text in ("", "\n\n", "To be, or not to be", "naïve 東京 🙂\t\r\n x", "".join(map(chr, range(300)))):
        assert lesson["decode"](lesson["tokenize"](text), lesson["merges"]) == text


def test_both_models_are_asked_for_the_same_tokens(lesson):
    pages, half, context = lesson["pages"], lesson["half"], lesson["context"]
    asked = pages.unfold(0, context + 1, half)[:, half + 1 :].flatten()
    assert torch.equal(asked, pages[half - 1 :][2:])  # the trigram begins with the third token it is given
    assert len(asked) > 30_000


def test_the_trigram_gets_its_best_mixture(lesson):
    """Its loss on a text is the one by hand: the four parts counted anew, the mixture found by search."""
    train, validation = lesson["data"]["train"].tolist()[:3000], lesson["data"]["validation"].tolist()[:400]
    test = lesson["data"]["test"].tolist()[:400]
    loss = lesson["trigram_loss"](train, validation, test)
    parts = [by_hand(train, ids, lesson["vocab"]) for ids in (validation, test)]
    mix = min(mixtures(), key=lambda mix: -np.log(parts[0] @ mix).mean())
    assert loss == pytest.approx(-np.log(parts[1] @ mix).mean(), rel=0.01)
    assert loss < math.log(lesson["vocab"])


def by_hand(train, ids, vocab):
    def share(context, token):
        after = [train[i] for i in range(len(context), len(train)) if train[i - len(context) : i] == context]
        return after.count(token) / max(len(after), 1)

    cache = {}
    rows = []
    for a, b, c in zip(ids, ids[1:], ids[2:], strict=False):
        for context in ([], [b], [a, b]):
            key = (*context, -1, c)
            if key not in cache:
                cache[key] = share(context, c)
        rows.append([1 / vocab, cache[-1, c], cache[b, -1, c], cache[a, b, -1, c]])
    return np.array(rows)


def mixtures(steps=20):
    """All mixtures of four parts in steps of a twentieth that give something to each."""
    for i in range(1, steps - 2):
        for j in range(1, steps - i - 1):
            for k in range(1, steps - i - j):
                yield np.array([i, j, k, steps - i - j - k]) / steps


def test_it_starts_at_ln_v_and_learns(lesson):
    torch.manual_seed(0)
    model = lesson["new_model"]()
    pages = lesson["pages"][:2000]
    assert lesson["held_out"](model, pages) == pytest.approx(math.log(lesson["vocab"]), rel=0.02)
    lesson["train"](model, 30)
    assert lesson["held_out"](model, pages) < math.log(lesson["vocab"]) - 1
