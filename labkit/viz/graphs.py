"""`graph`: a computation graph with the value and the gradient of every edge.

Inputs are on top and the result is at the bottom, so a forward pass reads downward and gradients flow up. The
layout is a small version of the usual layered drawing: layers by longest path, order within a layer by the
mean position of neighbors, positions by least squares. It has no randomness and needs no other program.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from labkit.text import number, plural, shorten, table
from labkit.viz.figure import Figure, as_array
from labkit.viz.svg import BLUE, GHOST, GREEN, INK, TINTS, Canvas, spread, text_width

MOST_NODES, NODES_IN_SUMMARY, LEAVES_IN_ALT = 40, 12, 6
BOX, BETWEEN = 28, 44
RUST = "#9a3d00"  # gradients: dark enough for small text

Accessor = Callable[[Any], Any]


@dataclass(eq=False)
class Item:
    """One node, whatever library it came from. One of `kind` "bend" leads a long edge past a layer."""

    label: str
    value: str = ""
    grad: str = ""
    parents: list["Item"] = field(default_factory=list)
    kind: str = "node"
    name: str = ""
    layer: int = 0
    x: float = 0.0
    order: float = 0.0

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What stands on the edge that leaves this node, with the color of each line."""
        lines = [(f"value {self.value}", INK)] if self.value else []
        return lines + ([(f"grad {self.grad}", RUST)] if self.grad else [])

    @property
    def width(self) -> float:
        if self.kind == "bend":
            return 14
        widest = max([text_width(t, 12) for t, _ in self.lines] + [text_width(self.label)])
        return max(46, widest + 14)

    @property
    def height(self) -> float:
        return BOX + (8 + 18 * len(self.lines) if self.lines else 0)


def graph(
    root: Any,
    *,
    parents: Accessor | None = None,
    label: Accessor | None = None,
    value: Accessor | None = None,
    grad: Accessor | None = None,
    names: dict[str, Any] | None = None,
    title: str = "",
) -> Figure:
    """Draw how `root` was computed.

    Works on labkit and torch tensors, and on any object with parents: micrograd-style attributes (`_prev` or
    `parents`, `_op` or `op`, `data`, `grad`, `label`) are found by themselves; for anything else pass a
    function per question. `names` gives names to nodes: {"w": w}. Above 40 nodes only the nearest to `root`
    are drawn, and the rest is counted. torch and labkit keep no values inside: theirs show at the ends.
    """
    read = _Reader(root, names or {}, parents, label, value, grad)
    items = _collect(read)
    for number_, item in enumerate(items):
        item.name = item.name or f"v{number_}"
    if len(items) > MOST_NODES:
        drawn, caption = _nearest(items), [_summary(items)]
    else:
        drawn, caption = items, []
    text = "\n".join(([title] if title else []) + caption + _words(drawn))
    canvas = Canvas()
    _draw(canvas, _layout(drawn), drawn[-1])
    alt = f"Computation graph of {plural(len(items), 'node')} ending in {items[-1].label}"
    alt += f" with value {items[-1].value}" if items[-1].value else ""
    return canvas.figure(title, caption, f"{alt}{_leaf_gradients(drawn)}.", text)


def _leaf_gradients(items: list[Item]) -> str:
    """What a backward pass left at the first leaves, for the alt text; nothing before it."""
    found = [f"{item.name} {item.grad}" for item in items if not item.parents and item.grad]
    more = ", and more" if len(found) > LEAVES_IN_ALT else ""
    return f"; gradients of the leaves: {', '.join(found[:LEAVES_IN_ALT])}{more}" if found else ""


