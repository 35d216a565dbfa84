"""The tape: how a value remembers its history, and how gradients flow back along it.

`@op` turns a function of arrays into a function of tensors. An op returns its value and a `backward` closure;
what the closure captures is what the tape keeps. `Node` is one call of an op. One clock numbers nodes and
in-place writes: a node's parents are always older, so "newest first" is a topological order (no recursion,
however deep the graph), and a kept array with a write newer than its node was overwritten. Gradients are
arrays, not tensors: first derivatives only.
"""

import functools
import inspect
import itertools
import operator
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from labkit import backends
from labkit.dtypes import FLOATS
from labkit.errors import NotSupported, ShapeError
from labkit.grad_mode import detect_anomaly as detect_anomaly
from labkit.grad_mode import enable_grad as enable_grad
from labkit.grad_mode import inference_mode as inference_mode
from labkit.grad_mode import is_grad_enabled as is_grad_enabled
from labkit.grad_mode import mode
from labkit.grad_mode import no_grad as no_grad
from labkit.grad_mode import set_grad_enabled as set_grad_enabled
from labkit.op_table import OPS, Form, plugged, publish, watchers

Array = Any  # a NumPy array, or an array of another device

_clock = itertools.count()
_last_write = -1
_writes: dict[int, tuple[Any, int, int]] = {}  # by id of an array: weak reference, last write, how many


class Node:
    """One call of an op: its name, where its inputs came from, and how to send a gradient back to them."""

    __slots__ = ("backward", "edges", "hooks", "kernels", "leaf", "name", "outputs", "time", "trace")

    def __init__(self, name: str, edges: Any, backward: Any, outputs: Any, kernels: Any) -> None:
        self.time = next(_clock)
        self.name = name
        self.edges = edges  # per input: (node, which of its outputs), or None
        self.backward: Callable[..., Any] | None = backward
        self.outputs = outputs  # per output: (shape, dtype)
        self.kernels = kernels
        self.leaf: Any = None  # weak reference to the tensor, on the node of a leaf
        self.hooks: dict[int, list[Any]] | None = None
        self.trace: str | None = None  # where the op was called, in anomaly mode

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
    found, todo = [], [c.cell_contents for c in function.__closure__ or ()]
    while todo:
        value = todo.pop()
        if hasattr(value, "nbytes") and hasattr(value, "strides"):
            found.append(value)
        elif isinstance(value, Tensor):
            found.append(value.data)
        elif isinstance(value, (tuple, list)):
            todo.extend(value)
        elif inspect.isfunction(value):
            todo.extend(c.cell_contents for c in value.__closure__ or ())
    return found


def draw(tensor: Any) -> str:
    """The history of a tensor as text, newest op first: number, name, parents, output shapes, kept bytes."""
    lines, nodes = [], _reachable([tensor.edge[0]]) if tensor.edge else []
    number = {node: i for i, node in enumerate(reversed(nodes))}
    for node in nodes:
        shapes = ", ".join(str(tuple(shape)) for shape, _ in node.outputs)
        parents = ", ".join(f"#{number[p]}" for p in node.parents)
        kept = f"  keeps {node.kept_bytes()} bytes" if node.kept_bytes() else ""
        lines.append(f"#{number[node]} {node.name}({parents}) -> {shapes}{kept}")
    return "\n".join(lines)


# ---- declaring an op ----


