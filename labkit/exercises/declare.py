"""The words in which an exercise is declared.

An exercise is data: cases, an oracle, mistakes, hints, rules. The check, the audit and the cohort report
all read the same declaration, `exercise = Implement(...)` in a file of its own. The kinds:

    Implement   write a function or a class that agrees with torch
    Predict     say what will happen before running it
    Fix         name the fault in broken code, and mend it
    Measure     run an experiment and answer from it
    WriteTest   write a test; it is judged by the planted bugs it catches
    Kernel      write a CUDA kernel; it is stepped thread by thread, no GPU needed
    Checkpoint  one part of a project: a metric on held-out data, inside a budget
    Ranks       write what every rank does; the ranks are stepped in one process
    Compiled    write a function for torch.compile; graphs, breaks and versions are counted
"""

from __future__ import annotations

import inspect
import math
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

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

    def inputs(self, ex: str, dtype: str) -> dict[str, Any]:
        """Fresh inputs, the same on every call: the seed is a checksum of the two names."""
        return dict(self.make(Draw(zlib.crc32(f"{ex}/{self.name}".encode()), dtype)))


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


def vary(function: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
    """`function` with some of its keywords fixed: `vary(_layer_norm, correction=1)` is a wrong layer norm.

    A real function, so that it passes for somebody's answer where a functools.partial would not; it takes
    the arguments of `function` in their order, without the fixed ones.
    """
    whole = inspect.signature(function)
    whole.bind_partial(**fixed)  # refuses a keyword that `function` does not have
    named = {name: value for name, value in fixed.items() if name in whole.parameters}
    more = {name: value for name, value in fixed.items() if name not in whole.parameters}  # for its **
    rest = whole.replace(parameters=[one for name, one in whole.parameters.items() if name not in named])

    def varied(*args: Any, **kwargs: Any) -> Any:
        given = rest.bind(*args, **kwargs).arguments
        all_of_them = inspect.BoundArguments(whole, OrderedDict({**given, **named}))
        return function(*all_of_them.args, **all_of_them.kwargs, **more)

    varied.__name__ = function.__name__
    varied.__signature__ = rest  # type: ignore[attr-defined]
    return varied


@dataclass(frozen=True)
class Equivalent:
    """A mutant of the solution, one line before and after, that no check can tell from it, and why not.

    `make audit` shows a surviving mutant as "before  ->  after". First try to add a case that kills it.
    """

    before: str
    after: str
    reason: str


@dataclass(frozen=True)
class Limit:
    """The most that an answer may do of one thing that is counted, and the sentence why.

    `Limit("reads", lambda x, dim: 2 * x.size, "each element is read once for the mean, once to subtract it")`

    counted   in Rules: tensor elements that the operations of one call read ("reads") or write ("writes"),
              views are free, or "flops" in matrix products, convolutions and attention, as torch counts them;
              Kernel: "global reads", "global writes", "global atomics", the same of "shared", "barriers",
              "int operations", "float32 operations", "float64 operations", or "shared bytes" (of a block);
              Ranks: "bytes" or "messages" that a rank sends; Compiled: "graphs", "breaks" or "versions"
    most      a number, or a function of the case's inputs
    per       for a Kernel: of the busiest "thread", of the busiest "block", or over the whole "grid"
    """

    counted: str
    most: int | Callable[..., int]
    why: str
    per: Literal["thread", "block", "grid"] = "thread"

    def of(self, inputs: Mapping[str, Any]) -> int:
        """The number for one case."""
        return self.most(*inputs.values()) if callable(self.most) else self.most


@dataclass(frozen=True)
class Rules:
    """What an answer may use. Names are bare: "softmax" covers torch.softmax, x.softmax and F.softmax.

    forbids    operations that are the thing asked for
    allows     if given, the only operations that may be called (operators and indexing are always allowed)
    loops      whether `for`, `while` and comprehensions may appear
    max_ops    most tensor operations that one call may make, judged as cost
    limits     what is counted below autograd and judged as cost: "reads", "writes", "flops". For answers in
               torch; elements and not bytes, so that a limit reads like the formula on the page. Whatever
               `use` does is counted too
    """

    forbids: tuple[str, ...] = ()
    allows: tuple[str, ...] | None = None
    loops: bool = True
    max_ops: int | None = None
    limits: tuple[Limit, ...] = ()


def week_of(ex: str) -> int:
    """4 for w04.patience."""
    return int(ex[1:3])


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """What every kind has: who it is, how long it takes, and what to say.

    id          never written: it is given when the file is read, `week04/patience.py` is w04.patience
    passed      the one sentence worth knowing that a pass ends with
    needs       what comes earlier in the course; who goes ahead is told of the first that is not passed
    also        what a learner would type into the search where the lesson uses another word
    excused     the audit's rules on test data that do not hold here, each with its reason
    equivalent  mutants of the solution that were reviewed and do the same as the solution
    seconds     how long the answer's cell and its check may take, 30 unless given; `LABKIT_TIMEOUT=120` gives
                every exercise four times its seconds
    gib         how many GiB they may take beyond what the notebook has by then
    """

    id: str = ""
    title: str
    minutes: int
    hints: tuple[str, str, str]
    mistakes: Sequence[Mistake]
    passed: str
    needs: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    excused: Mapping[str, str] = field(default_factory=dict)
    equivalent: tuple[Equivalent, ...] = ()
    seconds: float | None = None
    gib: float | None = None
    builds: ClassVar[bool] = False  # whether an answer is code that later lessons may build on

    @property
    def week(self) -> int:
        return week_of(self.id)

    @property
    def kind(self) -> str:
        return type(self).__name__

    @property
    def questions(self) -> Mapping[str, str]:
        """What is asked, by letter, where an exercise asks several things."""
        return {}


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
    builds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.rules.limits and self.engine != "torch":
            raise ValueError(f"{self.id}: reads, writes and FLOPs are counted in torch, not in {self.engine}")


@dataclass(frozen=True, kw_only=True)
class Fix(Implement):
    """Broken code to name and mend. `menu` maps each possible fault to what to say if it is not the one."""

    broken: Callable[..., Any]
    fault: str
    menu: Mapping[str, str]


@dataclass(frozen=True)
class Item:
    """One question of a prediction; the truth is computed when it is asked for, by running it.

    `question` is Markdown. The lesson says `{questions}` where the table of them goes.
    """

    question: str
    truth: Callable[[], Any]


@dataclass(frozen=True, kw_only=True)
class Predict(Exercise):
    """Questions answered before running anything. The first answers are remembered for calibration."""

    items: Mapping[str, Item]

    @property
    def questions(self) -> Mapping[str, str]:
        return {key: item.question for key, item in self.items.items()}


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


@dataclass(frozen=True, kw_only=True)
class Kernel(Exercise):
    """A CUDA kernel, a Python function for `numba.cuda`, run by the stepper under several schedules.

    Races, barriers that some threads miss, indices out of bounds and unwritten memory are hazards, judged
    before values: a kernel with one may give the right numbers here and wrong ones on a GPU.

    outputs   the arrays that the kernel fills, by name: made from the inputs, NaN where nothing is written
    takes     the kernel's parameters in order; the inputs and then the outputs unless given
    launch    (grid, block) for the inputs of a case
    oracle    what the outputs must hold, from torch tensors: one, or a tuple in the order of `outputs`
    limits    what is counted and judged as cost once the values are right
    refuses   kinds of slow access that are judged as cost too: "uncoalesced", "bank conflict"
    schedules orders of the threads that are tried
    """

    cases: Sequence[Case]
    outputs: Mapping[str, Callable[..., np.ndarray]]
    launch: Callable[..., tuple[Any, Any]]
    oracle: Callable[..., Any]
    takes: tuple[str, ...] = ()
    limits: Sequence[Limit] = ()
    refuses: tuple[str, ...] = ()
    schedules: int = 3
    dtype: str = "float32"
    reduces: int | None = None
    rules: Rules = Rules()
    reference: str = "torch"
    engine: ClassVar[Engine] = "numpy"
    builds: ClassVar[bool] = True


@dataclass(frozen=True)
class Split:
    """Data in two parts: what an answer may learn from, and what it is judged on and never gets to see."""

    inputs: np.ndarray
    targets: np.ndarray
    held_out_inputs: np.ndarray
    held_out_targets: np.ndarray


@dataclass(frozen=True)
class Seen:
    """What an answer to a checkpoint did. A mistake's `when` looks at it.

    finished     it came to an end inside the budget; if not, there are no predictions
    metric       on the held-out data
    shuffled     the metric after a training on shuffled targets, in which nothing can be learned; if tried
    leaked       it is good even so: what it knows of the held-out data is not from the training data
    """

    predictions: np.ndarray
    targets: np.ndarray
    finished: bool = True
    metric: float = math.nan
    shuffled: float | None = None
    leaked: bool = False

    @property
    def constant(self) -> bool:
        """Whether every prediction is the same."""
        return len(self.predictions) > 1 and bool((self.predictions == self.predictions[:1]).all())

    def agreement(self, change: Callable[[np.ndarray], np.ndarray]) -> float:
        """The share of predictions that are right once they are changed, such as `lambda p: p - 1`."""
        return float(np.mean(change(self.predictions) == self.targets)) if len(self.predictions) else 0.0


@dataclass(frozen=True, kw_only=True)
class Checkpoint(Exercise):
    """One part of a project: `train(inputs, targets)` returns a function that predicts.

    The grader trains it on its own part of the data and measures it on the rest, so the answer never holds
    what it is judged on. A mistake is recognized by `when(seen)`, for no two trainings give the same numbers.

    data        makes the split; the same on every call
    metric      metric(predictions, targets) -> a number
    measured    what that number is, in words: "accuracy"
    baseline    a `train` that learns next to nothing, and what it does, in words
    target      the number to reach; `less_is_better` says on which side of it
    computing   seconds of processor time for training and predicting once
    gib         memory that it may take for that, in GiB
    shown       how the number is written
    """

    data: Callable[[], Split]
    metric: Callable[[np.ndarray, np.ndarray], float]
    measured: str
    baseline: tuple[str, Callable[..., Any]]
    target: float
    computing: float
    less_is_better: bool = False
    gib: float = 1.0
    engine: Engine = "numpy"
    shown: str = "{:.2f}"
    builds: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Ranks(Exercise):
    """A function that every rank calls, `answer(dist, *inputs)`, where `dist` has torch.distributed's names.

    Ranks are stepped in one process by `labkit.ranks`. A deadlock, calls that do not match and messages that
    nobody receives are hazards, judged before values.

    cases     each input is a list with one value per rank; the length of the lists is the number of ranks
    oracle    what the ranks must return: a list, from the lists of inputs
    limits    the most that any rank may send, judged as cost once the values are right
    orders    in how many orders the ranks have their turns; the result must not depend on it
    delegate  an answer that uses the ready collective, which must be refused
    """

    cases: Sequence[Case]
    oracle: Callable[..., Sequence[Any]]
    limits: Sequence[Limit] = ()
    orders: int = 2
    engine: Engine = "torch"
    dtype: str = "float32"
    reduces: int | None = None
    rules: Rules = Rules()
    reference: str = "torch"
    delegate: Callable[..., Any] | None = None
    builds: ClassVar[bool] = True


@dataclass(frozen=True, kw_only=True)
class Compiled(Exercise):
    """A function or module for `torch.compile`. The cases are the calls it gets, one after the other.

    No C++ compiler is needed: graphs go to a backend that counts them and runs them as they are.

    limits    the most "graphs" in all, "breaks" (places where a graph ends before the function does) and
              "versions" (how often one and the same code was compiled for other inputs)
    make      what is compiled, `make(answer)`, such as an object of its class; the answer unless given
    dynamic   passed on to `torch.compile`, unless the answer is compiled already and says it itself
    """

    cases: Sequence[Case]
    oracle: Callable[..., Any]
    limits: Sequence[Limit]
    make: Callable[[Any], Any] | None = None
    dynamic: bool | None = None
    dtype: str = "float32"
    reduces: int | None = None
    rules: Rules = Rules()
    reference: str = "torch"
    engine: ClassVar[Engine] = "torch"
    builds: ClassVar[bool] = True


# The kinds whose answers are run on cases and compared with an oracle.
OnCases = Implement | Kernel | Ranks | Compiled
