"""Draws a graph as Mermaid text, which GitHub, GitLab and notebooks turn into a picture."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from neumo.graph.draw.parts import Box, Link, Sketch, Socket, short_type, shorten
from neumo.graph.draw.sketch import sketch

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

_LINE: Final = 44  # letters of a type that stay on one line
_CLASSES: Final = {
    "inputs": "fill:#f1f5f9,stroke:#475569,color:#0f172a",
    "data": "fill:#e0f2fe,stroke:#0369a1,color:#0f172a",
    "module": "fill:#eef2ff,stroke:#4338ca,color:#0f172a",
    "decoder": "fill:#d1fae5,stroke:#047857,color:#0f172a",
    "loss": "fill:#ffe4e6,stroke:#be123c,color:#0f172a",
    "metric": "fill:#fef3c7,stroke:#b45309,color:#0f172a",
    "adapter": "fill:#f3e8ff,stroke:#6b21a8,color:#0f172a",
    "outputs": "fill:#ffffff,stroke:#334155,color:#0f172a",
}


def to_mermaid(graph: Graph) -> str:
    """Draw a graph as a Mermaid flow chart: a box per step, the type on each connection, lengths dotted."""
    return chart_sketch(sketch(graph))


def chart_sketch(drawn: Sketch) -> str:
    """Write boxes and links as Mermaid."""
    ids = {box.key: f"n{index}" for index, box in enumerate(drawn.boxes)}
    sockets = {(box.key, socket.name): socket for box in drawn.boxes for socket in box.gives}
    rows = ["flowchart TD"]
    rows += [f"    {ids[box.key]}{_shape(box)}:::{box.role}" for box in drawn.boxes]
    for link in drawn.links:
        label = _label(sockets[link.source, link.out], link.port) + _signs(link)
        rows.append(f"    {ids[link.source]} {_arrow(label, link.minor)} {ids[link.target]}")
    for index, (name, (source, out)) in enumerate(drawn.outputs.items()):
        socket = sockets[source, out]
        rows.append(f"    {ids[source]} {_arrow(_label(socket, ''), socket.minor)} o{index}")
        rows.append(f'    o{index}(["{_quote(name)}"]):::outputs')
    used = {*(box.role for box in drawn.boxes), *(["outputs"] if drawn.outputs else [])}
    rows += [f"    classDef {role} {style}" for role, style in _CLASSES.items() if role in used]
    return "\n".join(rows) + "\n"


def _shape(box: Box) -> str:
    if not box.kind:
        return '(["inputs"])'
    shared = f"<br/>shared by {box.shared} steps" if box.shared > 1 else ""
    title = f"<b>{_quote(box.title)}</b><br/>{_quote(box.kind)}{shared}"
    return f'[("{title}")]' if box.role == "data" else f'["{title}"]'


def _label(socket: Socket, port: str) -> str:
    ports = socket.name if port in {"", socket.name} else f"{socket.name} → {port}"
    kind, axes = shorten(socket.element), short_type(socket.axes)
    parts = [kind + axes] if len(kind + axes) <= _LINE else [kind, axes]
    return "<br/>".join(_quote(part) for part in [ports, *parts])


def _signs(link: Link) -> str:
    """What was taken on trust or let pass at a connection."""
    notes = (f"<br/>{'?' if note.kind == 'assumed' else '!'} {_quote(note.text)}" for note in link.notes)
    return "".join(notes)


def _arrow(label: str, minor: bool) -> str:
    return f'-. "{label}" .->' if minor else f'-- "{label}" -->'


def _quote(text: str) -> str:
    """Mermaid reads entities written with `#`: quotes, brackets and the sign itself would end a label."""
    return re.sub(r'[#"<>&`]', lambda sign: f"#{ord(sign[0])};", " ".join(text.split()))
