"""The page of `neumo show` is whole, asks for nothing else, and knows every port, type, size and module."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import pytest

from neumo.graph import draw
from neumo.graph.assume import assume
from neumo.graph.draw import to_page, to_svg, to_text
from neumo.graph.draw.page import page_model, page_of
from neumo.graph.draw.parts import Box, Link, Mark, Note, Setting, Sketch, Socket
from neumo.graph.draw.sizes import size_story, trace_sizes
from neumo.graph.draw.sketch import sketch
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import DataLayer, NeuralModule
from neumo.graph.names import step_names
from neumo.graph.signature import Signature
from neumo.types import Acoustic, Audio, B, F, Ids, Lengths, Loss, Mel, T

from . import specs
from .pictures import large, small, wide
from .rule_graphs import WRONG

VOID = {"meta", "input", "br", "hr", "img", "link"}


class Reader(HTMLParser):
    """Checks that every tag is closed in order, and keeps tags, attributes and scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.open[-1:] == ["script"] else self.text).append(data)

    def model(self) -> dict[str, Any]:
        return json.loads(self.scripts[0])


@dataclass(frozen=True)
class Tagger(NeuralModule):
    """Tags words & <more>."""

    trainable: ClassVar[bool] = True
    note: str = 'say "x" & <b>y</b>'

    def signature(self) -> Signature:
        takes = {
            "x": Acoustic()[B, F(8), T],
            "hint": Acoustic().optional()[B, F(8), T],
            "target": Ids()[B, T].only("train"),
        }
        return Signature(takes=takes, gives={"y": Acoustic()[B, F(8), T], "loss": Loss()[()].only("train")})


@dataclass(frozen=True)
class Frames(DataLayer):
    path: str = "/some/where/far/away/from/here/train.jsonl"

    def signature(self) -> Signature:
        return Signature(gives={"x": Acoustic()[B, F(8), T], "tags": Ids()[B, T]})


@dataclass(frozen=True)
class Soft(NeuralModule):
    """Prefers a window, but takes any."""

    def signature(self) -> Signature:
        return Signature(takes={"mel": Mel(window="hann")[B, F, T]}, gives={"audio": Audio()[B, T * 256]})


def tagging() -> Graph:
    data = Frames().named("data")()
    found = Tagger().named("tagger")(x=data.x, target=data.tags)
    return Graph("tags", "train", {"loss": found.loss, "y": found.y})


def doubtful() -> Graph:
    """A graph with assumptions of both kinds, a difference that is let pass, and a target in its inputs."""
    raw = specs.UntypedSource().named("raw")()
    feats = specs.MelSpectrogram().named("mel")(audio=raw.audio, audio_len=raw.audio_len)
    known = assume(feats.mel, Mel(n_mels=64, floor=1e-5)[B, F(64), T], reason="measured <once>")
    encoded = specs.ConvEncoder(width=128).named("encoder")(mel=known, mel_len=feats.mel_len)
    return Graph("doubtful", "infer", {"x": encoded.encoded})


def family() -> list[Graph]:
    """Two graphs that share a module, which one of them uses twice."""
    down = specs.Down().named("half")
    one = inputs(x=Acoustic()[B, F(64), T])
    two = inputs(x=Acoustic()[B, F(64), T])
    first = Graph("first", outputs={"y": down(x=specs.Up().named("up")(x=one.x).x).x})
    return [first, Graph("second", outputs={"y": down(x=down(x=two.x).x).x})]


def by_name(drawn: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{drawn['boxes'][port['box']]['key']}.{port['name']}{'' if port.get('gives') else ' in'}": port
        for port in drawn["ports"]
    }