def op(fn: Callable[..., Any] | None = None, **names: Any) -> Any:
    """Make an op of `fn(k, *arrays, **parameters) -> value, backward`.

    `@op` alone makes a part for other functions, `@op(method=True)` and its like offer it to users: see
    `op_table.publish` for the names.

    `k` holds the kernels. `value` is an array, or a tuple of arrays; `backward` takes one gradient per value
    (None for one of several values that nobody used) and returns one gradient (or None) per array, or it is
    None if the op has no gradient. A gradient is a new array, a view or `g` itself, never an array that the
    closure keeps. Broadcasting back, casting back and
    summing are done for it. Parameters are keyword-only in `fn`; callers may pass them by position after the
    arrays, as in torch. A parameter called `need` receives a list: which arrays want a gradient.
    """
    if fn is None:
        return functools.partial(op, **names)
    form = Form(fn)
    name, count, parameters, wants_need = form.name, form.count, set(form.parameters), form.wants_need
    written = fn.__name__  # with its underscore: a part of another function is not what users plug

    @functools.wraps(fn)
    def call(*inputs: Any, **params: Any) -> Any:
        # 1. Sort the arguments, unless they are sorted: tensors into `inputs`, the rest into `params`.
        if count is not None and (len(inputs) != count or (params and not params.keys() <= parameters)):
            inputs = form.bind(inputs, params)
        # 2. Give way to a learner's implementation, if one is plugged in; tell whoever watches.
        if plugged and written in plugged:
            return plugged[written](*inputs, **params)
        for watcher in watchers:
            watcher(name)
        # 3. Take the arrays out of the tensors. Which want a gradient? Which device are they on?
        data, need, device = [], [], "cpu"
        for t in inputs:
            if isinstance(t, Tensor):
                if t.base is not None and t.base.rewrites != t.rewrites:
                    t.refresh()
                data.append(t.data)
                need.append(t.requires_grad)
                if t.device != device:
                    device = common_device(name, inputs)
            else:
                data.append(t if t is None else _number(name, t))
                need.append(False)
        # 4. Pick the kernels of that device, and decide whether this call goes on the tape.
        k = backends.of(device) if device != "cpu" else backends.current_kernels
        record = True in need and mode.recording
        if wants_need:
            params["need"] = need if record else [False] * len(need)
        # 5. Run the op: its value, and the closure that knows the way back.
        try:
            value, backward = fn(k, *data, **params)
        except ValueError as error:
            raise _explained(error, name, data) from None
        # 6. Wrap the value as a tensor, or several; one may be a view of an input.
        many = value.__class__ is tuple
        out = tuple([wrap(k, v, inputs, device) for v in value]) if many else wrap(k, value, inputs, device)
        # 7. Write a node on the tape.
        if record and backward is not None:
            record_call(name, inputs, out if many else (out,), backward, k)
        return out

    call.__signature__ = form.signature  # type: ignore[attr-defined]
    OPS[name] = call
    if names:
        publish(call, **names)
    return call


def _number(name: str, value: Any) -> Any:
    """A Python number; anything else that is not a tensor is refused."""
    if isinstance(value, (bool, int, float)):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise not_a_tensor(name, value)


def not_a_tensor(name: str, value: Any) -> TypeError:
    """The error for anything else in the place of a tensor."""
    library = type(value).__module__.partition(".")[0]
    if library == "torch":
        kind, advice = "a torch tensor", "Convert it: labkit.from_torch(x) shares its memory."
    elif library == "numpy":
        kind = "a NumPy array"
        advice = "Wrap it: labkit.from_numpy(a). x.data is such an array: to change x, use labkit.no_grad()."
    else:
        kind, advice = type(value).__name__, "Wrap it: labkit.tensor(...) copies numbers and nested lists."
    return TypeError(f"{name}() works on labkit tensors and numbers, got {kind}. {advice}")


def common_device(name: str, inputs: Sequence[Any]) -> str:
    """The device of the tensors among the inputs; more than one is an error."""
    devices = sorted({t.device for t in inputs if isinstance(t, Tensor)}) or ["cpu"]
    if len(devices) > 1:
        raise RuntimeError(
            f"{name}() got tensors on {' and '.join(devices)}. Move one of them: x.to(device)."
        )
    return devices[0]


def _explained(error: ValueError, name: str, data: Sequence[Any]) -> Exception:
    """NumPy's complaint about shapes in our words; other errors as they are."""
    if "broadcast" not in str(error):
        return error
    shapes = " and ".join(str(tuple(a.shape)) for a in data if hasattr(a, "shape"))
    return ShapeError(
        f"{name}(): shapes {shapes} do not fit together. Sizes are compared from the right; each pair must "
        "be equal, or one of them 1. Check the shapes, or add an axis with unsqueeze()."
    )


