"""Pictures keep boxes, words and wires apart, and fold into columns instead of growing too tall."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from itertools import combinations

import pytest

from neumo.graph.draw import to_svg
from neumo.graph.draw.fold import HEAD, LABEL, TALL, place, turn_path
from neumo.graph.draw.layout import Tile, arrange
from neumo.graph.draw.parts import Box, Link, Note, Sketch, Socket
from neumo.graph.draw.svg import draw_sketch
from neumo.graph.graph import Graph

from .pictures import boxes, inside, large, overlap, small, wide, wires, words

GRAPHS = {"small": small(), "deep": large(30), "wide": wide(13)}


@pytest.fixture(params=GRAPHS)
def graph(request: pytest.FixtureRequest) -> Graph:
    return GRAPHS[request.param]


@pytest.fixture
def root(graph: Graph) -> ET.Element:
    return ET.fromstring(to_svg(graph))


def test_the_graphs_are_of_five_and_of_sixty_modules() -> None:
    assert [len(graph.steps) for graph in GRAPHS.values()] == [5, 61, 58]


def test_boxes_and_words_do_not_overlap_and_stay_on_the_picture(root: ET.Element) -> None:
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    assert root.get("viewBox") == f"0 0 {width:.0f} {height:.0f}"
    areas = boxes(root) + words(root)
    for left, top, right, bottom in areas:
        assert left >= 0
        assert top >= 0
        assert right <= width
        assert bottom <= height
    assert not [pair for pair in combinations(areas, 2) if overlap(*pair)]


def test_wires_run_through_no_box_and_no_words(graph: Graph, root: ET.Element) -> None:
    lines = wires(root)
    assert len(lines) >= sum(1 for step in graph.steps for _ in step.edges())
    areas = boxes(root) + words(root)
    for line in lines:
        assert not [area for area in areas if any(inside(point, area) for point in line)]


def test_every_wire_ends_at_a_box_or_goes_on(root: ET.Element) -> None:
    ends = {(round(line[-1][0], 1), round(line[-1][1], 1)) for line in wires(root)}
    starts = {(round(line[0][0], 1), round(line[0][1], 1)) for line in wires(root)}
    tops = boxes(root)
    for x, y in ends - starts:
        assert any(left < x < right and abs(top - y) < 0.2 for left, top, right, _ in tops), (x, y)


def test_a_tall_picture_is_folded_and_a_small_one_is_not() -> None:
    sizes = {name: ET.fromstring(to_svg(graph)) for name, graph in GRAPHS.items()}
    shapes = {name: float(svg.get("width", 0)) / float(svg.get("height", 1)) for name, svg in sizes.items()}
    assert float(sizes["small"].get("height", 0)) < TALL
    assert 1.0 < shapes["deep"] < 2.2
    assert 1.0 < shapes["wide"] < 2.2


def test_letters_are_large_enough_to_read(root: ET.Element) -> None:
    style = "".join(root.itertext())
    assert "font-size:11.5px" in style
    assert "font-size:8" not in style
    assert "font-size:9" not in style


def chain(count: int, width: float, height: float) -> tuple[list[Tile], list[tuple[str, str, str, str]]]:
    tiles = [Tile(f"t{n}", width, height, {"x": width / 2}, {"y": width / 2}) for n in range(count)]
    return tiles, [(f"t{n}", "y", f"t{n + 1}", "x") for n in range(count - 1)]


def test_columns_are_of_near_equal_height() -> None:
    layout = arrange(*chain(40, 200, 60))
    placing = place(layout)
    columns = {tile.x for tile in layout.tiles.values()}
    counts = sorted(sum(tile.x == x for tile in layout.tiles.values()) for x in columns)
    assert len(placing.turns) == len(columns) - 1 >= 3
    assert counts[-1] - counts[0] <= 4
    assert placing.height < TALL


def test_layers_too_tall_to_be_parted_stay_together() -> None:
    layout = arrange(*chain(2, 100, 3000))
    placing = place(layout)
    assert len(placing.turns) <= 1
    assert placing.height > 3000
    layout = arrange([Tile("one", 100, 5000)], [])
    assert place(layout).turns == {}


def test_a_picture_that_is_wide_already_is_not_folded() -> None:
    tiles = [Tile(f"t{n}", 4000, 300, {"x": 9}, {"y": 9}) for n in range(9)]
    layout = arrange(tiles, [(f"t{n}", "y", f"t{n + 1}", "x") for n in range(8)])
    placing = place(layout)
    assert placing.height > TALL
    assert placing.turns == {}


def test_a_picture_of_nothing_has_a_heading() -> None:
    placing = place(arrange([], []))
    assert placing.height >= HEAD
    assert placing.bends == []


def test_a_layer_leaves_room_for_the_types_of_its_outputs() -> None:
    layout = arrange(*chain(2, 100, 40))
    placing = place(layout)
    first, last = layout.tiles["t0"], layout.tiles["t1"]
    assert placing.bends[0] == first.y + 40 + LABEL
    assert last.y > placing.bends[0]


def test_wires_into_the_next_column_do_not_cross() -> None:
    tiles = [Tile(f"t{n}", 120, 60, {"a": 40, "b": 80}, {"c": 40, "d": 80}) for n in range(30)]
    links = [(f"t{n}", one, f"t{n + 1}", two) for n in range(29) for one, two in (("c", "a"), ("d", "b"))]
    layout = arrange(tiles, links)
    turns = place(layout).turns
    assert len(turns) >= 4
    for one, two in combinations(turns, 2):
        if one.source == two.source:
            outer, inner = (one, two) if one.out == "c" else (two, one)  # the left one goes around the other
            assert turns[outer][0] > turns[inner][0]
            assert turns[outer][1] > turns[inner][1]
            assert turns[outer][2] > turns[inner][2]


def test_the_corners_of_a_turn_are_round_and_it_ends_at_the_port() -> None:
    path = turn_path(10, 20, (100, 60, 15), 200, 50)
    assert path.startswith("M10.0 20.0V93.0q0 7.0 7.0 7.0H53.0q")
    assert path.endswith("V50.0")
    assert "q0 -2.0 2.0 -2.0" in turn_path(10, 20, (100, 60, 15), 64, 50)  # hardly any way to go sideways


def random_sketch(seed: int) -> Sketch:
    """Boxes with ports, types and settings of any length, linked at random."""
    draw = random.Random(seed)
    drawn = Sketch("g", "both")
    for number in range(draw.choice([3, 12, 25, 60])):
        takes: list[Socket] = []
        for port in range(draw.randint(0, 3) if number else 0):
            source = drawn.boxes[max(0, number - 1 - int(draw.expovariate(0.25)))]
            out = draw.choice(source.gives).name
            notes = (Note("assumed", "p = 1"),) * draw.randint(0, 1)
            drawn.links.append(Link(source.key, out, f"b{number}", f"p{port}", False, notes))
            takes.append(Socket(f"p{port}", "Loss[]"))
        if draw.random() < 0.2:
            takes.append(Socket("hint" * draw.randint(1, 6), "Loss[]", used=False, optional=True))
        gives = [
            Socket(
                f"o{port}" + "x" * draw.randint(0, 9), f"Mel({'n' * draw.randint(1, 40)})[B, T//{number + 1}]"
            )
            for port in range(draw.randint(1, 3))
        ]
        role = draw.choice(["module", "data", "loss"])
        title, settings = "b" * draw.randint(1, 20), "s" * draw.randint(0, 50)
        drawn.boxes.append(
            Box(
                f"b{number}",
                title,
                "Kind",
                role,
                settings,
                takes=tuple(takes),
                gives=tuple(gives),
                tag=number % 3,
            )
        )
        if draw.random() < 0.1:
            drawn.outputs[f"out{number}"] = (f"b{number}", gives[0].name)
    return drawn


@pytest.mark.parametrize("seed", range(16))
def test_whatever_is_drawn_boxes_words_and_wires_keep_apart(seed: int) -> None:
    root = ET.fromstring(draw_sketch(random_sketch(seed)))
    areas = boxes(root) + words(root)
    assert not [pair for pair in combinations(areas, 2) if overlap(*pair)]
    for line in wires(root):
        assert not [area for area in areas if any(inside(point, area) for point in line)]