class _Reader:
    """Answers the four questions about a node, for the libraries we know."""

    def __init__(self, root: Any, names: dict[str, Any], *given: Accessor | None) -> None:
        self.names = {id(thing): name for name, thing in names.items()}
        self.root, self.start = root, root
        if hasattr(root, "grad_fn") and given[0] is None:  # torch, labkit: the graph is one of operations
            self.start = root.grad_fn if root.grad_fn is not None else root
            ours: tuple[Accessor, ...] = (self._op_parents, self._op_label, self._op_value, self._op_grad)
        else:
            ours = (
                _parents,
                _label,
                lambda n: _attribute(n, "data", "value"),
                lambda n: _attribute(n, "grad"),
            )
        self.parents, self.label, self.value, self.grad = (g or o for g, o in zip(given, ours, strict=True))

    def _leaf(self, node: Any) -> Any:
        """The tensor that a node stands for, if there is one."""
        if node is self.start:
            return self.root
        leaf = getattr(node, "leaf", None)
        return leaf() if callable(leaf) else getattr(node, "variable", None)

    def _op_parents(self, node: Any) -> list[Any]:
        if hasattr(node, "next_functions"):
            return [fn for fn, _ in node.next_functions if fn is not None]
        return list(getattr(node, "parents", ()))

    def _op_label(self, node: Any) -> str:
        if not self._op_parents(node):
            return self.names.get(id(self._leaf(node)), "leaf")
        name = node.name() if callable(node.name) else node.name
        return name.removesuffix("Backward0").removesuffix("Backward1")

    def _op_value(self, node: Any) -> Any:
        return self._leaf(node)

    def _op_grad(self, node: Any) -> Any:
        tensor = self._leaf(node)
        return tensor.grad if tensor is not None and tensor.is_leaf else None

    def item(self, node: Any) -> Item:
        name, _, op = str(self.label(node)).rpartition(" = ")
        name = self.names.get(id(node), name)
        if not self.parents(node) and (name or op != "leaf"):
            name, op = name or op, ""
        label = f"{name} = {op}" if name and op else name or op
        return Item(shorten(label, 18), _show(self.value(node)), _show(self.grad(node)), name=name)


def _attribute(node: Any, *names: str) -> Any:
    found = next((getattr(node, name) for name in names if getattr(node, name, None) is not None), None)
    return found() if callable(found) else found


def _parents(node: Any) -> list[Any]:
    found = _attribute(node, "_prev", "parents", "_parents", "prev", "children", "inputs")
    if isinstance(found, (set, frozenset)):  # sets have no order of their own, and a drawing must not vary
        return sorted(found, key=lambda n: (_label(n), _show(_attribute(n, "data", "value"))))
    return list(found or ())


def _label(node: Any) -> str:
    op, name = _attribute(node, "_op", "op"), _attribute(node, "label", "name")
    return f"{name} = {op}" if op and name else str(op or name or "leaf")


def _show(value: Any) -> str:
    """A number for one element, a shape for more, nothing for None."""
    if value is None:
        return ""
    try:
        array = as_array(value)
    except TypeError:
        return shorten(str(value), 12)
    return number(array.reshape(-1)[0], 4) if array.size == 1 else str(tuple(array.shape))


def _collect(read: _Reader) -> list[Item]:
    """Every node once, parents before children. No recursion: a chain may be 5,000 nodes long."""
    made: dict[int, Item] = {}
    kept: list[Any] = []  # torch makes node wrappers on demand: keep them, or an id could be used twice
    finished: list[Item] = []
    todo: list[tuple[Any, bool]] = [(read.start, False)]
    while todo:
        node, done = todo.pop()
        if done:
            made[id(node)].parents = [made[id(p)] for p in read.parents(node)]
            finished.append(made[id(node)])
        elif id(node) not in made:
            made[id(node)] = read.item(node)
            kept.append(node)
            above = list(read.parents(node))
            kept.extend(above)
            todo.append((node, True))
            todo.extend((p, False) for p in reversed(above))
    return finished


def _nearest(items: list[Item]) -> list[Item]:
    """The nodes nearest the result; an ellipsis stands for what each of them is computed from."""
    near, waiting = {items[-1]: None}, deque([items[-1]])
    while waiting:
        for parent in waiting.popleft().parents:
            if parent not in near and len(near) < NODES_IN_SUMMARY:
                near[parent] = None
                waiting.append(parent)
    drawn = []
    for item in (i for i in items if i in near):
        hidden = [p for p in item.parents if p not in near]
        if hidden:
            more = Item("…", kind="more", name="...")
            item.parents = [p for p in item.parents if p in near] + [more]
            drawn.append(more)
        drawn.append(item)
    return drawn


def _summary(items: list[Item]) -> str:
    counts = Counter(i.label if i.parents else "leaf" for i in items).most_common(6)
    listed = ", ".join(f"{label} x{count}" for label, count in counts)
    return f"{len(items)} nodes, the {NODES_IN_SUMMARY} nearest the result are drawn. Most frequent: {listed}"


