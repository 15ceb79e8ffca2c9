"""Trackers: what they are sent, when, and that nothing is sent twice after a kill and a resume."""

import json
from importlib.util import find_spec

import pytest

from neumo.engine import Callback, Checkpoint, Evaluate, NeuralFactory
from neumo.engine.callbacks import Samples
from neumo.engine.tracking import MLflow, TensorBoard, Tracker, WandB
from neumo.types import BackendError, ConfigError

from .test_samples import sound_graph
from .toys import line_graphs, refused


def factory(**options):
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "always", **options})


class Written(Tracker):
    """Appends what it is sent to a file, at once, as a tracker that cannot take anything back does."""

    def open(self, run, folder, known):
        self.file = folder / "sent.jsonl"
        self.ended = None
        return known or f"name-{run.seed}"

    def send(self, rows):
        with self.file.open("a") as file:
            for row in rows:
                file.write(json.dumps([row.step, dict(row.figures)]) + "\n")

    def send_sample(self, sample):
        with self.file.open("a") as file:
            file.write(json.dumps([sample.step, sample.name]) + "\n")

    def finish(self, ended):
        self.ended = ended


def sent(folder):
    return [json.loads(line) for line in (folder / "sent.jsonl").read_text().splitlines()]


class Killed(Exception):
    """What a kill looks like from inside: nothing is called any more."""


class KillAt(Callback):
    order = 99

    def __init__(self, step):
        self.step = step

    def on_step_end(self, run):
        if run.step == self.step:
            for callback in run._callbacks:
                if isinstance(callback, Tracker):
                    callback.close = lambda: None
            raise Killed


def run(folder, *, kill=None, tracker=None, **options):
    train, test = line_graphs()
    tracker = tracker or Written()
    callbacks = [tracker, Samples(sound_graph(), every_steps=4, count=1, outputs=["text"])]
    if kill is not None:
        callbacks.append(KillAt(kill))
    settings = {
        "epochs": 2,
        "evaluate": Evaluate(test, every_steps=5),
        "checkpoint": Checkpoint(every_steps=3),
    }
    result = None
    try:
        result = factory(folder=folder).train(train, **{**settings, **options}, callbacks=callbacks)
    except Killed:
        assert kill is not None
    return tracker, result


def test_figures_are_sent_for_steps_epochs_and_evaluations(tmp_path):
    tracker, result = run(tmp_path)
    rows = sent(tmp_path)
    steps = [(step, row) for step, row in rows if "loss" in row]
    assert [step for step, _ in steps] == list(range(1, 11))
    assert [row["loss"] for _, row in steps] == result.losses
    assert steps[0][1].keys() == {"loss", "lr", "norm"}
    assert steps[4][1].keys() == {"loss", "lr", "norm", "error", "points"}
    epochs = [(step, row) for step, row in rows if "epoch_loss" in row]
    assert [(step, row["epoch"]) for step, row in epochs] == [(5, 1), (10, 2)]
    assert [step for step, name in rows if name == "text"] == [4, 8, 10]
    assert tracker.ended is True


@pytest.mark.parametrize("kills", [[1], [2], [3], [4], [5], [7], [10], [4, 5, 8]])
def test_after_kills_every_row_has_been_sent_once(kills, tmp_path):
    """The checkpoints are those of steps 3, 6 and 9: the steps behind them are done twice."""
    run(tmp_path / "whole")
    for kill in kills:
        run(tmp_path / "parts", kill=kill)
    run(tmp_path / "parts")
    whole, parts = sent(tmp_path / "whole"), sent(tmp_path / "parts")
    assert [json.dumps(row) for row in parts] == [json.dumps(row) for row in whole]


def test_rows_that_were_sent_before_a_kill_are_not_sent_again(tmp_path, monkeypatch):
    """As if each row was sent at once, and the kill came behind it."""
    monkeypatch.setattr("neumo.engine.tracking.tracker._ROWS", 1)
    run(tmp_path / "whole")
    run(tmp_path / "parts", kill=5)
    assert [step for step, row in sent(tmp_path / "parts") if "loss" in row] == [1, 2, 3, 4, 5]
    run(tmp_path / "parts")
    assert sent(tmp_path / "parts") == sent(tmp_path / "whole")