@pytest.mark.parametrize("graph", [small(), large(30), wide(13), tagging(), doubtful()], ids=lambda g: g.name)
def test_the_page_is_well_formed_and_holds_every_port_with_its_type(graph: Graph) -> None:
    page = to_page([graph], graph.name)
    reader = Reader(page)
    model = reader.model()
    (drawn,) = model["graphs"]
    ports = by_name(drawn)
    names = step_names(graph)
    for step in graph.steps:
        for port, value in step.outputs.items():
            found = ports[f"{names[id(step)]}.{port}"]
            assert model["types"][found["type"]] == str(value.type)
            assert len(found.get("marks", [])) >= len(value.type.axes)
    edges = [
        (names[id(v.step)], v.port, names[id(step)], port) for step in graph.steps for port, v in step.edges()
    ]
    keys = list(ports)
    linked = [(keys[a], keys[b]) for a, b, *_ in drawn["links"] if b >= 0]
    assert linked == [(f"{a}.{out}", f"{b}.{port} in") for a, out, b, port in edges]
    assert [link[3] for link in drawn["links"] if link[1] < 0] == list(graph.outputs)
    reachable = {
        attributes["data-p"]
        for _, attributes in reader.tags
        if attributes.get("tabindex") == "0" and "data-p" in attributes
    }
    assert reachable == {str(number) for number in range(len(drawn["ports"]))}
    boxes = {attributes["data-b"] for _, attributes in reader.tags if "data-b" in attributes}
    assert boxes == {str(number) for number in range(len(graph.steps))}


def test_the_page_asks_for_nothing_and_has_one_script_and_no_handlers() -> None:
    reader = Reader(to_page([small()], "x"))
    for tag, attributes in reader.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith("#")
        assert tag not in ("link", "img", "iframe", "object")
    policy = next(a["content"] for tag, a in reader.tags if tag == "meta" and "http-equiv" in a)
    assert policy.startswith("default-src 'none'")
    assert [a.get("type", "") for tag, a in reader.tags if tag == "script"] == ["application/json", ""]
    script = reader.scripts[1]
    for word in (
        "fetch",
        "XMLHttpRequest",
        "innerHTML",
        "outerHTML",
        "insertAdjacent",
        "eval",
        "import",
        "http",
    ):
        assert not re.search(rf"\b{word}\b", script), word
    assert "url(" not in to_page([small()], "x").replace("url(#", "")


def test_the_script_finds_what_it_asks_the_page_for() -> None:
    reader = Reader(to_page(family(), "x"))
    ids = {attributes["id"] for _, attributes in reader.tags if "id" in attributes}
    assert set(re.findall(r'getElementById\("([\w-]+)"\)', reader.scripts[1])) <= ids
    for tab in (attributes for tag, attributes in reader.tags if attributes.get("role") == "tab"):
        assert tab["aria-controls"] in ids
        assert tab["href"] == f"#{tab['aria-controls']}"


def test_names_and_settings_cannot_end_a_script_or_begin_markup() -> None:
    nasty = "</script><img src=x onerror=\"a('b')\"> & <!-- \u2028"
    drawn = Sketch(
        nasty,
        "both",
        [
            Box(
                "a",
                nasty,
                nasty,
                "module",
                nasty,
                gives=(Socket("y", nasty, marks=(Mark(0, nasty),), stories=(nasty,)),),
                tag=1,
                uses=(nasty, nasty),
                fields=(Setting(nasty, nasty, False),),
                summary=nasty,
                place=nasty,
                notes=(Note("warning", nasty),),
            ),
            Box("b", nasty, nasty, "loss", takes=(Socket("x", nasty),)),
        ],
        [Link("a", "y", "b", "x", notes=(Note("assumed", nasty),))],
        {nasty: ("a", "y")},
        notes=[Note("finding", nasty)],
    )
    reader = Reader(page_of([drawn], nasty))
    assert "img" not in [tag for tag, _ in reader.tags]
    assert len(reader.scripts) == 2
    box = reader.model()["graphs"][0]["boxes"][0]
    assert (box["title"], box["about"], box["fields"]) == (nasty, nasty, [[nasty, nasty, 0]])


def test_sizes_are_told_as_the_trace_tells_them() -> None:
    graph = small()
    drawn = Reader(to_page([graph], "x")).model()["graphs"][0]
    names = step_names(graph)
    for (step, port, slot), hop in trace_sizes(graph.steps, names).items():
        marks = by_name(drawn)[f"{names[step]}.{port}"]["marks"]
        number = next(m[3] for m in marks if (m[4] or marks.index(m)) == slot)
        assert story(drawn, number) == size_story(hop)
    assert story(drawn, by_name(drawn)["head.log_probs"]["marks"][1][3]) == (
        "T from data.audio -> //160 + 1 at mel (hop 160) -> ceil(/2) at encoder (stride 2)"
    )


