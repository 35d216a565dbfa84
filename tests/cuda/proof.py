"""Every kernel under the stepper, and bugs planted in copies of them: do we find what we claim to find?

`verdicts` launches every kernel on small arrays whose sizes are not multiples of the block's. Each launch is
stepped under several schedules and must be free of errors; its arguments are kept. A planted bug is the text
of a kernel's file with one piece replaced; the changed kernel is stepped with the arguments of the right one,
and the stepper has to name the kind of the bug and its line. Both need the simulator's arrays:
`python -m labkit kernels --stepper` starts this file with LABKIT_CUDA=simulator.
"""

import importlib.util
import inspect
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from planted import BUGS, Bug  # beside this file

import labkit
from labkit import simt
from labkit.kernels.cuda import compiled, launch
from labkit.nn import functional as F
from labkit.tensor import tensor

SCHEDULES = 3

Launch = tuple[Any, Any, list[Any]]  # blocks, threads, arguments


@dataclass
class Verdict:
    """What the stepper says about one kernel"""

    launches: list[Launch] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def verdicts() -> dict[str, Verdict]:
    """Step every launch of `_examples` under several schedules: kernel -> verdict."""
    found: dict[str, Verdict] = defaultdict(Verdict)

    def step(kernel: launch.Kernel, blocks: Any, threads: Any, *arguments: Any) -> None:
        blocks = blocks if isinstance(blocks, tuple) else (blocks,)
        if 0 in blocks:
            return
        passed = [a.argument()._ary if hasattr(a, "argument") else a for a in arguments]
        verdict = found[kernel.name]
        verdict.launches.append((blocks, threads, _copies(passed)))
        report = simt.check(kernel.function, blocks, threads, *passed, schedules=SCHEDULES)
        if not (report.ok and report.finished):
            verdict.errors.append(str(report))

    kernels, real = compiled.all_kernels(), launch.Kernel.__call__
    launch.Kernel.__call__ = step  # type: ignore[assignment, method-assign]
    try:
        _examples(kernels)
    finally:
        launch.Kernel.__call__ = real  # type: ignore[method-assign]
    return {name: found[name] for name in kernels}


