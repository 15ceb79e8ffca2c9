"""Several optimizers: whose turn it is, what each of them changes, and that nothing is lost in a resume."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from neumo.engine import EMA, SGD, AdamW, Linear, NeuralFactory, Phase, Run
from neumo.engine.callbacks import Unfreeze, on_batch_start, on_step_end
from neumo.engine.loop.phases import Cycle
from neumo.engine.recipes import make_factory, read_actions, run_train
from neumo.engine.recipes.dry_runs import dry_runs
from neumo.engine.seeds import derive_seed
from neumo.engine.tracking import read_log
from neumo.graph.graph import Graph
from neumo.graph.yaml import Recipe, load_recipe
from neumo.types import BackendError, ConfigError, GraphError, NeumoError

from .gan_toys import Judge, Maker, MakerLoss, gan
from .toys import PointData, refused

PLAIN = SGD(lr=0.1), AdamW(lr=0.02, weight_decay=0.0)
BATCH = [Phase(loss="d_loss", trains=("judge",)), Phase(loss="g_loss", trains=("maker",))]


def phases(**settings: Any) -> list[Phase]:
    judge = Phase(loss="d_loss", trains=("judge",), optimizer=SGD(lr=0.1), **settings)
    return [judge, Phase(loss="g_loss", trains=("maker",), optimizer=AdamW(lr=0.02))]


def factory(**options: Any) -> NeuralFactory:
    return NeuralFactory(**{"device": "cpu", "seed": 5, "progress": False, **options})


def by_hand(graph: Graph, turns: list[tuple[int, tuple[int, ...]]]) -> tuple[list[float], dict[str, Any]]:
    """Train with two optimizers of torch; `turns` has (batch, phases) by step."""
    own = factory(precision="fp64")
    own.session.build(graph.modules)
    maker = own.session.implementation(graph.modules["maker"])
    judge = own.session.implementation(graph.modules["judge"])
    source = own.source(next(m for m in graph.modules.values() if m.role == "data"))
    optimizers = [
        torch.optim.SGD(judge.parameters(), lr=0.1),
        torch.optim.AdamW(maker.parameters(), lr=0.02, weight_decay=0.0, betas=PLAIN[1].betas),
    ]
    batches = [batch for epoch in range(4) for batch in source.batches(epoch)]
    losses: list[float] = []
    for step, (number, numbers) in enumerate(turns):
        items = [source.item(index, 0) for index in batches[number]]
        arrays = {name: torch.from_numpy(value).double() for name, value in source.collate(items).items()}
        last = [0.0, 0.0]
        for place, phase in enumerate(numbers):
            torch.manual_seed(derive_seed(5, "step", step, *(("turn", place) if place else ())))
            still = [maker, judge][phase]
            kept = {name: value.clone() for name, value in still.named_buffers()}
            made = maker(arrays["x"])
            if phase == 0:
                scores = judge(made)  # first, as in the graph: running statistics depend on the order
                loss = (judge(arrays["y"]) - 1).pow(2).mean() + scores.pow(2).mean()
            else:
                loss = (judge(made) - 1).pow(2).mean()
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            optimizers[phase].step()
            for name, value in still.named_buffers():
                value.copy_(kept[name])
            last[phase] = loss.item()
        losses.append(sum(last))
    return losses, own.weights(graph)


def same(given: dict[str, Any], wanted: dict[str, Any], rtol: float = 1e-9) -> None:
    assert given.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(given[name], value, rtol=rtol, atol=1e-12, err_msg=name)


def two(**first: Any) -> list[Phase]:
    return [
        Phase(loss="d_loss", trains=("judge",), optimizer=PLAIN[0], **first),
        Phase(loss="g_loss", trains=("maker",), optimizer=PLAIN[1]),
    ]


def test_phases_take_turns_step_by_step_as_in_a_loop_by_hand() -> None:
    graph = gan(maker=Maker(noise=0.1), judge=Judge(norm=True))
    turns = [(step, (number,)) for step, number in enumerate([0, 0, 1, 0, 0, 1, 0])]
    losses, weights = by_hand(graph, turns)
    own = factory(precision="fp64")
    result = own.train(graph, phases=two(steps=2), max_steps=7)
    assert result.losses == pytest.approx(losses, rel=1e-9)
    same(own.weights(graph), weights)


def test_all_phases_update_on_each_batch_as_in_a_loop_by_hand() -> None:
    graph = gan(maker=Maker(noise=0.1), judge=Judge(norm=True))
    turns = [(0, (0, 0, 1)), (1, (1,)), (2, (0, 0, 1)), (3, (1,))]
    losses, weights = by_hand(graph, turns)
    own = factory(precision="fp64")
    result = own.train(graph, phases=two(steps=2, every=2), max_steps=4, alternate="batch")
    assert result.losses == pytest.approx(losses, rel=1e-9)
    same(own.weights(graph), weights)


@pytest.mark.parametrize("turn", [0, 1])
def test_an_update_changes_weights_and_statistics_of_its_own_modules_only(turn: int) -> None:
    graph, own = gan(judge=Judge(norm=True)), factory()
    order = phases() if turn == 0 else phases()[::-1]
    before = own.weights(graph)
    own.train(graph, phases=order, max_steps=1)
    changed = {name for name, value in own.weights(graph).items() if not np.array_equal(value, before[name])}
    module = ("judge", "maker")[turn]
    assert changed == {name for name in before if name.startswith(module)}
    assert f"{module}.bn.running_mean" in changed


def test_a_phase_that_names_no_module_trains_what_no_other_names() -> None:
    graph, own = gan(), factory()
    before = own.weights(graph)
    own.train(graph, phases=[Phase(loss="d_loss", trains="judge"), Phase(loss="g_loss")], max_steps=2)
    changed = {name for name, value in own.weights(graph).items() if not np.array_equal(value, before[name])}
    assert {name.partition(".")[0] for name in changed} == {"judge", "maker"}


def test_windows_of_several_batches_are_one_big_batch() -> None:
    def trained(batch_size: int, batches: int) -> tuple[list[float], dict[str, Any]]:
        data = PointData(batch_size=batch_size, shuffle=False)
        graph, own = gan(data, Maker(norm=False)), factory(precision="fp64")
        result = own.train(graph, phases=two(), max_steps=4, batches_per_step=batches, alternate="batch")
        return result.losses, own.weights(graph)

    losses, weights = trained(16, 1)
    small_losses, small_weights = trained(4, 4)
    assert small_losses == pytest.approx(losses, rel=1e-12)
    same(small_weights, weights, rtol=1e-10)


def test_a_resumed_training_goes_on_as_if_nothing_had_happened(tmp_path: Any) -> None:
    def run(steps: int, folder: Any = None) -> tuple[Any, dict[str, Any]]:
        graph = gan(maker=Maker(noise=0.1))
        own = factory(folder=folder)
        given = [
            Phase(
                loss="d_loss", trains=("judge",), optimizer=AdamW(lr=0.05), steps=2, schedule=Linear().over(6)
            ),
            Phase(loss="g_loss", trains=("maker",), optimizer=SGD(lr=0.1, momentum=0.9), ema=0.9, clip=0.5),
        ]
        result = own.train(graph, phases=given, max_steps=steps)
        return result, own.weights(graph)

    whole, wanted = run(9)
    begun, _ = run(4, tmp_path)
    ended, found = run(9, tmp_path)
    assert ended.resumed_from is not None
    assert begun.losses + ended.losses == whole.losses
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
    files = {path.name for path in (tmp_path / "checkpoints" / "step-00000009").iterdir()}
    assert {"weights.safetensors", "optimizer-d_loss.safetensors", "optimizer-g_loss.safetensors"} <= files
    with refused(BackendError, "was trained with phases d_loss, g_loss, not with phases other, g_loss"):
        factory(folder=tmp_path).train(
            gan(), phases=[Phase(loss="d_loss", trains="judge", name="other"), BATCH[1]], max_steps=10
        )


def test_phases_that_would_take_turns_in_another_way_are_refused(tmp_path: Any) -> None:
    factory(folder=tmp_path).train(gan(), phases=two(), max_steps=3)
    with refused(
        ConfigError, "step-00000003 was trained with phases that took turns in another way"
    ) as caught:
        factory(folder=tmp_path).train(gan(), phases=two(steps=2), max_steps=6)
    assert caught.value.details == ("before: d_loss | g_loss", "now:    d_loss | d_loss | g_loss")
    with refused(ConfigError, "took turns in another way"):
        factory(folder=tmp_path).train(gan(), phases=two(), alternate="batch", max_steps=6)
    assert factory(folder=tmp_path).train(gan(), phases=two(), max_steps=6).steps == 6


def test_the_average_of_a_phase_is_that_of_its_own_modules(tmp_path: Any) -> None:
    graph = gan()
    own = factory(folder=tmp_path)
    first, second = phases()
    averaged = Phase(
        loss="g_loss", trains=("maker",), optimizer=second.optimizer, ema=EMA(decay=0.5, warmup=False)
    )
    own.train(graph, phases=[first, averaged], max_steps=6)
    plain = factory()
    plain.train(graph, phases=phases(), max_steps=6)
    left, right = own.weights(graph), plain.weights(graph)
    assert np.array_equal(left["judge.first.weight"], right["judge.first.weight"])
    assert not np.array_equal(left["maker.linear.weight"], right["maker.linear.weight"])
    again = factory()
    again.load(graph, tmp_path)
    same(again.weights(graph), left)


def test_each_phase_is_logged_by_its_name(tmp_path: Any) -> None:
    result = factory(folder=tmp_path).train(gan(), phases=phases(), epochs=1)
    rows = [row for row in read_log(tmp_path / "metrics.jsonl") if "event" not in row]
    assert [sorted(key for key in row if key.startswith("loss.")) for row in rows[:3]] == [
        ["loss.d_loss"],
        ["loss.g_loss"],
        ["loss.d_loss"],
    ]
    assert (rows[0]["lr"], rows[1]["lr"]) == (rows[0]["lr.d_loss"], rows[1]["lr.g_loss"]) == (0.1, 0.02)
    (row,) = result.history
    names = ("loss.d_loss", "loss.g_loss")
    means = [np.mean([each[name] for each in rows if name in each]) for name in names]
    assert [row[name] for name in names] == pytest.approx(means)
    assert row["loss"] == pytest.approx(sum(means))


def test_a_phase_that_never_gets_a_finite_loss_stops_the_training() -> None:
    broken = [Phase(loss="d_loss", trains=("judge",), optimizer=SGD(lr=1e30)), phases()[1]]
    with refused(BackendError, r"phase 'g_loss', is not finite .* that is 3 such steps in a row"):
        factory().train(gan(), phases=broken, max_steps=40, bad_limit=3)


def test_both_phases_may_train_a_module_which_is_said() -> None:
    shared = [Phase(loss="d_loss", trains=("judge", "maker")), Phase(loss="g_loss", trains=("maker",))]
    result = factory().train(gan(), phases=shared, max_steps=2)
    assert "phases 'd_loss' and 'g_loss' both train maker" in result.notes


def test_a_module_of_a_phase_can_wait_for_its_epoch() -> None:
    graph, own = gan(), factory()
    before = own.weights(graph)
    own.train(graph, phases=phases(), epochs=1, callbacks=[Unfreeze({"judge.first": 1})])
    after = own.weights(graph)
    assert np.array_equal(after["judge.first.weight"], before["judge.first.weight"])
    assert not np.array_equal(after["judge.second.weight"], before["judge.second.weight"])


def test_values_can_be_asked_for_in_a_phase() -> None:
    seen: list[tuple[float, float]] = []

    @on_batch_start
    def look(run: Run) -> None:
        loss = "d_loss" if run.step % 2 == 0 else "g_loss"
        seen.append((float(run.value(loss)), 0.0))

    @on_step_end
    def compare(run: Run) -> None:
        seen[-1] = (seen[-1][0], run.loss)

    callbacks = [look, compare]
    factory().train(gan(maker=Maker(noise=0.1)), phases=phases(), max_steps=4, callbacks=callbacks)
    assert len(seen) == 4
    assert all(before == pytest.approx(loss, rel=1e-6) for before, loss in seen)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([Phase(loss="d_los", trains=("judge",))], "did you mean 'd_loss'"),
        ([Phase(loss="d_loss", trains=("jugde",)), BATCH[1]], "did you mean 'judge'"),
        ([Phase(loss="g_loss", trains=("maker",))], "no phase trains judge"),
        ([Phase(loss="made", trains=("maker",))], "made"),
    ],
)
def test_what_phases_get_wrong_is_said_before_anything_runs(given: list[Phase], words: str) -> None:
    with refused((GraphError, BackendError), words):
        factory().train(gan(), phases=given, max_steps=1)


def test_a_loss_that_does_not_depend_on_what_its_phase_trains_is_refused() -> None:
    batch = PointData()()
    alone = Judge().named("judge")
    made = Maker().named("maker")(x=batch.x).y
    graph = Graph(
        "two",
        "train",
        {
            "d_loss": MakerLoss().named("d")(made=alone(y=batch.y).score).loss,
            "g_loss": MakerLoss().named("g")(made=made).loss,
        },
    )
    with refused(GraphError, "phase 'd_loss' trains 'maker', and its loss 'd_loss' does not depend on it"):
        factory().train(
            graph, phases=[Phase(loss="d_loss", trains="maker"), Phase(loss="g_loss")], max_steps=1
        )


def test_frozen_modules_need_no_phase_and_cannot_be_one() -> None:
    graph, own = gan(), factory()
    own.freeze(graph, "judge")
    assert own.train(graph, phases=[Phase(loss="g_loss", trains="maker")], max_steps=1).steps == 1
    with refused(GraphError, "phase 'd_loss' has nothing to train"):
        own.train(graph, phases=BATCH, max_steps=1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"phases": BATCH, "alternate": "batches"}, "did you mean 'batch'"),
        ({"phases": [BATCH[0], BATCH[0]]}, "two phases are called 'd_loss'"),
        ({"phases": BATCH, "loss": "d_loss"}, "train got a loss, and phases"),
        ({"phases": ["d_loss"]}, "'d_loss' is not a phase"),
        ({"phases": [Phase(loss="d_loss", every=2)], "alternate": "batch"}, "no phase takes part in step 2"),
    ],
)
def test_phases_that_cannot_be_meant_are_refused(settings: dict[str, Any], words: str) -> None:
    with refused(ConfigError, words):
        factory().train(gan(), max_steps=1, **settings)


@pytest.mark.parametrize("settings", [{"steps": 0}, {"every": 0}, {"clip": 0.0}, {"name": "a/b"}])
def test_a_phase_checks_what_it_is_given(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Phase(loss="d_loss", **settings)


def test_the_updates_of_a_phase_are_counted_over_rounds() -> None:
    cycle = Cycle.of([Phase(loss="a", steps=3, every=2), Phase(loss="b")], "steps")
    numbers = [cycle.turns(step)[0] for step in range(50)]
    assert numbers[:6] == [0, 0, 0, 1, 1, 0]
    for step in range(50):
        assert [cycle.updates(n, before=step) for n in (0, 1)] == [numbers[:step].count(n) for n in (0, 1)]


RECIPE = """\
neumo: 1
modules:
  data: {kind: PointData, points: 24}
  maker: {kind: Maker}
  judge: {kind: Judge}
  d: {kind: JudgeLoss}
  g: {kind: MakerLoss}
