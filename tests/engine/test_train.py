import numpy as np
import pytest

from neumo.engine import (
    EMA,
    SGD,
    AdamW,
    Callback,
    Checkpoint,
    Cosine,
    EarlyStop,
    Evaluate,
    NeuralFactory,
    NovoGrad,
    read_log,
)
from neumo.engine.loop.train import Training
from neumo.graph.graph import Graph
from neumo.types import BackendError, ConfigError, DataError, GraphError

from .toys import Line, MeanError, PointData, SquaredError, frame_graph, line_graphs, refused


def factory(**options):
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "always", **options})


@pytest.mark.parametrize(
    "optimizer", [AdamW(lr=0.05), SGD(lr=0.02, momentum=0.9, nesterov=True), NovoGrad(lr=0.02)]
)
def test_training_lowers_the_loss(optimizer):
    train, test = line_graphs()
    maker = factory()
    before = maker.evaluate(test)["error"]
    result = maker.train(train, optimizer=optimizer, schedule=Cosine(warmup_ratio=0.1), epochs=30)
    assert result.steps == 150
    assert result.history[-1]["loss"] < 0.05 * result.history[0]["loss"]
    assert maker.evaluate(test)["error"] < 0.3 * before
    assert result.stopped == "all epochs are done"


def test_a_loss_alone_can_be_trained():
    train, _ = line_graphs()
    result = factory().train(train.outputs["loss"], max_steps=3)
    assert len(result.losses) == result.steps == 3


def test_the_same_seed_gives_the_same_training_and_another_seed_another():
    losses = [factory(seed=seed).train(line_graphs()[0], epochs=2).losses for seed in (1, 1, 2)]
    assert losses[0] == losses[1] != losses[2]


def test_dropout_is_the_same_in_every_run():
    graphs = [line_graphs(line=Line(dropout=0.5))[0] for _ in range(2)]
    first, second = (factory().train(graph, epochs=2).losses for graph in graphs)
    assert first == second


def test_what_ran_before_does_not_change_a_training():
    train, test = line_graphs(line=Line(dropout=0.5, norm=True))
    other, _ = line_graphs(line=Line(dropout=0.5, norm=True))
    maker = factory()
    maker.evaluate(test)
    assert maker.train(train, epochs=2, evaluate=test).losses == factory().train(other, epochs=2).losses


def test_two_graphs_share_the_weights_of_one_object():
    train, test = line_graphs()
    maker = factory()
    maker.train(train, optimizer=AdamW(lr=0.05), epochs=5)
    weights = maker.weights(test)
    assert sorted(weights) == ["line.linear.bias", "line.linear.weight"]
    assert np.array_equal(weights["line.linear.weight"], maker.weights(train)["line.linear.weight"])


def test_equal_modules_have_their_own_weights():
    batch = PointData()()
    one, two = Line(), Line()
    maker = factory()
    maker.train(SquaredError()(given=one(x=batch.x).y, wanted=batch.y).loss, max_steps=3)
    weights = maker.weights(Graph(outputs={"a": one(x=batch.x).y, "b": two(x=batch.x).y}))
    assert not np.array_equal(weights["Line.linear.weight"], weights["Line_2.linear.weight"])


def test_weights_start_from_seed_and_name_only():
    def start(seed, name):
        batch = PointData()()
        graph = Graph(outputs={"y": Line().named(name)(x=batch.x).y})
        return factory(seed=seed).weights(graph)[f"{name}.linear.weight"]

    assert np.array_equal(start(1, "line"), start(1, "line"))
    assert not np.array_equal(start(1, "line"), start(2, "line"))
    assert not np.array_equal(start(1, "line"), start(1, "other"))


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_processes_change_nothing(workers):
    data = PointData(noise=0.1)
    graphs = [line_graphs(data)[0] for _ in range(2)]
    alone = factory().train(graphs[0], epochs=3).losses
    assert factory(workers=workers).train(graphs[1], epochs=3).losses == alone


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_the_data_arrives_as_it_is(workers):
    train, _ = line_graphs(PointData(broken=(17,)))
    with refused(DataError, r"points\.csv:18 cannot be read") as caught:
        factory(workers=workers).train(train, epochs=1)
    assert (caught.value.code, caught.value.data) == ("toy", {"index": 17})


