"""Gives layers their heights, and folds a tall picture into columns that are read from left to right."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from neumo.graph.draw.layout import Layout, Tile, Wire

EDGE: Final = 18.0  # margin of the picture, px
HEAD: Final = 40.0  # height of the heading, px
LABEL: Final = 38.0  # height kept free under a box for the types of its outputs, px
TALL: Final = 1700.0  # a picture up to this height stays one column, px
SHAPE: Final = 1.5  # width to height that folding aims at
LANE: Final = 9.0  # between two wires that go to the next column, px
ROUND: Final = 7.0  # radius of their corners, px
GUTTER: Final = 34.0  # from a column to the wires beside it, and from these to the next column, px


@dataclass(slots=True)
class Placing:
    """Where everything is: the size of the picture and the line below the labels of each layer.

    `turns` has the wires that go from the foot of a column to the head of the next one: the height of the
    first bend, the distance of the way up from the left, and the height of the last bend.
    """

    width: float = 0.0
    height: float = 0.0
    bends: list[float] = field(default_factory=list[float])
    turns: dict[Wire, tuple[float, float, float]] = field(
        default_factory=dict[Wire, tuple[float, float, float]]
    )


def place(layout: Layout) -> Placing:
    """Give each tile its height, and fold the layers into columns if they would be too tall for a page."""
    wires = list(dict.fromkeys(wire for route in layout.routes for wire in route))
    tops, bends, height = _stack(layout, wires)
    cuts = _cuts(layout, wires, tops, height)
    starts = [0, *cuts, len(layout.layers)]
    for tile in layout.tiles.values():
        tile.y = tops[tile.layer]
    placing = Placing(layout.width + 2 * EDGE, height, bends)
    if not cuts:
        for tile in layout.tiles.values():
            tile.x += EDGE
        return placing
    crossing = [[w for w in wires if layout.tiles[w.source].layer == cut - 1] for cut in cuts]
    room = max(map(len, crossing)) * LANE + 12
    left, placing.height = EDGE, 0.0
    for column, (start, end) in enumerate(pairwise(starts)):
        tiles = [layout.tiles[key] for layer in layout.layers[start:end] for key in layer]
        left = _move(tiles, left, EDGE + HEAD + room - tops[start])
        for layer in range(start, end):
            bends[layer] += EDGE + HEAD + room - tops[start]
        foot = bends[end - 1] + 10
        if column < len(cuts):
            left = _turn(layout, placing, crossing[column], foot, left, EDGE + HEAD + room)
            foot += len(crossing[column]) * LANE
        placing.height = max(placing.height, foot + EDGE)
    placing.width = left + EDGE
    return placing


def _stack(layout: Layout, wires: list[Wire]) -> tuple[list[float], list[float], float]:
    """Give each layer its top and the line below its labels; wires bend only between layers."""
    y = EDGE + HEAD
    tops: list[float] = []
    bends: list[float] = []
    spans = _spans(layout, wires)
    for index, layer in enumerate(layout.layers):
        tiles = [layout.tiles[key] for key in layer]
        labels = LABEL if any(tile.ports_out and not tile.passing for tile in tiles) else 0.0
        tops.append(y)
        bends.append(y + max((tile.height for tile in tiles), default=0.0) + labels)
        y = bends[-1] + 26 + min(40.0, spans[index] * 0.07)
    return tops, bends, (bends[-1] if bends else y) + EDGE


def _spans(layout: Layout, wires: list[Wire]) -> list[float]:
    """How far the wires below each layer go sideways, at most."""
    spans = [0.0] * len(layout.layers)
    for wire in wires:
        source, target = layout.tiles[wire.source], layout.tiles[wire.target]
        far = abs(source.x + source.ports_out[wire.out] - target.x - target.ports_in[wire.port])
        spans[source.layer] = max(spans[source.layer], far)
    return spans


def _cuts(layout: Layout, wires: list[Wire], tops: list[float], height: float) -> list[int]:
    """Choose the layers that begin a new column: near equal parts, where few wires are cut."""
    columns = min(8, round(math.sqrt(SHAPE * height / (layout.width + 2 * GUTTER))))
    if height <= TALL or columns < 2:
        return []
    crossing = [0] * (len(tops) + 1)
    for wire in wires:
        crossing[layout.tiles[wire.source].layer + 1] += 1
    cuts: list[int] = []
    for number in range(1, columns):
        ideal = height * number / columns
        free = range(cuts[-1] + 1 if cuts else 1, len(tops))
        near = [layer for layer in free if abs(tops[layer] - ideal) < height / columns / 4]
        if near:
            cuts.append(min(near, key=lambda layer: (crossing[layer], abs(tops[layer] - ideal))))
    return cuts


def _move(tiles: list[Tile], left: float, down: float) -> float:
    """Put the tiles of a column at their place; gives where the column ends."""
    shift = left - min(tile.x for tile in tiles)
    for tile in tiles:
        tile.x += shift
        tile.y += down
    return max(tile.x + tile.width for tile in tiles)


def _turn(
    layout: Layout, placing: Placing, wires: list[Wire], foot: float, right: float, head: float
) -> float:
    """Lead wires around to the next column without crossing: the rightmost turns first and goes highest."""

    def start(wire: Wire) -> float:
        return layout.tiles[wire.source].x + layout.tiles[wire.source].ports_out[wire.out]

    def end(wire: Wire) -> float:
        return layout.tiles[wire.target].x + layout.tiles[wire.target].ports_in[wire.port]

    ordered = sorted(wires, key=lambda wire: (-start(wire), -end(wire)))
    for number, wire in enumerate(ordered):
        low = foot + number * LANE
        high = head - 12 - (len(ordered) - 1 - number) * LANE
        placing.turns[wire] = (low, right + GUTTER + number * LANE, high)
    return right + 2 * GUTTER + (len(ordered) - 1) * LANE


def turn_path(x: float, y: float, turn: tuple[float, float, float], end: float, target: float) -> str:
    """Write the way of a wire into the next column, with round corners, as the data of an SVG path."""
    low, up, high = turn
    r = min(ROUND, abs(end - up) / 2)
    return (
        f"M{x:.1f} {y:.1f}V{low - ROUND:.1f}q0 {ROUND} {ROUND} {ROUND}H{up - ROUND:.1f}"
        f"q{ROUND} 0 {ROUND} -{ROUND}V{high + r:.1f}q0 -{r:.1f} {r:.1f} -{r:.1f}H{end - r:.1f}"
        f"q{r:.1f} 0 {r:.1f} {r:.1f}V{target:.1f}"
    )
