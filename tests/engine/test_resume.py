"""A training that is killed and resumed is the training that was not killed, bit for bit."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from neumo.engine import AdamW, Callback, Checkpoint, Cosine, Evaluate, NeuralFactory, NovoGrad, read_log
from neumo.types import BackendError, CheckpointError, ConfigError

from .toys import Line, PointData, SquaredError, line_graphs, refused


class Killed(Exception):
    pass


class KillAt(Callback):
    order = 99  # after the other callbacks of the step, and before what they asked for is saved

    def __init__(self, step):
        self.step = step

    def on_step_end(self, run):
        if run.step == self.step:
            raise Killed


def graphs():
    data = PointData(points=36, batch_size=8, noise=0.1, poisoned=(5,))
    return line_graphs(data, Line(norm=True, dropout=0.3), SquaredError(flag_above=2.0))


def options(test, every_steps=3):
    return {
        "optimizer": AdamW(lr=0.02),
        "schedule": Cosine(warmup_steps=4),
        "clip": 2.0,
        "ema": 0.9,
        "epochs": 4,
        "evaluate": Evaluate(test, every_steps=4, best="error"),
        "checkpoint": Checkpoint(every_steps=every_steps, keep_last=2),
    }


def start(folder, *, kill=None, workers=0, seed=5, resume="auto", **changes):
    train, test = graphs()
    maker = NeuralFactory(
        device="cpu", seed=seed, progress=False, verify="boundary", folder=folder, workers=workers
    )
    extra = {"callbacks": [KillAt(kill)]} if kill else {}
    return maker, train, maker.train(train, resume=resume, **{**options(test), **extra, **changes})


def log(folder):
    rows = read_log(folder / "metrics.jsonl")
    return [row for row in rows if row.get("event") != "note"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    maker, train, result = start(folder)
    return result, maker.weights(train), log(folder)


@pytest.mark.parametrize("kill", [1, 2, 3, 4, 5, 7, 10, 11, 15, 19, 20])
def test_a_killed_training_goes_on_exactly(kill, tmp_path, uninterrupted):
    with pytest.raises(Killed):
        start(tmp_path, kill=kill)
    maker, train, result = start(tmp_path)
    whole, weights, rows = uninterrupted
    assert log(tmp_path) == rows
    assert all(np.array_equal(weights[name], value) for name, value in maker.weights(train).items())
    assert result.history == whole.history
    assert result.infeasible == whole.infeasible
    assert result.skipped == whole.skipped
    assert result.best == whole.best
    assert len(result.losses) < len(whole.losses) or kill <= 3


def test_it_goes_on_exactly_with_workers_and_a_second_kill(tmp_path, uninterrupted):
    for kill in (7, 14):
        with pytest.raises(Killed):
            start(tmp_path, kill=kill, workers=2)
    maker, train, result = start(tmp_path, workers=1)
    whole, weights, rows = uninterrupted
    assert log(tmp_path) == rows
    assert all(np.array_equal(weights[name], value) for name, value in maker.weights(train).items())
    assert result.history == whole.history


@pytest.mark.parametrize("optimizer", [NovoGrad(lr=0.02)])
def test_other_optimizers_go_on_exactly(optimizer, tmp_path):
    whole, train, _ = start(tmp_path / "whole", optimizer=optimizer)
    with pytest.raises(Killed):
        start(tmp_path / "killed", kill=10, optimizer=optimizer)
    again, other, _ = start(tmp_path / "killed", optimizer=optimizer)
    left, right = whole.weights(train), again.weights(other)
    assert all(np.array_equal(left[name], right[name]) for name in left)


def test_a_training_that_is_done_stays_done(tmp_path):
    maker, train, first = start(tmp_path)
    weights = maker.weights(train)
    last = read_log(tmp_path / "metrics.jsonl")[-1]
    again, other, second = start(tmp_path)
    assert last["event"] == "end"
    assert read_log(tmp_path / "metrics.jsonl")[-1] == last
    assert (second.losses, second.steps, second.history) == ([], first.steps, first.history)
    assert (first.over, second.over) == (False, True)
    assert [note for note in second.notes if "step 20" in note] == [
        f"the training of {tmp_path / 'checkpoints' / 'step-00000020'} is over, after step 20: "
        "all epochs are done; with more epochs or steps it goes on, in another folder it starts anew"
    ]
    assert str(second).startswith("nothing left to train: 20 steps were done before, loss ")
    assert all(np.array_equal(weights[name], value) for name, value in again.weights(other).items())


def test_a_training_can_go_on_for_longer(tmp_path):
    start(tmp_path, epochs=2)
    _, _, result = start(tmp_path, epochs=4)
    assert result.steps == 20
    assert [row["epoch"] for row in result.history] == [0, 1, 2, 3]
    assert any("the schedule differs" in note for note in result.notes)
    assert [row["step"] for row in log(tmp_path) if "event" not in row] == list(range(1, 21))


def test_a_damaged_checkpoint_is_passed_over_and_this_is_said(tmp_path, uninterrupted):
    with pytest.raises(Killed):
        start(tmp_path, kill=13)
    newest = max((tmp_path / "checkpoints").glob("step-*"))
    assert newest.name == "step-00000012"
    weights_file = newest / "weights.safetensors"
    weights_file.write_bytes(weights_file.read_bytes()[:-1] + b"x")
    maker, train, result = start(tmp_path)
    assert any("weights.safetensors is damaged" in note for note in result.notes)
    assert result.resumed_from.name == "step-00000009"
    _whole, weights, rows = uninterrupted
    assert log(tmp_path) == rows
    assert all(np.array_equal(weights[name], value) for name, value in maker.weights(train).items())


def test_never_starts_anew_and_keeps_the_old_run_aside(tmp_path):
    start(tmp_path)
    _, _, result = start(tmp_path, resume="never")
    assert len(result.losses) == 20
    assert any("earlier-1" in note for note in result.notes)
    assert (tmp_path / "earlier-1" / "checkpoints").is_dir()
    assert [row["step"] for row in log(tmp_path) if "event" not in row] == list(range(1, 21))


def test_a_path_goes_on_from_there_and_renames_what_comes_later(tmp_path, uninterrupted):
    start(tmp_path, checkpoint=Checkpoint(every_steps=5, keep_last=9))
    _, _, result = start(tmp_path, resume=tmp_path / "checkpoints" / "step-00000010")
    assert result.resumed_from.name == "step-00000010"
    assert len(result.losses) == 10
    assert (tmp_path / "checkpoints" / "abandoned-step-00000015").is_dir()
    assert result.losses == uninterrupted[0].losses[10:] or np.isnan(result.losses).any()


def test_another_run_folder_can_be_gone_on_from(tmp_path):
    start(tmp_path / "one", epochs=2)
    _, _, result = start(tmp_path / "two", resume=tmp_path / "one")
    assert len(result.losses) == 10


def test_a_path_without_a_checkpoint_is_refused(tmp_path):
    with refused(CheckpointError, "there is no checkpoint"):
        start(tmp_path, resume=tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with refused(CheckpointError, "is not a checkpoint"):
        start(tmp_path, resume=tmp_path / "empty")


def test_another_seed_or_optimizer_is_refused(tmp_path):
    start(tmp_path, epochs=1)
    with refused(ConfigError, "was trained with seed 5"):
        start(tmp_path, seed=6)
    with refused(BackendError, "was trained with AdamW"):
        start(tmp_path, optimizer=NovoGrad())


def test_a_checkpoint_of_another_model_is_refused_with_a_table(tmp_path):
    start(tmp_path, epochs=1)
    train, _ = line_graphs(line=Line())
    maker = NeuralFactory(device="cpu", seed=5, progress=False, folder=tmp_path)
    with refused(CheckpointError, "another model") as caught:
        maker.train(train, epochs=1)
    assert "left over  line.norm.running_mean 3" in str(caught.value)


def test_a_stop_in_the_first_epoch_counts_what_was_consumed(tmp_path):
    """A limit inside epoch 0 of one epoch: the resumed training uses the rest of it."""

    class Stop(Callback):
        def on_step_end(self, run):
            if run.step == 2:
                run.stop("time")

    _, _, first = start(tmp_path, epochs=1, callbacks=[Stop()])
    assert (first.steps, first.stopped) == (2, "time")
    _, _, second = start(tmp_path, epochs=1)
    assert second.steps == 5
    assert len(second.losses) == 3


def test_weights_of_a_checkpoint_load_into_a_new_factory(tmp_path):
    maker, train, _ = start(tmp_path)
    other = NeuralFactory(device="cpu", seed=77, progress=False)
    other.load(train, tmp_path)
    weights = maker.weights(train)
    assert all(np.array_equal(weights[name], value) for name, value in other.weights(train).items())


def test_nothing_in_a_run_folder_is_pickle(tmp_path):
    start(tmp_path, epochs=1)
    kinds = {path.suffix for path in tmp_path.rglob("*") if path.is_file()}
    texts = {".json", ".jsonl", ".csv", ".yaml", ".svg"}
    assert kinds - {".patch"} == {".safetensors", *texts}  # a patch where the working directory was changed


def test_a_process_that_is_killed_goes_on_exactly(tmp_path, uninterrupted):
    """SIGKILL in the middle of a step, with lines of the log still in memory and a worker reading ahead."""
    code = (
        "import os, signal, sys; from pathlib import Path; import tests.engine.test_resume as here\n"
        "class Kill(here.Callback):\n"
        "    def on_batch_end(self, run):\n"
        "        if run.step == 14: os.kill(os.getpid(), signal.SIGKILL)\n"
        "here.start(Path(sys.argv[1]), workers=1, callbacks=[Kill()])\n"
    )
    root = Path(__file__).parents[2]
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, check=False)
    assert ended.returncode == -signal.SIGKILL
    maker, train, result = start(tmp_path)
    assert result.resumed_from.name == "step-00000012"
    whole, weights, rows = uninterrupted
    assert log(tmp_path) == rows
    assert all(np.array_equal(weights[name], value) for name, value in maker.weights(train).items())
    assert result.history == whole.history


@pytest.mark.parametrize("steps", [1, 4])
def test_steps_of_several_batches_go_on_exactly_where_the_last_has_fewer(steps, tmp_path):
    """What a step is scaled by while it is added up is that of the whole epoch, not of what is left of it."""

    def run(folder, steps):
        train, _ = line_graphs(PointData(), Line(norm=True))  # five batches of 8: steps of 2, 2 and 1
        maker = NeuralFactory(device="cpu", precision="fp64", seed=5, progress=False, folder=folder)
        checkpoint = Checkpoint(every_steps=1)
        maker.train(
            train, optimizer=AdamW(lr=0.02), max_steps=steps, batches_per_step=2, checkpoint=checkpoint
        )
        return maker.weights(train)

    whole = run(tmp_path / "whole", 8)
    run(tmp_path / "parts", steps)
    parts = run(tmp_path / "parts", 8)
    assert all(np.array_equal(parts[name], whole[name]) for name in whole)


def shorter(folder, *, batch_size=8, **changes):
    """Five batches of 8 an epoch, or nine of 4; the rates of all steps, and what was said of the length."""
    train, _ = line_graphs(PointData(points=36, batch_size=batch_size), Line(norm=True))
    maker = NeuralFactory(device="cpu", seed=5, progress=False, folder=folder)
    settings = {"optimizer": AdamW(lr=0.02), "schedule": Cosine(), "epochs": 4, **changes}
    result = maker.train(train, checkpoint=Checkpoint(every_steps=1), **settings)
    rates = [row["lr"] for row in log(folder) if "event" not in row]
    told = [int(note.split()[4]) for note in result.notes if note.startswith("the training now has")]
    return result, rates, told


@pytest.mark.parametrize(("before", "steps"), [(10, 28), (7, 32), (2, 36)])
def test_where_an_epoch_has_more_batches_now_all_that_is_trained_is_told_and_the_rate_comes_down(
    before, steps, tmp_path
):
    """Steps that were done count as they are, also those of an epoch that was begun with other batches."""
    shorter(tmp_path, max_steps=before)
    result, rates, told = shorter(tmp_path, batch_size=4)
    assert result.stopped == "all epochs are done"
    assert told == [result.steps]
    assert len(rates) == result.steps
    assert 0 < rates[-1] < 0.02 * 0.01
    assert result.steps == steps


def test_a_kill_behind_such_a_change_changes_nothing(tmp_path):
    for name, limit in (("whole", 99), ("kill", 17)):
        shorter(tmp_path / name, max_steps=7)
        shorter(tmp_path / name, batch_size=4, **({} if limit == 99 else {"callbacks": [StopAt(limit)]}))
    result, rates, told = shorter(tmp_path / "kill", batch_size=4)
    assert told == []
    assert rates == shorter(tmp_path / "whole", batch_size=4)[1]
    assert result.steps == len(rates)


class StopAt(Callback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, run):
        if run.step == self.step:
            run.stop("enough")


def test_a_limit_of_steps_wins_and_more_of_them_are_trained_at_rates_above_zero(tmp_path):
    shorter(tmp_path, batches_per_step=1, max_steps=14)
    result, rates, told = shorter(tmp_path, batches_per_step=3, max_steps=18)
    assert (result.steps, told, len(rates)) == (17, [17], 17)
    assert rates[-1] > 0
    result, _, told = shorter(tmp_path, batches_per_step=3, max_steps=16)
    assert (result.over, result.steps, told) == (True, 17, [])


def test_fewer_epochs_than_were_done_do_not_shorten_what_was_done(tmp_path):
    shorter(tmp_path)
    result, _, told = shorter(tmp_path, epochs=2)
    assert (result.over, result.steps, told) == (True, 20, [])
