"""Draws a graph as SVG: layers from top to bottom, ports on the boxes, the type beside each output."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Final

from neumo.graph.draw_layout import Layout, Tile, Wire, arrange
from neumo.graph.draw_sketch import Box, Sketch, Socket, short_type, sketch

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

MONO: Final = 6.35  # width of a letter of the 10.5 px monospace font, px
SANS: Final = 7.3  # mean width of a letter of the 13 px bold font, px
SMALL: Final = 5.9  # mean width of a letter of the 11 px font, px
EDGE: Final = 18.0  # margin of the picture, px
LABEL: Final = 34.0  # height kept free under a box for the types of its outputs, px
LONGEST: Final = 34  # letters of an element or of settings; the whole is in the tooltip
LONGEST_AXES: Final = 44

ROLES: Final = {  # role: (line and text, fill) in light, then in dark surroundings
    "inputs": ("#475569", "#f1f5f9", "#cbd5e1", "#1e293b"),
    "data": ("#0369a1", "#e0f2fe", "#7dd3fc", "#0c2d48"),
    "module": ("#4338ca", "#eef2ff", "#a5b4fc", "#1e1b4b"),
    "decoder": ("#047857", "#d1fae5", "#6ee7b7", "#053b2e"),
    "loss": ("#be123c", "#ffe4e6", "#fda4af", "#4c0519"),
    "metric": ("#b45309", "#fef3c7", "#fcd34d", "#451a03"),
    "adapter": ("#6b21a8", "#f3e8ff", "#d8b4fe", "#3b0764"),
    "outputs": ("#334155", "#ffffff", "#e2e8f0", "#0f172a"),
}


def to_svg(graph: Graph) -> str:
    """Draw a graph as one SVG text that needs nothing else: fonts of the system, light and dark colours.

    Boxes are steps, coloured by role. Each output carries its type; lengths and masks are thin lines.
    """
    return draw_sketch(sketch(graph))


def draw_sketch(drawn: Sketch) -> str:
    """Draw boxes and links."""
    boxes = {box.key: box for box in [*drawn.boxes, *_pills(drawn)]}
    links = [(link.source, link.out, link.target, link.port) for link in drawn.links]
    links += [(source, out, f"->{name}", "") for name, (source, out) in drawn.outputs.items()]
    layout = _arrange_twice(boxes, links)
    tops, height = _place_layers(layout)
    minor = {(box.key, socket.name) for box in boxes.values() for socket in box.gives if socket.minor}
    parts = [_wire(layout, tops, wire, minor) for wire in _unique(layout)]
    parts += [_box(box, layout.tiles[key]) for key, box in boxes.items()]
    return _page(drawn, parts, layout.width + 2 * EDGE, height)


def _pills(drawn: Sketch) -> list[Box]:
    return [Box(f"->{name}", name, "", "outputs", takes=(Socket(""),)) for name in drawn.outputs]


def _arrange_twice(boxes: dict[str, Box], links: list[tuple[str, str, str, str]]) -> Layout:
    """Arrange; then put the inputs of each box in the order in which their links arrive; arrange again."""
    first = arrange([_tile(box) for box in boxes.values()], links)
    arrive: dict[tuple[str, str], float] = {}
    for route in first.routes:
        wire = route[-1]
        source = first.tiles[wire.source]
        arrive[wire.target, wire.port] = source.x + source.ports_out[wire.out]
    for key, box in boxes.items():
        ordered = sorted(box.takes, key=lambda socket: arrive.get((key, socket.name), 0.0))
        boxes[key] = replace(box, takes=tuple(ordered))
    return arrange([_tile(box) for box in boxes.values()], links)


def _tile(box: Box) -> Tile:
    ins = [len(socket.name) * MONO + 14 for socket in box.takes]
    outs = [_column(socket) for socket in box.gives]
    heading = max(len(box.title) * SANS, len(_subtitle(box)) * SMALL) + 24
    width = max(heading, sum(ins) + 8, sum(outs) + 8, 64.0)
    if box.role == "outputs":
        return Tile(box.key, len(box.title) * SANS + 28, 24, {"": (len(box.title) * SANS + 28) / 2})
    tile = Tile(box.key, width, _height(box))
    x = (width - sum(ins)) / 2
    for socket, column in zip(box.takes, ins, strict=True):
        tile.ports_in[socket.name] = x + column / 2
        x += column
    x = (width - sum(outs)) / 2
    for socket, column in zip(box.gives, outs, strict=True):
        tile.ports_out[socket.name] = x + 9
        x += column
    return tile


def _column(socket: Socket) -> float:
    letters = max(len(socket.name), len(_cut(socket.element)) + 1, len(_cut(socket.axes, LONGEST_AXES)) + 1)
    return letters * MONO + 18


def _height(box: Box) -> float:
    return 24 + 15 * bool(_subtitle(box)) + 14 * bool(box.takes) + 15 * bool(box.gives)


def _subtitle(box: Box) -> str:
    if not box.kind:
        return ""
    inside = f"({_cut(box.settings)})" if box.settings else ""
    return f"{box.kind}{inside}" + (f" · shared by {box.shared} steps" if box.shared > 1 else "")


def _cut(text: str, longest: int = LONGEST) -> str:
    text = short_type(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _place_layers(layout: Layout) -> tuple[list[tuple[float, float]], float]:
    """Give each layer its top and the line below its labels; wires bend only between layers."""
    y = EDGE + 40
    tops: list[tuple[float, float]] = []
    for index, layer in enumerate(layout.layers):
        tiles = [layout.tiles[key] for key in layer]
        height = max((tile.height for tile in tiles), default=0.0)
        for tile in tiles:
            tile.x += EDGE
            tile.y = y
        labels = LABEL if any(tile.ports_out and not tile.passing for tile in tiles) else 0.0
        tops.append((y, y + height + labels))
        far = _farthest(layout, index)
        y += height + labels + 26 + min(40.0, far * 0.07)
    return tops, (tops[-1][1] if tops else y) + EDGE


def _farthest(layout: Layout, layer: int) -> float:
    spans = [0.0]
    for wire in _unique(layout):
        source, target = layout.tiles[wire.source], layout.tiles[wire.target]
        if source.layer == layer:
            spans.append(abs(source.x + source.ports_out[wire.out] - target.x - target.ports_in[wire.port]))
    return max(spans)


def _unique(layout: Layout) -> list[Wire]:
    return list(dict.fromkeys(wire for route in layout.routes for wire in route))


def _wire(layout: Layout, tops: list[tuple[float, float]], wire: Wire, minor: set[tuple[str, str]]) -> str:
    source, target = layout.tiles[wire.source], layout.tiles[wire.target]
    x, end = source.x + source.ports_out[wire.out], target.x + target.ports_in[wire.port]
    start, bend = source.y + source.height, tops[source.layer][1]
    middle = (bend + target.y) / 2
    curve = f"C{x:.1f} {middle:.1f} {end:.1f} {middle:.1f} {end:.1f} {target.y:.1f}"
    path = f"M{x:.1f} {start:.1f}V{bend:.1f}{curve}"
    name = wire.source.partition("@")[0].rpartition(".") if source.passing else (wire.source, "", wire.out)
    thin = "n-thin" if (name[0], name[2]) in minor else "n-wire"
    arrow = "" if target.passing else f' marker-end="url(#{thin}-end)"'
    return f'<path class="{thin}" d="{path}"{arrow}/>'


def _box(box: Box, tile: Tile) -> str:
    middle, y = tile.x + tile.width / 2, tile.y
    corner = 12 if box.role == "outputs" else 7
    rows = [
        f'<g class="n-{escape(box.role)}"><title>{escape(_tooltip(box))}</title>'
        f'<rect x="{tile.x:.1f}" y="{y:.1f}" width="{tile.width:.1f}" height="{tile.height:.1f}"'
        f' rx="{corner}"/>'
    ]
    for socket in box.takes:
        if socket.name:
            rows.append(_text("n-port", tile.x + tile.ports_in[socket.name], y + 12, socket.name, "middle"))
    y += 14 * bool(box.takes) + (16 if box.role != "outputs" else 2)
    rows.append(_text("n-title", middle, y, box.title, "middle"))
    if _subtitle(box):
        rows.append(_text("n-kind", middle, y + 15, _subtitle(box), "middle"))
    bottom = tile.y + tile.height
    for socket in box.gives:
        rows.append(_output(socket, tile.x + tile.ports_out[socket.name], bottom))
    return "".join([*rows, "</g>"])


def _output(socket: Socket, x: float, bottom: float) -> str:
    faint = "" if socket.used else " n-unused"
    return (
        f'<g class="n-out{faint}"><title>{escape(f"{socket.name}: {socket.type}")}</title>'
        f'<circle cx="{x:.1f}" cy="{bottom:.1f}" r="2.6"/>'
        + _text("n-port", x - 3, bottom - 6, socket.name)
        + _text("n-type", x + 6, bottom + 14, _cut(socket.element))
        + _text("n-axes", x + 6, bottom + 27, _cut(socket.axes, LONGEST_AXES))
        + "</g>"
    )


def _text(kind: str, x: float, y: float, text: str, anchor: str = "") -> str:
    where = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{where}>{escape(text)}</text>'


def _tooltip(box: Box) -> str:
    if not box.kind:
        return f"{'output' if box.role == 'outputs' else 'open inputs'} of the graph"
    weights = ", with weights" if box.trainable else ""
    return f"{box.title}: {box.kind}({box.settings}), {box.role}{weights}"


def _page(drawn: Sketch, parts: list[str], width: float, height: float) -> str:
    heading = f"graph {drawn.name} · mode {drawn.mode} · {len(drawn.boxes)} steps"
    roles = [role for role in ROLES if any(box.role == role for box in drawn.boxes)]
    legend, x = "", EDGE + len(heading) * SANS + 20
    for role in roles:
        legend += f'<g class="n-{role}"><rect x="{x:.1f}" y="{EDGE - 2:.1f}" width="11" height="11" rx="3"/>'
        legend += _text("n-kind", x + 16, EDGE + 7.5, role) + "</g>"
        x += len(role) * SMALL + 34
    width = max(width, x + EDGE)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="neumo" role="img" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"><title>{escape(heading)}</title>'
        f"<style>{_style()}</style>{_MARKERS}"
        f'<rect class="n-page" width="{width:.0f}" height="{height:.0f}" rx="8"/>'
        f"{_text('n-title n-head', EDGE, EDGE + 8, heading)}{legend}{''.join(parts)}</svg>"
    )


_MARKERS: Final = (
    "<defs>"
    + "".join(
        f'<marker id="{name}-end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="{size}" '
        f'markerHeight="{size}" markerUnits="userSpaceOnUse" orient="auto">'
        f'<path class="{name}-tip" d="M0 1L7 4L0 7z"/></marker>'
        for name, size in (("n-wire", 8), ("n-thin", 6.5))
    )
    + "</defs>"
)


def _style() -> str:
    light, dark = _colours(0), _colours(2)
    return f"{_FONTS}{light}@media (prefers-color-scheme:dark){{{dark}}}"


_FONTS: Final = (
    ".neumo text{font-family:ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif}"
    ".neumo .n-title{font-size:13px;font-weight:600}.neumo .n-kind{font-size:11px}"
    ".neumo .n-port,.neumo .n-type,.neumo .n-axes"
    "{font-family:ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:10.5px}"
    ".neumo .n-type{font-weight:600}.neumo .n-unused{opacity:.5}"
    ".neumo .n-wire{fill:none;stroke-width:1.7}.neumo .n-thin{fill:none;stroke-width:1;stroke-dasharray:4 3}"
)


def _colours(shade: int) -> str:
    page, ink, faint, wire, thin = (
        ("#ffffff", "#0f172a", "#475569", "#64748b", "#94a3b8"),
        ("#0b1220", "#f1f5f9", "#a8b3c4", "#94a3b8", "#64748b"),
    )[shade // 2]
    rules = [
        f".neumo .n-page{{fill:{page}}}.neumo text,.neumo .n-title{{fill:{ink}}}",
        f".neumo .n-kind,.neumo .n-axes,.neumo .n-port{{fill:{faint}}}.neumo .n-type{{fill:{ink}}}",
        f".neumo .n-wire{{stroke:{wire}}}.neumo .n-wire-tip{{fill:{wire}}}",
        f".neumo .n-thin{{stroke:{thin}}}.neumo .n-thin-tip{{fill:{thin}}}",
    ]
    for role, colours in ROLES.items():
        line, fill = colours[shade : shade + 2]
        rules.append(
            f".neumo .n-{role} rect{{fill:{fill};stroke:{line}}}.neumo .n-{role} circle{{fill:{line}}}"
        )
        rules.append(f".neumo .n-{role} .n-title{{fill:{line}}}")
    return "".join(rules)
