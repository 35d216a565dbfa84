"""The tape: how a value remembers its history, and how gradients flow back along it.

`@op` turns a function of arrays into a function of tensors. An op returns its value and a `backward` closure;
what the closure captures is what the tape keeps. `Node` is one call of an op. Nodes are numbered as they are made
and a node's parents are always older, so "newest first" is a topological order: no recursion, however deep the
graph. Gradients are arrays, not tensors: first derivatives only.
"""

import functools
import inspect
import itertools
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from labkit import backends
from labkit.dtypes import FLOATS
from labkit.errors import NotSupported

Array = Any  # a NumPy array, or an array of another device
Op = Callable[..., Any]
OPS: dict[str, Op] = {}  # every op by name

_serial = itertools.count()
_plugged: dict[str, Op] = {}  # a learner's implementations, used instead of ours
_watchers: list[Callable[[str], None]] = []


class _Mode(threading.local):
    recording = True
    anomaly = False


_mode = _Mode()


class Node:
    """One call of an op: its name, where its inputs came from, and how to send a gradient back to them."""

    __slots__ = (
        "backward",
        "edges",
        "hooks",
        "kernels",
        "leaf",
        "name",
        "outputs",
        "saved",
        "serial",
        "trace",
    )

    def __init__(
        self, name: str, edges: tuple[Any, ...], backward: Callable[..., Any] | None, outputs: Any
    ) -> None:
        self.serial = next(_serial)
        self.name = name
        self.edges = edges  # per input: (node, which of its outputs), or None
        self.backward = backward
        self.outputs = outputs  # per output: (shape, dtype)
        self.saved: Any = ()  # (storage, its version) of every input and output
        self.kernels: Any = None
        self.leaf: Any = None  # weak reference to the tensor, on the node of a leaf
        self.hooks: dict[int, list[Any]] | None = None
        self.trace: str | None = None

    @property
    def parents(self) -> list["Node"]:
        """The nodes whose outputs were this node's inputs (only those that want a gradient)."""
        return [edge[0] for edge in self.edges if edge is not None]

    def kept(self) -> list[Array]:
        """The arrays that are kept for the backward pass."""
        return [] if self.backward is None else _captured(self.backward)

    def kept_bytes(self) -> int:
        """How much memory this node keeps for the backward pass."""
        return sum({id(a): a.nbytes for a in self.kept()}.values())

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _captured(function: Callable[..., Any]) -> list[Array]:
    """The arrays in a closure, also those inside tuples, lists and inner functions."""
    found, todo = [], [c.cell_contents for c in function.__closure__ or () if c.cell_contents is not None]
    while todo:
        value = todo.pop()
        if hasattr(value, "nbytes") and hasattr(value, "strides"):
            found.append(value)
        elif isinstance(value, (tuple, list)):
            todo.extend(value)
        elif inspect.isfunction(value):
            found.extend(_captured(value))
    return found


# ---- declaring an op ----


def op(fn: Callable[..., Any]) -> Op:
    """Make an op of `fn(k, *arrays, **parameters) -> value, backward`.

    `k` holds the kernels. `value` is an array, or a tuple of arrays; `backward` takes one gradient per value and
    returns one gradient (or None) per array, or it is None if the op has no gradient. Broadcasting back, casting
    back and summing are done for it. Parameters are keyword-only in `fn`; callers may pass them by position after
    the arrays, as in torch. A parameter called `need` receives a tuple: which arrays want a gradient.
    """
    spec = inspect.getfullargspec(fn)
    name = fn.__name__.strip("_")
    arrays, variadic = spec.args[1:], spec.varargs is not None
    count, wants_need = len(arrays), "need" in spec.kwonlyargs
    parameters = [p for p in spec.kwonlyargs if p != "need"]
    optional = dict(zip(reversed(arrays), reversed(spec.defaults or ()), strict=False))

    def bind(inputs: tuple[Any, ...], params: dict[str, Any]) -> tuple[Any, ...]:
        """Sort a call in torch's style into arrays and parameters."""
        given = list(inputs[:count])
        for i, array in enumerate(arrays[len(given) :], len(given)):
            for alias in (array, "input" if i == 0 else "other"):
                if alias in params:
                    given.append(params.pop(alias))
                    break
            else:
                if array not in optional:
                    raise TypeError(f"{name}() needs {count} tensors ({', '.join(arrays)}), got {i}")
                given.append(optional[array])
        extra = inputs[count:]
        if len(extra) > len(parameters):
            raise TypeError(f"{name}() takes at most {count + len(parameters)} arguments, got {len(inputs)}")
        params.update(zip(parameters, extra, strict=False))
        for unknown in params.keys() - set(parameters):
            raise NotSupported(
                f"{name}() has no argument {unknown!r}; it takes {', '.join(arrays + parameters)}"
            )
        return tuple(given)

    @functools.wraps(fn)
    def call(*inputs: Any, **params: Any) -> Any:
        if not variadic and (len(inputs) != count or (params and not params.keys() <= set(parameters))):
            inputs = bind(inputs, params)
        if _plugged and name in _plugged:
            return _call_plugged(name, inputs, params)
        for watcher in _watchers:
            watcher(name)
        data, need, device = [], False, "cpu"
        for t in inputs:
            if isinstance(t, Tensor):
                if t.base is not None and t.storage.rewrites != t.rewrites:
                    t.refresh()
                data.append(t.data)
                need = need or t.requires_grad
                if t.device != device:
                    device = _common_device(name, inputs)
            else:
                data.append(t if t is None else _number(name, t))
        record = need and _mode.recording
        k = backends.of(device)
        if wants_need:
            params["need"] = tuple([record and isinstance(t, Tensor) and t.requires_grad for t in inputs])
        value, backward = fn(k, *data, **params)
        many = value.__class__ is tuple
        outs = [_wrap(k, v, inputs) for v in (value if many else (value,))]
        if record and backward is not None:
            _record(name, inputs, outs, backward, k)
        return tuple(outs) if many else outs[0]

    call.__signature__ = _signature(fn)  # type: ignore[attr-defined]
    OPS[name] = call
    return call


