# SPDX-License-Identifier: Apache-2.0
"""A picture of a graph as SVG, without other programs: nodes in layers, each below those it waits for.

The layout is Sugiyama's: longest-path layers, dummy nodes where an edge crosses layers, an order that follows the neighbours
(barycenters), and positions that pull nodes under the middle of their neighbours. Bodies of child graphs and of conditional nodes
are drawn inside their node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ._definition import GraphDefinition
    from ._nodes import GraphNode

MOST_NODES = 500
_CHARACTER, _LINE, _PADDING = 7.3, 16, 8  # of a 12-pixel monospace font
_GAP_X, _GAP_Y = 24, 34
_SWEEPS = 6
_COLOURS = {
    "kernel": "#d9ead3", "copy": "#cfe2f3", "fill": "#cfe2f3", "host function": "#fff2cc", "allocate": "#ead1dc", "free": "#ead1dc",
}  # fmt: skip


@dataclass(eq=False)
class Box:
    """A node of a drawing: lines of text, and drawings below them. `layer`, `x` and `y` (its centre's and its top) are of the layout."""

    lines: Sequence[str]
    inside: Sequence[tuple[str, Drawing]] = ()
    kind: str = ""
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0

    def measure(self) -> None:
        self.width = max([_CHARACTER * len(line) for line in self.lines] or [0.0]) + 2 * _PADDING
        self.height = _LINE * len(self.lines) + 2 * _PADDING
        for title, drawing in self.inside:
            self.width = max(self.width, drawing.width + 2 * _PADDING, _CHARACTER * len(title) + 4 * _PADDING)
            self.height += drawing.height + _PADDING + (_LINE if title else 0)


@dataclass
class Drawing:
    """Boxes with positions, and edges as the points they pass."""

    boxes: list[Box]
    edges: list[tuple[Box, Box]]
    routes: list[list[tuple[float, float]]] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0


def _layers(boxes: Sequence[Box], edges: Sequence[tuple[Box, Box]]) -> list[list[Box]]:
    """Every box one layer below the lowest it waits for."""
    after: dict[int, list[Box]] = {id(box): [] for box in boxes}
    waits = dict.fromkeys(after, 0)
    for first, second in edges:
        after[id(first)].append(second)
        waits[id(second)] += 1
    ready = [box for box in boxes if waits[id(box)] == 0]
    for box in ready:  # grows while it is walked
        for other in after[id(box)]:
            other.layer = max(other.layer, box.layer + 1)
            waits[id(other)] -= 1
            if waits[id(other)] == 0:
                ready.append(other)
    layers: list[list[Box]] = [[] for _ in range(max((box.layer for box in boxes), default=-1) + 1)]
    for box in boxes:
        layers[box.layer].append(box)
    return layers


def _chains(layers: list[list[Box]], edges: Sequence[tuple[Box, Box]]) -> list[list[Box]]:
    """Each edge as a chain of boxes in neighbouring layers: dummies stand where it crosses a layer."""
    chains = []
    for first, second in edges:
        chain = [first]
        for layer in range(first.layer + 1, second.layer):
            dummy = Box((), layer=layer)
            layers[layer].append(dummy)
            chain.append(dummy)
        chains.append([*chain, second])
    return chains


def _neighbours(chains: Iterable[list[Box]]) -> tuple[dict[int, list[Box]], dict[int, list[Box]]]:
    above: dict[int, list[Box]] = {}
    below: dict[int, list[Box]] = {}
    for chain in chains:
        for first, second in pairwise(chain):
            below.setdefault(id(first), []).append(second)
            above.setdefault(id(second), []).append(first)
    return above, below


def _order(layers: list[list[Box]], above: dict[int, list[Box]], below: dict[int, list[Box]]) -> None:
    """Fewer crossings: each layer in the order of the middles of its neighbours, down and up in turns."""
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for layer, fixed in (
            zip(layers[1:], layers, strict=False) if down else zip(layers[-2::-1], layers[::-1], strict=False)
        ):
            place = {id(box): index for index, box in enumerate(fixed)}
            near = above if down else below
            own = {id(box): index for index, box in enumerate(layer)}

            def middle(
                box: Box,
                near: dict[int, list[Box]] = near,
                place: dict[int, int] = place,
                own: dict[int, int] = own,
            ) -> float:
                others = near.get(id(box))
                return sum(place[id(other)] for other in others) / len(others) if others else own[id(box)]

            layer.sort(key=middle)


def _positions(layers: list[list[Box]], above: dict[int, list[Box]], below: dict[int, list[Box]]) -> None:
    for layer in layers:
        x = 0.0
        for box in layer:
            box.x = x + box.width / 2
            x += box.width + _GAP_X
    for sweep in range(2 * _SWEEPS):
        near = above if sweep % 2 == 0 else below
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wished = []
            for box in layer:
                others = near.get(id(box))
                wished.append(sum(other.x for other in others) / len(others) if others else box.x)
            _spread(layer, wished)
    left = min((box.x - box.width / 2 for layer in layers for box in layer), default=0.0)
    y = 0.0
    for layer in layers:
        for box in layer:
            box.x -= left
            box.y = y
        y += max(box.height for box in layer) + _GAP_Y


def _spread(layer: Sequence[Box], wished: Sequence[float]) -> None:
    """As near to the wished places as boxes beside each other can be: from the left, from the right, and the middle of both."""
    places = []
    for step in (1, -1):
        placed: list[float] = []
        before: Box | None = None
        for box, wish in list(zip(layer, wished, strict=True))[::step]:
            if before is not None:
                least = placed[-1] + step * ((before.width + box.width) / 2 + _GAP_X)
                wish = max(wish, least) if step == 1 else min(wish, least)
            placed.append(wish)
            before = box
        places.append(placed[::step])
    for box, left, right in zip(layer, *places, strict=True):
        box.x = (left + right) / 2


def arranged(boxes: list[Box], edges: list[tuple[Box, Box]]) -> Drawing:
    """The drawing with a place for every box and a route for every edge."""
    for box in boxes:
        box.measure()
    layers = _layers(boxes, edges)
    chains = _chains(layers, edges)
    above, below = _neighbours(chains)
    _order(layers, above, below)
    _positions(layers, above, below)
    drawing = Drawing(boxes, edges)
    heights = [max((box.height for box in layer), default=0.0) for layer in layers]
    for chain in chains:
        route = [(chain[0].x, chain[0].y + chain[0].height)]
        for dummy in chain[1:-1]:
            route += [(dummy.x, dummy.y), (dummy.x, dummy.y + heights[dummy.layer])]
        drawing.routes.append([*route, (chain[-1].x, chain[-1].y)])
    drawing.width = max((box.x + box.width / 2 for box in boxes), default=0.0)
    drawing.height = max((box.y + box.height for box in boxes), default=0.0)
    return drawing


# ---- what nodes show


def _triple(numbers: Iterable[int]) -> str:
    return "×".join(str(number) for number in numbers)


def _describe(node: GraphNode) -> tuple[str, list[str]]:
    """(kind, lines) of a node."""
    kind = type(node).__name__.removesuffix("Node")
    any_node: Any = node
    if kind == "Kernel":
        lines = [any_node.kernel.name, f"grid {_triple(any_node.grid)}, block {_triple(any_node.block)}"]
        if any_node.shmem_size:
            lines.append(f"{any_node.shmem_size:,} bytes of shared memory")
        return "kernel", lines
    if kind == "Memcpy":
        return "copy", [f"{any_node.size:,} bytes"]
    if kind == "Memset":
        elements = any_node.width * max(any_node.height, 1)
        return "fill", [f"{elements:,} × {any_node.element_size} bytes, value {any_node.value:#x}"]
    if kind == "HostCallback":
        function = any_node.callback
        return "host function", [
            getattr(function, "__name__", "a C function") if function is not None else "a C function"
        ]
    if kind == "Alloc":
        return "allocate", [f"{any_node.bytesize:,} bytes"]
    if kind == "Free":
        return "free", [f"{any_node.dptr:#x}"]
    names = {
        "ChildGraph": "child graph",
        "EventRecord": "record event",
        "EventWait": "wait for event",
        "IfElse": "if, else",
    }
    return names.get(kind, kind.lower()), []


def _bodies(node: GraphNode) -> list[tuple[str, GraphDefinition]]:
    any_node: Any = node
    kind = type(node).__name__
    if kind == "ChildGraphNode":
        return [("", any_node.child_graph)]
    branches = getattr(any_node, "branches", ())
    titles = {"IfNode": ["then"], "IfElseNode": ["then", "else"], "WhileNode": ["body"]}.get(kind)
    return list(zip(titles or [f"case {index}" for index in range(len(branches))], branches, strict=True))


def _draw(definition: GraphDefinition, depth: int = 0) -> Drawing:
    handles = definition._def.nodes()
    shown = handles[:MOST_NODES]
    boxes: dict[int, Box] = {}
    for handle in shown:
        node = definition._node(handle)
        kind, lines = _describe(node)
        inside = [(title, _draw(body, depth + 1)) for title, body in _bodies(node)] if depth < 8 else []
        boxes[handle] = Box([kind, *lines], inside, kind)
    edges = [(boxes[a], boxes[b]) for a, b in definition._def.edges() if a in boxes and b in boxes]
    more = [Box([f"and {len(handles) - len(shown)} more nodes"])] if len(handles) > len(shown) else []
    return arranged([*boxes.values(), *more], edges)


# ---- SVG


def _path(route: Sequence[tuple[float, float]]) -> str:
    """A smooth line that leaves and arrives vertically."""
    text = [f"M{route[0][0]:.1f},{route[0][1]:.1f}"]
    for (x0, y0), (x1, y1) in pairwise(route):
        middle = (y0 + y1) / 2
        text.append(f"C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1:.1f}")
    return "".join(text)


def _elements(drawing: Drawing, dx: float, dy: float) -> Iterable[str]:
    for route in drawing.routes:
        shifted = [(x + dx, y + dy) for x, y in route]
        yield f'<path d="{_path(shifted)}" fill="none" stroke="#555" marker-end="url(#cucore-arrow)"/>'
    for box in drawing.boxes:
        left, top = box.x - box.width / 2 + dx, box.y + dy
        colour = _COLOURS.get(box.kind, "#f3f3f3")
        yield (
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="5" '
            f'fill="{colour}" stroke="#555"/>'
        )
        y = top + _PADDING
        for index, line in enumerate(box.lines):
            weight = ' font-weight="bold"' if index == 0 else ""
            yield f'<text x="{box.x + dx:.1f}" y="{y + 12:.1f}" text-anchor="middle"{weight}>{escape(line)}</text>'
            y += _LINE
        for title, inner in box.inside:
            if title:
                yield f'<text x="{left + _PADDING:.1f}" y="{y + 12:.1f}" font-style="italic">{escape(title)}</text>'
                y += _LINE
            yield from _elements(inner, box.x + dx - inner.width / 2, y)
            y += inner.height + _PADDING


def render(drawing: Drawing) -> str:
    """The drawing as an SVG document."""
    width, height = drawing.width + 2 * _PADDING, max(drawing.height, _LINE) + 2 * _PADDING
    body = (
        "\n".join(_elements(drawing, _PADDING, _PADDING)) or f'<text x="{_PADDING}" y="{_PADDING + 12}">no nodes</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{max(width, 80):.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {max(width, 80):.0f} {height:.0f}" font-family="monospace" font-size="12" fill="#111">\n'
        '<defs><marker id="cucore-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>\n'
        f"{body}\n</svg>\n"
    )


def svg(definition: GraphDefinition) -> str:
    """A picture of a graph."""
    return render(_draw(definition))
