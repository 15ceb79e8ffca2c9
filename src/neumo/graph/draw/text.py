"""Draws a graph as a typed listing: one step a paragraph, the types in one column."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from neumo.graph.draw.parts import Box, Link, Note, Sketch, Socket, clock_text, counted, short_type
from neumo.graph.draw.sketch import sketch

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

WIDTH: Final = 100  # columns
_TIED: Final = "\u00a0"  # a space at which no line is broken


def to_text(graph: Graph) -> str:
    """List the steps of a graph in order: what each takes, and the type of each value that it gives.

    Outputs that nobody uses are marked; a module that several steps share says so. At most 100 columns wide.
    """
    return list_sketch(sketch(graph))


def list_sketch(drawn: Sketch) -> str:
    """List boxes and links as text."""
    names = [socket.name for box in drawn.boxes for socket in box.gives] + list(drawn.outputs)
    column = max(map(len, names), default=0)
    rows = [_heading(drawn), *_note_rows([("", note) for note in drawn.notes])]
    first: dict[int, str] = {}  # by tag: the step that uses a shared module first
    for box in drawn.boxes:
        links = [link for link in drawn.links if link.target == box.key]
        rows += ["", *_head(box, links, first.setdefault(box.tag, box.key))]
        rows += [row for socket in box.gives for row in _output(socket, column)]
    rows += _outputs(drawn, column)
    return "\n".join(row.rstrip() for row in rows) + "\n"


def _heading(drawn: Sketch) -> str:
    modules = len({box.title for box in drawn.boxes if box.kind})
    counts = [(modules, "module"), (len(drawn.boxes), "step"), (len(drawn.links), "connection")]
    return f"graph {drawn.name} ({drawn.mode}): {', '.join(counted(*count) for count in counts)}"


def _head(box: Box, links: list[Link], first: str) -> list[str]:
    if not box.kind:
        return ["inputs"]
    shared = "" if box.shared == 1 else f", used by {box.shared} steps"
    if box.shared > 1 and box.key != first:
        shared = f", {'shares the weights of' if box.trainable else 'the module of'} {first}"
    rows = _wrap(f"{box.key} = {box.kind}({box.settings}){shared}", "      ")
    modes = {socket.name: f" ({socket.when})" for socket in box.takes if socket.when}
    wires = [f"{link.port}={_spell(link.source, link.out)}{modes.get(link.port, '')}" for link in links]
    wires += [f"{socket.name}=None{modes.get(socket.name, '')}" for socket in box.takes if not socket.used]
    if wires:
        rows += _wrap("    <- " + ", ".join(wires), "       ")
    return rows + _note_rows(
        [("", note) for note in box.notes] + [(link.port, note) for link in links for note in link.notes]
    )


def _note_rows(notes: list[tuple[str, Note]]) -> list[str]:
    rows: list[str] = []
    for port, note in notes:
        text = f"    {'?' if note.kind == 'assumed' else '!'}  {f'{port}: ' if port else ''}{note.text}"
        rows += _wrap(f"{text} (assumed)" if note.kind == "assumed" else text, "       ")
    return rows


def _wrap(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


def _output(socket: Socket, column: int) -> list[str]:
    unused = "" if socket.used else "  (not used)"
    shown = f"{socket.element}{short_type(socket.axes)}{_clock(socket)}{unused}"
    rows = textwrap.wrap(
        shown,
        WIDTH,
        initial_indent=f"    {socket.name:<{column}}  ",
        subsequent_indent=" " * (column + 8),
        break_on_hyphens=False,
        break_long_words=False,
    )
    return [row.replace(_TIED, " ") for row in rows]


def _clock(socket: Socket) -> str:
    """The frames per second that the type implies: not those that it prints, and not the rate of audio."""
    clocks = [mark.clock for mark in socket.marks if mark.clock is not None and not mark.told]
    words = [
        clock_text(clock).replace(" ", _TIED) for clock in clocks if f"rate={clock}" not in socket.element
    ]
    return f"  ({', '.join(words)})" if words else ""


def _outputs(drawn: Sketch, column: int) -> list[str]:
    return ["", "outputs"] + [
        f"    {name:<{column}}  {_spell(source, out)}" for name, (source, out) in drawn.outputs.items()
    ]


def _spell(source: str, out: str) -> str:
    return out if source == "inputs" else f"{source}.{out}"