def _signature(fn: Callable[..., Any]) -> inspect.Signature:
    """What a caller sees: no kernels, no `need`, and parameters allowed by position."""
    _, *rest = inspect.signature(fn).parameters.values()
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    if any(p.kind is p.VAR_POSITIONAL for p in rest):
        return inspect.Signature([p for p in rest if p.name != "need"])
    return inspect.Signature([p.replace(kind=kind) for p in rest if p.name != "need"])


def _number(name: str, value: Any) -> Any:
    """A Python number; anything else that is not a tensor is refused."""
    if isinstance(value, (bool, int, float)):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError(
        f"{name}() works on tensors and numbers, got {type(value).__name__}. "
        "Wrap it first: labkit.tensor(...) copies lists and arrays, labkit.from_torch(...) takes a torch tensor."
    )


def _common_device(name: str, inputs: Sequence[Any]) -> str:
    devices = sorted({t.device for t in inputs if isinstance(t, Tensor)})
    if len(devices) > 1:
        raise RuntimeError(
            f"{name}() got tensors on {' and '.join(devices)}. All must be on one device: move them with .to(device)."
        )
    return devices[0]


def _wrap(k: Any, value: Array, inputs: Sequence[Any]) -> Any:
    """A tensor for one output. A view of an input shares that input's storage."""
    out = Tensor(value if value.__class__ is k.Array else k.asarray(value))
    if out.data.base is not None:
        root = k.root(value)
        for t in inputs:
            if isinstance(t, Tensor) and k.root(t.data) is root:
                out.storage, out.rewrites, out.base = t.storage, t.rewrites, t if t.base is None else t.base
                break
    return out


def _record(
    name: str, inputs: Sequence[Any], outs: Sequence[Any], backward: Callable[..., Any], k: Any
) -> None:
    tensors = [t if isinstance(t, Tensor) else None for t in inputs]
    edges = tuple([t.edge() if t is not None and t.requires_grad else None for t in tensors])
    node = Node(name, edges, backward, [(t.data.shape, t.data.dtype) for t in outs])
    node.kernels = k
    node.saved = [(t.storage, t.storage.version) for t in (*tensors, *outs) if t is not None]
    if _mode.anomaly:
        node.trace = "".join(traceback.format_stack(limit=12)[:-2])
    for slot, t in enumerate(outs):
        if t.data.dtype in FLOATS:
            t.requires_grad, t.node, t.slot = True, node, slot


def leaf_node(tensor: Any) -> Node:
    """The node of a tensor that the user made: gradients that arrive here are added to `tensor.grad`."""
    node = Node("leaf", (), None, [(tensor.data.shape, tensor.data.dtype)])
    node.kernels, node.leaf = backends.of(tensor.device), weakref.ref(tensor)
    return node