def test_skipped_items_make_smaller_batches_and_empty_ones_are_passed_over():
    data = PointData(points=6, batch_size=2, shuffle=False, skipped=(0, 2, 3))
    train, _ = line_graphs(data)
    result = factory().train(train, epochs=2)
    assert result.steps == 4
    assert [row["step"] for row in result.history] == [2, 4]


def test_the_last_steps_may_end_inside_an_epoch():
    result = factory().train(line_graphs()[0], max_steps=7)
    assert result.steps == 7
    assert [row["step"] for row in result.history] == [5, 7]
    assert result.stopped == "all steps are done"


def test_whichever_comes_first_ends_the_training():
    assert factory().train(line_graphs()[0], epochs=1, max_steps=100).steps == 5
    assert factory().train(line_graphs()[0], epochs=100, max_steps=6).steps == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "for how long"),
        ({"epochs": 0}, "epochs=0"),
        ({"max_steps": -1}, "max_steps=-1"),
        ({"epochs": 1, "clip": 0.0}, "clip=0.0"),
        ({"epochs": 1, "nonfinite": "ignore"}, "neither 'raise' nor 'skip'"),
        ({"epochs": 1, "optimizer": "adam"}, "is not an optimizer"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, words):
    with refused(ConfigError, words):
        factory().train(line_graphs()[0], **options)


def test_a_graph_without_a_loss_is_refused():
    _, test = line_graphs()
    with refused(GraphError, "graph 'test' is for inference, so it cannot be trained"):
        factory().train(test, epochs=1)
    with refused(GraphError, "no outputs that are losses"):
        factory().train(Graph("test", outputs=test.outputs), epochs=1)


def test_one_of_several_losses_must_be_chosen():
    batch = PointData()()
    y = Line()(x=batch.x).y
    outputs = {name: SquaredError()(given=y, wanted=batch.y).loss for name in ("first", "second")}
    with refused(GraphError, "2 outputs that are losses") as caught:
        factory().train(Graph(outputs=outputs), epochs=1)
    assert "loss='second'" in str(caught.value)
    assert factory().train(Graph(outputs=outputs), loss="second", epochs=1).steps == 5
    with refused(GraphError, "no output 'secnd'"):
        factory().train(Graph(outputs=outputs), loss="secnd", epochs=1)


def test_a_loss_that_reaches_no_weight_is_refused():
    batch = PointData()()
    graph = Graph(outputs={"loss": SquaredError()(given=batch.y, wanted=batch.y).loss})
    with refused(GraphError, "nothing to train") as caught:
        factory().train(graph, epochs=1)
    assert caught.value.code == "nothing-to-train"


def test_frozen_modules_do_not_change_and_a_frozen_graph_is_refused():
    batch = PointData(width=1)()
    first, second = Line(width=1, norm=True).named("first"), Line(width=1, norm=True).named("second")
    loss = SquaredError()(given=second(x=first(x=batch.x).y).y, wanted=batch.y).loss
    graph = Graph(outputs={"loss": loss})
    maker = factory()
    maker.freeze(first)
    before = maker.weights(graph)
    maker.train(graph, optimizer=AdamW(lr=0.05), epochs=2)
    after = maker.weights(graph)
    changed = {name.split(".")[0] for name in after if not np.array_equal(before[name], after[name])}
    assert changed == {"second"}
    maker.freeze(second)
    with refused(GraphError, "nothing to train") as caught:
        maker.train(graph, epochs=1)
    assert "first: frozen" in str(caught.value)
    maker.unfreeze(first, second)
    assert maker.train(graph, epochs=1).steps == 5


def test_a_graph_without_data_cannot_be_trained():
    from neumo.graph.inputs import inputs
    from neumo.types import Acoustic, B, F

    opened = inputs(x=Acoustic()[B, F(3)], y=Acoustic()[B, F(1)])
    graph = Graph(outputs={"loss": SquaredError()(given=Line()(x=opened.x).y, wanted=opened.y).loss})
    with refused(GraphError, "waits for inputs from outside"):
        factory().train(graph, epochs=1)


# --- steps that are not finite


def test_a_bad_step_leaves_weights_and_statistics_untouched():
    train, _ = line_graphs(PointData(points=8, poisoned=(3,)), line=Line(norm=True))
    maker = factory(verify="off")
    before = maker.weights(train)
    result = maker.train(train, max_steps=1)
    after = maker.weights(train)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert result.skipped[0]["what"] == "loss"
    assert "points.csv:4" in result.skipped[0]["items"]
    assert any("points.csv" in note and "weights untouched" in note for note in result.notes)


