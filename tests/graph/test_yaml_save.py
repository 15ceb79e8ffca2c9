"""A graph that was saved and loaded again is equal: modules, wiring, sharing, types of open inputs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.graph.yaml import Recipe, load_graph, load_recipe, recipe_text, save_graph, save_recipe
from neumo.types import (
    Acoustic,
    Audio,
    B,
    ConfigError,
    Element,
    F,
    Ids,
    Lengths,
    LogProbs,
    Mel,
    NeuralType,
    T,
    U,
    V,
    Vocab,
)

from . import specs


@dataclass(frozen=True)
class Inner:
    size: int = 3
    rest: tuple[float, ...] = (0.5,)


@dataclass(frozen=True)
class Rich(NeuralModule):
    """Has a field of every kind that a recipe holds."""

    flag: bool = False
    count: int = 0
    ratio: float = 0.0
    word: str = ""
    choice: Literal["a", "b"] = "a"
    maybe: int | None = None
    path: Path | None = None
    paths: str | Path | tuple[str | Path, ...] = ""
    numbers: list[int] = field(default_factory=list)
    table: dict[str, Any] = field(default_factory=dict)
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()
    vocab: Vocab | None = None
    vocabs: tuple[Vocab, ...] = ()
    element: Element | None = None
    type_: NeuralType | None = None

    def signature(self) -> Signature:
        return Signature(gives={"x": Acoustic()[B, F(8), T]})


def again(graph: Graph, path: Path, *, defaults: bool = False) -> Graph:
    save_recipe(Recipe(graphs={graph.name: graph}), path, defaults=defaults)
    return load_graph(path)


def train_graph() -> Graph:
    vocab = specs.EN
    batch = specs.SpeechData(vocab)()
    feats = specs.MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    enc = specs.ConvEncoder(width=128).named("encoder")(mel=feats.mel, mel_len=feats.mel_len)
    lp = specs.CTCHead(vocab, width=128)(encoded=enc.encoded)
    loss = specs.CTCLoss(vocab)(
        log_probs=lp.log_probs, log_probs_len=enc.encoded_len, targets=batch.text, targets_len=batch.text_len
    )
    return Graph("train", "train", {"loss": loss.loss, "log_probs": lp.log_probs})


@pytest.mark.parametrize("defaults", [False, True])
def test_a_graph_is_loaded_back_equal(tmp_path: Path, defaults: bool) -> None:
    graph = train_graph()
    loaded = again(graph, tmp_path / "g.yaml", defaults=defaults)
    assert loaded == graph
    assert loaded.name == "train"
    assert list(loaded.outputs) == ["loss", "log_probs"]
    assert "encoder" in loaded.modules
    assert [str(v.type) for v in loaded.outputs.values()] == [str(v.type) for v in graph.outputs.values()]


def test_a_saved_graph_is_saved_the_same_again(tmp_path: Path) -> None:
    loaded = again(train_graph(), tmp_path / "g.yaml")
    again(loaded, tmp_path / "h.yaml")
    assert (tmp_path / "g.yaml").read_text() == (tmp_path / "h.yaml").read_text()


def test_methods_of_the_graph_save_and_load(tmp_path: Path) -> None:
    graph = train_graph()
    graph.save(tmp_path / "g.yaml")
    assert Graph.load(tmp_path / "g.yaml") == graph
    save_graph(graph, str(tmp_path / "h.yaml"))
    assert load_graph(str(tmp_path / "h.yaml")) == graph


def test_another_graph_is_not_equal(tmp_path: Path) -> None:
    loaded = again(train_graph(), tmp_path / "g.yaml")
    assert load_recipe(tmp_path / "g.yaml", ["modules.encoder.stride=4"]).graph() != loaded


def test_shared_modules_stay_shared(tmp_path: Path) -> None:
    add, shared = specs.Add(), specs.Down(by=1)
    x = inputs(x=Acoustic()[B, F(8), T]).x
    one, two = shared(x=x).x, shared(x=x).x
    graph = Graph("g", outputs={"y": add(a=one, b=add(a=two, b=two).x).x})
    loaded = again(graph, tmp_path / "g.yaml")
    assert loaded == graph
    assert len(loaded.modules) == 2
    assert len(loaded.steps) == 5
    apart = Graph("g", outputs={"y": add(a=one, b=add(a=specs.Down(by=1)(x=x).x, b=two).x).x})
    assert apart != graph
    assert again(apart, tmp_path / "h.yaml") == apart


def test_graphs_of_a_recipe_share_what_they_shared(tmp_path: Path) -> None:
    down = specs.Down(by=2)
    x, y = inputs(x=Acoustic()[B, F(8), T]).x, inputs(x=Acoustic()[B, F(9), T]).x
    graphs = {"a": Graph("a", outputs={"x": down(x=x).x}), "b": Graph("b", outputs={"x": down(x=y).x})}
    graphs["c"] = Graph("c", outputs={"x": specs.Down(by=2)(x=x).x})
    save_recipe(Recipe(graphs=graphs, actions={"train": {"epochs": 3, "lr": 1e-5}}), tmp_path / "r.yaml")
    loaded = load_recipe(tmp_path / "r.yaml")
    assert dict(loaded.graphs) == graphs
    one, two, three = (next(iter(g.modules.values())) for g in loaded.graphs.values())
    assert one is two
    assert one is not three
    assert loaded.actions == {"train": {"epochs": 3, "lr": 1e-5}}


def test_a_port_that_takes_many_keeps_its_list(tmp_path: Path) -> None:
    graph = train_graph()
    loss = graph.outputs["loss"]
    total = Graph("g", "train", {"loss": specs.SumLoss()(losses=[loss, loss]).loss})
    assert again(total, tmp_path / "g.yaml") == total


def test_open_inputs_of_separate_calls_stay_separate(tmp_path: Path) -> None:
    one = inputs(audio=Audio(rate=16000)[B, T], audio_len=Lengths(T)[B])
    two = inputs(second=Audio(rate=8000)[B, T], second_len=Lengths(T)[B])
    graph = Graph("g", outputs={**one._asdict(), **two._asdict()})
    text = recipe_text(graph)
    assert "second_len: Lengths(T2)[B2]" in text
    three = inputs(third=Audio(rate=4000)[B, T])
    assert "third: Audio(rate=4000)[B3, T3]" in recipe_text(
        Graph("g", outputs={**graph.inputs, "third": three.third})
    )
    loaded = load_recipe(text).graph()
    assert str(loaded.inputs["second"].type) == "Audio(rate=8000)[B2, T2]"


def test_an_input_may_be_called_like_a_module(tmp_path: Path) -> None:
    down = inputs(down=Acoustic()[B, F(8), T]).down
    graph = Graph("g", outputs={"x": specs.Down()(x=down).x})
    assert again(graph, tmp_path / "g.yaml") == graph


def test_vocabularies_of_input_types_are_kept(tmp_path: Path) -> None:
    vocab = Vocab("abc", name="abc", unk="c").with_blank("start")
    record = inputs(scores=LogProbs(vocab)[B, T, V(vocab)], ids=Ids(vocab)[B, U])
    graph = Graph("g", outputs=record)
    text = recipe_text(graph)
    del vocab, record
    assert load_recipe(text).graph() == graph
    assert "blank+abc:" in text


def test_vocabularies_of_one_name_stay_apart(tmp_path: Path) -> None:
    one, two = Vocab("abc", name="letters"), Vocab("abd", name="letters")
    rich = Rich(vocab=one, vocabs=(two, one, Vocab("xy"), Vocab(["yes", "no"], unit="word", pad=0)))
    graph = Graph("g", outputs=rich())
    loaded = again(graph, tmp_path / "g.yaml")
    assert loaded == graph
    found = load_recipe(tmp_path / "g.yaml").vocabs
    assert [str(v).partition("#")[0] for v in found.values()] == [
        "letters[3]",
        "letters[3]",
        "vocab[2]",
        "vocab_2[2]",
    ]


def test_types_and_elements_are_kept(tmp_path: Path) -> None:
    vocab = Vocab("ab", name="two")
    rich = Rich(element=LogProbs(vocab), type_=Mel(n_mels=4)[B, F(4), T // 2 + 1])
    graph = Graph("g", outputs=rich())
    assert again(graph, tmp_path / "g.yaml") == graph


def test_paths_are_written_as_seen_from_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    far = os.path.abspath("/somewhere/else.txt")
    rich = Rich(path=Path("data/a.txt"), paths=(str(tmp_path / "runs/b.txt"), far))
    graph = Graph("g", outputs=rich())
    save_graph(graph, "runs/g.yaml")
    text = Path("runs/g.yaml").read_text()
    assert "path: ../data/a.txt" in text
    assert f"[b.txt, {far}]" in text
    loaded = next(iter(load_graph("runs/g.yaml").modules.values()))
    assert os.path.abspath(loaded.path) == str(tmp_path / "data/a.txt")  # type: ignore[attr-defined]
    assert [os.path.abspath(p) for p in loaded.paths] == [str(tmp_path / "runs/b.txt"), far]  # type: ignore[attr-defined]
    save_graph(graph, "g.yaml")
    loaded = next(iter(load_graph("g.yaml").modules.values()))
    assert loaded.path == Path("data/a.txt")  # type: ignore[attr-defined]


def test_a_relative_path_is_loaded_back_equal_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    graph = Graph("g", outputs=Rich(path=Path("data/a.txt"), paths="b.txt")())
    save_graph(graph, "runs/g.yaml")
    assert load_graph("runs/g.yaml") == graph


def test_paths_stay_as_they_are_in_a_text() -> None:
    assert "path: data/a.txt" in recipe_text(Graph("g", outputs=Rich(path=Path("data/a.txt"))()))


def test_classes_of_one_name_are_written_with_their_module() -> None:
    one = type("Twin", (specs.Add,), {"__module__": "one"})
    two = type("Twin", (specs.Add,), {"__module__": "two"})
    for cls in (one, two):
        x = inputs(x=Acoustic()[B, F(8), T]).x
        text = recipe_text(Graph("g", outputs=cls()(a=x, b=x)))
        assert f"kind: {cls.__module__}.Twin" in text
        assert type(next(iter(load_recipe(text).graph().modules.values()))) is cls


def test_what_yaml_cannot_hold_is_refused() -> None:
    graph = Graph("g", outputs=Rich(table={"a": [{"b": object()}]})())
    with pytest.raises(ConfigError) as caught:
        recipe_text(graph)
    assert caught.value.what == "Rich.table.a[0].b is a object, which a recipe cannot hold"


def test_a_recipe_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write"):
        save_graph(train_graph(), tmp_path / "nowhere" / "g.yaml")


def test_long_fields_are_written_one_a_line() -> None:
    text = recipe_text(
        Graph("g", outputs=Rich(inners=tuple(Inner(n) for n in range(9)), word="a long word " * 9)())
    )
    assert max(len(line) for line in text.splitlines()) < 130
    assert "    inners:\n" in text


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False)
    | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(table=st.dictionaries(st.text(max_size=6), plain_values, max_size=4), word=st.text(max_size=30))
def test_any_plain_values_survive(table: Mapping[str, Any], word: str) -> None:
    graph = Graph("g", outputs=Rich(table=dict(table), word=word)())
    loaded = load_recipe(recipe_text(graph)).graph()
    (module,) = loaded.modules.values()
    assert module.word == word  # type: ignore[attr-defined]
    assert module.table == table  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "word", ["1e-3", "yes", "null", "~", "<<", "=", "0o17", "a: b", "# c", "'", '"', " x ", "!x", "\t"]
)
def test_texts_that_look_like_something_else_stay_texts(word: str) -> None:
    (module,) = load_recipe(recipe_text(Graph("g", outputs=Rich(word=word)()))).graph().modules.values()
    assert module.word == word  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_graphs_are_loaded_back_equal(data: st.DataObject) -> None:
    pool = [specs.Down(by=1), specs.Down(by=1), specs.Add(), specs.Add()]
    values = [inputs(x=Acoustic()[B, F(8), T]).x]
    for _ in range(data.draw(st.integers(1, 8))):
        module = data.draw(st.sampled_from(pool))
        ports = ["x"] if isinstance(module, specs.Down) else ["a", "b"]
        values.append(module(**{port: data.draw(st.sampled_from(values)) for port in ports}).x)
    chosen = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    graph = Graph("g", "infer", {f"o{n}": value for n, value in enumerate(chosen)})
    text = recipe_text(graph)
    loaded = load_recipe(text).graph()
    assert loaded == graph
    assert len(loaded.modules) == len(graph.modules)
    assert recipe_text(loaded) == text


@dataclass(frozen=True)
class Held(NeuralModule):
    """Holds code instead of settings, as a wrapped torch module does."""

    not_in_recipes: ClassVar[str] = "it holds code"

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, T]}, gives={"y": Acoustic()[B, T]})


def test_a_module_that_holds_code_is_refused_with_a_way_out() -> None:
    graph = Graph("g", outputs={"y": Held().named("held")(x=inputs(x=Acoustic()[B, T]).x).y})
    with pytest.raises(ConfigError, match="held cannot be written as a recipe: it holds code") as caught:
        recipe_text(graph)
    assert caught.value.code == "wrapped"
    assert "TorchModule" in str(caught.value)