def _copies(arguments: list[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


# ---- planted bugs ----


def is_found(bug: Bug, launches: list[Launch]) -> bool:
    """Does the stepper name the kind and the line of this bug, in one of the launches of the right kernel?"""
    with tempfile.TemporaryDirectory() as folder:
        function, lines = plant(bug, Path(folder))
        for blocks, threads, arguments in launches:
            report = simt.check(function, blocks, threads, *_copies(arguments), schedules=SCHEDULES)
            if any(f.kind == bug.kind and set(f.lines) & lines for f in report.findings):
                return True
    return False


def plant(bug: Bug, folder: Path) -> tuple[Callable[..., None], set[int]]:
    """The kernel with the bug in it, from a changed copy of its file; and the lines that must be named."""
    kernel = compiled.all_kernels()[bug.kernel]
    home = kernel.function.__module__.rpartition(".")[0]
    module = importlib.import_module(f"{home}.{bug.file or bug.kernel.partition('.')[0]}")
    text = Path(inspect.getfile(module)).read_text()
    start = text.index(f"def {bug.function}(")
    end = text.find("\n\n\n", start)
    body = text[start:end]
    if bug.old not in body:
        raise ValueError(f"{bug.function} in {module.__name__} has no {bug.old!r}")
    body = body.replace(bug.old, bug.new, 1)
    path = folder / "planted.py"
    path.write_text(text[:start] + body + text[end:])
    first = text[:start].count("\n") + 1
    lines = {first + n for n, line in enumerate(body.splitlines()) if bug.line in line}
    return _compiled_from(path, kernel, bug), lines


def _compiled_from(path: Path, kernel: launch.Kernel, bug: Bug) -> Callable[..., None]:
    spec = importlib.util.spec_from_file_location("planted", path)
    assert spec is not None and spec.loader is not None
    copy, known = importlib.util.module_from_spec(spec), dict(launch.ALL)
    try:
        spec.loader.exec_module(copy)
        made = [k for k in launch.ALL.values() if k not in known.values()]
    finally:
        launch.ALL.clear()
        launch.ALL.update(known)  # the copies are not kernels of the device
    if not bug.file:  # the kernel itself was changed, or a function in its file
        wanted = bug.kernel.partition(".")[2]
        return next(k.function for k in made if k.name.partition(".")[2] == wanted)
    f = kernel.function  # the kernel stays; a function that it takes from another file was changed
    changed = {**f.__globals__, bug.function: getattr(copy, bug.function)}
    return FunctionType(f.__code__, changed, f.__name__, f.__defaults__, f.__closure__)


# ---- one launch or more of every kernel ----


def _floats(*shape: int) -> Any:
    data = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return tensor(data, device="cuda").requires_grad_()


def _ints(values: Any) -> Any:
    return tensor(values, device="cuda")


def _examples(kernels: dict[str, Any]) -> None:
    for kernel in kernels.values():
        if kernel.function.__name__ in ("map1", "map2", "map3"):
            kernel(launch.blocks_for(10), launch.THREADS, *_by_types(kernel.types))
    for family in (_moving, _indexing, _reducing, _products, _images, _norms, _sequences, _updates):
        family()


def _by_types(types: str) -> list[Any]:
    """Arrays for a kernel with one element per thread: 10 elements in two rows"""
    kinds = {"F": np.float32, "I": np.int64, "B": np.bool_}
    return [np.arange(1, 11).astype(kinds[t[0]]).reshape(1, 1, 2, 5) for t in types.split()]


def _back(y: Any) -> None:
    (y * y).sum().backward()


def _moving() -> None:
    x = _floats(3, 5).detach()
    x.flip(0), x.tril(), x.T.contiguous(), labkit.zeros(11, device="cuda"), F.dropout(x, 0.5)
    out = labkit.zeros(11, dtype=labkit.int64, device="cuda").data
    launch.ALL["memory.arange"](2, launch.THREADS, 3, 2, out)


def _indexing() -> None:
    x, rows, places = _floats(4, 5), _ints([2, 0, 2]), _ints([[0, 3, 3], [1, 1, 2]])
    _back(x[rows])
    _back(labkit.index_select(x, 0, rows))
    _back(x.gather(0, places))
    x.detach().scatter(0, places, 1.0)
    x.detach().sort(1), (x.detach() > 0).nonzero(), x.detach().repeat_interleave(_ints([2, 0, 3, 1]), 0)
    table, index = _floats(5, 3), _ints([3, 0, 3, 3, 4, 0, 1, 1, 3])
    _back(F.embedding(index, table))
    from labkit.kernels.cuda import embedding

    embedding.embedding_grad_atomic(_floats(9, 3).data, index.data, 5)
    F.one_hot(rows, 4)
    _back(F.interpolate(_floats(1, 2, 3, 4), (5, 3), mode="bilinear"))


def _reducing() -> None:
    x = _floats(2, 3, 5).detach()
    x.sum((0, 2)), x.sum(0), x.prod(), x.amax(1), x.amin(1), x.argmax(2), x.cumsum(2), x.logsumexp(2)
    labkit.ones(2, 19, device="cuda").cumsum(1)  # more than one piece
    for function in (lambda y: y.softmax(2), lambda y: y.log_softmax(2), lambda y: y.cumprod(2)):
        _back(function(_floats(2, 3, 11)))


def _products() -> None:
    _floats(2, 9, 6).detach() @ _floats(2, 6, 7).detach()
    _floats(9, 6).detach() @ _floats(6, 10).detach()


def _images() -> None:
    image = _floats(1, 2, 5, 6)
    _back(F.conv2d(image, _floats(3, 2, 3, 2), padding=1))  # few filters: directly
    _back(F.conv2d(image, _floats(5, 2, 3, 2), padding=1, stride=2))  # more: as a product
    _back(F.max_pool2d(image, 3, stride=1))
    _back(F.avg_pool2d(image, 2, padding=1))


def _norms() -> None:
    x, w, b = _floats(3, 5, 4), _floats(4), _floats(4)
    _back(F.layer_norm(x, (4,), w, b))
    _back(F.rms_norm(x, (4,), w))
    mean, var = labkit.zeros(5, device="cuda"), labkit.ones(5, device="cuda")
    _back(F.batch_norm(x, mean, var, training=True))


def _sequences() -> None:
    ops = labkit.ops.recurrent
    for function, gates in ((ops.rnn, 1), (ops.lstm, 4), (ops.gru, 3)):
        states = [_floats(2, 5) for _ in range(1 + (gates == 4))]
        y = function(_floats(2, 2, 3), *states, _floats(gates * 5, 3), _floats(gates * 5, 5))
        _back(y[0] if gates == 4 else y)
    q, k, v = _floats(1, 1, 3, 5), _floats(1, 1, 6, 5), _floats(1, 1, 6, 3)
    mask = tensor(np.tri(3, 6, 3, dtype=bool), device="cuda")
    _back(F.scaled_dot_product_attention(q, k, v, mask))
    F.cross_entropy(_floats(3, 11), _ints([10, 0, 7])).backward()


def _updates() -> None:
    for kind, options in (("SGD", {"momentum": 0.9}), ("RMSprop", {"centered": True}), ("Adam", {})):
        p = _floats(3, 5)
        p.sum().backward()
        getattr(labkit.optim, kind)([p], lr=0.1, **options).step()


def summary(found: dict[str, Verdict]) -> dict[str, list[int]]:
    """kernel -> [launches, launches with errors, bugs planted, bugs found]"""
    table = {name: [len(v.launches), len(v.errors), 0, 0] for name, v in found.items()}
    for bug in BUGS.values():
        table[bug.kernel][2] += 1
        table[bug.kernel][3] += is_found(bug, found[bug.kernel].launches)
    return table


if __name__ == "__main__":
    print(json.dumps(summary(verdicts())))