def story(drawn: dict[str, Any], number: int) -> str:
    """Tell a size from the data of the page, as its script does."""
    seen: set[int] = set()
    waiting = [number]
    while waiting:
        each = waiting.pop()
        seen.add(each)
        waiting += drawn["hops"][each][2]
    starts, changes = [], []
    for each in sorted(seen):
        port, size, before, rule, why = drawn["hops"][each]
        found = drawn["ports"][port]
        box = drawn["boxes"][found["box"]]["key"]
        words = f" ({why})" if why else ""
        if not before:
            starts.append(f"{size} from {box}.{found['name']}{words}")
        elif rule:
            changes.append(f"{rule} at {box}{words}")
    return " -> ".join([", ".join(starts), *changes])


def test_clocks_are_told_from_the_samples_to_the_frames() -> None:
    ports = by_name(Reader(to_page([small()], "x")).model()["graphs"][0])
    clocks = [
        ports[name]["marks"][axis][2]
        for name, axis in [("data.audio", 1), ("mel.mel", 2), ("encoder.encoded", 2), ("head.log_probs", 1)]
    ]
    assert clocks == ["16000 Hz", "100 Hz", "50 Hz", "50 Hz"]
    picture = to_svg(small())
    assert "16000 Hz" in picture
    assert picture.count(" 50 Hz") >= 2
    listing = to_text(small())
    assert "(100 Hz)" in listing
    assert "(16000 Hz)" not in listing  # the rate says it


def test_a_size_has_the_number_of_its_symbol_on_every_axis_that_shares_it() -> None:
    drawn = Reader(to_page([small()], "x")).model()["graphs"][0]
    ports = by_name(drawn)
    batch, frames = (drawn["symbols"].index([name, "data.audio"]) for name in "BT")
    assert ports["head.log_probs"]["marks"][0][1] == [batch]
    assert ports["head.log_probs"]["marks"][1][1] == [frames]
    assert ports["encoder.encoded_len"]["marks"][-1][1] == [frames]
    assert ports["encoder.encoded_len"]["marks"][-1][4] == "of"
    assert ports["data.text"]["marks"][1][1] == [drawn["symbols"].index(["U", "data.text"])]


def test_optional_and_train_only_ports_are_shown() -> None:
    graph = tagging()
    drawn = Reader(to_page([graph], "x")).model()["graphs"][0]
    ports = by_name(drawn)
    assert ports["tagger.hint in"]["optional"] == 1
    assert ports["tagger.target in"]["when"] == "train"
    assert ports["tagger.loss"]["when"] == "train"
    picture = to_svg(graph)
    assert ">hint?</text>" in picture
    assert ">target (train)</text>" in picture
    assert ">loss (train)</text>" in picture
    assert 'class="n-open"' in picture
    listing = to_text(graph)
    assert "x=data.x, target=data.tags (train), hint=None" in listing
    assert "Loss[] when train" in listing


def test_settings_are_told_with_what_is_a_default() -> None:
    drawn = Reader(to_page([tagging(), doubtful()], "x")).model()["graphs"]
    boxes = {box["key"]: box for graph in drawn for box in graph["boxes"]}
    assert boxes["tagger"]["fields"] == [["note", repr('say "x" & <b>y</b>'), 1]]
    assert boxes["tagger"]["about"] == "Tags words & <more>."
    assert boxes["tagger"]["weights"] == 1
    assert boxes["tagger"]["place"].startswith("tests/graph/test_draw_page.py:")
    assert boxes["encoder"]["fields"] == [["n_mels", "64", 1], ["width", "128", 0], ["stride", "2", 1]]
    assert "about" not in boxes["encoder"]  # the class says nothing
    assert "place" not in Reader(page_of([Sketch("g", "both", [Box("a", "a", "A", "module")])], "x")).model()


def test_paths_are_shortened_in_boxes_only() -> None:
    data = Frames(path="/some/where/far/away/from/here/dev.jsonl").named("data")()
    graph = Graph("g", outputs={"x": data.x})
    (box,) = sketch(graph).boxes
    assert box.settings == "path='…/dev.jsonl'"
    assert box.fields[0].text == "'/some/where/far/away/from/here/dev.jsonl'"


