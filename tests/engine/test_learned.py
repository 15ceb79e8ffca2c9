"""What modules learn to expect is written with their weights, and comes back with them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from neumo.engine import AdamW, NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.learned import learned_facets, set_learned
from neumo.graph.signature import Signature
from neumo.hub.bundle import save_model
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


def test_a_state_beside_a_file_of_weights_alone_is_read_with_care(tmp_path: Path) -> None:
    plain = tmp_path / "weights.safetensors"
    save_file({name: torch.tensor(a) for name, a in weights().items()}, plain)
    fresh = Line().named("line")
    factory().load(use(fresh, "two"), plain)
    assert learned_facets(fresh) == {}
    (plain.parent / "state.json").write_text("[]")
    factory().load(use(fresh, "two"), plain)
    (plain.parent / "state.json").write_text('{"learned": 3}')
    with pytest.raises(CheckpointError, match=r"3 is no\s+mapping"):
        factory().load(use(fresh, "two"), plain)


def weights() -> dict[str, Any]:
    return factory().weights(use(Line().named("line"), "one"))


def saved(path: Path, name: str = "line") -> Path:
    """A file of weights that a training made, saved by themselves."""
    line = Line().named(name)
    fit(line).save(use(line, "one"), path)
    return path


def test_weights_saved_by_themselves_carry_it_in_their_metadata(tmp_path: Path) -> None:
    path = saved(tmp_path / "line.safetensors")
    with safe_open(path, "pt") as file:
        notes = file.metadata()
    assert json.loads(notes["neumo.learned"]) == {"line": {"x": {"element": "Acoustic", "space": "one"}}}
    fresh = Line().named("line")
    factory().load(use(fresh, "one"), path)
    assert learned_facets(fresh) == {"x": Acoustic("one")}
    with pytest.raises(PortError, match="space is two, not one"):
        use(fresh, "two")
    with pytest.raises(PortError, match=r"learned in training\s+\(line.safetensors\)"):
        factory().load(use(Line().named("line"), "two"), path)


def test_fresh_weights_have_learned_nothing_whatever_lies_beside_their_file(tmp_path: Path) -> None:
    factory().save(use(Line().named("line"), "one"), tmp_path / "line.safetensors")
    (tmp_path / "state.json").write_text(json.dumps({"learned": {"line": {"x": {"element": "Acoustic"}}}}))
    fresh = Line().named("line")
    factory().load(use(fresh, "two"), tmp_path / "line.safetensors")
    assert learned_facets(fresh) == {}


def test_it_goes_with_the_weights_under_other_names(tmp_path: Path) -> None:
    path = saved(tmp_path / "enc.safetensors", "enc")
    line, other = Line().named("line"), Line().named("other")
    opened = inputs(x=Acoustic("one")[B, F(3)])
    both = Graph("both", "infer", {"a": line(x=opened.x).y, "b": other(x=opened.x).y})
    factory().load(both, path, modules=["line"], rename={"enc": "line"})
    assert (learned_facets(line), learned_facets(other)) == ({"x": Acoustic("one")}, {})
    alone = Line()
    factory().load(alone, path, rename=lambda name: name.removeprefix("enc."))
    assert learned_facets(alone) == {"x": Acoustic("one")}


def test_a_module_saved_alone_gives_it_to_a_module_of_a_graph(tmp_path: Path) -> None:
    line = Line().named("line")
    fit(line).save(line, tmp_path / "line.safetensors")
    again, alone = Line().named("again"), Line()
    factory().load(alone, tmp_path / "line.safetensors")
    assert learned_facets(alone) == {"x": Acoustic("one")}
    factory().load(use(again, "one"), tmp_path / "line.safetensors", rename=lambda name: f"again.{name}")
    assert learned_facets(again) == {"x": Acoustic("one")}


def test_a_partial_load_gives_it_where_it_gives_weights(tmp_path: Path) -> None:
    path = saved(tmp_path / "line.safetensors")
    norm, wide = Line(norm=True).named("line"), Line(width=1, norm=True).named("line")
    assert factory().load(use(norm, "one"), path, partial=True)
    assert learned_facets(norm) == {"x": Acoustic("one")}
    narrow = Graph("use", "infer", wide(x=inputs(x=Acoustic("two")[B, F(1)]).x))
    left = factory().load(narrow, path, partial=True, rename={"line.linear.bias": "line.bias"})
    assert any(row.startswith("shape") for row in left)
    assert learned_facets(wide) == {}


@pytest.mark.parametrize(
    ("note", "words"),
    [
        ("{", "'{' is no JSON"),
        ("[]", "[] is no mapping"),
        ('{"line": {"x": {"element": "Acustic"}}}', "there is no element 'Acustic'"),
        ('{"line": {"x": {"element": "Acoustic", "colour": "red"}}}', "colour"),
    ],
)
def test_metadata_that_says_nonsense_is_refused_before_any_weight_changes(
    tmp_path: Path, note: str, words: str
) -> None:
    tensors = {name: torch.ones_like(torch.tensor(array)) for name, array in weights().items()}
    save_file(tensors, tmp_path / "line.safetensors", metadata={"neumo.learned": note})
    maker, right = factory(), use(Line().named("line"), "one")
    before = maker.weights(right)
    with pytest.raises(CheckpointError) as caught:
        maker.load(right, tmp_path / "line.safetensors")
    assert words in " ".join(str(caught.value).split())
    assert all((maker.weights(right)[name] == before[name]).all() for name in before)


def test_graphs_of_before_the_training_are_compared_when_they_are_used(
    tmp_path: Path,
) -> None:
    line = Line().named("line")
    early, other, again = use(line, "one"), use(line, "two"), graph(line, "two")
    maker = factory()
    rows = {"x": np.zeros((2, 3), np.float32)}
    assert maker.infer(other, rows)
    maker.train(graph(line), epochs=1)
    assert maker.infer(early, rows)
    for action in (
        lambda: maker.infer(other, rows),
        lambda: maker.infer(other, rows),
        lambda: maker.train(again, epochs=1),
        lambda: other.to_torch(factory=maker),
        lambda: save_model(tmp_path / "x.neumo", other, maker),
    ):
        with pytest.raises(PortError, match="space is two, not one"):
            action()
    assert other.to_torch(seed=1)  # fresh weights
    assert not (tmp_path / "x.neumo").exists()
    set_learned(line, None)
    assert maker.infer(other, rows)


def loop(maker: NeuralFactory, whole: Graph) -> None:
    """Train a graph in a loop of one's own, for a step."""
    model, source = whole.to_torch(factory=maker), Lab(points=16).open(0)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    batch = source.collate([source.item(index, 0) for index in source.batches(0)[0]])
    model(**{name: torch.as_tensor(array) for name, array in batch.items()})["loss"].backward()
    optimizer.step()