def _words(items: list[Item]) -> list[str]:
    rows = []
    for item in (i for i in items if i.kind == "node"):
        made = (
            f" = {item.label.split(' = ')[-1]}({', '.join(p.name for p in item.parents)})"
            if item.parents
            else ""
        )
        rows.append(
            [
                item.name + made,
                f"value {item.value}" if item.value else "",
                f"grad {item.grad}" if item.grad else "",
            ]
        )
    return [line.replace("…", "...") for line in table([[r[0].ljust(12), *r[1:]] for r in rows])]


def _layout(items: list[Item]) -> list[list[Item]]:
    """Rows of nodes from top to bottom, every edge between neighboring rows, with x set."""
    for item in reversed(items):
        for parent in item.parents:
            parent.layer = max(parent.layer, item.layer + 1)
    rows: list[list[Item]] = [[] for _ in range(max(i.layer for i in items) + 1)]
    for item in items:
        rows[item.layer].append(item)
        item.parents = [_bend(rows, item, parent) for parent in item.parents]
    rows.reverse()
    below: dict[Item, list[Item]] = {}
    for row in rows:
        for item in row:
            for parent in item.parents:
                below.setdefault(parent, []).append(item)
    for turn in range(40):
        for row in rows if turn % 2 else rows[::-1]:
            _place(row, below, sort=turn < 8)
    return rows


def _bend(rows: list[list[Item]], item: Item, parent: Item) -> Item:
    """Lead the edge from `parent` to `item` through the layers between them."""
    for layer in range(parent.layer - 1, item.layer, -1):
        parent = Item("", kind="bend", parents=[parent], layer=layer)
        rows[layer].append(parent)
    return parent


def _place(row: list[Item], below: dict[Item, list[Item]], sort: bool) -> None:
    """Move each node of a row toward the mean of its neighbors without overlap."""
    for i, item in enumerate(row):
        near = item.parents + below.get(item, [])
        item.order = sum(n.x for n in near) / len(near) if near else item.x
        item.order += i * 1e-3  # ties keep their order
    if sort:
        row.sort(key=lambda item: item.order)
    gaps = [(a.width + b.width) / 2 + 22 for a, b in pairwise(row)]
    for item, x in zip(row, spread([i.order for i in row], gaps), strict=True):
        item.x = x


def _draw(canvas: Canvas, rows: list[list[Item]], root: Item) -> None:
    y, tops = 0.0, {}
    for row in rows:
        tops.update({item: y for item in row})
        y += max(item.height for item in row) + BETWEEN
    for row in rows:
        for item in row:
            count = len(item.parents)
            for port, parent in enumerate(sorted(item.parents, key=lambda p: p.x)):
                shift = (
                    0
                    if item.kind == "bend"
                    else (port - (count - 1) / 2) * min(18, (item.width - 16) / count)
                )
                start = tops[parent] + parent.height
                points = [(parent.x, start), (item.x + shift, tops[item])]
                canvas.path(points, curved=True, arrow=item.kind != "bend")
            if item.kind == "bend":
                canvas.path([(item.x, tops[item]), (item.x, tops[item] + item.height)])
    for row in rows:
        for item in row:
            _draw_item(canvas, item, tops[item], item is root)


def _draw_item(canvas: Canvas, item: Item, y: float, is_root: bool) -> None:
    if item.kind == "bend":
        return
    x, w = item.x - item.width / 2, item.width
    if item.kind == "more":
        canvas.rect(x, y, w, BOX, fill=GHOST, dash="3 3")
    else:
        fill, stroke, radius = (TINTS[0], BLUE, 13) if item.parents else (TINTS[2], GREEN, 2)
        canvas.rect(
            x,
            y,
            w,
            BOX,
            fill=fill,
            stroke=INK if is_root else stroke,
            width=2 if is_root else 1,
            radius=radius,
        )
    canvas.text(item.x, y + BOX / 2, item.label, mono=True)
    for i, (line, color) in enumerate(item.lines):
        canvas.text(item.x, y + BOX + 13 + 18 * i, line, size=12, mono=True, color=color)
