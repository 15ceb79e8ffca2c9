"""The layout of drawings: layers follow the links, neighbours keep apart, links stay short."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from neumo.graph.draw.layout import GAP, Layout, Tile, arrange, least_squares


def tile(key: str, width: float = 80) -> Tile:
    return Tile(key, width, 40, {"x": width / 3, "y": width / 2}, {"x": width / 4, "y": width / 2})


def check(layout: Layout, links: list[tuple[str, str, str, str]]) -> None:
    for layer in layout.layers:
        for left, right in pairwise(layer):
            gap = layout.tiles[right].x - layout.tiles[left].x - layout.tiles[left].width
            assert gap >= GAP - 1e-6
    for route, (source, out, target, port) in zip(layout.routes, links, strict=True):
        assert (route[0].source, route[0].out) == (source, out)
        assert (route[-1].target, route[-1].port) == (target, port)
        for wire in route:
            assert layout.tiles[wire.target].layer == layout.tiles[wire.source].layer + 1
    assert min((each.x for each in layout.tiles.values()), default=0) >= 0
    assert all(each.x + each.width <= layout.width + 1e-6 for each in layout.tiles.values())


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_graph_is_laid_out_without_overlaps(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 14))
    tiles = [tile(f"t{n}", data.draw(st.integers(60, 400))) for n in range(count)]
    links = [
        (
            f"t{data.draw(st.integers(0, n - 1))}",
            data.draw(st.sampled_from("xy")),
            f"t{n}",
            data.draw(st.sampled_from("xy")),
        )
        for n in range(1, count)
        for _ in range(data.draw(st.integers(0, 3)))
    ]
    check(arrange(tiles, links), links)


def test_a_chain_is_straight() -> None:
    links = [("a", "y", "b", "y"), ("b", "y", "c", "y")]
    layout = arrange([tile("a"), tile("b"), tile("c")], links)
    assert len({round(layout.tiles[key].x, 3) for key in "abc"}) == 1


def test_links_do_not_cross_where_they_need_not() -> None:
    tiles = [tile(key) for key in "abcd"]
    layout = arrange(tiles, [("a", "y", "d", "y"), ("b", "y", "c", "y")])
    at = {key: layout.tiles[key].x for key in "abcd"}
    assert (at["a"] < at["b"]) == (at["d"] < at["c"])


def test_a_long_link_runs_straight_beside_the_boxes() -> None:
    tiles = [tile(key) for key in "abcde"]
    links = [
        ("a", "y", "b", "y"),
        ("b", "y", "c", "y"),
        ("c", "y", "d", "y"),
        ("d", "y", "e", "x"),
        ("a", "x", "e", "y"),
    ]
    layout = arrange(tiles, links)
    passing = [each.x for each in layout.tiles.values() if each.passing]
    assert len(passing) == 3
    assert max(passing) - min(passing) < 1e-6


def test_a_source_stands_above_what_it_feeds() -> None:
    tiles = [tile(key) for key in "abcd"]
    layout = arrange(tiles, [("a", "y", "b", "y"), ("b", "y", "c", "x"), ("d", "y", "c", "y")])
    assert layout.tiles["d"].layer == 1


def test_links_of_one_output_share_their_way() -> None:
    tiles = [tile(key) for key in "abcde"]
    links = [
        ("a", "x", "b", "x"),
        ("b", "x", "c", "x"),
        ("c", "x", "d", "x"),
        ("a", "y", "d", "y"),
        ("c", "x", "e", "x"),
        ("a", "y", "e", "y"),
    ]
    layout = arrange(tiles, links)
    assert layout.routes[3][0] == layout.routes[5][0]


def test_nothing_is_laid_out_as_nothing() -> None:
    assert arrange([], []).layers == []


@given(st.lists(st.floats(-1000, 1000), min_size=1, max_size=8))
def test_least_squares_keeps_the_order_and_the_distance(wanted: list[float]) -> None:
    found = least_squares(wanted, [1.0] * len(wanted), [10.0] * len(wanted))
    assert all(right - left >= 10 - 1e-6 for left, right in pairwise(found))
    apart = all(right - left >= 10 for left, right in pairwise(wanted))
    assert not apart or max(abs(a - b) for a, b in zip(found, wanted, strict=True)) < 1e-6
