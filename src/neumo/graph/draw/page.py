"""Draws graphs as one HTML page on which ports can be read, sizes followed and modules looked into.

The page asks for no other file and sends nothing: its policy forbids it to. All text is put into it as text,
either escaped or as JSON that the script of the page reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neumo.graph.draw.parts import Box, Mark, Note, Sketch, clock_text
from neumo.graph.draw.sketch import sketch
from neumo.graph.draw.style import page_style
from neumo.graph.draw.svg import draw_sketch, number_ports
from neumo.graph.draw.text import list_sketch

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

_HERE: Final = Path(__file__).parent
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def to_page(graphs: Sequence[Graph], title: str) -> str:
    """Draw graphs as a whole HTML page that needs no other file; modules that they share have one colour."""
    return page_of([sketch(graph, traces=True, family=graphs) for graph in graphs], title)


def page_of(sketches: Sequence[Sketch], title: str) -> str:
    """Put sketches on one page: a tab each, the picture, its listing, and what the script tells about it."""
    tabs = "".join(
        f'<a role="tab" href="#graph-{number}" id="tab-{number}" aria-controls="graph-{number}">'
        f"{escape(drawn.name)} <small>{escape(drawn.mode)}</small></a>"
        for number, drawn in enumerate(sketches)
    )
    sections = "".join(_section(number, drawn) for number, drawn in enumerate(sketches))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{page_style()}\n{_file('page.css')}</style></head>\n"
        f"<body><header><h1>{escape(title)}</h1>"
        f'<nav class="tabs" role="tablist" aria-label="graphs">{tabs}</nav>{_TOOLS}</header>\n'
        f"<main>{sections}</main>"
        '<aside id="panel" aria-live="polite" aria-label="what is selected"></aside>\n'
        f'<script type="application/json" id="model">{_json(page_model(sketches))}</script>\n'
        f"<script>{_file('page.js')}</script></body></html>\n"
    )


def _section(number: int, drawn: Sketch) -> str:
    return (
        f'<section id="graph-{number}" role="tabpanel" aria-labelledby="tab-{number}">'
        f'<h2>{escape(drawn.name)}</h2><div class="canvas">{draw_sketch(drawn, live=True)}</div>'
        f"<details><summary>listing</summary><pre>{escape(list_sketch(drawn))}</pre></details></section>\n"
    )


_TOOLS: Final = (
    '<div class="tools"><input type="search" id="search" placeholder="find a module, port or type" '
    'aria-label="find a module, port or type"><output id="found" for="search"></output>'
    '<span class="zoom"><button type="button" id="smaller" aria-label="smaller">&#8722;</button>'
    '<button type="button" id="whole" aria-label="whole width">fit</button>'
    '<button type="button" id="larger" aria-label="larger">+</button></span>'
    '<button type="button" id="shade" aria-label="light or dark">&#9680;</button></div>'
)


def page_model(sketches: Sequence[Sketch]) -> dict[str, Any]:
    """Give what the script of the page knows, as plain data; types are told once and then by number."""
    types: dict[str, int] = {}
    graphs = [_Model(drawn, types).graph() for drawn in sketches]
    return {"types": list(types), "graphs": graphs}


class _Model:
    """One graph as data: boxes, ports, links and the hops of sizes refer to one another by number."""

    def __init__(self, drawn: Sketch, types: dict[str, int]) -> None:
        self.drawn = drawn
        self.types = types
        self.numbers = number_ports(drawn)
        self.hops = {key: number for number, key in enumerate(drawn.hops)}
        self.steps = {key: step for step, key in drawn.keys.items()}

    def graph(self) -> dict[str, Any]:
        drawn, numbers = self.drawn, self.numbers
        links: list[list[Any]] = [
            [
                numbers[link.source, link.out, True],
                numbers[link.target, link.port, False],
                _notes(link.notes),
            ]
            for link in drawn.links
        ]
        links += [[numbers[source, out, True], -1, [], name] for name, (source, out) in drawn.outputs.items()]
        return {
            "name": drawn.name,
            "notes": _notes(drawn.notes),
            "mode": drawn.mode,
            "boxes": [self.box(box) for box in drawn.boxes],
            "ports": [port for number, box in enumerate(drawn.boxes) for port in self.ports(number, box)],
            "links": links,
            "hops": [self.hop(key) for key in drawn.hops],
            "symbols": [[origin.name, origin.value] for origin in drawn.symbols],
        }

    def box(self, box: Box) -> dict[str, Any]:
        fields = [[each.name, each.text, int(each.default)] for each in box.fields]
        found = {
            "key": box.key,
            "title": box.title,
            "kind": box.kind,
            "role": box.role,
            "weights": int(box.trainable),
            "about": box.summary,
            "place": box.place,
            "fields": fields,
            "uses": list(box.uses) if len(box.uses) > 1 else [],
            "notes": _notes(box.notes),
        }
        return {key: value for key, value in found.items() if value}

    def ports(self, number: int, box: Box) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for gives, sockets in ((0, box.takes), (1, box.gives)):
            for socket in sockets:
                port = {
                    "box": number,
                    "name": socket.name,
                    "gives": gives,
                    "type": self.types.setdefault(socket.type, len(self.types)),
                    "optional": int(socket.optional),
                    "when": socket.when,
                    "marks": [self.mark(box, socket.name, mark) for mark in socket.marks],
                }
                port = {key: value for key, value in port.items() if value or key in ("box", "type")}
                found.append(port)
        return found

    def mark(self, box: Box, port: str, mark: Mark) -> list[Any]:
        """An axis: what is printed, the number of its symbols, its clock, and its hop."""
        hop = self.hops.get((self.steps.get(box.key, 0), port, mark.slot), -1)
        clock = "" if mark.clock is None else clock_text(mark.clock)
        return [mark.text, list(mark.symbols), clock, hop, "" if isinstance(mark.slot, int) else mark.slot]

    def hop(self, key: tuple[int, str, Any]) -> list[Any]:
        hop = self.drawn.hops[key]
        before = [self.hops[id(each.value.step), each.value.port, each.slot] for each in hop.before]
        port = self.numbers[self.drawn.keys[key[0]], key[1], True]
        return [port, str(hop.size), before, hop.rule, hop.why]


def _notes(notes: Sequence[Note]) -> list[list[str]]:
    return [[note.kind, note.text] for note in notes]


def _json(model: dict[str, Any]) -> str:
    """Write data that can stand in a page: nothing in it can end the script or begin markup."""
    text = json.dumps(model, ensure_ascii=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
