"""Draws a graph as SVG: layers from top to bottom, ports on the boxes, the type beside each output."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Final

from neumo.graph.draw.fold import EDGE, LABEL, place, turn_path
from neumo.graph.draw.layout import Layout, Tile, Wire, arrange
from neumo.graph.draw.parts import (
    Box,
    Link,
    Mark,
    Note,
    NoteKind,
    Sketch,
    Socket,
    clock_text,
    counted,
    shorten,
)
from neumo.graph.draw.sketch import sketch
from neumo.graph.draw.style import ROLES, TAGS, svg_style

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

MONO: Final = 6.95  # width of a letter of the 11.5 px monospace font, px
SANS: Final = 7.9  # mean width of a letter of the 14 px bold font, px
SMALL: Final = 6.2  # mean width of a letter of the 11.5 px font, px
LONGEST_MARK: Final = 24  # letters of one axis


def to_svg(graph: Graph) -> str:
    """Draw a graph as one SVG text that needs nothing else: fonts of the system, light and dark colours.

    Boxes are steps, coloured by role. Each output carries its type; lengths and masks are thin lines. The
    tooltip of a port tells its whole type and where its sizes come from.
    """
    return draw_sketch(sketch(graph, traces=True))


def draw_sketch(drawn: Sketch, *, live: bool = False) -> str:
    """Draw boxes and links; a `live` picture has no style of its own, and names its parts for a script."""
    return _Drawing(drawn, live).svg()


def number_ports(drawn: Sketch) -> dict[tuple[str, str, bool], int]:
    """Number all ports by (box, name, whether it is an output): what a live picture calls them."""
    numbers: dict[tuple[str, str, bool], int] = {}
    for box in drawn.boxes:
        for gives, sockets in ((False, box.takes), (True, box.gives)):
            for socket in sockets:
                numbers[box.key, socket.name, gives] = len(numbers)
    return numbers


class _Drawing:
    """One picture: the boxes as they are placed, and what its parts are called."""

    def __init__(self, drawn: Sketch, live: bool) -> None:
        self.drawn = drawn
        self.live = live
        self.boxes = {box.key: box for box in [*drawn.boxes, *_pills(drawn)]}
        self.pills = {f"->{name}": source for name, source in drawn.outputs.items()}
        self.links = list(drawn.links)
        self.links += [Link(source, out, f"->{name}", "") for name, (source, out) in drawn.outputs.items()]
        self.ports = number_ports(drawn)
        ends = [(link.source, link.out, link.target, link.port) for link in self.links]
        self.layout = _arrange_twice(self.boxes, ends)
        self.placing = place(self.layout)
        self.minor = {(b.key, each.name) for b in self.boxes.values() for each in b.gives if each.minor}

    def svg(self) -> str:
        parts = self.wires()
        for number, (key, box) in enumerate(self.boxes.items()):
            parts.append(self.box(number, box, self.layout.tiles[key]))
        parts += [self.notes(link) for link in self.links if link.notes]
        return self.page(parts)

    def name(self, **names: object) -> str:
        """Name a part of a live picture: `data-` attributes."""
        return "".join(f' data-{key}="{value}"' for key, value in names.items()) if self.live else ""

    def reach(self, label: str, **names: object) -> str:
        """Let the keyboard reach a part of a live picture."""
        if not self.live:
            return ""
        return f'{self.name(**names)} tabindex="0" role="button" aria-label="{escape(label)}"'

    def area(self, x: float, y: float, width: float, height: float) -> str:
        """Let a port of a live picture be hit between its words, too."""
        return (
            f'<path class="n-area" d="M{x:.0f} {y:.0f}h{width:.0f}v{height:.0f}h-{width:.0f}z"/>' * self.live
        )

    def wires(self) -> list[str]:
        """Draw each wire once, although several links may share it."""
        users: dict[Wire, list[int]] = {}
        for number, route in enumerate(self.layout.routes):
            for wire in route:
                users.setdefault(wire, []).append(number)
        return [self.wire(wire, links) for wire, links in users.items()]

    def wire(self, wire: Wire, links: list[int]) -> str:
        source, target = self.layout.tiles[wire.source], self.layout.tiles[wire.target]
        x, end = source.x + source.ports_out[wire.out], target.x + target.ports_in[wire.port]
        start = source.y + source.height
        if wire in self.placing.turns:
            path = turn_path(x, start, self.placing.turns[wire], end, target.y)
        else:
            bend = self.placing.bends[source.layer]
            middle = (bend + target.y) / 2
            curve = f"C{x:.1f} {middle:.1f} {end:.1f} {middle:.1f} {end:.1f} {target.y:.1f}"
            path = f"M{x:.1f} {start:.1f}V{bend:.1f}{curve}"
        first = self.links[links[0]]
        minor = (first.source, first.out) in self.minor
        who = self.name(p=self.ports[first.source, first.out, True], l=" ".join(map(str, links)))
        thin = " n-thin" if minor else ""
        drawn = f'<path class="n-wire{thin}" d="{path}"{who}/>'
        if target.passing:
            return drawn
        tip = f'd="M{end - 3.5:.1f} {target.y - 7:.1f}h7l-3.5 7z"'
        return f'{drawn}<path class="n-tip{" n-thin-tip" * minor}" {tip}{who}/>'

    def box(self, number: int, box: Box, tile: Tile) -> str:
        middle, y = tile.x + tile.width / 2, tile.y
        if box.role == "outputs":
            who = self.reach(f"output {box.title}", p=self.ports[(*self.pills[box.key], True)])
        else:
            who = self.reach(_tooltip(box), b=number)
        tag = f" n-tag{box.tag % len(TAGS)}" if box.tag else ""
        rows = [
            f'<g class="n-box n-{escape(box.role)}{tag}"{who}><title>{escape(_tooltip(box))}</title>'
            f'<rect x="{tile.x:.1f}" y="{y:.1f}" width="{tile.width:.1f}" height="{tile.height:.1f}"'
            f' rx="{12 if box.role == "outputs" else 7}"/>'
        ]
        rows += [self.input(box, socket, tile) for socket in box.takes if socket.name]
        y += 15 * bool(box.takes) + (18 if box.role != "outputs" else 2)
        rows.append(_text("n-title", middle, y, box.title, "middle"))
        if _subtitle(box):
            rows.append(_text("n-kind", middle, y + 16, _subtitle(box), "middle"))
        rows += [self.output(box, socket, tile) for socket in box.gives]
        if box.tag:
            rows.append(_badge("n-tag", tile.x + 2, tile.y + 2, str(box.tag), _shared(box), 9))
        if box.notes:
            rows.append(_note(box.notes, tile.x + tile.width - 4, tile.y + 3))
        return "".join([*rows, "</g>"])

    def input(self, box: Box, socket: Socket, tile: Tile) -> str:
        x = tile.x + tile.ports_in[socket.name]
        label = f"{socket.name} takes {socket.type}" + ("" if socket.used else ", left open")
        reach = self.reach(f"{box.title}, {label}", p=self.ports[box.key, socket.name, False])
        ring = "" if socket.used else f'<circle class="n-open" cx="{x:.1f}" cy="{tile.y:.1f}" r="3"/>'
        faint = "" if socket.used else " n-unused"
        wide = _caption(socket) - 4
        return (
            f'<g class="n-in{faint}"{reach}><title>{escape(label)}</title>{ring}'
            f"{self.area(x - wide / 2, tile.y - 8, wide, 24)}"
            f"{_text('n-port', x, tile.y + 13, socket.caption, 'middle')}</g>"
        )

    def output(self, box: Box, socket: Socket, tile: Tile) -> str:
        x, bottom = tile.x + tile.ports_out[socket.name], tile.y + tile.height
        label = f"{socket.name}: {socket.type}"
        reach = self.reach(f"{box.title}, {label}", p=self.ports[box.key, socket.name, True])
        faint = "" if socket.used else " n-unused"
        title = "\n".join([label, *socket.stories])
        return (
            f'<g class="n-out{faint}"{reach}><title>{escape(title)}</title>'
            f'<circle cx="{x:.1f}" cy="{bottom:.1f}" r="3"/>'
            + self.area(x - 6, bottom - 18, _column(socket) - 4, 18 + LABEL - 4)
            + _text("n-port", x - 3, bottom - 6, socket.caption)
            + self.element(socket, x + 7, bottom + 15)
            + self.axes(socket, x + 7, bottom + 30)
            + "</g>"
        )

    def element(self, socket: Socket, x: float, y: float) -> str:
        """The element; what lengths count can be followed as an axis can."""
        measured = [mark for mark in socket.marks if isinstance(mark.slot, str)]
        who = self.name(x=len(socket.marks) - 1, s=_numbers(measured[-1])) if measured else ""
        return f'<text class="n-type" x="{x:.1f}" y="{y:.1f}"{who}>{escape(shorten(socket.element))}</text>'

    def axes(self, socket: Socket, x: float, y: float) -> str:
        words = _axis_words(socket)
        if not words:
            return _text("n-axes", x, y, socket.axes)
        marks = [
            f"<tspan{self.name(x=index, s=_numbers(mark))}>{escape(word)}</tspan>"
            for index, (mark, word) in enumerate(words)
        ]
        tail = escape(_clock_words(socket))
        return f'<text class="n-axes" x="{x:.1f}" y="{y:.1f}">[{", ".join(marks)}]{tail}</text>'

    def notes(self, link: Link) -> str:
        tile = self.layout.tiles[link.target]
        return _note(link.notes, tile.x + tile.ports_in[link.port] + 12, tile.y - 9)

    def page(self, parts: list[str]) -> str:
        heading = (
            f"graph {self.drawn.name} · mode {self.drawn.mode} · {counted(len(self.drawn.boxes), 'step')}"
        )
        legend, right = _legend(self.drawn, EDGE + len(heading) * SANS + 20)
        width, height = max(self.placing.width, right + EDGE), self.placing.height
        style = "" if self.live else f"<style>{svg_style()}</style>"
        head = "" if self.live else f"<title>{escape(heading)}</title>"
        page = f'<rect class="n-page" width="{width:.0f}" height="{height:.0f}" rx="8"/>'
        title = _text("n-title n-head", EDGE, EDGE + 9, heading)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="neumo" role="{"group" if self.live else "img"}" '
            f'aria-label="{escape(heading)}" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}">{head}{style}{page}{title}{legend}{"".join(parts)}</svg>'
        )


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
        ordered = sorted(box.takes, key=lambda socket: arrive.get((key, socket.name), float("inf")))
        boxes[key] = replace(box, takes=tuple(ordered))
    return arrange([_tile(box) for box in boxes.values()], links)


def _tile(box: Box) -> Tile:
    ins = [_caption(socket) for socket in box.takes]
    outs = [_column(socket) for socket in box.gives]
    heading = max(len(box.title) * SANS, len(_subtitle(box)) * SMALL) + 28
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


def _caption(socket: Socket) -> float:
    return len(socket.caption) * MONO + 14


def _column(socket: Socket) -> float:
    words = _axis_words(socket)
    axes = sum(len(word) + 2 for _, word in words) + len(_clock_words(socket)) if words else len(socket.axes)
    return max(len(socket.caption), len(shorten(socket.element)) + 1, axes + 1) * MONO + 20


def _height(box: Box) -> float:
    return 26 + 16 * bool(_subtitle(box)) + 15 * bool(box.takes) + 16 * bool(box.gives)


def _axis_words(socket: Socket) -> list[tuple[Mark, str]]:
    """The axes of a type, each cut to what can be read at a glance."""
    return [(mark, shorten(mark.text, LONGEST_MARK)) for mark in socket.marks if isinstance(mark.slot, int)]


def _clock_words(socket: Socket) -> str:
    """The steps per second of the axes: `  100 Hz`."""
    clocks = [clock_text(mark.clock) for mark in socket.marks if mark.clock is not None]
    return f"  {', '.join(clocks)}" if clocks else ""


def _numbers(mark: Mark) -> str:
    return " ".join(map(str, mark.symbols))


def _subtitle(box: Box) -> str:
    if not box.kind:
        return ""
    inside = f"({shorten(box.settings)})" if box.settings else ""
    return f"{box.kind}{inside}" + (f" · shared by {box.shared} steps" if box.shared > 1 else "")


def _note(notes: Iterable[Note], x: float, y: float) -> str:
    notes = list(notes)
    kind = next((note.kind for note in notes if note.kind != "assumed"), "assumed")
    words = "\n".join(f"{note.kind}: {note.text}" for note in notes)
    return _badge(f"n-note n-{kind}", x, y, "?" if kind == "assumed" else "!", words, 7)


def _badge(kind: str, x: float, y: float, sign: str, title: str, radius: float) -> str:
    return (
        f'<g class="{kind}"><title>{escape(title)}</title><circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'
        f'<text x="{x:.1f}" y="{y + 3.5:.1f}" text-anchor="middle">{sign}</text></g>'
    )


def _shared(box: Box) -> str:
    weights = ", with one set of weights" if box.trainable else ""
    return f"one module{weights}: {', '.join(box.uses)}"


def _text(kind: str, x: float, y: float, text: str, anchor: str = "") -> str:
    where = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{where}>{escape(text)}</text>'


def _tooltip(box: Box) -> str:
    if not box.kind:
        return f"{'output' if box.role == 'outputs' else 'open inputs'} of the graph"
    weights = ", with weights" if box.trainable else ""
    return f"{box.title}: {box.kind}({box.settings}), {box.role}{weights}"


def _legend(drawn: Sketch, x: float) -> tuple[str, float]:
    """Say which colour is which role and what the other signs mean; gives where it ends, too."""
    y, legend = EDGE + 8.5, ""
    for role in (role for role in ROLES if any(box.role == role for box in drawn.boxes)):
        legend += f'<g class="n-{role}"><rect x="{x:.1f}" y="{y - 9.5:.1f}" width="11" height="11" rx="3"/>'
        legend += _text("n-kind", x + 16, y, role) + "</g>"
        x += len(role) * SMALL + 34
    if any(link.minor for link in drawn.links):
        legend += f'<path class="n-wire n-thin" d="M{x:.1f} {y - 4:.1f}h22"/>'
        legend += _text("n-kind", x + 27, y, "lengths, masks")
        x += 14 * SMALL + 44
    kinds = {note.kind for box in drawn.boxes for note in box.notes}
    kinds |= {note.kind for link in drawn.links for note in link.notes}
    for kind, words in _KINDS.items():
        if kind in kinds:
            legend += _note([Note(kind, words)], x + 7, y - 4) + _text("n-kind", x + 18, y, words)
            x += len(words) * SMALL + 34
    if any(box.tag for box in drawn.boxes):
        legend += _badge("n-tag", x + 8, y - 4, "n", "one module used more than once", 8)
        legend += _text("n-kind", x + 20, y, "same number, same module")
        x += 24 * SMALL + 34
    return legend, x


_KINDS: Final[dict[NoteKind, str]] = {
    "assumed": "taken on trust",
    "finding": "to look at",
    "warning": "differs, let pass",
}