# ---- the backward pass ----


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool = False, create_graph: bool = False
) -> None:
    """Add d(sum of tensors)/d(leaf) to the `.grad` of every leaf that the tensors were computed from."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    _run(tensors, _seeds(tensors, grad_tensors), retain_graph, create_graph, None)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Any, ...]:
    """The gradients of outputs with respect to inputs, returned instead of stored in `.grad`."""
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for i, t in enumerate(inputs):
        if not t.requires_grad:
            raise RuntimeError(
                f"grad(): input {i} does not require a gradient. Call requires_grad_() on it first."
            )
    found: dict[Any, Any] = {t.edge(): None for t in inputs}
    _run(outputs, _seeds(outputs, grad_outputs), retain_graph, create_graph, found)
    result = tuple(found[t.edge()] for t in inputs)
    for i, g in enumerate(result):
        if g is None and not allow_unused:
            raise RuntimeError(
                f"grad(): input {i} was not used to compute the outputs. "
                "Pass allow_unused=True to get None for it."
            )
    return tuple(None if g is None else Tensor(g) for g in result)


def _seeds(tensors: list[Any], grads: Any) -> list[Array]:
    """The gradient to start from at each tensor: the given one, or 1 for a single number."""
    grads = [grads] if grads is None or isinstance(grads, Tensor) else list(grads)
    grads = grads * len(tensors) if grads[0] is None and len(grads) == 1 else grads
    seeds = []
    for t, g in zip(tensors, grads, strict=True):
        if not t.requires_grad:
            raise RuntimeError(
                "backward() needs a tensor with a history, but this one does not require a gradient. Either no input "
                "had requires_grad=True, or it was computed under no_grad() or after detach()."
            )
        k = backends.of(t.device)
        if g is None and t.numel() != 1:
            raise RuntimeError(
                f"backward() without an argument needs a single number, but this tensor has shape {tuple(t.shape)}. "
                "Reduce it first (loss.sum() or loss.mean()), or pass gradient= of the same shape."
            )
        if g is not None and g.shape != t.shape:
            raise RuntimeError(
                f"the gradient passed to backward() has shape {tuple(g.shape)}, the tensor {tuple(t.shape)}."
            )
        seeds.append(k.full(t.shape, 1, t.dtype) if g is None else k.cast(g.data, t.dtype))
    return seeds


def _reachable(roots: list[Node]) -> list[Node]:
    """Every node that the roots were computed from, newest first."""
    seen, stack = set(roots), list(roots)
    while stack:
        for edge in stack.pop().edges:
            if edge is not None and edge[0] not in seen:
                seen.add(edge[0])
                stack.append(edge[0])
    return sorted(seen, key=lambda node: -node.serial)


def _run(
    tensors: list[Any], seeds: list[Array], retain: bool, create: bool, found: dict[Any, Any] | None
) -> None:
    """Send gradients from the tensors back along the tape.

    `pending[node]` collects the gradient of each output of a node. A node is handled when all nodes younger than it
    are done, so its gradients are complete. If `found` is given, gradients of those edges are stored there and
    leaves are left alone.
    """
    if create:
        raise NotSupported(
            "create_graph=True: labkit's gradients are plain arrays without a history, so they cannot be "
            "differentiated again. Use torch for second derivatives."
        )
    pending: dict[Node, list[Array]] = {}
    edges = [t.edge() for t in tensors]
    for edge, g in zip(edges, seeds, strict=True):
        _accumulate(pending, edge, g)
    for node in _reachable([edge[0] for edge in edges]):
        grads = pending.pop(node, None)
        if grads is None:
            continue
        if node.hooks:
            _run_hooks(node, grads)
        if found is not None:
            for slot, g in enumerate(grads):
                if (node, slot) in found:
                    found[node, slot] = None if g is None else node.kernels.copy(g)
        if node.leaf is not None:
            if found is None:
                _add_to_leaf(node, grads[0])
            continue
        for edge, g in zip(node.edges, _call_backward(node, grads), strict=True):
            if edge is not None and g is not None:
                if edge[0].leaf is not None and (
                    node.kernels.is_view(g) or any(g is other for other in grads)
                ):
                    g = node.kernels.copy(g)  # a leaf keeps its gradient: it must not share memory
                _accumulate(pending, edge, g)
        if not retain:
            node.backward = None  # frees what the closure kept, while the pass goes on


def _call_backward(node: Node, grads: list[Array]) -> Sequence[Any]:
    if node.backward is None:
        raise RuntimeError(
            f"backward() went through {node} a second time, but what it kept was freed by the first. "
            "Call backward(retain_graph=True) the first time, or compute the value again before the second."
        )
    for storage, version in node.saved:
        if storage.version != version:
            _check_not_overwritten(node, storage, version)
    if len(node.outputs) == 1:
        result = node.backward(grads[0])
    else:
        k = node.kernels
        full = [
            k.zeros(shape, dtype) if g is None and dtype in FLOATS else g
            for g, (shape, dtype) in zip(grads, node.outputs, strict=True)
        ]
        result = node.backward(*full)
    result = result if isinstance(result, tuple) else (result,)
    if _mode.anomaly:
        _check_finite(node, result)
    return result


def _accumulate(pending: dict[Node, list[Array]], edge: tuple[Node, int], g: Array) -> None:
    """Add `g`, summed over broadcast axes and cast back, to the gradient that waits at `edge`."""
    node, slot = edge
    shape, dtype = node.outputs[slot]
    if g.shape != shape:
        g = unbroadcast(node.kernels, g, shape)
    if g.dtype != dtype:
        g = node.kernels.cast(g, dtype)
    waiting = pending.get(node)
    if waiting is None:
        waiting = pending[node] = [None] * len(node.outputs)
    before = waiting[slot]
    waiting[slot] = g if before is None else node.kernels.add(before, g)


def unbroadcast(k: Any, g: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: sum `g` over the axes along which an input of `shape` was repeated."""
    extra = g.ndim - len(shape)
    repeated = (i for i, size in enumerate(shape) if size == 1 and g.shape[i + extra] != 1)
    axes = (*range(extra), *(i + extra for i in repeated))
    return k.asarray(k.sum(g, axes, True)).reshape(shape)


