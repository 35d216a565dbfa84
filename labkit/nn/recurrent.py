"""Recurrent layers: stacks of whole-sequence ops in one or two directions."""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import labkit
from labkit.errors import ShapeError, refuse
from labkit.tensor import Tensor, tensor

from . import functional as F
from . import init
from .module import Module, Parameter
from .utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

States = tuple[Tensor, ...]
Weights = Sequence[Tensor | None]  # w_ih, w_hh, b_ih, b_hh


class _Recurrent(Module):
    """What RNN, LSTM and GRU share. Parameters of layer 1, backwards: weight_ih_l1_reverse, and so on."""

    gates = 1  # blocks of rows in each weight
    states = 1  # an LSTM has two, hidden and cell

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        refuse(name, proj_size=proj_size or None)
        if input_size <= 0 or hidden_size <= 0 or num_layers <= 0:
            sizes = f"input_size={input_size}, hidden_size={hidden_size}, num_layers={num_layers}"
            raise ValueError(f"{name}: all sizes should be positive, got {sizes}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout should be between 0 and 1, got {dropout}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"{name}: dropout={dropout} has no effect: it acts between layers, and there is one",
                stacklevel=3,
            )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.directions = 2 if bidirectional else 1
        rows, options = self.gates * hidden_size, {"device": device, "dtype": dtype}
        for layer in range(num_layers):
            columns = input_size if layer == 0 else hidden_size * self.directions
            for suffix in ("", "_reverse")[: self.directions]:
                shapes: dict[str, tuple[int, ...]]
                shapes = {"weight_ih": (rows, columns), "weight_hh": (rows, hidden_size)}
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                for kind, shape in shapes.items():
                    param = Parameter(labkit.empty(*shape, **options))
                    self.register_parameter(f"{kind}_l{layer}{suffix}", param)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.hidden_size)
        for param in self.parameters():
            init.uniform_(param, -bound, bound)

    def sequence(self, x: Tensor, start: States, weights: Weights) -> States:
        """All states (T, N, H) of one layer in one direction; the first is the output."""
        raise NotImplementedError

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """(T, N, I), (N, T, I) with batch_first, (T, I), or packed -> all outputs and the last states."""
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise ShapeError(
                f"{type(self).__name__} needs an input of 2 or 3 axes, the last of size input_size="
                f"{self.input_size}; got {tuple(input.shape)}"
            )
        if input.ndim == 2:  # one sequence without a batch axis
            start = self._start(hx, input.unsqueeze(1), batched=False)
            y, last = self._layers(input.unsqueeze(1), start, None)
            return y.squeeze(1), self._pack_states([s.squeeze(1) for s in last])
        x = input.transpose(0, 1) if self.batch_first else input
        y, last = self._layers(x, self._start(hx, x), None)
        return y.transpose(0, 1) if self.batch_first else y, self._pack_states(last)

    def _forward_packed(self, input: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        """Run on the padded batch, longest first; steps after a sequence's end are computed and dropped."""
        in_order = PackedSequence(input.data, input.batch_sizes)
        x, lengths = pad_packed_sequence(in_order)
        start = self._start(hx, x)
        if hx is not None and input.sorted_indices is not None:
            start = tuple(s.index_select(1, input.sorted_indices) for s in start)
        y, last = self._layers(x, start, lengths.numpy())
        if input.unsorted_indices is not None:
            last = [s.index_select(1, input.unsorted_indices) for s in last]
        packed = pack_padded_sequence(y, lengths)
        return packed._replace(
            sorted_indices=input.sorted_indices, unsorted_indices=input.unsorted_indices
        ), self._pack_states(last)

    def _layers(self, x: Tensor, start: Any, lengths: Any) -> tuple[Tensor, list[Tensor]]:
        """(T, N, I) and states (layers · directions, N, H) -> (T, N, directions · H) and the last states."""
        if not x.shape[0]:
            raise ShapeError(f"{type(self).__name__} needs a sequence of at least one step, got none")
        finals = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self.directions):
                row = layer * self.directions + direction
                weights = self._weights(layer, "_reverse" if direction else "")
                first = tuple(s[row] for s in start)
                y, last = self._direction(x, first, weights, bool(direction), lengths)
                outputs.append(y)
                finals.append(last)
            x = outputs[0] if len(outputs) == 1 else labkit.cat(outputs, -1)
            if self.dropout and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        if len(finals) == 1:
            return x, [state.unsqueeze(0) for state in finals[0]]
        return x, [labkit.stack(states) for states in zip(*finals, strict=True)]

    def _direction(
        self, x: Tensor, start: States, weights: Weights, backwards: bool, lengths: Any
    ) -> tuple[Tensor, States]:
        if lengths is None:
            states = self.sequence(x.flip(0) if backwards else x, start, weights)
            y = states[0].flip(0) if backwards else states[0]
            return y, tuple(s[-1] for s in states)
        batch = labkit.arange(x.shape[1])
        mirror = tensor(_mirror(x.shape[0], lengths)) if backwards else None
        states = self.sequence(x if mirror is None else x[mirror, batch], start, weights)
        y = states[0] if mirror is None else states[0][mirror, batch]
        return y, tuple(s[tensor(lengths - 1), batch] for s in states)

    def _weights(self, layer: int, suffix: str) -> Weights:
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return [self._parameters.get(f"{kind}_l{layer}{suffix}") for kind in kinds]

    def _start(self, hx: Any, x: Tensor, batched: bool = True) -> Any:
        """The given first states, checked, or zeros: for each state (N, H) per layer and direction."""
        shape = (self.num_layers * self.directions, x.shape[1], self.hidden_size)
        if hx is None:  # one state of zeros serves every layer and direction
            zeros = labkit.zeros(*shape[1:], dtype=x.dtype, device=x.device)
            return ([zeros] * shape[0],) * self.states
        start = tuple(hx) if self.states > 1 else (hx,)
        for s in start:
            wanted = shape if batched else (shape[0], shape[2])
            if tuple(s.shape) != wanted:
                raise ShapeError(
                    f"{type(self).__name__}: a first state should have shape {wanted} (layers · directions, "
                    f"batch, hidden_size), got {tuple(s.shape)}"
                )
        return start if batched else tuple(s.unsqueeze(1) for s in start)

    def _pack_states(self, states: list[Tensor]) -> Any:
        return tuple(states) if self.states > 1 else states[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        settings = {
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0.0,
            "bidirectional": False,
        }
        for name, default in settings.items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(_Recurrent):
    """h = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity should be 'tanh' or 'relu', got {nonlinearity!r}")
        sizes, options = (input_size, hidden_size, num_layers), {"device": device, "dtype": dtype}
        super().__init__(*sizes, bias, batch_first, dropout, bidirectional, **options)
        self.nonlinearity = nonlinearity

    def sequence(self, x: Tensor, start: States, weights: Weights) -> States:
        return (F.rnn(x, *start, *weights, nonlinearity=self.nonlinearity),)  # type: ignore[arg-type, misc]


class LSTM(_Recurrent):
    """Gates i f g o:  c = f·c + i·g,  h = o·tanh(c). States are pairs (h, c)."""

    gates = 4
    states = 2

    def sequence(self, x: Tensor, start: States, weights: Weights) -> States:
        return F.lstm(x, *start, *weights)


class GRU(_Recurrent):
    """Gates r z n:  h = (1 - z)·n + z·h."""

    gates = 3

    def sequence(self, x: Tensor, start: States, weights: Weights) -> States:
        return (F.gru(x, *start, *weights),)


def _mirror(steps: int, lengths: np.ndarray) -> np.ndarray:
    """(T, N): which step to read so that each sequence runs backwards within its own length."""
    t = np.arange(steps)[:, None]
    return np.where(t < lengths, lengths - 1 - t, t)