def wrap(k: Any, value: Array, inputs: Sequence[Any], device: str) -> Any:
    """A tensor for one output, which may be a view of an input."""
    out = Tensor(value if value.__class__ is k.Array else k.asarray(value), False, device)
    if getattr(value, "base", None) is not None and k.is_view(value):
        root = k.root(value)
        for t in inputs:
            if isinstance(t, Tensor) and k.root(t.data) is root:
                out.base = t if t.base is None else t.base
                out.rewrites = out.base.rewrites
                break
    return out


def record_call(
    name: str, inputs: Sequence[Any], outs: tuple[Any, ...], backward: Callable[..., Any], k: Any
) -> None:
    """Write one op call on the tape."""
    edges = [(t.edge or t.make_leaf()) if isinstance(t, Tensor) and t.requires_grad else None for t in inputs]
    node = Node(name, edges, backward, [(t.data.shape, t.data.dtype) for t in outs], k)
    for slot, t in enumerate(outs):
        if t.data.dtype.kind == "f" or t.data.dtype in FLOATS:
            t.requires_grad, t.edge = True, (node, slot)
    if mode.anomaly:
        node.trace = "".join(traceback.format_stack(limit=12)[:-2])


def leaf_node(tensor: Any) -> Node:
    """The node of a tensor that the user made: gradients that arrive here are added to `tensor.grad`."""
    k = backends.of(tensor.device)
    node = Node("leaf", (), None, [(tensor.data.shape, tensor.data.dtype)], k)
    node.leaf = weakref.ref(tensor)
    return node


# ---- the backward pass ----


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """Add d(sum of tensors)/d(leaf) to the `.grad` of every leaf that the tensors were computed from."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    _run(tensors, _seeds(tensors, grad_tensors), bool(retain_graph), create_graph, None)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
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
    edges = [t.edge or t.make_leaf() for t in inputs]
    found: dict[Any, Any] = dict.fromkeys(edges)
    _run(outputs, _seeds(outputs, grad_outputs), bool(retain_graph), create_graph, found)
    for i, edge in enumerate(edges):
        if found[edge] is None and not allow_unused:
            raise RuntimeError(
                f"grad(): input {i} was not used to compute the outputs. allow_unused=True gives None for it."
            )
    return tuple(
        None if found[edge] is None else Tensor(found[edge], device=t.device)
        for edge, t in zip(edges, inputs, strict=True)
    )


def _seeds(tensors: list[Any], grads: Any) -> list[Array]:
    """The gradient to start from at each tensor: the given one, or 1 for a single number."""
    if not isinstance(grads, (list, tuple)) or len(tensors) == 1 != len(grads):
        grads = [grads] * len(tensors)
    seeds = []
    for t, g in zip(tensors, grads, strict=True):
        t.refresh()
        if not t.requires_grad:
            raise RuntimeError(
                "backward() needs a tensor with a history, but this one does not require a gradient. Either "
                "no input had requires_grad=True, or it was computed under no_grad() or after detach()."
            )
        if g is None and t.numel() != 1:
            raise RuntimeError(
                f"backward() without an argument needs a single number, but this has shape {tuple(t.shape)}. "
                "Reduce it first (loss.sum() or loss.mean()), or pass gradient= of the same shape."
            )
        if g is not None and (not isinstance(g, Tensor) or g.shape != t.shape):
            found = f"shape {tuple(g.shape)}" if isinstance(g, Tensor) else f"type {type(g).__name__}"
            raise ShapeError(
                f"the gradient passed to backward() has {found}; it must be a tensor of the shape of what it "
                f"starts from, {tuple(t.shape)}: labkit.ones_like(y), for example."
            )
        k = backends.of(t.device)
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
    return sorted(seen, key=operator.attrgetter("time"), reverse=True)


def _run(
    tensors: list[Any], seeds: list[Array], retain: bool, create: bool, found: dict[Any, Any] | None
) -> None:
    """Send gradients from the tensors back along the tape.

    `pending[node]` collects the gradient of each output of a node. A node is handled when all younger nodes
    are done, so its gradients are complete. If `found` is given, the gradients of its edges are stored there
    and leaves are left alone.
    """
    if create:
        raise NotSupported(
            "create_graph=True: labkit's gradients are plain arrays without a history, so they cannot be "
            "differentiated again. Use torch for second derivatives."
        )
    pending: dict[Node, list[Array]] = {}
    edges = [t.edge or t.make_leaf() for t in tensors]
    for edge, g in zip(edges, seeds, strict=True):
        _accumulate(pending, edge, g)
    for node in _reachable([edge[0] for edge in edges]):
        grads = pending.pop(node, None)
        if grads is None:
            continue
        if node.hooks:
            _run_hooks(node, grads)
        if found is not None:
            _collect(node, grads, found)
        if node.leaf is None:
            _send_back(node, grads, pending)
            if not retain:
                node.backward = None  # frees what the closure kept, while the pass goes on
        elif found is None:
            _add_to_leaf(node, grads[0])


def _send_back(node: Node, grads: list[Array], pending: dict[Node, list[Array]]) -> None:
    """Call the node's backward and hand the gradients of its inputs to the nodes that made them."""
    k, seen = node.kernels, set(map(id, grads))
    for edge, g in zip(node.edges, _call_backward(node, grads), strict=True):
        if edge is not None and g is not None:
            if edge[0].leaf is not None and (id(g) in seen or k.is_view(g)):
                g = k.copy(g)  # a leaf keeps its gradient: it must not share memory with another
            seen.add(id(g))
            _accumulate(pending, edge, g, node)