def test_what_is_not_proved_is_marked_on_its_connection() -> None:
    graph = doubtful()
    drawn = Reader(to_page([graph], "x")).model()["graphs"][0]
    keys = list(by_name(drawn))
    notes = {keys[target]: found for _, target, found, *_ in drawn["links"] if found and target >= 0}
    assert notes["mel.audio in"] == [["assumed", "rate = 16000"], ["assumed", "peak = 1.0"]]
    (claimed,) = [found for port, found in notes.items() if port.startswith("assume")]
    assert claimed[0][0] == "assumed"
    assert claimed[0][1].endswith("measured <once>")
    picture = to_svg(graph)
    assert picture.count('class="n-note n-assumed"') == 3  # two connections and the legend
    assert "assumed: rate = 16000\nassumed: peak = 1.0" in picture
    assert "    ?  audio: rate = 16000 (assumed)\n" in to_text(graph)
    assert "<br/>? rate = 16000<br/>? peak = 1.0" in graph.mermaid()


def test_differences_that_are_let_pass_and_findings_are_marked() -> None:
    note = Note("finding", "encoder gets no lengths [padding]")
    drawn = Sketch(
        "g",
        "both",
        [
            Box("a", "a", "A", "module", gives=(Socket("y", "Loss[]"),)),
            Box("b", "b", "B", "module", takes=(Socket("x", "Loss[]"),), notes=(note,)),
        ],
        [Link("a", "y", "b", "x", notes=(Note("assumed", "p = 1"), Note("warning", "window is hann")))],
        notes=[Note("finding", "nothing is trained [no-weights]")],
    )
    page = page_of([drawn], "x")
    assert 'class="n-note n-warning"' in page
    assert 'class="n-note n-finding"' in page
    (graph,) = Reader(page).model()["graphs"]
    assert graph["notes"] == [["finding", "nothing is trained [no-weights]"]]
    assert graph["boxes"][1]["notes"] == [["finding", "encoder gets no lengths [padding]"]]
    assert graph["links"][0][2] == [["assumed", "p = 1"], ["warning", "window is hann"]]
    for line in (
        "    !  nothing is trained [no-weights]",
        "    !  x: window is hann",
        "    !  encoder gets no lengths [padding]",
    ):
        assert line in page


@pytest.mark.parametrize("name", WRONG)
def test_findings_of_the_rules_reach_the_drawing(name: str) -> None:
    graph = WRONG[name][2]()
    drawn = sketch(graph)
    on_links = [note.text for link in drawn.links for note in link.notes if note.kind == "finding"]
    elsewhere = [note.text for note in drawn.notes]
    elsewhere += [note.text for box in drawn.boxes for note in box.notes if note.kind == "finding"]
    told = [each for each in graph.findings() if each.rule != "unused-output"]
    assert sorted(on_links + elsewhere) == sorted(f"{each.sentence} [{each.rule}]" for each in told)
    assert len(on_links) == sum(each.step is not None and each.port in each.step.inputs for each in told)


def test_a_finding_that_the_graph_does_without_is_not_drawn() -> None:
    name = next(name for name, (rule, _, _) in WRONG.items() if rule == "padding")
    graph = WRONG[name][2]()
    quiet = Graph(outputs=graph.outputs, silence={"padding": "all of one length"})
    assert "[padding]" in to_text(graph)
    assert "[padding]" not in to_text(quiet)


def test_a_difference_that_is_let_pass_is_drawn() -> None:
    spoken = inputs(mel=Mel(window="hamming")[B, F(80), T])
    graph = Graph("g", outputs={"audio": Soft().named("soft")(mel=spoken.mel).audio})
    (link,) = sketch(graph).links
    assert link.notes == (Note("warning", "window is hamming, not hann"),)
    assert "    !  mel: window is hamming, not hann\n" in to_text(graph)


def test_a_step_of_a_recipe_tells_its_line(tmp_path: Path) -> None:
    x = inputs(x=Acoustic()[B, F(64), T])
    Graph("g", outputs={"y": specs.Down().named("half")(x=x.x).x}).save(tmp_path / "g.yaml")
    (_, box) = sketch(Graph.load(tmp_path / "g.yaml")).boxes
    assert re.search(r"g\.yaml:\d+", box.place)


