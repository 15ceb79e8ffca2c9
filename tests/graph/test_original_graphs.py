"""What the toolkit of 2019 promised about values and graphs, in our names; tests say where neumo differs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.modes import MODES, Mode, may_nest
from neumo.graph.module import DataLayer, NeuralModule, Role, signature_of
from neumo.graph.signature import Signature
from neumo.graph.value import Record, Value
from neumo.graph.yaml import Recipe, load_recipe, recipe_text
from neumo.types import Acoustic, B, F, GraphError, Loss, NeumoError, PortError


@dataclass(frozen=True)
class Points(DataLayer):
    """Gives points and their targets."""

    width: int = 3

    def signature(self) -> Signature:
        return Signature(gives={"x": Acoustic()[B, F(self.width)], "target": Acoustic()[B, F(1)]})


@dataclass(frozen=True)
class Taylor(NeuralModule):
    """Predicts a number from points."""

    trainable: ClassVar[bool] = True
    width: int = 3

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F(self.width)]}, gives={"y": Acoustic()[B, F(1)]})


@dataclass(frozen=True)
class Same(NeuralModule):
    """Keeps the width, so that it can be called on what it gave."""

    trainable: ClassVar[bool] = True
    width: int = 3

    def signature(self) -> Signature:
        x = Acoustic()[B, F(self.width)]
        return Signature(takes={"x": x}, gives={"y": x})


@dataclass(frozen=True)
class Error(NeuralModule):
    role: ClassVar[Role] = "loss"

    def signature(self) -> Signature:
        takes = {"given": Acoustic()[B, F(1)], "wanted": Acoustic()[B, F(1)]}
        return Signature(takes=takes, gives={"loss": Loss()[()]})


@dataclass(frozen=True)
class Maybe(NeuralModule):
    """Takes a hint or does without."""

    def signature(self) -> Signature:
        x = Acoustic()[B, F(3)]
        return Signature(takes={"x": x, "hint": x.as_optional()}, gives={"y": x})


X = Acoustic()[B, F(3)]


def predictor(mode: Mode = "both", name: str = "predictor") -> Graph:
    """Points go in, a prediction comes out."""
    opened = inputs(x=X)
    return Graph(name, mode, {"prediction": Taylor().named("taylor")(x=opened.x).y})


def training() -> Graph:
    data = Points().named("data")()
    fitted = Taylor().named("taylor")(x=data.x)
    return Graph("fit", "train", Error().named("error")(given=fitted.y, wanted=data.target))


# Values: producers, records, consumers, types


def test_a_value_knows_who_makes_it_and_of_what() -> None:
    data = Points()()
    fitted = Taylor()(x=data.x)
    loss = Error()(given=fitted.y, wanted=data.target).loss
    assert isinstance(loss.step.module, Error)
    assert loss.step.inputs == {"given": fitted.y, "wanted": data.target}
    assert fitted.y.step.inputs == {"x": data.x}
    assert data.x.step.inputs == {}
    assert (data.x.step.module.role, data.x.port, loss.port) == ("data", "x", "loss")


def test_a_call_returns_a_record_with_named_fields_of_the_types_of_the_ports() -> None:
    """A call always returns a record: no tensor that stands alone, no tuple that is named after the class."""
    data = Points()()
    assert isinstance(data, Record)
    assert {name: value.type.element for name, value in data._asdict().items()} == {
        "x": Acoustic(),
        "target": Acoustic(),
    }
    x, target = data
    assert (x, target) == (data.x, data["target"])
    only = Taylor()(x=data.x)
    assert isinstance(only, Record)
    assert len(only) == 1


def test_consumers_of_a_value_are_listed_with_their_ports() -> None:
    data = Points()()
    taylor, again, error = Taylor(), Taylor(), Error()
    one, two = taylor(x=data.x), again(x=data.x)
    loss = error(given=one.y, wanted=data.target)
    graph = Graph("both", "both", {"loss": loss.loss, "two": two.y})
    found = [(step.module, port) for step, port in graph.consumers(data.x)]
    assert found == [(taylor, "x"), (again, "x")]
    assert [(step.module, port) for step, port in graph.consumers(one.y)] == [(error, "given")]
    assert graph.consumers(loss.loss) == []
    with pytest.raises(GraphError, match=r"Points.x is no value of graph 'both'"):
        graph.consumers(Points()().x)


def test_values_have_the_types_of_their_ports() -> None:
    data = Points()()
    fitted = Taylor()(x=data.x)
    assert str(data.x.type) == "Acoustic[B, F=3]"
    assert str(fitted.y.type) == "Acoustic[B, F=1]"
    assert str(Error()(given=fitted.y, wanted=data.target).loss.type) == "Loss[]"


# Graphs: length, access, composing


def test_modules_are_counted_and_found_by_name() -> None:
    graph = training()
    assert len(graph) == 3
    assert list(graph) == ["data", "taylor", "error"]
    assert isinstance(graph["taylor"], Taylor)
    assert "taylor" in graph
    assert graph["taylor"] in graph
    assert "taylro" not in graph
    assert Taylor() not in graph
    with pytest.raises(KeyError) as caught:
        graph["taylro"]
    assert isinstance(caught.value, GraphError)
    assert caught.value.code == "unknown-module"
    assert caught.value.fixes[0].text == "did you mean 'taylor'?"


def test_two_graphs_can_be_composed_side_by_side() -> None:
    """No graph is active, none is switched on or off: a graph is what its outputs need."""
    data = Points()()
    one, two = Taylor()(x=data.x), Same()(x=data.x)
    assert [type(m).__name__ for m in Graph("one", outputs=one).modules.values()] == ["Points", "Taylor"]
    assert [type(m).__name__ for m in Graph("two", outputs=two).modules.values()] == ["Points", "Same"]


def test_a_graph_without_modules_is_true() -> None:
    graph = Graph("echo", outputs=inputs(x=X))
    assert len(graph) == 0
    assert graph


# Outputs


def test_outputs_are_named_by_their_ports_unless_names_are_given() -> None:
    """Outputs are chosen from what calls returned; they do not gather by themselves while one composes."""
    data = Points()()
    fitted = Taylor()(x=data.x)
    default = Graph("g", outputs=[data, fitted])
    assert list(default.outputs) == ["x", "target", "y"]
    assert default.outputs["x"] is data.x
    manual = Graph("g", outputs={"prediction": fitted.y})
    assert list(manual.outputs) == ["prediction"]
    assert manual.outputs["prediction"] is fitted.y


def test_outputs_of_one_port_name_are_told_apart_by_module() -> None:
    data = Points()()
    one, two = Taylor(), Taylor().named("late")
    graph = Graph("g", outputs=[one(x=data.x), two(x=data.x), two(x=data.x), one(x=data.x)])
    assert list(graph.outputs) == ["y", "late_y", "late_y_2", "y_2"]
    unnamed = Graph("g", outputs=[Taylor()(x=data.x), Taylor()(x=data.x)])
    assert list(unnamed.outputs) == ["y", "taylor_2_y"]


def test_a_value_that_is_listed_twice_is_one_output() -> None:
    data = Points()()
    assert list(Graph("g", outputs=[data.x, data, data.x]).outputs) == ["x", "target"]


def test_what_is_no_value_cannot_be_an_output() -> None:
    data = Points()()
    for wrong in ([data, 3], "x", [], None, {"batch": data}):
        with pytest.raises(GraphError) as caught:
            Graph("g", outputs=wrong)  # type: ignore[arg-type]
        assert caught.value.code == "output"


def test_later_names_replace_the_default_ones() -> None:
    data = Points()()
    graph = Graph("g", outputs=[data, Taylor()(x=data.x)])
    assert list(Graph("g", outputs={"only": graph.outputs["y"]}).outputs) == ["only"]
    assert list(graph.rename(y="prediction").outputs) == ["x", "target", "prediction"]
    assert graph.rename(x="target", target="x").outputs["x"] is data.target


def test_renaming_is_checked() -> None:
    graph = Graph("g", outputs=Points()())
    with pytest.raises(GraphError, match="no output 'targt'") as unknown:
        graph.rename(targt="y")
    assert unknown.value.fixes[0].text == "did you mean 'target'?"
    with pytest.raises(GraphError, match="two outputs of graph 'g' would be called 'x'"):
        graph.rename(target="x")


def test_outputs_and_inputs_cannot_be_changed_or_deleted() -> None:
    """Here a graph cannot be changed at all; a changed graph is another graph of the same values."""
    graph = predictor()
    value = graph.outputs["prediction"]

    def delete_output() -> None:
        del graph.outputs["prediction"]

    def assign_output() -> None:
        graph.outputs["other"] = value

    def assign_input() -> None:
        graph.inputs["x"] = value

    def update() -> None:
        graph.modules.update(other=Taylor())

    def replace() -> None:
        graph.outputs = {}  # type: ignore[assignment]

    def remove() -> None:
        del graph.mode

    for change in (delete_output, assign_output, assign_input, update, replace, remove):
        with pytest.raises(GraphError) as caught:
            change()
        assert caught.value.code == "immutable"
    assert graph == predictor()


# Inputs


def test_inputs_can_be_named_as_the_ports_of_a_module() -> None:
    """Instead of passing the graph itself, open inputs are declared like the ports of the module."""
    taylor = Taylor()
    opened = inputs(**signature_of(taylor).takes)
    graph = Graph("g", outputs=taylor(x=opened.x))
    assert list(graph.inputs) == ["x"]
    assert graph.inputs["x"].type.axes[1].size == 3


def test_inputs_have_names_of_their_own_and_several_consumers() -> None:
    opened = inputs(points=X)
    graph = Graph("g", outputs=[Taylor()(x=opened.points), Same()(x=opened.points)])
    assert list(graph.inputs) == ["points"]
    assert len(graph.consumers(graph.inputs["points"])) == 2


# Modes


@pytest.mark.parametrize("outer", MODES)
@pytest.mark.parametrize("inner", MODES)
def test_modes_nest_as_the_table_says(inner: Mode, outer: Mode) -> None:
    data = Points()()
    record = predictor(inner, "inner")(x=data.x)
    legal = (inner, outer) in {(m, m) for m in MODES} | {("both", "train"), ("both", "infer")}
    assert may_nest(inner, outer) is legal
    if legal:
        assert Graph("outer", outer, record).mode == outer
        return
    with pytest.raises(GraphError) as caught:
        Graph("outer", outer, record)
    assert caught.value.code == "mode"
    assert f"'inner' is for {'training' if inner == 'train' else 'inference'}" in caught.value.what
    assert f"make 'outer' with mode {inner!r}" in caught.value.fixes[0].text


def test_a_graph_inside_a_nested_graph_was_judged_there() -> None:
    data = Points()()
    core = predictor("infer", "core")
    opened = inputs(x=X)
    middle = Graph("middle", "infer", core(x=opened.x))
    assert Graph("outer", "infer", middle(x=data.x)).nested == {"middle": middle}
    with pytest.raises(GraphError, match="'middle' is for inference"):
        Graph("outer", "train", middle(x=data.x))


# Nesting


def test_nesting_calls_the_modules_again_and_shares_them() -> None:
    inner = predictor()
    data = Points()()
    record = inner(x=data.x)
    outer = Graph("outer", outputs=record)
    assert outer.modules["taylor"] is inner.modules["taylor"]
    assert outer.outputs["prediction"] is not inner.outputs["prediction"]
    assert outer.outputs["prediction"].step is not inner.outputs["prediction"].step
    assert inner.outputs["prediction"].step not in outer.steps
    assert len(inner.steps) == len(outer.steps) == 2
    assert outer.inputs == {}
    assert list(inner.inputs) == ["x"]


def test_a_closed_graph_is_nested_with_its_data_layer() -> None:
    inner = training()
    record = inner()
    outer = Graph("outer", "train", record)
    assert outer == inner
    assert outer.outputs["loss"] is not inner.outputs["loss"]
    assert not set(map(id, outer.values())) & set(map(id, inner.values()))
    assert all(outer.modules[name] is inner.modules[name] for name in inner)


def test_manual_names_are_the_fields_of_the_record() -> None:
    opened = inputs(points=X)
    fitted = Taylor()(x=opened.points)
    inner = Graph("inner", outputs={"prediction": fitted.y, "echo": opened.points})
    data = Points()()
    record = inner(points=data.x)
    assert list(record._asdict()) == ["prediction", "echo"]
    assert record.prediction.port == "y"  # inside, values keep the names of their ports
    assert record.echo is data.x
    assert list(Graph("outer", outputs=record).outputs) == ["prediction", "echo"]
    assert list(Graph("outer", outputs=record.prediction).outputs) == ["y"]


def test_default_names_are_the_fields_of_the_record() -> None:
    opened = inputs(x=X)
    inner = Graph("inner", outputs=[Taylor()(x=opened.x), Same().named("same")(x=opened.x)])
    record = inner(x=Points()().x)
    assert list(record._asdict()) == ["y", "same_y"]


def test_a_nested_graph_feeds_modules_and_graphs() -> None:
    data = Points()()
    opened = inputs(x=X)
    first = Graph("first", outputs=Same().named("same")(x=opened.x))
    last = predictor(name="last")
    loss = Error()(given=last(x=first(x=data.x).y).prediction, wanted=data.target)
    outer = Graph("outer", "train", loss)
    assert list(outer) == ["Points", "same", "taylor", "Error"]
    assert list(outer.nested) == ["first", "last"]


def test_a_wrong_input_of_a_nested_graph_gets_the_nearest_match() -> None:
    opened = inputs(points=X)
    inner = Graph("inner", outputs=Taylor()(x=opened.points))
    with pytest.raises(PortError, match="inner has no port 'pionts'") as caught:
        inner(pionts=Points()().x)
    assert caught.value.code == "unknown-port"
    assert "did you mean points=" in caught.value.fixes[0].text


def test_a_wrong_output_of_a_nested_graph_gets_the_nearest_match() -> None:
    record = predictor()(x=Points()().x)
    with pytest.raises(GraphError, match="predictor gives no 'predicton'") as caught:
        record.predicton  # noqa: B018
    assert caught.value.fixes[0].text == "did you mean prediction?"


def test_inputs_of_a_nested_graph_may_be_bound_to_open_inputs_of_the_outer_one() -> None:
    both = inputs(a=X, b=X)
    inner = Graph("inner", outputs=[Same().named("one")(x=both.a), Same().named("two")(x=both.b)])
    shared = inputs(known=X, open=X)
    outer = Graph("outer", outputs=inner(a=shared.known, b=shared.open))
    assert list(outer.inputs) == ["known", "open"]
    assert [(step.module, port) for step, port in outer.consumers(outer.inputs["open"])] == [
        (outer["two"], "x")
    ]


def test_a_needed_input_of_a_nested_graph_cannot_be_left_out() -> None:
    with pytest.raises(PortError, match="predictor needs x"):
        predictor()()


def test_an_optional_input_of_a_nested_graph_can_be_left_out() -> None:
    opened = inputs(x=X, hint=X.as_optional())
    inner = Graph("inner", outputs=Maybe()(x=opened.x, hint=opened.hint))
    data = Points()()
    assert "hint" not in inner(x=data.x).y.step.inputs
    assert inner(x=data.x, hint=data.x).y.step.inputs["hint"] is data.x


def test_a_graph_nested_twice_has_two_sets_of_steps_and_one_of_weights() -> None:
    inner = predictor()
    data = Points()()
    loss = Error()(given=inner(x=data.x).prediction, wanted=inner(x=data.x).prediction)
    outer = Graph("outer", "train", loss)
    assert sum(step.module is outer["taylor"] for step in outer.steps) == 2
    assert outer.nested == {"predictor": inner, "predictor_2": inner}
    assert list(outer) == ["Points", "taylor", "Error"]


def test_a_graph_can_be_nested_in_a_nested_graph() -> None:
    core = predictor(name="core")
    opened = inputs(points=X)
    middle = Graph("middle", outputs={"y": core(x=opened.points).prediction})
    data = Points()()
    outer = Graph("outer", outputs=middle(points=data.x))
    (step,) = [step for step in outer.steps if step.module is core["taylor"]]
    assert [call.graph.name for call in step.within] == ["middle", "core"]
    assert middle.nested == {"core": core}
    assert step.within[0].location is not None
    assert "test_original_graphs.py" in str(step.within[0].location)


def test_modules_keep_the_names_of_the_nested_graph() -> None:
    opened = inputs(x=X)
    first, second, outside = Same(), Same(), Same()
    inner = Graph("inner", outputs=second(x=first(x=opened.x).y))
    data = Points()()
    outer = Graph("outer", outputs=inner(x=outside(x=data.x).y))
    assert inner.modules == {"Same": first, "Same_2": second}
    assert outer.modules == {"Points": data.x.step.module, "Same_3": outside, "Same": first, "Same_2": second}
    rival = Graph("rival", outputs=Same()(x=opened.x))
    both = Graph("both", outputs=[inner(x=data.x), rival(x=data.x)])
    assert list(both) == ["Points", "Same", "Same_2", "Same_3"]


# Loops


def loop() -> Graph:
    """Five predictions, each from the one before, by one module."""
    same = Same().named("same")
    value = Points().named("data")().x
    predictions: list[Value] = []
    for _ in range(5):
        value = same(x=value).y
        predictions.append(value)
    return Graph("loop", outputs=predictions)


def test_a_loop_keeps_all_of_its_predictions() -> None:
    graph = loop()
    assert list(graph.outputs) == ["y", "y_2", "y_3", "y_4", "y_5"]
    assert len({id(value) for value in graph.outputs.values()}) == 5
    assert graph.outputs["y"].step.inputs["x"].step.module is graph["data"]  # type: ignore[union-attr]
    assert graph.outputs["y_2"].step.inputs["x"] is graph.outputs["y"]
    assert len(graph) == 2
    assert len(graph.steps) == 6


# Saving and loading


def nested_by_default() -> Graph:
    return Graph("outer", outputs=[data := Points().named("data")(), predictor()(x=data.x)])


def nested_with_names() -> Graph:
    data = Points().named("data")()
    return Graph("outer", outputs={"result": predictor()(x=data.x).prediction})


@pytest.mark.parametrize("build", [training, predictor, loop, nested_by_default, nested_with_names])
def test_what_is_saved_is_loaded_equal(build: Any, tmp_path: Path) -> None:
    graph = build()
    graph.save(tmp_path / "graph.yaml")
    again = Graph.load(tmp_path / "graph.yaml")
    assert again == graph
    assert (again.name, list(again.outputs)) == (graph.name, list(graph.outputs))
    assert list(again) == list(graph)
    assert all(again[name] is not graph[name] for name in graph)


def test_two_modules_of_one_name_are_refused_in_one_graph_only() -> None:
    """Names belong to a graph: loading a graph again makes new modules and asks nobody for their names."""
    data = Points()()
    with pytest.raises(GraphError, match="two modules are named 'taylor'"):
        Graph("g", outputs=[Taylor().named("taylor")(x=data.x), Taylor().named("taylor")(x=data.x)])
    text = recipe_text(predictor())
    one, two = load_recipe(text).graph(), load_recipe(text).graph()
    assert one == two
    assert one["taylor"] is not two["taylor"]


def test_modules_that_graphs_share_are_shared_after_loading() -> None:
    """Sharing is kept by writing the graphs into one recipe, instead of reusing what happens to exist."""
    data = Points().named("data")()
    taylor = Taylor().named("taylor")
    fit = Graph("fit", "train", Error()(given=taylor(x=data.x).y, wanted=data.target))
    use = Graph("use", "infer", taylor(x=inputs(x=X).x))
    recipe = load_recipe(recipe_text(Recipe(graphs={"fit": fit, "use": use})))
    assert recipe.graph("fit")["taylor"] is recipe.graph("use")["taylor"]


def test_questions_about_a_graph_are_answered() -> None:
    graph = training()
    assert (graph.is_closed, graph.is_trainable) == (True, True)
    opened = predictor()
    assert (opened.is_closed, opened.is_trainable) == (False, False)
    data, other = Points()(), Points()()
    assert not Graph("g", outputs=[data, other]).is_closed
    without = Error()(given=data.target, wanted=data.target)
    assert not Graph("g", "train", without).is_trainable
    infer = Graph("g", "infer", {"loss": graph.outputs["loss"]})
    assert not infer.is_trainable


def test_no_error_of_these_is_without_a_way_out() -> None:
    graph = predictor()
    for wrong in (
        lambda: graph["tailor"],
        lambda: Graph("g", "trian", graph.outputs),
        lambda: graph.prune("p"),
    ):  # type: ignore[arg-type]
        with pytest.raises(NeumoError):
            wrong()


def test_outputs_of_a_recipe_are_told_apart_by_step() -> None:
    text = """
neumo: 1
modules:
  data: {kind: tests.graph.test_original_graphs.Points}
  a: {kind: tests.graph.test_original_graphs.Taylor}
  b: {kind: tests.graph.test_original_graphs.Taylor}
graphs:
  g:
    steps: {batch: data(), one: a(x=batch.x), two: b(x=batch.x), three: b(x=batch.x)}
    outputs: [one.y, two.y, three.y]
"""
    graph = load_recipe(text).graph()
    assert list(graph.outputs) == ["y", "two_y", "three_y"]
    assert graph.outputs["y"].step.module is graph["a"]


def test_what_is_silenced_is_saved_and_loaded() -> None:
    why = {"unused-output": "the targets are for another graph"}
    graph = Graph("g", outputs=Points().named("data")(), silence=why)
    again = load_recipe(recipe_text(graph)).graph()
    assert again == graph
    assert again.silence == why
