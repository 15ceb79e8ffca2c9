"""Several data layers as one: pairs, all combinations, names of ports, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from neumo.data import DataReport, DataSource, Dropped
from neumo.data.multi import CrossSource, ZipSource, zip_sources
from neumo.engine import NeuralFactory
from neumo.engine.checks.preflight import Foreseeing
from neumo.graph.graph import Graph
from neumo.graph.module import DataLayer
from neumo.graph.multi import MultiData
from neumo.graph.signature import Signature
from neumo.graph.yaml import Recipe, load_recipe, recipe_text
from neumo.types import Acoustic, B, ConfigError, DataError, F, Item, Lengths, NeumoError, PortError, T

from ..engine.toys import Line, PointData, SquaredError
from ..graph.snapshots import expect


class Numbers:
    """Gives its index, times `scale`, under the name of one port."""

    def __init__(self, port: str, kept: Sequence[int], *, scale: int = 1, bad: tuple[int, ...] = ()) -> None:
        self.port, self.kept, self.scale, self.bad = port, list(kept), scale, bad

    def __len__(self) -> int:
        return len(self.kept)

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        order = self.kept[::-1] if epoch % 2 else self.kept
        return [order[at : at + 2] for at in range(0, len(order), 2)][rank::world]

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        return {} if index in self.bad else {self.port: index * self.scale}

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        return {self.port: np.array([item[self.port] for item in items])}

    def name(self, index: int) -> str:
        return f"{self.port}:{index}"

    def report(self) -> DataReport | None:
        return DataReport(
            (f"{self.port}.jsonl",),
            entries=5,
            kept=len(self.kept),
            hours=1.0,
            hours_kept=0.5,
            dropped=(Dropped("too short", 1, 0.1, (self.port,)),),
            rates={8000: 2},
            notes=("old manifest",),
        )


def pairs(*kept: Sequence[int], kind: type[Any] = ZipSource, **settings: Any) -> Any:
    sources = [Numbers("abc"[n], each, scale=10**n) for n, each in enumerate(kept)]
    return kind(sources, [[(source.port, source.port)] for source in sources], **settings)


@dataclass(frozen=True)
class Frames(DataLayer):
    width: int = 3
    kept: tuple[int, ...] = (0, 1, 2)

    def signature(self) -> Signature:
        frames = Acoustic()[B, F(self.width), T]
        return Signature(gives={"a": frames, "a_len": Lengths(T)[B]})

    def open(self, seed: int) -> Any:
        return Numbers("a", self.kept)


@dataclass(frozen=True)
class Extra(DataLayer):
    def signature(self) -> Signature:
        return Signature(gives={"b": Acoustic()[B, F(2), T("T2")], "item": Item()[B]})


# Sources


@pytest.mark.parametrize("kind", [ZipSource, CrossSource])
def test_they_are_data_sources(kind: Any) -> None:
    assert isinstance(pairs([0, 1], [0, 1], kind=kind), DataSource)


def test_items_of_one_index_go_together() -> None:
    source = pairs([0, 1, 3], [3, 0, 1])
    assert len(source) == 3
    assert source.batches(0) == [[0, 1], [3]]  # those of the first source
    assert source.batches(1) == [[3, 1], [0]]
    assert source.batches(0, rank=1, world=2) == [[3]]
    batch = source.collate([source.item(index, 0) for index in (1, 3)])
    assert {port: array.tolist() for port, array in batch.items()} == {
        "a": [1, 3],
        "b": [10, 30],
        "item": [1, 3],
    }
    assert source.name(3) == "a:3 with b:3"


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([0, 1, 2], [0, 1], "only in the first: a:2"),
        ([0], [0, 1], "only in number 2: b:1"),
        ([0, 1, 2], [0, 1, 3], "only in number 2: b:3"),
        (range(9), range(1), "only in the first: a:1, a:2, a:3 and 5 more"),
    ],
)
def test_sources_of_other_items_are_not_zipped(first: Any, second: Any, words: str) -> None:
    with pytest.raises(DataError, match="do not have the same items") as caught:
        pairs(first, second)
    assert caught.value.code == "zip"
    assert words in caught.value.details
    if words.endswith("more"):
        expect("data_zip", caught.value.render())


def test_all_combinations_are_the_product() -> None:
    source = pairs([0, 2], [5, 6, 7], [1], kind=CrossSource, batch_size=4, shuffle=False)
    assert len(source) == 2 * 3 * 1
    assert source.batches(0) == [[0, 1, 2, 3], [4, 5]]
    seen = [tuple(source.split(index)) for index in range(6)]
    assert seen == [(0, 5, 1), (0, 6, 1), (0, 7, 1), (2, 5, 1), (2, 6, 1), (2, 7, 1)]
    batch = source.collate([source.item(4, 0)])
    assert {port: array.tolist() for port, array in batch.items()} == {
        "a": [2],
        "b": [60],
        "c": [100],
        "item": [4],
    }
    assert source.name(4) == "a:2 with b:6 with c:1"


def test_combinations_are_shuffled_by_seed_and_epoch() -> None:
    one, same, other = (pairs(range(4), range(4), kind=CrossSource, seed=seed) for seed in (1, 1, 2))
    assert one.batches(0) == same.batches(0) != other.batches(0)
    assert one.batches(0) != one.batches(1)
    assert sorted(one.batches(0)[0]) == list(range(16))
    halves = [one.batches(3, rank=rank, world=2) for rank in (0, 1)]
    assert sorted(i for half in halves for batch in half for i in batch) == list(range(16))


def test_what_one_source_skips_is_skipped_whole() -> None:
    sources = [Numbers("a", range(2)), Numbers("b", range(2), bad=(1,))]
    source = ZipSource(sources, [[("a", "a")], [("b", "b")]])
    assert source.item(1, 0) == {}
    assert source.collate([source.item(1, 0)]) == {}
    kept = source.collate([source.item(0, 0), source.item(1, 0)])
    assert kept["item"].tolist() == [0]


def test_reports_are_put_together() -> None:
    report = pairs([0, 1], [0, 1]).report()
    assert (report.manifests, report.entries, report.kept) == (("a.jsonl", "b.jsonl"), 10, 2)
    assert [dropped.names for dropped in report.dropped] == [("a",), ("b",)]
    assert (report.hours, report.rates, report.notes) == (2.0, {8000: 4}, ("old manifest",))
    assert pairs([0, 1], [0, 1], kind=CrossSource).report().kept == 4


def test_sources_that_report_nothing_have_no_report() -> None:
    class Silent(Numbers):
        def report(self) -> None:
            return None

    source = ZipSource([Silent("a", [0]), Silent("b", [0])], [[("a", "a")], [("b", "b")]])
    assert source.report() is None


def test_sources_travel_to_worker_processes() -> None:
    source = pickle.loads(pickle.dumps(pairs([0, 1], [0, 1], kind=CrossSource)))
    assert len(source) == 4


class Speech(Numbers):
    """Knows lengths and texts beforehand."""

    frames = np.array([100, 200, 300])

    @property
    def indices(self) -> np.ndarray:
        return np.array(self.kept)

    def text_ids(self, index: int) -> np.ndarray:
        return np.arange(index)

    def exclude(self, indices: Any, reason: str) -> None:
        self.kept = [index for index in self.kept if index not in set(indices)]


def test_pairs_know_beforehand_what_their_first_source_knows() -> None:
    ports = [[("text", "text"), ("audio_len", "audio_len")], [("b", "b")]]
    source = zip_sources([Speech("a", range(3)), Numbers("b", range(3))], ports)
    assert isinstance(source, Foreseeing)
    assert source.frames.tolist() == [100, 200, 300]
    assert source.text_ids(2).tolist() == [0, 1]
    source.exclude([1], "too short")
    assert (source.indices.tolist(), len(source), source.batches(0)) == ([0, 2], 2, [[0, 2]])


@pytest.mark.parametrize(
    ("first", "port"), [(Speech("a", range(3)), "words"), (Numbers("a", range(3)), "text")]
)
def test_pairs_know_nothing_beforehand_of_ports_that_were_renamed(first: Any, port: str) -> None:
    ports = [[("text", port), ("audio_len", "audio_len")], [("b", "b")]]
    source = zip_sources([first, Numbers("b", range(3))], ports)
    assert not isinstance(source, Foreseeing)


# The specification


def test_ports_that_clash_are_numbered() -> None:
    both = MultiData(layers=(Frames(), Frames(), Frames()))
    assert list(both.signature().gives) == ["a", "a_len", "a_1", "a_len_1", "a_2", "a_len_2"]


def test_a_port_that_is_called_like_a_numbered_one_is_numbered_further() -> None:
    @dataclass(frozen=True)
    class Odd(DataLayer):
        def signature(self) -> Signature:
            return Signature(gives={"a": Acoustic()[B], "a_1": Acoustic()[B]})

    assert list(MultiData(layers=(Odd(), Odd())).signature().gives) == ["a", "a_1", "a_2", "a_1_1"]
    assert list(MultiData(layers=(Frames(), Odd())).signature().gives) == ["a", "a_len", "a_1", "a_1_1"]


def test_ports_can_have_names_of_their_own() -> None:
    both = MultiData(layers=(Frames(3), Frames(5)), names={"a_1": "noise", "a_len_1": "noise_len"})
    assert list(both.signature().gives) == ["a", "a_len", "noise", "noise_len"]
    assert str(both.signature().gives["noise"]) == "Acoustic[B, F=5, T2]"


def test_batches_are_shared_and_other_sizes_are_not() -> None:
    both = MultiData(layers=(Frames(), Extra(), Frames()))
    assert {port: str(given) for port, given in both.signature().gives.items()} == {
        "a": "Acoustic[B, F=3, T]",
        "a_len": "Lengths(T)[B]",
        "b": "Acoustic[B, F=2, T2]",
        "a_1": "Acoustic[B, F=3, T3]",
        "a_len_1": "Lengths(T3)[B]",
        "item": "Item[B]",
    }


def test_a_batch_of_a_fixed_size_stays_so() -> None:
    @dataclass(frozen=True)
    class Fours(DataLayer):
        def signature(self) -> Signature:
            return Signature(gives={"a": Acoustic()[B(4), F(2)], "rows": Acoustic()[B, F("D2")]})

    both = MultiData(layers=(Fours(), Fours()))
    assert [str(given) for given in both.signature().gives.values()] == [
        "Acoustic[B=4, F=2]",
        "Acoustic[B, F=D2]",
        "Acoustic[B=4, F=2]",
        "Acoustic[B, F=D3]",
    ]


def test_values_of_two_data_layers_may_meet_only_in_one_batch() -> None:
    given, wanted = PointData()(), PointData()()
    line, error = Line(), SquaredError()
    with pytest.raises(PortError) as caught:
        error(given=line(x=given.x).y, wanted=wanted.y)
    assert caught.value.code == "batch"
    both = MultiData(layers=(PointData(), PointData()))()
    assert error(given=line(x=both.x).y, wanted=both.y_1).loss is not None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"how": "product"}, "cannot be put together by 'product'"),
        ({"layers": (Frames(),)}, "has 1 layers, expected 2 data layers or more"),
        ({"layers": None}, "has None as its layers"),
        ({"layers": (Frames(), Line())}, "no data layer"),
        ({"batch_size": 4}, "the batches of a zip are those of its first layer"),
        ({"shuffle": False}, "the batches of a zip are those of its first layer"),
        ({"how": "cross", "batch_size": 0}, "batch_size is 0"),
        ({"names": {"b": "c"}}, "no port of these layers is called 'b'"),
        ({"names": {"a_1": "a"}}, "two ports of MultiData would be called 'a'"),
        ({"layers": (Frames(), Extra()), "names": {"b": "item"}}, "would be called 'item'"),
    ],
)
def test_what_cannot_be_meant_is_refused(settings: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        MultiData(**{"layers": (Frames(), Frames()), **settings})
    assert caught.value.code == "field"


def test_a_misspelt_way_gets_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        MultiData(layers=(Frames(), Frames()), how="crss")  # type: ignore[arg-type]
    assert caught.value.fixes[0].text == "did you mean 'cross'?"


def test_layers_are_opened_as_one() -> None:
    zipped = MultiData(layers=(Frames(), Frames())).open(1)
    assert isinstance(zipped, ZipSource)
    crossed: Any = MultiData(layers=(Frames(), Frames()), how="cross", shuffle=False).open(1)
    assert (len(crossed), crossed.bucketing.batch_size, crossed.bucketing.shuffle) == (9, 16, False)
    with pytest.raises(DataError, match="do not have the same items"):
        MultiData(layers=(Frames(), Frames(kept=(0, 1)))).open(1)


def test_a_training_reads_from_two_data_layers(tmp_path: Any) -> None:
    data = MultiData(layers=(PointData(), PointData(noise=0.1)), how="zip").named("data")
    both = data()
    loss = SquaredError()(given=Line().named("line")(x=both.x).y, wanted=both.y_1)
    graph = Graph("train", "train", loss.loss)
    factory = NeuralFactory(device="cpu", progress=False, verify="always")
    assert factory.train(graph, epochs=1).steps == 5


def test_a_graph_is_computed_over_all_combinations() -> None:
    small = PointData(points=3), PointData(points=2)
    both = MultiData(layers=small, how="cross", batch_size=4)()
    graph = Graph("pairs", outputs=[both.x, both.x_1, both.item])
    batches = NeuralFactory(device="cpu", progress=False, verify="always").infer(graph)
    assert sorted(index for batch in batches for index in batch["item"].tolist()) == list(range(6))


def test_a_recipe_holds_several_data_layers() -> None:
    data = MultiData(layers=(PointData(points=3), PointData(noise=0.5)), how="cross").named("data")
    graph = Graph("points", outputs=[data().x])
    text = recipe_text(Recipe(graphs={"points": graph}))
    again = load_recipe(text).graph()
    assert again == graph
    assert again["data"] == data


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ("[{points: 3}, {kind: PointData}]", "must be a DataLayer such as {kind: ..., ...}, not a mapping"),
        ("[data, data]", "must be a DataLayer such as {kind: ..., ...}"),
        ("[{kind: PointDat}, {kind: PointData}]", "no module kind is called 'PointDat'"),
        ("[{kind: Line}, {kind: PointData}]", "must be a DataLayer, and Line is none"),
        ("[{kind: PointData, pionts: 3}, {kind: PointData}]", "has no field 'pionts'"),
    ],
)
def test_mistakes_in_the_layers_of_a_recipe_are_found(layers: str, words: str) -> None:
    text = f"""
neumo: 1
modules:
  data: {{kind: MultiData, layers: {layers}}}
graphs:
  points: {{steps: {{batch: data()}}}}
"""
    with pytest.raises(NeumoError) as caught:
        load_recipe(text)
    assert words in " ".join(str(caught.value).split())