def _call_backward(node: Node, grads: list[Array]) -> Sequence[Any]:
    if node.backward is None:
        raise RuntimeError(
            f"backward() went through {node} a second time, but what it kept was freed by the first. "
            "Call backward(retain_graph=True) the first time, or compute the value again before the second."
        )
    if _last_write > node.time:
        _check_not_overwritten(node)
    result = node.backward(*grads)
    if result.__class__ is not tuple:
        result = (result,)
    if len(result) != len(node.edges):
        raise RuntimeError(
            f"backward of {node.name} returned {len(result)} gradients; wanted {len(node.edges)}: one per "
            "input, in the order of the inputs, None for an input that needs none."
        )
    if mode.anomaly:
        _check_finite(node, result)
    return result


def _accumulate(
    pending: dict[Node, list[Array]], edge: tuple[Node, int], g: Array, sender: Node | None = None
) -> None:
    """Add `g`, summed over broadcast axes and cast back, to the gradient that waits at `edge`."""
    node, slot = edge
    shape, dtype = node.outputs[slot]
    if g.shape != shape:
        if sender is not None and not broadcasts(shape, g.shape):
            which = [i for i, e in enumerate(sender.edges) if e == edge]
            raise ShapeError(
                f"backward of {sender.name} returned a gradient of shape {tuple(g.shape)} for its input "
                f"{' or '.join(map(str, which))}; wanted {tuple(shape)}, the shape of that input."
            )
        g = unbroadcast(node.kernels, g, shape)
    if g.dtype is not dtype and g.dtype != dtype:
        g = node.kernels.cast(g, dtype)
    waiting = pending.get(node)
    if waiting is None:
        waiting = pending[node] = [None] * len(node.outputs)
    waiting[slot] = g if waiting[slot] is None else node.kernels.add(waiting[slot], g)


def broadcasts(shape: tuple[int, ...], larger: tuple[int, ...]) -> bool:
    """Can an array of `shape` be repeated to the larger shape, so that a gradient can be summed back?"""
    pairs = zip(reversed(shape), reversed(larger), strict=False)
    return len(shape) <= len(larger) and all(n in (1, m) for n, m in pairs)


