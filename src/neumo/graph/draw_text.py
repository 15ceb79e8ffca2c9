"""Draws a graph as a typed listing: one step a paragraph, the types in one column."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from neumo.graph.draw_sketch import Box, Link, Sketch, Socket, short_type, sketch

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

WIDTH: Final = 100  # columns


def to_text(graph: Graph) -> str:
    """List the steps of a graph in order: what each takes, and the type of each value that it gives.

    Outputs that nobody uses are marked; a module that several steps share says so. At most 100 columns wide.
    """
    return list_sketch(sketch(graph))


def list_sketch(drawn: Sketch) -> str:
    """List boxes and links as text."""
    names = [socket.name for box in drawn.boxes for socket in box.gives] + list(drawn.outputs)
    column = max(map(len, names), default=0)
    rows = [_heading(drawn)]
    for box in drawn.boxes:
        rows += ["", *_head(box, [link for link in drawn.links if link.target == box.key])]
        rows += [row for socket in box.gives for row in _output(socket, column)]
    rows += _outputs(drawn, column)
    return "\n".join(row.rstrip() for row in rows) + "\n"


def _heading(drawn: Sketch) -> str:
    modules = len({box.title for box in drawn.boxes if box.kind})
    steps = len(drawn.boxes)
    return (
        f"graph {drawn.name} ({drawn.mode}): {modules} modules, {steps} steps, {len(drawn.links)} connections"
    )


def _head(box: Box, links: list[Link]) -> list[str]:
    if not box.kind:
        return ["inputs"]
    shared = "" if box.shared == 1 else f", shares the weights of {box.title}"
    kind = f"{box.kind}({box.settings})"
    rows = textwrap.wrap(
        f"{box.key} = {kind}{shared}", WIDTH, subsequent_indent="      ", break_on_hyphens=False
    )
    wires = [f"{link.port}={_spell(link.source, link.out)}" for link in links]
    taken = "    <- " + ", ".join(wires)
    return rows + (
        textwrap.wrap(taken, WIDTH, subsequent_indent="       ", break_on_hyphens=False) if wires else []
    )


def _output(socket: Socket, column: int) -> list[str]:
    shown = f"{socket.element}{short_type(socket.axes)}{'' if socket.used else '  (not used)'}"
    first, rest = f"    {socket.name:<{column}}  ", " " * (column + 8)
    return textwrap.wrap(
        shown,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=False,
    )


def _outputs(drawn: Sketch, column: int) -> list[str]:
    return ["", "outputs"] + [
        f"    {name:<{column}}  {_spell(source, out)}" for name, (source, out) in drawn.outputs.items()
    ]


def _spell(source: str, out: str) -> str:
    return out if source == "inputs" else f"{source}.{out}"
