"""Places boxes in layers from top to bottom so that links are short and cross little.

The steps are those of Sugiyama, Tagawa and Toda (1981): layers by the longest path, an order within each
layer by barycentres, then positions by least squares with the order kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

GAP: Final = 28.0  # between neighbours of a layer, px
LANE: Final = 14.0  # width kept free for a link that passes through a layer, px
SWEEPS: Final = 12


@dataclass(slots=True)
class Tile:
    """A box to place: its size and, per port, how far the port is from its left edge."""

    key: str
    width: float
    height: float
    ports_in: dict[str, float] = field(default_factory=dict[str, float])
    ports_out: dict[str, float] = field(default_factory=dict[str, float])
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    passing: bool = False  # no box: a link goes through the layer here


@dataclass(frozen=True, slots=True)
class Wire:
    """A link between two tiles that are in neighbouring layers."""

    source: str
    out: str
    target: str
    port: str


@dataclass(slots=True)
class Layout:
    """Holds the tiles by key, the layers of keys, and the route of each link through passing tiles."""

    tiles: dict[str, Tile]
    layers: list[list[str]]
    routes: list[list[Wire]]
    width: float = 0.0


def arrange(tiles: Sequence[Tile], links: Sequence[tuple[str, str, str, str]]) -> Layout:
    """Place the boxes; `links` are (source, output port, target, input port), `tiles` in topological order.

    >>> tiles = [Tile("a", 80, 40, {}, {"y": 40}), Tile("b", 80, 40, {"x": 40})]
    >>> layout = arrange(tiles, [("a", "y", "b", "x")])
    >>> layout.layers, layout.tiles["a"].x == layout.tiles["b"].x
    ([['a'], ['b']], True)
    """
    by_key = {tile.key: tile for tile in tiles}
    _assign_layers(by_key, links)
    routes = [_route(by_key, link) for link in links]
    depth = max((tile.layer for tile in by_key.values()), default=-1) + 1
    layers: list[list[str]] = [[] for _ in range(depth)]
    for tile in by_key.values():
        layers[tile.layer].append(tile.key)
    wires = list(dict.fromkeys(wire for route in routes for wire in route))
    _order(layers, by_key, wires)
    _position(layers, by_key, wires)
    left = min((tile.x for tile in by_key.values()), default=0.0)
    for tile in by_key.values():
        tile.x -= left
    width = max((tile.x + tile.width for tile in by_key.values()), default=0.0)
    return Layout(by_key, layers, routes, width)


def _assign_layers(tiles: dict[str, Tile], links: Sequence[tuple[str, str, str, str]]) -> None:
    into: dict[str, list[str]] = {key: [] for key in tiles}
    out_of: dict[str, list[str]] = {key: [] for key in tiles}
    for source, _, target, _ in links:
        into[target].append(source)
        out_of[source].append(target)
    for key, tile in tiles.items():
        tile.layer = 1 + max((tiles[source].layer for source in into[key]), default=-1)
    for key, tile in tiles.items():  # a source that feeds late layers only moves down to them
        if not into[key] and out_of[key]:
            tile.layer = min(tiles[target].layer for target in out_of[key]) - 1


def _route(tiles: dict[str, Tile], link: tuple[str, str, str, str]) -> list[Wire]:
    """Cut a long link into wires through passing tiles, which links of one output share."""
    source, out, target, port = link
    wires: list[Wire] = []
    here, leaving = source, out
    for layer in range(tiles[source].layer + 1, tiles[target].layer):
        key = f"{source}.{out}@{layer}"
        if key not in tiles:
            tiles[key] = Tile(key, LANE, 0, {"": LANE / 2}, {"": LANE / 2}, layer, passing=True)
        wires.append(Wire(here, leaving, key, ""))
        here, leaving = key, ""
    wires.append(Wire(here, leaving, target, port))
    return wires


_Touch = tuple[str, float, float, float]


class _Neighbours:
    """Lists, for each tile, what its wires touch: (neighbour, place there, place here, weight)."""

    def __init__(self, tiles: dict[str, Tile], wires: Sequence[Wire]) -> None:
        self.above: dict[str, list[_Touch]] = {key: [] for key in tiles}
        self.below: dict[str, list[_Touch]] = {key: [] for key in tiles}
        for wire in wires:
            ends_here = not tiles[wire.target].ports_out
            start = tiles[wire.source].ports_out[wire.out]
            start = start if ends_here else _pull(tiles[wire.source], tiles[wire.source].ports_out, wire.out)
            end = _pull(tiles[wire.target], tiles[wire.target].ports_in, wire.port)
            passing = tiles[wire.source].passing + tiles[wire.target].passing
            weight = (1.0, 2.0, 8.0)[passing]  # long links straightest, as Gansner et al. (1993) weigh them
            self.above[wire.target].append((wire.source, start, end, weight))
            self.below[wire.source].append((wire.target, end, start, weight))


def _pull(tile: Tile, ports: dict[str, float], port: str) -> float:
    """Where a link pulls at a box: at the port; amidst if it has but one, so that chains stay upright."""
    return tile.width / 2 if len(ports) == 1 else ports[port]


def _order(layers: list[list[str]], tiles: dict[str, Tile], wires: Sequence[Wire]) -> None:
    near = _Neighbours(tiles, wires)
    _spread(layers, tiles)
    best, fewest = [list(layer) for layer in layers], _crossings(layers, tiles, wires)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            around = near.above if downwards else near.below
            layer.sort(key=_barycentre(around, tiles))
            _spread([layer], tiles)
        count = _crossings(layers, tiles, wires)
        if count < fewest:
            best, fewest = [list(layer) for layer in layers], count
    for layer, kept in zip(layers, best, strict=True):
        layer[:] = kept
    _spread(layers, tiles)


def _barycentre(around: dict[str, list[_Touch]], tiles: dict[str, Tile]) -> Callable[[str], float]:
    def centre(key: str) -> float:
        touching = around[key]
        if not touching:
            return tiles[key].x + tiles[key].width / 2
        return sum(tiles[other].x + there for other, there, _, _ in touching) / len(touching)

    return centre


def _spread(layers: list[list[str]], tiles: dict[str, Tile]) -> None:
    for layer in layers:
        total = sum(tiles[key].width + GAP for key in layer) - GAP
        x = -total / 2
        for key in layer:
            tiles[key].x = x
            x += tiles[key].width + GAP


def _crossings(layers: list[list[str]], tiles: dict[str, Tile], wires: Sequence[Wire]) -> int:
    by_layer: dict[int, list[tuple[float, float]]] = {}
    for wire in wires:
        source, target = tiles[wire.source], tiles[wire.target]
        ends = (source.x + source.ports_out[wire.out], target.x + target.ports_in[wire.port])
        by_layer.setdefault(source.layer, []).append(ends)
    count = 0
    for pairs in by_layer.values():
        pairs.sort()
        for index, (_, end) in enumerate(pairs):
            count += sum(1 for _, other in pairs[index + 1 :] if other < end)
    return count


def _position(layers: list[list[str]], tiles: dict[str, Tile], wires: Sequence[Wire]) -> None:
    near = _Neighbours(tiles, wires)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for layer in layers if downwards else reversed(layers):
            _settle(layer, tiles, near, near.above if downwards else near.below)
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            _settle(layer, tiles, near, None)
        _straighten(layers, tiles)


def _straighten(layers: list[list[str]], tiles: dict[str, Tile]) -> None:
    """Put the passing tiles of each long link on one vertical; what is in the way on the right moves on."""
    chains: dict[str, list[tuple[list[str], int]]] = {}
    for layer in layers:
        for index, key in enumerate(layer):
            if tiles[key].passing:
                chains.setdefault(key.rpartition("@")[0], []).append((layer, index))

    def mean(chain: list[tuple[list[str], int]]) -> float:
        return sum(tiles[layer[index]].x for layer, index in chain) / len(chain)

    for chain in sorted(chains.values(), key=mean):
        low = max(_end(tiles, layer, index - 1) for layer, index in chain)
        high = min(_start(tiles, layer, index + 1) for layer, index in chain) - LANE - GAP
        x = max(low, min(mean(chain), high))
        for layer, index in chain:
            tiles[layer[index]].x = x
            for left, right in pairwise(layer[index:]):
                tiles[right].x = max(tiles[right].x, tiles[left].x + tiles[left].width + GAP)


def _end(tiles: dict[str, Tile], layer: list[str], index: int) -> float:
    """Where a neighbour on the left leaves room; minus infinity where there is none."""
    return tiles[layer[index]].x + tiles[layer[index]].width + GAP if index >= 0 else -math.inf


def _start(tiles: dict[str, Tile], layer: list[str], index: int) -> float:
    return tiles[layer[index]].x if index < len(layer) else math.inf


def _settle(
    layer: list[str],
    tiles: dict[str, Tile],
    near: _Neighbours,
    around: dict[str, list[_Touch]] | None,
) -> None:
    """Move the tiles of a layer to where their wires are straightest, in their order and apart."""
    wanted: list[float] = []
    weights: list[float] = []
    for key in layer:
        touching = near.above[key] + near.below[key] if around is None else around[key]
        mass = sum(weight for _, _, _, weight in touching)
        pull = sum((tiles[other].x + there - here) * weight for other, there, here, weight in touching)
        wanted.append(pull / mass if mass else tiles[key].x)
        weights.append(mass or 0.05)
    apart = [tiles[left].width + GAP for left in layer]
    for key, x in zip(layer, least_squares(wanted, weights, apart), strict=True):
        tiles[key].x = x


def least_squares(wanted: Sequence[float], weights: Sequence[float], apart: Sequence[float]) -> list[float]:
    """Give the positions nearest to the wanted ones with `x[i + 1] - x[i] >= apart[i]`, by pooling violators.

    >>> least_squares([0.0, 0.0], [1.0, 1.0], [10.0, 10.0])
    [-5.0, 5.0]
    """
    shifts = [0.0]
    for distance in apart[:-1]:
        shifts.append(shifts[-1] + distance)
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for want, weight, shift in zip(wanted, weights, shifts, strict=False):
        mean, mass, count = want - shift, weight, 1
        while pools and pools[-1][0] >= mean:
            before, heavy, number = pools.pop()
            mean, mass, count = (before * heavy + mean * mass) / (heavy + mass), heavy + mass, number + count
        pools.append((mean, mass, count))
    flat = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + shift for mean, shift in zip(flat, shifts, strict=False)]
