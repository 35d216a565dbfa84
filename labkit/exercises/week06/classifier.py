"""A classifier of names with an embedding, an LSTM and packed batches."""

import numpy as np

from labkit.exercises.declare import Case, Equivalent, Implement, Mistake
from labkit.exercises.week06.shared import filled
from labkit.lazy import torch


def _use_classifier(answer, letters, lengths):
    return filled(answer(12, 4, 3, 5).double())(letters, lengths)


def _classifier(forward):
    """The lesson's class with another forward pass."""

    def made(vocabulary, embedded, hidden, classes):
        nn = torch.nn

        class NameClassifier(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = nn.Embedding(vocabulary, embedded, padding_idx=0)
                self.lstm = nn.LSTM(embedded, hidden, batch_first=True, bidirectional=True)
                self.fc = nn.Linear(2 * hidden, classes)

            def forward(self, letters, lengths):
                return forward(self, letters, lengths)

        return NameClassifier()

    return made


def _read_packed(model, letters, lengths, **options):
    options = {"batch_first": True, "enforce_sorted": False, **options}
    packed = torch.nn.utils.rnn.pack_padded_sequence(model.embedding(letters), lengths, **options)
    return model.lstm(packed)


def _both_ends(h):
    return torch.cat([h[0], h[1]], -1)


def _right_classifier(model, letters, lengths):
    return model.fc(_both_ends(_read_packed(model, letters, lengths)[1][0]))


def _last_real_of_both(model, letters, lengths):
    outputs = torch.nn.utils.rnn.pad_packed_sequence(_read_packed(model, letters, lengths)[0], True)[0]
    return model.fc(outputs[torch.arange(len(lengths)), lengths - 1])


def _sorted_and_left(model, letters, lengths):
    order = torch.argsort(lengths, descending=True)
    return _right_classifier(model, letters[order], lengths[order])


def _names_case(lengths):
    def made(draw):
        letters = draw.integers(1, 12, len(lengths), max(lengths))
        letters[np.arange(max(lengths)) >= np.array(lengths)[:, None]] = 0
        return {"letters": letters, "lengths": np.array(lengths)}

    return made


def _letters_transposed(draw):
    inputs = _names_case([3, 6, 2, 5])(draw)
    return {**inputs, "letters": np.asfortranarray(inputs["letters"])}


exercise = Implement(
    title="A reader of names",
    minutes=12,
    needs=("w06.pack", "w06.bidirectional"),
    dtype="float64",
    cases=[
        Case("three names", _names_case([2, 5, 4])),
        Case("five names", _names_case([3, 1, 7, 2, 6])),
        Case("not contiguous", _letters_transposed),
        Case("sorted already", _names_case([6, 4, 3, 1])),
        Case("one letter each", _names_case([1]), extreme=True),
    ],
    use=_use_classifier,
    oracle=lambda letters, lengths: _use_classifier(_classifier(_right_classifier), letters, lengths),
    reduces=100,
    excused={
        "delegation": "torch has no such model; its layers are the parts to use",
        "size one": "a single name of one letter is the extreme case",
    },
    mistakes=[
        Mistake(
            "reads the pad step",
            "The output at the last column is used: for all names but the longest that is padding. Take the last states of the packed run.",
            _classifier(lambda m, letters, lengths: m.fc(m.lstm(m.embedding(letters))[0][:, -1])),
        ),
        Mistake(
            "not packed",
            "The LSTM reads the padding: it was given the padded table. Pack the embedded letters first.",
            _classifier(lambda m, letters, lengths: m.fc(_both_ends(m.lstm(m.embedding(letters))[1][0]))),
        ),
        Mistake(
            "unsorted lengths",
            "Packing expects the longest first unless you pass enforce_sorted=False.",
            _classifier(
                lambda m, letters, lengths: m.fc(
                    _both_ends(_read_packed(m, letters, lengths, enforce_sorted=True)[1][0])
                )
            ),
        ),
        Mistake(
            "left sorted",
            "The names were sorted by hand and the answers left in that order: name and answer no longer belong together.",
            _classifier(_sorted_and_left),
        ),
        Mistake(
            "way back at the last step",
            "At the last letter the way back has read one letter only. Its last state, h_n[1], has read them all.",
            _classifier(_last_real_of_both),
        ),
        Mistake(
            "directions exchanged",
            "The way back stands first. h_n[0] is the way forward, h_n[1] the way back.",
            _classifier(
                lambda m, letters, lengths: m.fc(_both_ends(_read_packed(m, letters, lengths)[1][0].flip(0)))
            ),
        ),
        Mistake(
            "reshaped",
            "h_n is (2, N, H), and reshaped to (N, 2 H) it mixes the names. Join its two rows: torch.cat([h[0], h[1]], -1).",
            _classifier(
                lambda m, letters, lengths: m.fc(
                    _read_packed(m, letters, lengths)[1][0].reshape(len(lengths), -1)
                )
            ),
        ),
        Mistake(
            "one direction",
            "Only one direction's last state reaches the linear layer, which wants both: torch.cat([h[0], h[1]], -1).",
            _classifier(lambda m, letters, lengths: m.fc(_read_packed(m, letters, lengths)[1][0][-1])),
        ),
        Mistake(
            "probabilities",
            "The scores went through a softmax. The loss does that: return what the linear layer gives.",
            _classifier(lambda *inputs: _right_classifier(*inputs).softmax(-1)),
        ),
        Mistake(
            "cell for state",
            "This is c_n; the layer returns outputs, (h_n, c_n). The state to show is h_n.",
            _classifier(
                lambda m, letters, lengths: m.fc(_both_ends(_read_packed(m, letters, lengths)[1][1]))
            ),
        ),
        Mistake(
            "axis",
            "The pack takes time for the batch: the table is (N, T), so batch_first=True has to be said to pack_padded_sequence too.",
            _classifier(
                lambda m, letters, lengths: m.fc(
                    _both_ends(_read_packed(m, letters, lengths, batch_first=False)[1][0])
                )
            ),
        ),
    ],
    hints=(
        "Four lines: embed, pack, run the LSTM, join the last states of both directions for the linear layer.",
        "pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False); then _, (h, c) = self.lstm(packed).",
        "return self.fc(torch.cat([h[0], h[1]], -1))",
    ),
    passed="The answer for a name no longer depends on who else is in the batch.",
    equivalent=(
        Equivalent(
            before="return self.fc(torch.cat([h[0], h[1]], -1))",
            after="return self.fc(torch.cat([h[0], h[1]], 1))",
            reason="the state of one direction has two axes: the last is axis 1",
        ),
    ),
)