def test_good_steps_after_a_bad_one_are_as_if_it_had_not_been():
    train, _ = line_graphs(PointData(shuffle=False, poisoned=(3,)), line=Line(norm=True))
    maker = factory(verify="off")
    result = maker.train(train, optimizer=SGD(lr=0.05), epochs=4)
    assert len(result.skipped) == 4
    assert all(np.isfinite(value).all() for value in maker.weights(train).values())
    assert result.history[-1]["loss"] < result.history[0]["loss"]


def test_the_policy_raise_stops_at_once_and_names_the_utterances():
    train, _ = line_graphs(PointData(poisoned=(3,)))
    with refused(BackendError, "is not finite") as caught:
        factory(verify="off").train(train, epochs=1, nonfinite="raise")
    assert "points.csv:4" in caught.value.data["items"]


def test_too_many_bad_steps_in_a_row_stop_the_training(tmp_path):
    train, _ = line_graphs(PointData(poisoned=tuple(range(40))))
    with refused(BackendError, "is not finite.*that is 3"):
        factory(verify="off", folder=tmp_path).train(train, epochs=1, bad_limit=3)
    assert len(read_log(tmp_path / "nonfinite.jsonl")) == 3


def test_bad_steps_are_null_in_the_log(tmp_path):
    train, _ = line_graphs(PointData(points=8, poisoned=(3,)))
    factory(verify="off", folder=tmp_path).train(train, max_steps=1)
    steps = [row for row in read_log(tmp_path / "metrics.jsonl") if "loss" in row and "event" not in row]
    assert steps[0]["loss"] is None
    assert steps[0]["skipped"] == "loss"


@pytest.mark.parametrize("waiting", [1, 2, 100])
def test_utterances_that_the_loss_left_out_are_counted_and_named(monkeypatch, waiting):
    """Flags of so many batches are held on the device at most."""
    monkeypatch.setattr("neumo.engine.loop.train._FLAGS_KEPT", waiting)
    monkeypatch.setattr(Training, "_read_flags", _watched(Training._read_flags, most := []))
    train, _ = line_graphs(loss=SquaredError(flag_above=2.0))
    result = factory().train(train, epochs=2)
    wanted = {f"points.csv:{i + 1}" for i in range(40) if PointData().open(3).item(i, 0)["y"] > 2.0}
    assert result.infeasible == dict.fromkeys(wanted, 2)
    assert sum("had to leave out" in note for note in result.notes) == 1
    assert max(most) == min(waiting, 5)  # an epoch has five batches


def _watched(method, most):
    def watched(self):
        most.append(len(self._flagged))
        method(self)

    return watched


# --- callbacks, evaluation, averages


class Recorder(Callback):
    def __init__(self):
        self.events = []

    def on_action_start(self, run):
        self.events.append("action+")

    def on_action_end(self, run):
        self.events.append("action-")

    def on_epoch_start(self, run):
        self.events.append(f"epoch+{run.epoch}")

    def on_epoch_end(self, run):
        self.events.append(f"epoch-{run.epoch}")

    def on_step_start(self, run):
        self.events.append(f"step+{run.step}")

    def on_step_end(self, run):
        self.events.append(f"step-{run.step}")

    def on_batch_start(self, run):
        self.events.append("batch+")

    def on_batch_end(self, run):
        self.events.append("batch-")

    def close(self):
        self.events.append("close")


def test_callbacks_hear_the_eight_events_in_order():
    recorder = Recorder()
    factory().train(line_graphs(PointData(points=4, batch_size=2))[0], epochs=1, callbacks=[recorder])
    assert recorder.events == [
        "action+",
        "epoch+0",
        *["step+0", "batch+", "batch-", "step-1"],
        *["step+1", "batch+", "batch-", "step-2"],
        "epoch-0",
        "action-",
        "close",
    ]


def test_callbacks_are_closed_when_a_training_fails():
    recorder = Recorder()
    with pytest.raises(DataError):
        factory().train(line_graphs(PointData(broken=(1,)))[0], epochs=1, callbacks=[recorder])
    assert recorder.events[-1] == "close"


def test_a_callback_can_stop_the_training():
    class Stop(Callback):
        def on_step_end(self, run):
            if run.step == 3:
                run.stop("three is enough")

    result = factory().train(line_graphs()[0], epochs=5, callbacks=[Stop()])
    assert (result.steps, result.stopped) == (3, "three is enough")


