"""Drawings show every step, every port and every type, and are whole documents of their kind."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET

import pytest

from neumo.graph.draw import to_html, to_mermaid, to_svg, to_text
from neumo.graph.draw.parts import Box, Sketch, Socket
from neumo.graph.draw.sketch import sketch
from neumo.graph.draw.svg import draw_sketch
from neumo.graph.draw.text import list_sketch
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import is_default
from neumo.graph.names import step_names
from neumo.types import Acoustic, B, F, Lengths, T

from . import specs
from .pictures import SVG, large, small
from .snapshots import expect


@pytest.fixture(params=["small", "large"])
def graph(request: pytest.FixtureRequest) -> Graph:
    return small() if request.param == "small" else large(30)


def test_the_listing_of_a_small_graph() -> None:
    expect("draw_text_small", to_text(small()))


def test_the_listing_names_every_value_and_keeps_its_width(graph: Graph) -> None:
    text = to_text(graph)
    for name in step_names(graph).values():
        assert re.search(rf"^{name}( = |$)", text, re.MULTILINE)
    columns = {
        line.index("  ", 5) for line in text.splitlines() if line.startswith("    ") and line[4] not in " <"
    }
    assert columns
    assert max(map(len, text.splitlines())) <= 100
    assert text == graph.text()


def test_the_mermaid_of_a_tiny_graph() -> None:
    x = inputs(x=Acoustic()[B, F(64), T], x_len=Lengths(T)[B])
    y = specs.Down().named("down")(x=x.x).x
    assert (
        to_mermaid(Graph("g", outputs={"y": y, "n": x.x_len}, silence={"padding-doubt": "it picks"}))
        == """\
flowchart TD
    n0(["inputs"]):::inputs
    n1["<b>down</b><br/>Down"]:::module
    n0 -- "x<br/>Acoustic[B, F=64, T]" --> n1
    n1 -- "x<br/>Acoustic[B, F=64, ceil(T/2)]" --> o0
    o0(["y"]):::outputs
    n0 -. "x_len<br/>Lengths(T)[B]" .-> o1
    o1(["n"]):::outputs
    classDef inputs fill:#f1f5f9,stroke:#475569,color:#0f172a
    classDef module fill:#eef2ff,stroke:#4338ca,color:#0f172a
    classDef outputs fill:#ffffff,stroke:#334155,color:#0f172a
"""
    )


def test_mermaid_holds_every_step_and_connection(graph: Graph) -> None:
    chart = to_mermaid(graph)
    edges = sum(1 for step in graph.steps for _ in step.edges()) + len(graph.outputs)
    assert len(re.findall(r"(-->|\.->)", chart)) == edges
    assert len(re.findall(r"^    [no]\d+[(\[]", chart, re.MULTILINE)) == len(graph.steps) + len(graph.outputs)
    assert not re.search(r'"[^"]*[<&](?!br/|b>|/b>)[^"]*"', chart)
    assert chart == graph.mermaid()


def test_svg_is_well_formed_and_shows_every_step_and_port(graph: Graph) -> None:
    root = ET.fromstring(to_svg(graph))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    for step in graph.steps:
        for port in step.outputs:
            assert port in texts
    boxes = [
        group
        for group in root.iter(f"{SVG}g")
        if group.find(f"{SVG}title") is not None and group.find(f"{SVG}rect") is not None
    ]
    assert len(boxes) == len(graph.steps) + len(graph.outputs)
    titles = [(group.findtext(f"{SVG}title") or "").partition("\n")[0] for group in root.iter(f"{SVG}g")]
    for value in graph.values():
        assert f"{value.port}: {value.type}" in titles
    assert graph.svg() == to_svg(graph)


def test_lengths_are_thin_lines_and_data_is_not() -> None:
    paths = [path.get("class") for path in ET.fromstring(to_svg(small())).iter(f"{SVG}path")]
    assert paths.count("n-wire n-thin") >= 3
    assert paths.count("n-wire") >= 6


def test_both_shades_have_their_colours() -> None:
    style = ET.fromstring(to_svg(small())).findtext(f"{SVG}style") or ""
    light, _, dark = style.partition("@media (prefers-color-scheme:dark)")
    for role in ("data", "module", "loss", "outputs"):
        assert f".n-{role} rect{{fill:" in light
        assert f".n-{role} rect{{fill:" in dark


def test_names_are_escaped_in_every_drawing() -> None:
    nasty = '<script>"&#x'
    drawn = Sketch(
        nasty,
        "both",
        [Box("a", nasty, nasty, "module", nasty, gives=(Socket("y", nasty),))],
        [],
        {nasty: ("a", "y")},
    )
    svg = draw_sketch(drawn)
    ET.fromstring(svg)
    assert "<script>" not in svg
    assert nasty in list_sketch(drawn)


def test_a_notebook_shows_the_picture() -> None:
    graph = small()
    assert graph._repr_html_() == to_html(graph)
    assert "<svg" in to_html(graph)


def test_a_shared_module_is_drawn_with_its_uses() -> None:
    graph = large(10)
    assert "shared by 2 steps" in to_svg(graph)
    assert "the module of down" in to_text(graph)


def test_steps_are_named_after_their_modules_and_uses_are_numbered() -> None:
    x = inputs(x=Acoustic()[B, F(64), T]).x
    down, other = specs.Down(by=1), specs.Down(by=1)
    graph = Graph("g", outputs={"x": down(x=other(x=down(x=x).x).x).x})
    assert list(step_names(graph).values()) == ["inputs", "down", "down_2", "down_3"]
    assert list(step_names(graph, taken=["down"]).values()) == ["inputs", "down_3", "down_2", "down_4"]


def test_long_settings_are_cut_and_blocks_are_counted() -> None:
    from neumo.asr.modules import ConvEncoder

    encoder = ConvEncoder.preset("quartznet_15x5")
    assert not is_default(encoder, "blocks", encoder.blocks)
    x = inputs(mel=encoder.signature().takes["mel"], n=Lengths(T)[B])
    (_, box) = sketch(Graph("g", outputs=encoder(mel=x.mel, mel_len=x.n))).boxes
    assert box.settings == "blocks=18 ConvBlock"
    cut = sketch(Graph("g", outputs=specs.SpeechData(specs.EN)())).boxes[0].settings
    assert cut == "vocab=en[28]"


def test_a_type_is_split_before_its_axes() -> None:
    socket = Socket("x", "LogProbs(en+blank[29]#e5b6c69f)[B, T, V=en+blank[29]#e5b6c69f]")
    assert (socket.element, socket.axes) == (
        "LogProbs(en+blank[29]#e5b6c69f)",
        "[B, T, V=en+blank[29]#e5b6c69f]",
    )
    assert (Socket("x", "a]").element, Socket("x").element) == ("a]", "")
    assert (Socket("x", "odd").element, Socket("x", "odd").axes) == ("odd", "")


def test_the_time_to_draw_sixty_modules_is_shown() -> None:
    graph = large(30)
    for draw in (to_text, to_mermaid, to_svg):
        start = time.perf_counter()
        draw(graph)
        print(f"{draw.__name__}: {(time.perf_counter() - start) * 1000:.0f} ms for {len(graph.steps)} steps")