def _add_to_leaf(node: Node, g: Array) -> None:
    leaf, k = node.leaf(), node.kernels
    if leaf is None:  # nobody can see this tensor any more
        return
    if leaf.grad is None:
        leaf.grad = Tensor(g)
    else:
        k.copy_(leaf.grad.data, k.add(leaf.grad.data, g))


def _run_hooks(node: Node, grads: list[Array]) -> None:
    for slot, hooks in (node.hooks or {}).items():
        for hook in list(hooks):
            if grads[slot] is not None:
                changed = hook(Tensor(grads[slot]))
                if changed is not None:
                    grads[slot] = changed.data


def _check_not_overwritten(node: Node, storage: Any, version: int) -> None:
    """Complain if an in-place write changed memory that this node's backward reads."""
    written = storage.written() if storage.written else None
    if any(node.kernels.root(a) is written for a in node.kept()):
        raise RuntimeError(
            f"a value that {node} needs for its gradient was overwritten by an in-place operation (it was at "
            f"version {version}, now {storage.version}). Use the form that makes a new tensor (x = x + 1 instead of "
            "x += 1 or x.add_(1)), or change a copy: x.clone()."
        )


def _check_finite(node: Node, grads: Sequence[Any]) -> None:
    for i, g in enumerate(grads):
        if g is not None and g.dtype in FLOATS and node.kernels.isnan(g).any():
            raise RuntimeError(
                f"{node} returned NaN as the gradient of its input {i}. It was called here:\n{node.trace or '?'}"
            )


# ---- modes ----


@contextmanager
def no_grad() -> Iterator[None]:
    """Compute without recording: `with no_grad(): ...` or `@no_grad()`."""
    with set_grad_enabled(False):
        yield


@contextmanager
def enable_grad() -> Iterator[None]:
    """Record again inside a `no_grad` block."""
    with set_grad_enabled(True):
        yield


@contextmanager
def inference_mode(mode: bool = True) -> Iterator[None]:
    """Like `no_grad`. (Torch also forbids using the results in autograd later; labkit does not.)"""
    with set_grad_enabled(_mode.recording and not mode):
        yield


class set_grad_enabled:  # noqa: N801 (torch's name)
    """Turn recording on or off, at once or for the length of a `with` block."""

    def __init__(self, mode: bool) -> None:
        self.before, _mode.recording = _mode.recording, bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _mode.recording = self.before


def is_grad_enabled() -> bool:
    return _mode.recording


@contextmanager
def detect_anomaly() -> Iterator[None]:
    """Stop at the first op whose gradient is NaN and show where that op was called."""
    before, _mode.anomaly = _mode.anomaly, True
    try:
        yield
    finally:
        _mode.anomaly = before


# ---- watching and replacing ops ----


@contextmanager
def watch_ops(callback: Callable[[str], None]) -> Iterator[None]:
    """Call `callback(name)` for every op that is called inside the block."""
    _watchers.append(callback)
    try:
        yield
    finally:
        _watchers.remove(callback)


@contextmanager
def plug(name: str, implementation: Op) -> Iterator[None]:
    """Use `implementation` (a function of tensors) wherever the op `name` is called inside the block."""
    if name not in OPS:
        raise KeyError(f"there is no op {name!r} to replace")
    before = _plugged.get(name)
    _plugged[name] = implementation
    try:
        yield
    finally:
        _plugged.pop(name)
        if before is not None:
            _plugged[name] = before


def _call_plugged(name: str, inputs: Sequence[Any], params: dict[str, Any]) -> Any:
    """Call the replacement; inside it, the name means our own op again."""
    implementation = _plugged.pop(name)
    try:
        return implementation(*inputs, **params)
    finally:
        _plugged[name] = implementation


# The two modules need each other: each imports the other last, when its own names exist.
from labkit.tensor import Tensor  # noqa: E402