def test_evaluation_follows_its_rhythm_and_remembers_the_best():
    train, test = line_graphs()
    evaluate = Evaluate(test, every_steps=4, best="error", name="held_out")
    result = factory().train(train, optimizer=AdamW(lr=0.05), epochs=4, evaluate=evaluate)
    assert result.best.metric == "held_out.error"
    assert result.best.step == 20
    assert result.metrics["held_out.error"] == result.best.value


def test_early_stopping_waits_for_a_better_value():
    train, test = line_graphs()
    result = factory().train(
        train, optimizer=SGD(lr=0.0), epochs=50, evaluate=test, callbacks=[EarlyStop("error", patience=2)]
    )
    assert result.steps == 15
    assert "has not become better for 2 evaluations" in result.stopped


def test_a_metric_that_never_comes_is_said():
    class Others(Callback):
        """May measure anything, so that nothing is known beforehand."""

    result = factory().train(line_graphs()[0], epochs=1, callbacks=[EarlyStop("wer"), Others()])
    assert any("no evaluation gave 'wer'" in note for note in result.notes)


def test_a_best_metric_that_the_graph_does_not_give_is_refused():
    train, test = line_graphs()
    with refused(ConfigError, "gives no metric 'eror'") as caught:
        factory().train(train, epochs=1, evaluate=Evaluate(test, best="eror"))
    assert "did you mean 'error'?" in str(caught.value)


def test_averaged_weights_are_evaluated_and_kept():
    train, _test = line_graphs(line=Line(norm=True))
    maker = factory()
    live = []

    class Look(Callback):
        def on_step_end(self, run):
            live.append({name: value.astype(np.float64) for name, value in maker.weights(train).items()})

    start = maker.weights(train)
    maker.train(train, optimizer=AdamW(lr=0.05), max_steps=12, ema=EMA(decay=0.8), callbacks=[Look()])
    average = {name: value.astype(np.float64) for name, value in start.items()}
    for update, weights in enumerate(live, start=1):
        decay = min(0.8, update / (update + 9))
        for name in average:
            average[name] = decay * average[name] + (1 - decay) * weights[name]
    kept = maker.weights(train)
    for name, value in kept.items():
        wanted = live[-1][name] if value.dtype == np.int64 else average[name]
        assert np.allclose(value, wanted, rtol=1e-5, atol=1e-6), name
    assert not np.allclose(kept["line.linear.weight"], live[-1]["line.linear.weight"], rtol=1e-5)


def test_evaluating_with_averages_does_not_disturb_training():
    graphs = [line_graphs() for _ in range(2)]
    plain = factory().train(graphs[0][0], epochs=3, ema=0.9)
    watched = factory().train(graphs[1][0], epochs=3, ema=0.9, evaluate=Evaluate(graphs[1][1], every_steps=2))
    assert plain.losses == watched.losses


def test_checkpoints_keep_the_last_and_the_best(tmp_path):
    train, test = line_graphs()
    maker = factory(folder=tmp_path)
    calls = iter([3.0, 1.0, 2.0, 2.5, 4.0])

    class Pretend(Evaluate):
        def _evaluate(self, run, *, judge=True):
            if self._last != run.step:
                self._last = run.step
                run.measure({"error": next(calls)})
                run.judge("error")

    result = maker.train(
        train, epochs=5, callbacks=[Pretend(test)], checkpoint=Checkpoint(keep_last=1, keep_best=2)
    )
    assert [path.name for path in sorted((tmp_path / "checkpoints").iterdir())] == [
        "step-00000010",
        "step-00000015",
        "step-00000025",
    ]
    assert (result.best.step, result.best.value) == (10, 1.0)
    assert result.best_checkpoint.name == "step-00000010"
    maker.load(train, result.best_checkpoint)


def test_no_folder_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    factory().train(line_graphs()[0], epochs=1)
    assert list(tmp_path.iterdir()) == []


def test_the_log_has_a_row_for_each_step_and_epoch(tmp_path):
    train, test = line_graphs()
    result = factory(folder=tmp_path).train(train, epochs=2, evaluate=test)
    rows = read_log(tmp_path / "metrics.jsonl")
    assert [row["loss"] for row in rows if "event" not in row] == result.losses
    epochs = [row for row in rows if row.get("event") == "epoch"]
    assert [row["error"] for row in epochs] == [row["error"] for row in result.history]
    assert rows[-1]["event"] == "end"


# --- evaluate and infer