def unbroadcast(k: Any, g: Array, shape: tuple[int, ...]) -> Array:
    """Undo broadcasting: sum `g` over the axes along which an input of `shape` was repeated."""
    extra = len(g.shape) - len(shape)
    repeated = [i + extra for i, size in enumerate(shape) if size == 1 and g.shape[i + extra] != 1]
    return k.asarray(k.sum(g, (*range(extra), *repeated), True)).reshape(shape)


def _add_to_leaf(node: Node, g: Array) -> None:
    leaf, k = node.leaf(), node.kernels
    if leaf is None:  # nobody can see this tensor any more
        return
    g = g if g.__class__ is k.Array else k.asarray(g)
    if leaf.grad is None:
        leaf.grad = Tensor(g, False, leaf.device)
    else:
        k.copy_(leaf.grad.data, k.add(leaf.grad.data, g))


def _run_hooks(node: Node, grads: list[Array]) -> None:
    for slot, hooks in (node.hooks or {}).items():
        for hook in list(hooks):
            if grads[slot] is not None:
                changed = hook(Tensor(node.kernels.copy(grads[slot]), device=node.kernels.device))
                if changed is not None:
                    grads[slot] = _replacement(changed, node.outputs[slot][0])


def _replacement(g: Any, shape: tuple[int, ...]) -> Array:
    """What a hook returned, if it can be a gradient."""
    if not isinstance(g, Tensor) or g.data.shape != shape:
        found = f"a tensor of shape {tuple(g.shape)}" if isinstance(g, Tensor) else type(g).__name__
        raise ShapeError(f"a hook returned {found}, but the gradient it replaces has shape {tuple(shape)}")
    return g.data


def _collect(node: Node, grads: list[Array], found: dict[Any, Any]) -> None:
    for slot, g in enumerate(grads):
        if g is not None and (node, slot) in found:
            found[node, slot] = node.kernels.copy(g)


def note_write(root: Array) -> None:
    """Remember that the memory of `root` was written in place, now."""
    global _last_write
    _last_write = next(_clock)
    key = id(root)
    reference, _, count = _writes.get(key) or (weakref.ref(root, lambda _: _writes.pop(key, None)), 0, 0)
    _writes[key] = reference, _last_write, count + 1


def version_of(root: Array) -> int:
    """How often the memory of `root` was written in place."""
    return _writes[id(root)][2] if id(root) in _writes else 0


def _check_not_overwritten(node: Node) -> None:
    """Complain if memory that this node's backward reads was written after the node was made."""
    for a in node.kept():
        root = node.kernels.root(a)
        if id(root) in _writes and _writes[id(root)][1] > node.time:
            raise RuntimeError(
                f"a value of shape {tuple(a.shape)} that {node} needs for its gradient was overwritten by an "
                "in-place operation. Use the form that makes a new tensor (x = x + 1 instead of x += 1 or "
                "x.add_(1)), or change a copy: x.clone(). optimizer.step() overwrites parameters: call every "
                "backward() before it, or compute the loss again after it."
            )


def _check_finite(node: Node, grads: Sequence[Any]) -> None:
    for i, g in enumerate(grads):
        if g is not None and g.dtype in FLOATS and node.kernels.isnan(g).any():
            raise RuntimeError(
                f"{node} returned NaN as the gradient of its input {i}. Look for 0 / 0, inf - inf, a "
                f"logarithm or a root of 0 or less. It was called here:\n{node.trace}"
            )


def gradcheck(func: Callable[..., Any], inputs: Any, **options: Any) -> bool:
    """Whether the gradients of `func(*inputs)` agree with small steps of the inputs (see gradcheck.py)."""
    from labkit.gradcheck import gradcheck as check

    return check(func, inputs, **options)


# The two modules need each other: each imports the other last, when its own names exist.
from labkit.tensor import Tensor  # noqa: E402
