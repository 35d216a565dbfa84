"""Predict the loss of a language model before its first step."""

import math

from labkit.exercises.declare import Equivalent, Item, Mistake, Predict
from labkit.lazy import F, torch


def _equal_logits_loss(vocab):
    return F.cross_entropy(torch.zeros(1, vocab), torch.tensor([3])).item()


exercise = Predict(
    title="Before the first step",
    minutes=6,
    needs=("w07.gpt",),
    items={
        "loss": Item(
            "the loss per token, in nats, of a GPT with 320 tokens", lambda: _equal_logits_loss(320)
        ),
        "perplexity": Item("e to the power of that loss", lambda: math.exp(_equal_logits_loss(320))),
        "doubled": Item("the loss with 640 tokens", lambda: _equal_logits_loss(640)),
        "per byte": Item(
            "the first loss, per byte of text, if a token is 1.5 bytes on average",
            lambda: _equal_logits_loss(320) / 1.5,
        ),
        "saved": Item(
            "how many parameters tying saves, with 320 tokens and width 96",
            lambda: torch.nn.Embedding(320, 96).weight.numel(),
        ),
    },
    mistakes=[
        Mistake(
            "in bits",
            "That is log2(320), the loss in bits. torch's cross-entropy is in nats: the natural logarithm.",
            {"loss": math.log2(320)},
        ),
        Mistake(
            "one over V",
            "1/320 is the probability of each token. The loss is minus its logarithm.",
            {"loss": 1 / 320},
        ),
        Mistake(
            "perplexity is the loss",
            "e to the power of ln 320 is 320: the model is as unsure as if it had to choose among 320 equal tokens.",
            {"perplexity": math.log(320)},
        ),
        Mistake(
            "doubled with the tokens",
            "Twice the tokens do not double the loss: ln(2V) = ln V + ln 2, 0.69 more.",
            {"doubled": 2 * math.log(320)},
        ),
        Mistake(
            "times the bytes",
            "A token of 1.5 bytes pays for all of them at once: divide the loss per token by 1.5.",
            {"per byte": math.log(320) * 1.5},
        ),
        Mistake(
            "tying saves both",
            "One of the two tables of 320 * 96 numbers stays. Tying saves the other.",
            {"saved": 2 * 320 * 96},
        ),
    ],
    hints=(
        "An untrained model has no favorites: each of the 320 tokens gets about the same probability.",
        "The loss is minus the logarithm of the probability of the right token: -ln(1/320).",
        "math.log(320), 320, math.log(640), math.log(320) / 1.5, 320 * 96",
    ),
    passed="The first thing to look at in any run: a loss that does not start at ln V has a bug before its first step.",
    equivalent=(
        Equivalent(
            before='prediction = {"loss": 5.77, "perplexity": 320, "doubled": 6.46, "per byte": 3.85, "saved": 30720}',
            after='prediction = {"loss": 5.77, "perplexity": 321, "doubled": 6.46, "per byte": 3.85, "saved": 30720}',
            reason="numbers are right to 1 %: e to a loss of two digits, 5.77, is 320.5",
        ),
        Equivalent(
            before='prediction = {"loss": 5.77, "perplexity": 320, "doubled": 6.46, "per byte": 3.85, "saved": 30720}',
            after='prediction = {"loss": 5.77, "perplexity": 319, "doubled": 6.46, "per byte": 3.85, "saved": 30720}',
            reason="numbers are right to 1 %: e to a loss of two digits, 5.77, is 320.5",
        ),
    ),
)