class Flaky(Written):
    """Refuses to take anything while `down`, as a server does that is being restarted."""

    def __init__(self, down, **options):
        super().__init__(**options)
        self.down = down
        self.calls = 0

    def refuse(self):
        self.calls += 1
        if self.calls in self.down:
            raise ConnectionError("the server is gone")

    def send(self, rows):
        self.refuse()
        super().send(rows)

    def send_sample(self, sample):
        self.refuse()
        super().send_sample(sample)

    def finish(self, ended):
        self.refuse()
        super().finish(ended)


def test_a_tracker_that_fails_for_a_while_gets_all_figures_later(tmp_path):
    run(tmp_path / "whole")
    _, result = run(tmp_path / "parts", tracker=Flaky(range(1, 4)))
    figures = [
        [row for row in sent(tmp_path / place) if isinstance(row[1], dict)] for place in ("whole", "parts")
    ]
    assert figures[1] == figures[0]
    said = [note for note in result.notes if "Flaky" in note]
    assert said == [
        "Flaky failed, ConnectionError: the server is gone; its figures wait, and are tried again"
    ]


def test_a_tracker_that_never_answers_ends_no_training(tmp_path, monkeypatch):
    monkeypatch.setattr("neumo.engine.tracking.tracker._WAIT", 3)
    _, whole = run(tmp_path / "whole")
    _, result = run(tmp_path / "parts", tracker=Flaky(range(10**6)))
    assert result.losses == whole.losses
    assert not (tmp_path / "parts" / "sent.jsonl").exists()
    assert any("Flaky: 12 rows were never taken; metrics.jsonl has them" in note for note in result.notes)


def test_a_kill_while_a_tracker_does_not_answer_loses_nothing(tmp_path):
    run(tmp_path / "whole")
    run(tmp_path / "parts", tracker=Flaky(range(10**6)), kill=4)
    mark = tmp_path / "parts" / "tracking" / "flaky.json"
    assert json.loads(mark.read_text())["row"] == [-1, 0]


@pytest.mark.parametrize(
    "text", ["", '{"name": "a", "row"', '{"name": "a"}', '{"name": "a", "row": 1, "samples": 2}', "3"]
)
def test_a_broken_mark_is_kept_aside(text, tmp_path):
    run(tmp_path, kill=4)
    (tmp_path / "tracking" / "written.json").write_text(text)
    _, result = run(tmp_path)
    assert (tmp_path / "tracking" / "broken-1-written.json").read_text() == text
    said = "tracking/written.json cannot be read: it is kept as broken-1-written.json"
    assert any(said in note for note in result.notes)
    assert json.loads((tmp_path / "tracking" / "written.json").read_text())["row"] == [10, 1]


def test_a_new_run_in_the_folder_starts_anew(tmp_path):
    run(tmp_path)
    run(tmp_path, resume="never")
    steps = [step for step, row in sent(tmp_path) if "loss" in row]
    assert steps == [*range(1, 11), *range(1, 11)]


def test_a_resumed_run_goes_on_under_its_name(tmp_path):
    run(tmp_path, kill=4)
    name = json.loads((tmp_path / "tracking" / "written.json").read_text())["name"]

    class Renamed(Written):
        def open(self, run, folder, known):
            self.known = known
            return super().open(run, folder, known)

    Renamed.__name__ = "Written"
    tracker, _ = run(tmp_path, tracker=Renamed())
    assert tracker.known == name == "name-3"


def test_only_every_so_many_steps_are_sent_but_every_evaluation(tmp_path):
    run(tmp_path, tracker=Written(every_steps=4))
    rows = sent(tmp_path)
    assert [step for step, row in rows if "loss" in row] == [4, 8]
    assert [step for step, row in rows if "error" in row] == [5, 10]


def test_a_training_that_fails_ends_its_tracker(tmp_path):
    class Fail(Callback):
        def on_step_end(self, run):
            raise RuntimeError("a bug")

    tracker = Written()
    with pytest.raises(RuntimeError, match="a bug"):
        factory(folder=tmp_path).train(line_graphs()[0], epochs=1, callbacks=[tracker, Fail()])
    assert tracker.ended is False


