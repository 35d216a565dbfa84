"""Dropout."""

from labkit.errors import refuse
from labkit.tensor import Tensor

from . import functional as F
from .module import Module


class Dropout(Module):
    """In training, set each element to zero with probability p and scale the rest by 1 / (1 - p)."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        refuse("Dropout", inplace=inplace)
        if not 0 <= p <= 1:
            raise ValueError(f"the dropout probability p should be between 0 and 1, got {p}")
        self.p = p

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace=False"
