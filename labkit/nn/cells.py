"""Recurrent cells: one step, by the same ops as whole sequences."""

import math
from typing import Any

import labkit
from labkit.tensor import Tensor

from . import functional as F
from . import init
from .module import Module, Parameter
from .recurrent import States, Weights


class _Cell(Module):
    """One step of a recurrent layer.   (N, I) or (I,), states (N, H) or (H,)"""

    gates = 1
    states = 1
    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        rows, options = self.gates * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(labkit.empty(rows, input_size, **options))
        self.weight_hh = Parameter(labkit.empty(rows, hidden_size, **options))
        self.bias_ih = Parameter(labkit.empty(rows, **options)) if bias else None
        self.bias_hh = Parameter(labkit.empty(rows, **options)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.hidden_size)
        for param in self.parameters():
            init.uniform_(param, -bound, bound)

    def sequence(self, x: Tensor, start: States, weights: Weights) -> States:
        raise NotImplementedError

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """The next hidden state, or for an LSTM the pair (h, c)."""
        x = input if input.ndim == 2 else input.unsqueeze(0)
        if hx is None:
            zeros = labkit.zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device)
            start = (zeros,) * self.states
        else:
            given = tuple(hx) if self.states > 1 else (hx,)
            start = tuple(s if s.ndim == 2 else s.unsqueeze(0) for s in given)
        weights = [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh]
        states = [s[0] for s in self.sequence(x.unsqueeze(0), start, weights)]  # a sequence of length 1
        states = states if input.ndim == 2 else [s[0] for s in states]
        return tuple(states) if self.states > 1 else states[0]

    def extra_repr(self) -> str:
        bias = "" if self.bias_ih is not None else ", bias=False"
        return f"{self.input_size}, {self.hidden_size}{bias}"


class RNNCell(_Cell):
    """h = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def sequence(self, x: Tensor, start: States, weights: Weights) -> States:
        return (F.rnn(x, *start, *weights, nonlinearity=self.nonlinearity),)  # type: ignore[arg-type, misc]


class LSTMCell(_Cell):
    """c = f·c + i·g,  h = o·tanh(c)"""

    gates = 4
    states = 2

    def sequence(self, x: Tensor, start: States, weights: Weights) -> States:
        return F.lstm(x, *start, *weights)


class GRUCell(_Cell):
    """h = (1 - z)·n + z·h"""

    gates = 3

    def sequence(self, x: Tensor, start: States, weights: Weights) -> States:
        return (F.gru(x, *start, *weights),)
