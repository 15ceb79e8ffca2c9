"""One batch made from types goes through each graph, with every guard on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from neumo.backends.torch.registry import implements
from neumo.engine.checks.verify import make_guards
from neumo.engine.passes.dry_run import dry_run
from neumo.engine.plan import compile_plan
from neumo.engine.recipes import read_actions
from neumo.engine.recipes.dry_runs import dry_runs
from neumo.graph import Graph, Metric, MultiData, NeuralModule, Signature, inputs
from neumo.graph.adapters import Default, LogSoftmax
from neumo.graph.yaml import load_recipe
from neumo.types import (
    Acoustic,
    B,
    BackendError,
    F,
    GraphError,
    Ids,
    Lengths,
    Logits,
    Loss,
    NeumoError,
    PortError,
    Score,
    Strings,
    Struct,
    T,
    U,
    V,
)

from ..cli.runner import neumo
from .toys import Liar, Line, MeanError, PointData, SquaredError

ROOT = Path(__file__).parent.parent.parent
RECIPES = [
    ROOT / "src/neumo/asr/recipes/digits.yaml",
    ROOT / "examples/asr_fsdd/recipe.yaml",
    ROOT / "examples/asr_an4/recipe.yaml",
    ROOT / "tests/cli/recipes/right.yaml",
]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_the_recipes_of_the_repository_pass(path: Path) -> None:
    recipe = load_recipe(path)
    done = dry_runs(recipe, read_actions(recipe))
    assert [each.graph for each in done] == list(recipe.graphs)
    assert all(each.calls for each in done)
    (trained,) = [each for each in done if each.gradient is not None]
    assert np.isfinite(trained.gradient)
    assert trained.figures["loss"] > 0


def test_the_loss_is_followed_back_and_no_weight_moves() -> None:
    from neumo.engine.backend import Setup, find_backend

    session = find_backend("torch").open_session(Setup(device="cpu"))
    data = PointData()()
    line = Line(norm=True)(x=data.x)
    graph = Graph("points", "train", {"loss": SquaredError()(given=line.y, wanted=data.y).loss})
    session.build(graph.modules)
    before = session.weights(graph.modules)
    done = dry_run(graph, session)
    assert done.gradient is not None
    assert done.gradient > 0
    after = session.weights(graph.modules)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert str(done).startswith("points, 2 calls in 0.")
    assert "gradient" in str(done)


def test_no_data_is_read() -> None:
    @dataclass(frozen=True)
    class Missing(PointData):
        def open(self, seed: int) -> Any:
            raise AssertionError("the data was opened")

    data = Missing()()
    assert dry_run(Graph(outputs={"y": Line()(x=data.x).y})).calls == 1


def test_an_evaluation_gives_its_figures() -> None:
    data = PointData()()
    line = Line()(x=data.x)
    loss = SquaredError()(given=line.y, wanted=data.y)
    error = MeanError()(given=line.y, wanted=data.y)
    done = dry_run(Graph("dev", "infer", {"error": error.score, "loss": loss.loss}))
    assert list(done.figures) == ["error", "loss"]
    assert done.gradient is None


def test_code_that_does_not_do_what_it_declares_is_found() -> None:
    opened = inputs(x=Acoustic()[B, F(3)])
    for lie, words in (("width", "axis 1"), ("dtype", "holds int"), ("nan", "not finite"), ("none", "None")):
        with pytest.raises(PortError) as caught:
            dry_run(Graph(outputs={"y": Liar(lie)(x=opened.x).y}))
        assert caught.value.code == "verify"
        assert words in str(caught.value)
    with pytest.raises(BackendError, match="Liar failed"):
        dry_run(Graph(outputs={"y": Liar("crash")(x=opened.x).y}))


def test_a_loss_that_trains_nothing_or_is_not_there_is_found() -> None:
    data = PointData()()
    loss = SquaredError()(given=data.y, wanted=data.y)
    with pytest.raises(GraphError) as caught:
        dry_run(Graph("idle", "both", {"loss": loss.loss}), train=True)
    assert caught.value.code == "nothing-to-train"
    with pytest.raises(GraphError) as caught:
        dry_run(Graph("none", "both", {"y": Line()(x=data.x).y}), train=True)
    assert caught.value.code == "loss"


@dataclass(frozen=True)
class Bad(NeuralModule):
    """A loss that goes wrong: `how` says where."""

    role: ClassVar[Any] = "loss"
    how: str = "gradient"

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(1)]}, gives={"loss": Loss()[()]})


@implements(Bad)
class BadLayer(nn.Module):
    def __init__(self, spec: Bad) -> None:
        super().__init__()
        self.how = spec.how

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "crash":
            raise RuntimeError("on purpose")
        if self.how == "infinite":
            return x.sum() * float("inf")
        return (x - x).sqrt().sum()  # 0, with a slope that is not finite


def test_a_gradient_that_is_not_finite_is_found() -> None:
    data = PointData()()
    line = Line()(x=data.x)
    with pytest.raises(BackendError, match="the gradient of graph 'bad' is not finite"):
        dry_run(Graph("bad", "train", {"loss": Bad()(x=line.y).loss}))
    with pytest.raises(BackendError, match="Bad failed: RuntimeError: on purpose"):
        dry_run(Graph("bad", "train", {"loss": Bad("crash")(x=line.y).loss}))
    with pytest.raises(NeumoError):
        dry_run(Graph("bad", "train", {"loss": Bad("infinite")(x=line.y).loss}))


@dataclass(frozen=True)
class Broken(Metric):
    """A metric that fails; `how` says how."""

    how: str = "type"

    def signature(self) -> Signature:
        return Signature(takes={"given": Acoustic()[B, F(1)]}, gives={"score": Score()[()]})

    def start(self) -> Any:
        kind = self.how

        class Count:
            def update(self, given: Any) -> None:
                if kind == "neumo":
                    raise GraphError("no", code="metric")
                raise TypeError("no such thing")

        return Count()


def test_a_metric_that_fails_is_named() -> None:
    data = PointData()()
    line = Line()(x=data.x)
    with pytest.raises(BackendError, match=r"metric Broken\.score fails on what the graph computes: Type"):
        dry_run(Graph(outputs={"score": Broken()(given=line.y).score}))
    with pytest.raises(GraphError, match="no"):
        dry_run(Graph(outputs={"score": Broken("neumo")(given=line.y).score}))


@dataclass(frozen=True)
class Total(NeuralModule):
    role: ClassVar[Any] = "loss"

    def signature(self) -> Signature:
        takes = {"losses": Loss().many()[()], "weight": Loss().optional()[()]}
        return Signature(takes=takes, gives={"loss": Loss()[()]})


@implements(Total)
class TotalLayer(nn.Module):
    def __init__(self, spec: Total) -> None:
        super().__init__()

    def forward(self, losses: tuple[Tensor, ...], weight: Tensor | None = None) -> Tensor:
        return torch.stack(losses).sum() * (1 if weight is None else weight)


def test_adapters_optional_ports_and_ports_that_take_many_run() -> None:
    data = PointData()()
    line = Line()(x=data.x)
    one = SquaredError()(given=line.y, wanted=data.y).loss
    two = SquaredError()(given=line.y, wanted=data.y).loss
    total = Total()(losses=[one, two])
    assert dry_run(Graph("sum", "train", {"loss": total.loss})).gradient is not None
    weighted = Total()(losses=[one], weight=two)
    assert dry_run(Graph("sum", "train", {"loss": weighted.loss})).gradient is not None
    opened = inputs(x=Logits()[B, T, V], more=Acoustic().optional()[B, T], like=Acoustic()[B, T])
    made = {
        "scores": LogSoftmax()(logits=opened.x).log_probs,
        "more": Default(0.0)(value=opened.more, like=opened.like).value,
    }
    assert dry_run(Graph(outputs=made)).calls == 2


def test_several_data_layers_in_one_and_ports_of_training_only_run() -> None:
    both = MultiData((PointData(), PointData(width=2)))()
    line = Line()(x=both.x)
    loss = SquaredError()(given=line.y, wanted=both.y_1)
    assert dry_run(Graph("both", "train", {"loss": loss.loss})).gradient is not None

    @dataclass(frozen=True)
    class Taught(PointData):
        def signature(self) -> Signature:
            given = PointData.signature(self).gives
            return Signature(gives={**given, "y": given["y"].only("train")})

    data = Taught()()
    taught = SquaredError()(given=Line()(x=data.x).y, wanted=data.y)
    assert dry_run(Graph("taught", "train", {"loss": taught.loss})).figures["loss"] > 0


def test_a_graph_for_both_is_run_as_an_inference_is() -> None:
    """Without its ports of training only: the module gets None there."""

    @dataclass(frozen=True)
    class Teach(NeuralModule):
        def signature(self) -> Signature:
            row = Acoustic()[B, F(3)]
            return Signature(takes={"x": row, "hint": row.only("train")}, gives={"y": row})

    hints: list[bool] = []

    @implements(Teach)
    class TeachLayer(nn.Module):
        def __init__(self, spec: Teach) -> None:
            super().__init__()

        def forward(self, x: Tensor, hint: Tensor | None = None) -> Tensor:
            hints.append(hint is not None)
            return x

    data = PointData()()
    graph = Graph(outputs={"y": Teach()(x=data.x, hint=data.x).y})
    assert dry_run(graph).calls == 1
    assert hints == [False]


class Best(Struct):
    text = Ids()[B, U]
    text_len = Lengths(U)[B]


@dataclass(frozen=True)
class Held(NeuralModule):
    """Gives a list, texts and structs; `lie` breaks one of them."""

    lie: str = ""

    def signature(self) -> Signature:
        return Signature(
            takes={"frames": Acoustic()[B.list(), T], "words": Strings()[B.list()], "best": Best()[()]},
            gives={"frames": Acoustic()[B.list(), T], "words": Strings()[B.list()], "best": Best()[()]},
        )


@implements(Held)
class HeldLayer(nn.Module):
    def __init__(self, spec: Held) -> None:
        super().__init__()
        self.lie = spec.lie

    def forward(self, frames: Any, words: Any, best: Any) -> Any:
        lies = {
            "tensor": (torch.stack(frames), words, best),
            "fewer": (frames[1:], words, best),
            "longer": ([frames[0][1:], *frames[1:]], words, best),
            "number": (frames, [1, *words[1:]], best),
            "field": (frames, words, {"text": best["text"]}),
            "plain": (frames, words, best["text"]),
            "none": (frames, words, None),
        }
        return lies.get(self.lie, (frames, words, best))


def test_lists_texts_and_structs_are_checked() -> None:
    opened = inputs(**Held().signature().takes)
    given = {"frames": opened.frames, "words": opened.words, "best": opened.best}
    assert dry_run(Graph(outputs=dict(Held()(**given)._asdict()))).calls == 1
    for lie, words in {
        "tensor": "it is a Tensor, not a list",
        "fewer": "axis 0: B=3",
        "longer": "item 0: axis 0: T=19",
        "number": "item 0: it is a int, not a text",
        "field": "field text_len: it is None",
        "plain": "it is a Tensor, not a mapping",
        "none": "it is a NoneType, not a mapping",
    }.items():
        with pytest.raises(PortError) as caught:
            dry_run(Graph(outputs=dict(Held(lie)(**given)._asdict())))
        assert words in str(caught.value), lie


def test_a_list_that_may_be_absent_may_be_none() -> None:
    opened = inputs(words=Strings().optional()[B.list()])
    plan = compile_plan(Graph(outputs={"words": opened.words}))
    guards = make_guards(plan, "always", np.asarray)
    assert guards is not None
    guards.made(plan.feeds[0].slot, None)


def test_all_graphs_that_fail_are_told_together(tmp_path: Path) -> None:
    from neumo.graph.yaml import Recipe

    opened = inputs(x=Acoustic()[B, F(3)])
    graphs = {lie: Graph(lie, outputs={"y": Liar(lie)(x=opened.x).y}) for lie in ("width", "crash", "")}
    with pytest.raises(NeumoError) as caught:
        dry_runs(Recipe(graphs=graphs))
    assert [type(error).__name__ for error in caught.value.also] == ["PortError", "BackendError"]


def test_the_command_runs_each_graph(capsys: pytest.CaptureFixture[str]) -> None:
    right = str(RECIPES[-1])
    plain = neumo(capsys, "check", right, "--run")
    assert (plain.code, plain.err) == (0, "")
    ran = [line for line in plain.out.splitlines() if line.startswith("  ran ")]
    assert [line.split()[1].rstrip(",") for line in ran] == ["train", "validate", "infer"]
    assert "gradient" in ran[0]
    found = json.loads(neumo(capsys, "check", right, "--run", "--json").out)
    assert [run["graph"] for run in found["runs"]] == ["train", "validate", "infer"]
    assert "runs" not in json.loads(neumo(capsys, "check", right, "--json").out)
