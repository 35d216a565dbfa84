"""Each exercise in the search index by its id, by what is written in it, and by other words for it.

Sphinx puts every heading and every index entry with its anchor into searchindex.js; static/search.js ranks
them. So an exercise is found, and landed on, as a place of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx import addnodes

# What a learner would type where the lesson uses another word, or uses it in passing.
OTHER_WORDS = {
    "w01.confusion": ("confusion matrix",),
    "w02.central_difference": ("finite difference", "numerical gradient"),
    "w02.diamond": ("chain rule",),
    "w02.topological": ("topological sort",),
    "w02.backward": ("backpropagation", "backprop", "gradient"),
    "w02.logsumexp": ("softmax",),
    "w03.fit": ("gradient descent", "linear regression"),
    "w03.hidden": ("multilayer perceptron", "MLP"),
    "w03.init": ("weight initialization", "Kaiming", "He initialization"),
    "w03.schedule": ("learning rate schedule", "cosine schedule"),
    "w03.clip": ("gradient clipping",),
    "w03.rate": ("learning rate range test", "learning rate finder"),
    "w04.split": ("data leak", "train test split"),
    "w04.patience": ("overfitting", "early stopping"),
    "w04.resume": ("checkpoint",),
    "w04.eval_mode": ("train and eval mode",),
    "w05.block": ("skip connection", "residual connection"),
    "w05.transfer": ("transfer learning", "fine-tuning"),
    "w06.lstm_cell": ("LSTM", "long short-term memory"),
    "w06.gru_cell": ("GRU", "gated recurrent unit"),
    "w06.vanish": ("vanishing gradient",),
    "w06.explode": ("exploding gradient",),
    "w06.truncated": ("truncated backpropagation through time", "BPTT"),
    "w06.pack": ("packed sequence",),
    "w07.weights": ("scaled dot product", "query and key"),
    "w07.batch_mask": ("padding mask",),
    "w07.sinusoidal": ("positional encoding", "position embedding"),
    "w07.rotary": ("RoPE", "rotary position embedding"),
    "w07.decoder": ("encoder decoder",),
    "w07.train_bpe": ("tokenizer", "byte pair encoding"),
    "w07.top_p": ("nucleus sampling",),
}


def phrases(ex: str, source: str) -> Iterator[str]:
    """What the exercise `ex` is found by, besides its heading: `w05.batch_norm`, `BatchNorm2d`, ..."""
    name = ex.partition(".")[2]
    yield from (ex, name, name.replace("_", ""))
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
            yield re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", node.name)  # MultiHeadAttention: three words
    yield from OTHER_WORDS.get(ex, ())


def _section(node: nodes.Node) -> nodes.section:
    while not isinstance(node, nodes.section):
        node = node.parent
    return node


def _enter(app: Any, tree: nodes.document) -> None:
    for cell in list(tree.findall(nodes.container)):
        about = cell.get("cell_metadata", {}).get("labkit", {})
        if about.get("role") == "exercise":
            source = next(cell.findall(nodes.literal_block)).astext()
            section = _section(cell)
            words = sorted(set(phrases(about["ex"], source)))
            entries = [("single", word, section["ids"][0], "main", None) for word in words]
            section.append(addnodes.index(entries=entries))


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", _enter)
    return {"parallel_read_safe": True}