graphs:
  train:
    mode: train
    steps:
      batch: data()
      made: maker(x=batch.x)
      fake: judge(y=made.y)
      real: judge(y=batch.y)
      d: d(real=real.score, made=fake.score)
      g: g(made=fake.score)
    outputs: {d_loss: d.loss, g_loss: g.loss}
factory: {device: cpu, seed: 4}
train:
  max_steps: 4
  clip: 1.0
  alternate: batch
  phases:
    - {loss: d_loss, trains: [judge], optimizer: {kind: SGD, lr: 0.1}, steps: 2}
    - {loss: g_loss, trains: [maker], optimizer: AdamW, schedule: {kind: Linear, warmup_steps: 2}, clip: 0.1}
"""


def recipe(tmp_path: Any, *changes: str) -> Recipe:
    (tmp_path / "gan.yaml").write_text(RECIPE)
    return load_recipe(tmp_path / "gan.yaml", list(changes))


def test_a_recipe_trains_in_phases(tmp_path: Any) -> None:
    asked = recipe(tmp_path)
    actions = read_actions(asked)
    assert [(each.label, each.steps, each.clip) for each in actions.phases] == [
        ("d_loss", 2, None),
        ("g_loss", 1, 0.1),
    ]
    assert actions.phases[1].schedule == Linear(warmup_steps=2)
    own = factory(seed=4)
    wanted = own.train(asked.graph("train"), phases=actions.phases, alternate="batch", max_steps=4, clip=1.0)
    again = recipe(tmp_path)
    assert run_train(again, factory=make_factory(again, progress=False)).losses == wanted.losses
    assert [one.figures.keys() for one in dry_runs(asked, actions)] == [{"d_loss"}, {"g_loss"}]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("train.phases.0.trains=[jugde]", "did you mean 'judge'"),
        ("train.phases.0.loss=d_los", "did you mean 'd_loss'"),
        ("train.phases.0.steps=0", "steps=0 is below 1"),
        ("train.phases.1.optimizer=Adamw", "did you mean 'AdamW'"),
        ("train.phases.1.optimiser=Adam", "did you mean 'optimizer'"),
        ("train.alternate=batches", "did you mean 'batch'"),
        ("train.phases.1.name=d_loss", "two phases are called 'd_loss'"),
    ],
)
def test_what_a_recipe_gets_wrong_in_phases_is_said_at_its_place(
    tmp_path: Any, change: str, words: str
) -> None:
    key, _, value = change.partition("=")
    text = RECIPE
    starts = {"train.phases.0": "    - {loss: d_loss", "train.phases.1": "    - {loss: g_loss"}
    if key == "train.alternate":
        text = text.replace("alternate: batch", f"alternate: {value}")
    else:
        head, _, last = key.rpartition(".")
        row = next(line for line in RECIPE.splitlines() if line.startswith(starts[head]))
        body = yaml.safe_load(row.strip()[2:]) | {last: yaml.safe_load(value)}
        text = text.replace(row, f"    - {json.dumps(body)}")
    (tmp_path / "gan.yaml").write_text(text)
    with refused(NeumoError, words) as caught:
        read_actions(load_recipe(tmp_path / "gan.yaml"))
    assert "gan.yaml:2" in str(caught.value)
