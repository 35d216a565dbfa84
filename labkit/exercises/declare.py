"""The words in which an exercise is declared.

An exercise is data: cases, an oracle, mistakes, hints, rules. The check, the audit and the cohort report
all read the same declaration. Five kinds:

    Implement   write a function or a class that agrees with torch
    Predict     say what will happen before running it
    Fix         name the fault in broken code, and mend it
    Measure     run an experiment and answer from it
    WriteTest   write a test; it is judged by the planted bugs it catches
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Engine = Literal["torch", "labkit", "numpy", "python"]


class Draw:
    """Seeded inputs for one case. Arrays are NumPy's; the grader hands them over in the exercise's engine."""

    def __init__(self, seed: int, dtype: str) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = np.dtype(dtype)

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(self.dtype)

    def uniform(self, low: float, high: float, *shape: int) -> np.ndarray:
        return self.rng.uniform(low, high, shape).astype(self.dtype)

    def integers(self, low: int, high: int, *shape: int) -> np.ndarray:
        """int64 values in [low, high)."""
        return self.rng.integers(low, high, shape)

    def bools(self, *shape: int, share: float = 0.5) -> np.ndarray:
        return self.rng.random(shape) < share

    def strided(self, *shape: int) -> np.ndarray:
        """Normal values, every second element of a longer last axis: right shape, not contiguous."""
        return self.normal(*shape[:-1], 2 * shape[-1])[..., ::2]

    def transposed(self, *shape: int) -> np.ndarray:
        """Normal values in column-major order: right shape, not contiguous from two axes on."""
        return self.normal(*shape[::-1]).transpose()


@dataclass(frozen=True)
class Case:
    """One named set of inputs: `make(draw)` returns them by name, in the order the answer takes them.

    Extreme cases (huge values, empty axes, all-masked rows) are judged last, after the ordinary ones agree.
    """

    name: str
    make: Callable[[Draw], Mapping[str, Any]]
    extreme: bool = False

    def inputs(self, exercise_id: str, dtype: str) -> dict[str, Any]:
        """Fresh inputs, the same on every call: the seed is a checksum of the two names."""
        return dict(self.make(Draw(zlib.crc32(f"{exercise_id}/{self.name}".encode()), dtype)))


@dataclass(frozen=True)
class Raises:
    """What an oracle returns where the right answer is to raise: `Raises(ValueError)`."""

    kind: type[BaseException]


@dataclass(frozen=True)
class Mistake:
    """A wrong answer people really give, and the sentence a good teacher would say about it.

    `wrong` is a whole wrong answer: a function or class (Implement, Fix, WriteTest), the items answered
    wrongly (Predict), or a value (Measure). `when` may recognize a measured value by more than equality.
    """

    name: str
    says: str
    wrong: Any
    when: Callable[[Any], bool] | None = None


@dataclass(frozen=True)
class Budget:
    """What one call may cost: `most`, a number or a function of the case's inputs, and why that is enough.

    `Budget(lambda x, dim: 2 * x.size, "each element is read twice: once for the mean, once to subtract it")`
    """

    most: int | Callable[..., int]
    why: str

    def limit(self, inputs: Mapping[str, Any]) -> int:
        return self.most(*inputs.values()) if callable(self.most) else self.most


@dataclass(frozen=True)
class Rules:
    """What an answer may use. Names are bare: "softmax" covers torch.softmax, x.softmax and F.softmax.

    forbids    operations that are the thing asked for
    allows     if given, the only operations that may be called (operators and indexing are always allowed)
    loops      whether `for`, `while` and comprehensions may appear
    max_ops    most tensor operations that one call may make, judged as cost
    max_reads  most tensor elements that the operations of one call may read, judged as cost; views are free
    max_writes most tensor elements that they may write
    max_flops  most floating-point operations in matrix products, convolutions and attention, as torch counts

    The last three count what torch does below autograd, so they are for answers in torch. Elements and not
    bytes, so that a limit reads like the formula on the page; whatever `use` does is counted too.
    """

    forbids: tuple[str, ...] = ()
    allows: tuple[str, ...] | None = None
    loops: bool = True
    max_ops: int | None = None
    max_reads: Budget | None = None
    max_writes: Budget | None = None
    max_flops: Budget | None = None

    @property
    def budgets(self) -> dict[str, Budget]:
        """The limits that need counting below autograd, by what they count."""
        named = {"reads": self.max_reads, "writes": self.max_writes, "flops": self.max_flops}
        return {name: budget for name, budget in named.items() if budget is not None}


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What every kind has: who it is, how long it takes, and what to say.

    `passed` is the one sentence worth knowing that a pass ends with. `lint` excuses the audit's rules on
    test data, each with its reason. `seconds` is how long the answer's cell and its check may take, 30 unless
    given; `gib` how many GiB they may take beyond what the notebook has by then. `LABKIT_TIMEOUT=120`
    gives every exercise four times its seconds.
    """

    id: str
    title: str
    minutes: int
    level: int
    hints: tuple[str, str, str]
    mistakes: Sequence[Mistake]
    passed: str
    needs: tuple[str, ...] = ()
    lint: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    gib: float | None = None

    @property
    def week(self) -> int:
        return int(self.id[1:3])

    @property
    def kind(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, kw_only=True)
class Implement(Exercise):
    """A function or class that must agree with `oracle` on every case, in value and gradient.

    use       how an answer is exercised, `use(answer, *inputs)`; a plain call unless given
    grads     names of the inputs whose gradients are compared
    vjp       the answer returns (value, backward) and backward(g) returns one gradient per name in `grads`
    memory    "fresh": the output must not share memory with an input; "view": it must; "any": either
    changes   names of the inputs that the answer is meant to change in place
    reference whose results the oracle gives, in words
    delegate  an answer that only calls torch's own version, which must be refused; the oracle unless given
    reduces   how many terms are summed into one output value, for the tolerance; the largest input if absent
    """

    cases: Sequence[Case]
    oracle: Callable[..., Any]
    use: Callable[..., Any] | None = None
    engine: Engine = "torch"
    dtype: str = "float32"
    grads: tuple[str, ...] = ()
    vjp: bool = False
    memory: Literal["fresh", "view", "any"] = "fresh"
    changes: tuple[str, ...] = ()
    reduces: int | None = None
    rules: Rules = Rules()
    reference: str = "torch"
    delegate: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if self.rules.budgets and self.engine != "torch":
            raise ValueError(f"{self.id}: reads, writes and FLOPs are counted in torch, not in {self.engine}")


@dataclass(frozen=True, kw_only=True)
class Fix(Implement):
    """Broken code to name and mend. `menu` maps each possible fault to what to say if it is not the one."""

    broken: Callable[..., Any]
    fault: str
    menu: Mapping[str, str]


@dataclass(frozen=True)
class Item:
    """One question of a prediction; the truth is computed when it is asked for, by running it."""

    question: str
    truth: Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class Predict(Exercise):
    """Questions answered before running anything. The first answers are remembered for calibration."""

    items: Mapping[str, Item]


@dataclass(frozen=True, kw_only=True)
class Measure(Exercise):
    """A value read off an experiment. `accept` returns None if it is right, else a sentence."""

    accept: Callable[[Any], str | None]
    answer_type: type | tuple[type, ...] = (int, float)


@dataclass(frozen=True, kw_only=True)
class WriteTest(Exercise):
    """A test function `test(implementation)`: silent for every one in `good`, an AssertionError for each bug.

    `bugs` maps a name to (what the bug does, an implementation that has it).
    """

    good: Sequence[Callable[..., Any]]
    bugs: Mapping[str, tuple[str, Callable[..., Any]]]