@pytest.mark.parametrize("kind", [TensorBoard, WandB, MLflow])
def test_a_tracker_whose_package_is_absent_names_the_extra(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name in kind.packages else find_spec(name)
    )
    extra = kind.extra
    with refused(BackendError, rf"needs the package \w+, which is not installed.*neumo\[{extra}\]"):
        factory(folder=tmp_path).train(line_graphs()[0], max_steps=1, callbacks=[kind()])


def test_trackers_need_a_folder_and_a_rhythm():
    with refused(ConfigError, "Written needs a folder"):
        factory().train(line_graphs()[0], max_steps=1, callbacks=[Written()])
    with refused(ConfigError, "every_steps=0 is below 1"):
        Written(every_steps=0)
    with refused(ConfigError, "did you mean 'offline'"):
        WandB(mode="ofline")


def installed(package):
    return pytest.mark.skipif(
        find_spec(package) is None, reason=f"{package} is not part of the development install: it is large"
    )


foreign = pytest.mark.filterwarnings("default")  # what other packages warn of is not ours


@foreign
@installed("tensorboard")
def test_tensorboard_reads_what_was_written(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train, test = line_graphs()
    samples = Samples(sound_graph(), every_epochs=2, count=1)
    factory(folder=tmp_path).train(
        train, epochs=2, evaluate=test, callbacks=[TensorBoard(), samples], checkpoint=False
    )
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == list(range(1, 11))
    assert [event.step for event in events.Scalars("error")] == [5, 10]
    (picture,) = events.Images("samples/mel-0")
    assert (picture.width, picture.height) == (8 * 19, 5 * 19)
    assert picture.encoded_image_string == (tmp_path / "samples/step-00000010/mel-0.png").read_bytes()
    (sound,) = events.Audio("samples/audio-0")
    assert (sound.sample_rate, sound.content_type) == (8000, "audio/wav")
    assert events.Tensors("samples/text")[0].tensor_proto.string_val == [b"- sound-0\tbcd"]


@foreign
@installed("tensorboard")
def test_tensorboard_forgets_a_run_that_was_started_anew(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for _ in range(2):  # without checkpoints the second run starts at step 0, too
        factory(folder=tmp_path).train(
            line_graphs()[0], epochs=1, callbacks=[TensorBoard()], checkpoint=False
        )
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [event.step for event in events.Scalars("loss")] == [1, 2, 3, 4, 5]


@foreign
@installed("wandb")
def test_wandb_writes_offline_and_resumes_under_one_id(tmp_path):
    for steps in (3, 6):
        factory(folder=tmp_path).train(
            line_graphs()[0],
            max_steps=steps,
            callbacks=[WandB(project="toys"), Samples(sound_graph(), count=1)],
        )
    runs = sorted((tmp_path / "wandb").glob("offline-run-*"))
    assert len({path.name.rpartition("-")[2] for path in runs}) == 1
    files = {path.suffix for run in runs for path in run.rglob("*")}
    assert {".wandb", ".png", ".wav"} <= files


@foreign
@installed("mlflow")
@pytest.mark.parametrize("uri", ["", "file:"])
def test_mlflow_keeps_one_run_in_a_local_store(uri, tmp_path):
    from mlflow import MlflowClient

    place = f"file:{tmp_path / 'mlruns'}" if uri else f"sqlite:///{tmp_path / 'mlflow.db'}"
    for steps in (3, 6):
        tracker = MLflow(uri=place if uri else "", experiment="toys")
        callbacks = [tracker, Samples(sound_graph(), every_steps=3, count=1)]
        factory(folder=tmp_path / "run").train(line_graphs()[0], max_steps=steps, callbacks=callbacks)
    client = MlflowClient(tracking_uri=place)
    experiment = client.get_experiment_by_name("toys")
    (run,) = client.search_runs([experiment.experiment_id])
    assert [m.step for m in client.get_metric_history(run.info.run_id, "loss")] == [1, 2, 3, 4, 5, 6]
    assert run.info.status == "FINISHED"
    assert run.data.params["seed"] == "3"
    names = [each.path for each in client.list_artifacts(run.info.run_id, "samples/step-00000003")]
    assert "samples/step-00000003/mel-0.png" in names
