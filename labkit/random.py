"""Random numbers: one generator for all functions, or one of your own. Sequences differ from torch's."""

from typing import Any

import numpy as np


class Generator:
    """A source of random numbers with its own state."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.manual_seed(np.random.SeedSequence().entropy)  # type: ignore[arg-type]

    def manual_seed(self, seed: int) -> "Generator":
        """Start the sequence that belongs to `seed`."""
        self._seed = int(seed)
        self.numpy = np.random.default_rng(abs(self._seed))
        return self

    def initial_seed(self) -> int:
        return self._seed

    def get_state(self) -> Any:
        return self.numpy.bit_generator.state

    def set_state(self, state: Any) -> "Generator":
        self.numpy.bit_generator.state = state
        return self


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Start the sequence that belongs to `seed`: the same seed gives the same numbers."""
    return default_generator.manual_seed(seed)


def source(generator: Generator | None) -> np.random.Generator:
    """NumPy's generator behind this one, or behind the default one."""
    return (generator or default_generator).numpy


def get_rng_state() -> Any:
    return default_generator.get_state()


def set_rng_state(state: Any) -> None:
    default_generator.set_state(state)