def test_sizes_that_nobody_knows_are_drawn() -> None:
    x = inputs(x=Acoustic()[B, F(64), T(None)], n=Lengths()[B])
    drawn = sketch(Graph("g", outputs={"x": x.x, "n": x.n}), traces=True)
    assert [mark.text for mark in drawn.boxes[0].gives[0].marks] == ["B", "F=64", "T=?"]
    assert drawn.boxes[0].gives[0].marks[2].symbols == ()
    assert [mark.slot for mark in drawn.boxes[0].gives[1].marks] == [0]
    assert page_of([drawn], "x")


def test_a_module_of_several_graphs_has_one_tag_in_all_of_them() -> None:
    one, two = (sketch(graph, family=family_) for family_ in [family()] for graph in family_)
    tags = {box.key: box.tag for box in one.boxes}
    assert tags == {"inputs": 0, "up": 0, "half": 1}
    assert {box.tag for box in two.boxes if box.kind} == {1}
    page = Reader(page_of([one, two], "x"))
    uses = [box["uses"] for graph in page.model()["graphs"] for box in graph["boxes"] if "uses" in box]
    assert uses == [["first.half", "second.half", "second.half_2"]] * 3
    tagged = [a["class"] for tag, a in page.tags if "n-tag1" in a.get("class", "")]
    assert len(tagged) == 3
    assert "<title>one module: first.half, second.half, second.half_2</title>" in page_of([one, two], "x")
    alone = sketch(family()[0])
    assert {box.tag for box in alone.boxes} == {0}


def test_a_module_used_twice_is_listed_once_with_its_settings_and_then_by_name() -> None:
    x = inputs(x=Acoustic()[B, F(64), T])
    encoder = specs.CTCHead(specs.EN, width=64).named("head")
    graph = Graph("g", outputs={"a": encoder(encoded=x.x).log_probs, "b": encoder(encoded=x.x).log_probs})
    listing = to_text(graph)
    assert "head = CTCHead(vocab=en[28], width=64), used by 2 steps\n" in listing
    assert "head_2 = CTCHead(vocab=en[28], width=64), shares the weights of head\n" in listing


def test_several_graphs_are_tabs_of_one_page() -> None:
    reader = Reader(to_page(family(), "both"))
    tabs = [attributes for _, attributes in reader.tags if attributes.get("role") == "tab"]
    panels = [attributes for _, attributes in reader.tags if attributes.get("role") == "tabpanel"]
    assert [tab["href"] for tab in tabs] == ["#graph-0", "#graph-1"]
    assert [panel["aria-labelledby"] for panel in panels] == ["tab-0", "tab-1"]
    assert sum(tag == "svg" for tag, _ in reader.tags) == 2
    assert sum(tag == "pre" for tag, _ in reader.tags) == 2


def test_a_page_is_the_same_each_time() -> None:
    assert to_page([small()], "x") == to_page([small()], "x")
    assert to_page([wide(4)], "x") == to_page([wide(4)], "x")


@pytest.mark.parametrize("graph", [large(30), wide(13)], ids=["deep", "wide"])
def test_a_page_of_sixty_modules_is_small_and_quick(graph: Graph) -> None:
    to_page([graph], "x")
    start = time.process_time()
    page = to_page([graph], "x")
    took = time.process_time() - start
    assert len(page.encode()) < 300_000
    assert took < 0.3


def test_a_notebook_shows_tooltips_without_a_script() -> None:
    html = small()._repr_html_()
    assert "<script" not in html
    assert "T//320 + 1: T from data.audio -&gt; //160 + 1 at mel (hop 160)" in html
    assert len(html) < 40_000


def test_the_files_of_the_page_lie_in_the_package() -> None:
    folder = Path(draw.__file__).parent
    assert (folder / "page.css").stat().st_size > 0
    assert (folder / "page.js").stat().st_size > 0


def test_the_model_tells_each_type_once() -> None:
    model = page_model([sketch(large(30), traces=True)])
    assert len(model["types"]) == len(set(model["types"])) < 8
