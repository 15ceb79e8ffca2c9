"""What modules learn to expect is written with their weights, and comes back with them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from neumo.engine import AdamW, NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.learned import learned_facets
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, CheckpointError, F, Item, PortError

from .toys import ArraySource, Line, PointData, SquaredError


@dataclass(frozen=True)
class Lab(PointData):
    """Points whose meaning is known: those of a laboratory."""

    lab: str = "one"

    def signature(self) -> Signature:
        x, y = Acoustic(self.lab)[B, F(self.width)], Acoustic()[B, F(1)]
        return Signature(gives={"x": x, "y": y, "item": Item()[B]})

    def open(self, seed: int) -> Any:
        return ArraySource(self, seed)


def graph(line: Line, lab: str = "one") -> Graph:
    batch = Lab(points=16, lab=lab)()
    made = line(x=batch.x)
    return Graph("fit", "train", {"loss": SquaredError()(given=made.y, wanted=batch.y).loss})


def use(line: Line, lab: str) -> Graph:
    return Graph("use", "infer", line(x=inputs(x=Acoustic(lab)[B, F(3)]).x))


def factory(folder: Path | None = None) -> NeuralFactory:
    return NeuralFactory(device="cpu", seed=1, progress=False, folder=folder)


def fit(line: Line, folder: Path | None = None, lab: str = "one", **more: Any) -> NeuralFactory:
    maker = factory(folder)
    maker.train(graph(line, lab), optimizer=AdamW(lr=0.1), **{"epochs": 1, **more})
    return maker


def test_a_training_teaches_the_modules_what_they_were_trained_on() -> None:
    line = Line().named("line")
    assert use(line, "two")
    fit(line)
    assert learned_facets(line) == {"x": Acoustic("one")}
    assert use(line, "one")
    with pytest.raises(PortError, match="space is two, not one"):
        use(line, "two")


def test_frozen_modules_learn_nothing() -> None:
    line, other = Line().named("line"), Line().named("other")
    maker = factory()
    batch = Lab(points=16)()
    loss = SquaredError()(given=line(x=batch.x).y, wanted=other(x=batch.x).y).loss
    whole = Graph("fit", "train", {"loss": loss})
    maker.count_parameters(whole)
    maker.freeze(other)
    maker.train(whole, epochs=1)
    assert (learned_facets(line), learned_facets(other)) == ({"x": Acoustic("one")}, {})


def test_a_checkpoint_holds_it_and_a_resumed_training_knows_it(tmp_path: Path) -> None:
    fit(Line().named("line"), tmp_path)
    checkpoint = max((tmp_path / "checkpoints").glob("step-*"))
    state = json.loads((checkpoint / "state.json").read_text())
    assert state["learned"] == {"line": {"x": {"element": "Acoustic", "space": "one"}}}
    again = Line().named("line")
    fit(again, tmp_path, epochs=2)
    assert learned_facets(again) == {"x": Acoustic("one")}
    with pytest.raises(PortError) as caught:
        fit(Line().named("line"), tmp_path, lab="two", epochs=3)
    text = " ".join(str(caught.value).split())
    assert "space is two, not one" in text
    assert f"learned in training ({max((tmp_path / 'checkpoints').glob('step-*')).name})" in text


def test_weights_bring_it_along_wherever_they_are_loaded_from(tmp_path: Path) -> None:
    fit(Line().named("line"), tmp_path)
    checkpoint = max((tmp_path / "checkpoints").glob("step-*"))
    for path in (tmp_path, checkpoint, checkpoint / "weights.safetensors"):
        line = Line().named("line")
        right = use(line, "one")
        factory().load(right, path)
        assert learned_facets(line) == {"x": Acoustic("one")}
        with pytest.raises(PortError, match="space is two, not one"):
            factory().load(use(Line().named("line"), "two"), path)
    alone = Line().named("line")
    maker = factory()
    maker.load(use(alone, "one"), checkpoint, modules=["line"])
    plain = tmp_path / "plain" / "weights.safetensors"
    plain.parent.mkdir()
    maker.save(use(alone, "one"), plain)
    fresh = Line().named("line")
    factory().load(use(fresh, "two"), plain)
    assert learned_facets(fresh) == {}
    (plain.parent / "state.json").write_text("[]")
    factory().load(use(fresh, "two"), plain)
    (plain.parent / "state.json").write_text('{"learned": 3}')
    with pytest.raises(CheckpointError, match=r"3 is no\s+mapping"):
        factory().load(use(fresh, "two"), plain)