def test_evaluation_is_the_metric_over_all_data():
    train, test = line_graphs()
    maker = factory()
    weights = maker.weights(train)
    figures = maker.evaluate(test, per_utterance=True)
    source = PointData(points=16, shuffle=False).open(0)
    items = [source.item(i, 0) for i in range(16)]
    x, y = np.stack([item["x"] for item in items]), np.array([item["y"] for item in items])
    given = x @ weights["line.linear.weight"][0] + weights["line.linear.bias"][0]
    assert figures["error"] == pytest.approx(np.abs(given - y).mean(), rel=1e-5)
    assert figures["points"] == figures.count == 16
    assert [row["item"] for row in figures.utterances] == [f"points.csv:{i + 1}" for i in range(16)]
    assert figures.utterances[5]["error"] == pytest.approx(abs(given[5] - y[5]), rel=1e-4)


def test_losses_are_averaged_over_utterances():
    data = PointData(points=10, batch_size=8, shuffle=False)
    batch = data()
    line = Line().named("line")
    graph = Graph(outputs={"loss": SquaredError()(given=line(x=batch.x).y, wanted=batch.y).loss})
    whole = PointData(points=10, batch_size=10, shuffle=False)()
    at_once = Graph(outputs={"loss": SquaredError()(given=line(x=whole.x).y, wanted=whole.y).loss})
    maker = factory()
    assert maker.evaluate(graph)["loss"] == pytest.approx(maker.evaluate(at_once)["loss"], rel=1e-5)


def test_two_metrics_with_the_same_figures_are_told_apart():
    batch = PointData()()
    y = Line()(x=batch.x).y
    outputs = {name: MeanError()(given=y, wanted=batch.y).score for name in ("one", "two")}
    figures = factory().evaluate(Graph(outputs=outputs))
    assert figures["one.error"] == figures["two.error"]


def test_a_graph_with_nothing_to_evaluate_is_refused():
    batch = PointData()()
    with refused(GraphError, "nothing to evaluate"):
        factory().evaluate(Graph(outputs={"y": Line()(x=batch.x).y}))


def test_inference_goes_through_the_data_in_order():
    batch = PointData(points=10, batch_size=4, shuffle=False)()
    graph = Graph(outputs={"y": Line().named("line")(x=batch.x).y, "item": batch.item})
    results = factory().infer(graph)
    assert [len(result["y"]) for result in results] == [4, 4, 2]
    assert np.concatenate([result["item"] for result in results]).tolist() == list(range(10))
    assert list(factory().infer(graph, outputs=["y"])[0]) == ["y"]


def test_inference_takes_arrays():
    from neumo.graph.inputs import inputs
    from neumo.types import Acoustic, B, F

    line = Line().named("line")
    opened = inputs(x=Acoustic()[B, F(3)])
    graph = Graph(outputs={"y": line(x=opened.x).y})
    maker = factory()
    x = np.ones((2, 3))
    weights = maker.weights(graph)
    (result,) = maker.infer(graph, {"x": x})
    assert result["y"] == pytest.approx(
        x @ weights["line.linear.weight"].T + weights["line.linear.bias"], rel=1e-5
    )
    with refused(GraphError, "is not given 'x'"):
        maker.infer(graph)
    with refused(GraphError, "takes no input 'xs'"):
        maker.infer(graph, {"x": x, "xs": x})


def test_a_graph_of_data_takes_no_arrays():
    batch = PointData()()
    with refused(GraphError, "takes no inputs"):
        factory().infer(Graph(outputs={"y": Line()(x=batch.x).y}), {"x": np.ones((2, 3))})


def test_absent_optional_ports_arrive_as_none_and_data_can_be_an_output():
    result = factory().infer(frame_graph(), outputs=["out_len", "ids"])[0]
    assert result["out_len"].tolist() == [4, 3, 2]
    assert result["ids"].shape == (3, 8)


def test_parameters_are_counted():
    train, _ = line_graphs(line=Line(norm=True))
    maker = factory()
    assert maker.count_parameters(train) == 3 + 1 + 3 + 3
    line = train.modules["line"]
    maker.freeze(line)
    assert maker.count_parameters(line, trainable_only=True) == 0
    assert maker.count_parameters(line) == 10


def test_a_factory_says_what_it_computes_on():
    assert "fp32" in factory().describe()


def test_fewer_than_no_workers_are_refused():
    with refused(ConfigError, "workers=-1"):
        factory(workers=-1)