def test_a_loop_of_ones_own_teaches_the_modules_what_it_connects(tmp_path: Path) -> None:
    line, maker = Line().named("line"), factory()
    early, other = use(line, "one"), use(line, "two")
    loop(maker, graph(line))
    maker.save(early, tmp_path / "own.safetensors")
    assert learned_facets(line) == {"x": Acoustic("one")}
    with pytest.raises(PortError, match="space is two, not one"):
        factory().load(use(Line().named("line"), "two"), tmp_path / "own.safetensors")
    with pytest.raises(PortError, match=r"learned\s+in\s+training"):
        maker.infer(other, {"x": np.zeros((2, 3), np.float32)})
    loop(maker, graph(line))
    with pytest.raises(PortError, match="space is two, not one"):
        loop(maker, graph(line, "two"))


@pytest.mark.parametrize(
    "action",
    [
        lambda maker, right, wrong: maker.infer(wrong, {"x": np.zeros((2, 3), np.float32)}),
        lambda maker, right, wrong: maker.train(graph(wrong.modules["line"], "two"), epochs=1),
        lambda maker, right, wrong: save_model("never.neumo", wrong, maker),
        lambda maker, right, wrong: wrong.to_torch(factory=maker),
    ],
)
def test_every_action_knows_what_a_loop_of_ones_own_has_trained(action: Any) -> None:
    line, maker = Line().named("line"), factory()
    right, wrong = use(line, "one"), use(line, "two")
    loop(maker, graph(line))
    with pytest.raises(PortError, match="space is two, not one"):
        action(maker, right, wrong)


def test_weights_that_no_loop_has_changed_have_learned_nothing(tmp_path: Path) -> None:
    line, other, maker = Line().named("line"), Line().named("other"), factory()
    batch = Lab(points=16)()
    loss = SquaredError()(given=line(x=batch.x).y, wanted=other(x=batch.x).y).loss
    whole = Graph("fit", "train", {"loss": loss})
    maker.freeze(other)
    whole.to_torch(factory=maker)
    maker.load_weights(whole, maker.weights(whole))
    maker.save(whole, tmp_path / "fresh.safetensors")
    assert (learned_facets(line), learned_facets(other)) == ({}, {})
    assert factory().load(use(Line().named("line"), "two"), tmp_path / "fresh.safetensors", partial=True)
    loop(maker, whole)
    maker.save(whole, tmp_path / "own.safetensors")
    assert (learned_facets(line), learned_facets(other)) == ({"x": Acoustic("one")}, {})


def test_a_graph_for_inference_teaches_nothing() -> None:
    line, maker = Line().named("line"), factory()
    model = use(line, "one").to_torch(factory=maker)
    with torch.no_grad():
        next(model.parameters()).add_(1)
    assert maker.infer(use(line, "two"), {"x": np.zeros((2, 3), np.float32)})
    assert learned_facets(line) == {}
