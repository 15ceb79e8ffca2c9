"""What users do wrong with folders, options, models and data: said before time is lost, with the way out."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from neumo.engine import NeuralFactory
from neumo.engine.tracking import read_log
from neumo.graph.yaml import load_recipe
from neumo.hub import load_model, save_model
from neumo.hub.archive import CARD, RECIPE, WEIGHTS, Archive, write_archive

from .runner import neumo, process
from .toy_speech import make_toy


@pytest.fixture(scope="module")
def toy(tmp_path_factory) -> Path:
    return make_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def model(toy) -> Path:
    return save_model(
        toy.parent / "m.neumo", load_recipe(toy), NeuralFactory(progress=False, device="cpu", seed=3)
    )


def train(capsys, toy, folder, *words):
    options = ["train.epochs=null", "train.max_steps=1", "train.evaluate=[]", "--folder", str(folder)]
    return neumo(capsys, "train", str(toy), *options, *words)


# --- run folders


def test_resume_of_a_folder_without_a_training_is_refused(toy, tmp_path, capsys):
    assert train(capsys, toy, tmp_path / "mine").code == 0
    result = train(capsys, toy, tmp_path / "main", "--resume")
    assert result.code == 1
    assert f"there is no training in {tmp_path}/main to go on with" in " ".join(result.err.split())
    assert f"--folder {tmp_path}/mine" in result.err
    assert not (tmp_path / "main").exists()


def test_resume_of_a_training_that_reached_no_checkpoint_starts_it_again(toy, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").write_text('{"step": 1}\n')
    assert train(capsys, toy, tmp_path / "run", "--resume").code == 0
    assert [row["step"] for row in read_log(tmp_path / "run" / "metrics.jsonl") if "event" not in row] == [1]


def test_a_training_that_is_over_is_not_begun_anew_where_its_checkpoints_are_gone(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(capsys, toy, run).code == 0
    shutil.rmtree(run / "checkpoints")
    before = (run / "metrics.jsonl").read_bytes(), (run / "model.neumo").read_bytes()
    for words in (["--resume"], []):
        refused = train(capsys, toy, run, "train.max_steps=2", *words)
        assert refused.code == 1
        said = " ".join(refused.err.split())
        assert f"{run} holds a training and none of its checkpoints" in said
        assert f"a new one would write over {run}/model.neumo" in said
        assert "train.resume=never" in said
    assert before == ((run / "metrics.jsonl").read_bytes(), (run / "model.neumo").read_bytes())
    (run / "model.neumo").unlink()
    assert "write over the log of 1 steps" in " ".join(train(capsys, toy, run, "--resume").err.split())
    assert train(capsys, toy, run, "train.resume=never").code == 0
    assert (run / "earlier-1" / "metrics.jsonl").read_bytes() == before[0]


def test_a_resume_that_trains_nothing_leaves_the_recipe_alone(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(capsys, toy, run, "train.max_steps=2").code == 0
    first = (run / "recipe.yaml").read_text()
    over = train(capsys, toy, run, "--resume", "train.max_steps=1", "train.clip=0.5")
    assert over.code == 0
    assert "nothing left to train" in over.out
    assert (run / "recipe.yaml").read_text() == first
    assert not (run / "recipe-1.yaml").exists()


def test_what_belongs_to_one_command_makes_no_other_recipe(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(capsys, toy, run, "train.checkpoint={every_steps: 1}", "--max-time", "1h").code == 0
    again = train(capsys, toy, run, "--resume", "train.max_steps=2", "train.checkpoint={keep_last: 3}")
    said = " ".join((again.out + again.err).split())
    assert "train.max_steps was 1 and is 2 " in said + " "
    assert "max_minutes" not in said
    assert "train.checkpoint" not in said
    last = train(capsys, toy, run, "--resume", "train.max_steps=2", "--max-time", "2h")
    assert "the recipe is not the one" not in last.out + last.err
    assert [path.name for path in sorted(run.glob("recipe*"))] == ["recipe-1.yaml", "recipe.yaml"]


def test_the_time_limit_says_how_to_go_on_in_words_of_the_command(toy, tmp_path, capsys):
    run = tmp_path / "run"
    result = train(capsys, toy, run, "train.max_steps=50", "--max-time", "0.001s")
    assert result.code == 0
    assert "resume='auto'" not in result.out + result.err
    assert f"--folder {run} --resume" in result.err.splitlines()[-1]
    assert "the training is not over" in result.out


def test_another_seed_is_refused_in_words_of_the_command(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(capsys, toy, run).code == 0
    refused = train(capsys, toy, run, "--resume", "train.max_steps=2", "factory.seed=4")
    assert refused.code == 1
    assert "factory.seed=3\n" in refused.err
    assert "train.resume=never starts anew" in refused.err
    assert "NeuralFactory" not in refused.err
    other = train(
        capsys, toy, run, "--resume", "train.max_steps=2", "modules.encoder.width=32", "modules.head.width=32"
    )
    assert other.code == 1
    assert "partial=True" not in other.err


def test_resume_with_another_recipe_says_so_and_keeps_the_first(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(capsys, toy, run).code == 0
    first = (run / "recipe.yaml").read_text()
    same = train(capsys, toy, run, "--resume")
    assert "the recipe is not the one" not in same.out
    other = train(capsys, toy, run, "--resume", "train.max_steps=2", "train.clip=0.5")
    assert other.code == 0
    said = " ".join((other.out + other.err).split())
    assert f"that one is now {run}/recipe-1.yaml" in said
    assert "train.clip was 1.0 and is 0.5" in said
    assert "train.max_steps was 1 and is 2" in said
    assert (run / "recipe-1.yaml").read_text() == first
    assert "clip: 0.5" in (run / "recipe.yaml").read_text()


def test_a_resume_that_is_refused_leaves_the_recipe_alone(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(capsys, toy, run).code == 0
    first = (run / "recipe.yaml").read_text()
    refused = train(capsys, toy, run, "--resume", "train.max_steps=2", "train.optimizer={kind: SGD, lr: 0.1}")
    assert refused.code == 1
    assert (run / "recipe.yaml").read_text() == first
    assert not (run / "recipe-1.yaml").exists()


def test_the_recipe_may_say_that_a_training_starts_anew(toy, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(capsys, toy, run).code == 0
    assert train(capsys, toy, run, "train.resume=never").code == 0
    assert (run / "earlier-1" / "checkpoints").is_dir()
    result = train(capsys, toy, tmp_path / "other", "train.resume=nowhere")
    assert result.code == 1
    assert "there is no checkpoint nowhere" in result.err


@pytest.mark.parametrize("name", ["a-file", "a-file/run", "/proc/run"])
def test_a_folder_that_cannot_be_made_is_said_before_the_data_is_read(toy, tmp_path, capsys, name):
    (tmp_path / "a-file").write_text("")
    result = train(capsys, toy, tmp_path / name)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("ConfigError[run-folder]: cannot write to the run folder")
    assert "--folder ANOTHER" in result.err
    if name.startswith("a-file"):
        assert f"{tmp_path}/a-file is a file" in " ".join(result.err.split())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"RANK": "x"}, "RANK='x' is not a number from 0 to 1"),
        ({"RANK": "5"}, "RANK=5 is not the number of one of 2 processes"),
        ({"WORLD_SIZE": "two"}, "WORLD_SIZE='two' is not a number of at least 1"),
        ({"LOCAL_RANK": "-1"}, "LOCAL_RANK='-1' is not a number from 0 to 1"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT='70000' is not a number from 1 to 65535"),
        ({"MASTER_ADDR": ""}, "MASTER_ADDR is empty"),
        ({"RANK": None}, "but not RANK: each process would train by itself"),
        ({"WORLD_SIZE": None, "RANK": "1"}, "but not WORLD_SIZE"),
    ],
)
def test_variables_of_a_launcher_that_cannot_be_meant_are_refused_at_once(
    toy, tmp_path, capsys, monkeypatch, changes, said
):
    whole = {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29511",
    }
    for name, value in {**whole, **changes}.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    result = train(capsys, toy, tmp_path / "run")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("ConfigError[launch]")
    assert said in " ".join(result.err.split())
    assert "neumo train RECIPE --processes N" in result.err
    assert not (tmp_path / "run").exists()


def test_a_dry_run_computes_in_the_precision_of_the_training(toy, capsys):
    figures = set()
    for precision in ("fp32", "bf16", "pure-bf16"):
        words = [f"factory.precision={precision}", "factory.allow=[emulated-bf16]", "train.evaluate=[]"]
        result = neumo(capsys, "train", str(toy), "--dry-run", *words)
        assert result.code == 0, result.err
        (ran,) = [line for line in result.out.splitlines() if line.startswith("ran train")]
        figures.add(ran.partition(" s: ")[2])
    assert len(figures) == 3
    half = ["factory.precision=fp16", "factory.allow=[fp16-on-cpu]"]
    assert neumo(capsys, "train", str(toy), "--dry-run", *half).code == 0


def test_a_dry_run_refuses_what_the_training_would(toy, capsys):
    result = neumo(capsys, "train", str(toy), "--dry-run", "train.loss_scale=12")
    assert result.code == 1
    assert "fix      leave train.loss_scale out" in result.err or "leave loss_scale out" in result.err
    assert "factory.precision=fp16" in result.err


def test_a_dry_run_refuses_to_go_on_where_the_training_would(toy, tmp_path, capsys):
    run = tmp_path / "run"
    result = train(capsys, toy, run, "--dry-run", "--resume")
    assert result.code == 1
    assert "there is no training in" in result.err
    assert not run.exists()
    assert train(capsys, toy, run).code == 0
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    for words, said in (
        (["--resume", "train.optimizer.kind=Adam"], "not with Adam"),
        (["--resume", "factory.seed=77"], "this factory has seed 77"),
        ([], "holds a training already"),
    ):
        result = train(capsys, toy, run, "--dry-run", *words)
        assert result.code == 1
        assert said in " ".join(result.err.split())
    result = train(capsys, toy, run, "--dry-run", "--resume", "train.max_steps=3")
    assert result.code == 0, result.err
    assert "step-00000001: step 1" in " ".join(result.out.split())
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_a_dry_run_refuses_phases_that_leave_a_module_untrained(toy, tmp_path, capsys):
    phases = "train.phases=[{loss: loss, trains: [encoder], optimizer: {kind: AdamW, lr: 2e-4}}]"
    result = train(capsys, toy, tmp_path / "run", "--dry-run", phases, "train.optimizer=null")
    assert result.code == 1
    assert "no phase trains" in " ".join(result.err.split())


def test_a_dry_run_freezes_what_the_training_does(toy, tmp_path, capsys):
    """Else it would refuse a resume, for weights that are frozen in the checkpoint only."""
    assert train(capsys, toy, tmp_path / "run", "train.freeze=[encoder]").code == 0
    words = ["--dry-run", "--resume", "train.max_steps=2"]
    result = train(capsys, toy, tmp_path / "run", "train.freeze=[encoder]", *words)
    assert result.code == 0, result.err
    result = train(capsys, toy, tmp_path / "run", *words)
    assert result.code == 1
    assert "was trained with other weights frozen or tied" in " ".join(result.err.split())


def test_a_manifest_that_is_given_twice_is_not_counted_twice(model, toy, capsys):
    lines = str(toy.parent / "train.jsonl")
    for more in ([], ["--each"]):
        result = neumo(capsys, "evaluate", str(model), "--manifest", lines, "--manifest", lines, *more)
        assert result.code == 1
        assert "is given twice" in " ".join(result.err.split())


# Ctrl-C right behind the third checkpoint, by the process itself: no clock decides when it arrives.
INTERRUPTING = """
import os, signal
from neumo.engine.checkpoints.store import CheckpointStore

write, written = CheckpointStore.write, []

def interrupted(self, *args, **kwargs):
    saved = write(self, *args, **kwargs)
    written.append(saved)
    if len(written) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    return saved

CheckpointStore.write = interrupted
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may have it ignored
"""


def test_ctrl_c_says_how_to_go_on_and_going_on_loses_nothing(toy, tmp_path):
    run, whole, plugin = tmp_path / "run", tmp_path / "whole", tmp_path / "interrupting.py"
    plugin.write_text(INTERRUPTING)
    words = ["train", str(toy), "train.epochs=6", "modules.data.batch_size=16", "train.evaluate=[]"]
    first = process("--import", str(plugin), *words, "--folder", str(run))
    assert first.code == 130
    assert "Traceback" not in first.err
    again = f"neumo {' '.join(words)} --folder {run} --resume".replace(
        "train.evaluate=[]", "'train.evaluate=[]'"
    )
    assert first.err.splitlines()[-2:] == [f"to go on from the last checkpoint: {again}", "interrupted"]
    assert process(*words, "--folder", str(run), "--resume").code == 0
    assert process(*words, "--folder", str(whole)).code == 0
    rows = [
        [row for row in read_log(one / "metrics.jsonl") if row.get("event") != "note"] for one in (run, whole)
    ]
    assert rows[0] == rows[1]


# --- what `check` refuses, so that nobody waits for the data first


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("train.epochs=0", "epochs=0 is not above 0"),
        ("train.clip=-1", "clip=-1.0 is not above 0"),
        ("train.ema=2", "decay=2.0 is not in [0, 1)"),
        ("train.max_minutes=0", "max_minutes=0.0 is not above 0"),
        ("train.bad_limit=0", "bad_limit=0 is not above 0"),
        ("train.evaluate={every_epochs: 0}", "every_epochs=0 is below 1"),
        ("train.graph=infer", "graph 'infer' is for inference, so it cannot be trained"),
        ("train.loss=nope", "has no output 'nope'"),
        ("factory.seed=-1", "seed=-1 is below 0"),
        ("factory.workers=-1", "workers=-1 is below 0"),
        ("factory.allow=[fp16-on-cpus]", "did you mean 'fp16-on-cpu'?"),
        ("train.early_stop={metric: wer, patience: 0}", "patience=0 is below 1"),
        ("train.early_stop={metric: wre}", "no evaluation gives that figure"),
        ("train.evaluate={best: wre}", "did you mean 'wer'?"),
    ],
)
def test_check_refuses_what_train_would_refuse(toy, tmp_path, capsys, word, said):
    for verb in (["check", str(toy), word], ["train", str(toy), word, "--folder", str(tmp_path / "run")]):
        result = neumo(capsys, *verb)
        assert (result.code, result.out) == (1, "")
        assert said in " ".join(result.err.split())


def test_a_recipe_that_does_not_say_for_how_long_can_be_checked(toy, capsys):
    assert neumo(capsys, "check", str(toy), "train.epochs=null").code == 0


# --- data


def manifest_of(folder: Path, *rows: dict) -> Path:
    path = folder / "these.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_training_in_which_no_text_fits_its_recording_is_no_success(toy, tmp_path, capsys):
    soundfile.write(tmp_path / "a.wav", np.zeros(8000), 16000)
    lines = manifest_of(tmp_path, *({"audio_filepath": "a.wav", "text": "abc" * 50} for _ in range(4)))
    # The speed changes the lengths, so the filter before the training cannot know them.
    text = toy.read_text().replace(
        "modules:", "modules:\n  speed: {kind: SpeedPerturb, factors: [0.9, 1.1]}", 1
    )
    text = text.replace(
        "      frames: mel(audio=batch.audio, audio_len=batch.audio_len)",
        "      fast: speed(audio=batch.audio, audio_len=batch.audio_len)\n"
        "      frames: mel(audio=fast.audio, audio_len=fast.audio_len)",
        1,
    )
    (toy.parent / "fast.yaml").write_text(text)
    words = [f"modules.data.manifest={lines}", "train.max_steps=2"]  # two batches: an epoch
    result = train(capsys, toy.parent / "fast.yaml", tmp_path / "run", *words)
    assert result.code == 1
    assert "the loss had to leave out every utterance of the epoch" in result.err
    assert not (tmp_path / "run" / "model.neumo").exists()


def test_what_breaks_while_training_is_told_at_the_end(toy, tmp_path, capsys):
    broken = np.zeros(8000, np.float32)
    broken[100] = np.nan
    soundfile.write(tmp_path / "nan.wav", broken, 16000, subtype="FLOAT")
    soundfile.write(tmp_path / "loud.wav", np.linspace(-2, 2, 8000), 16000, subtype="FLOAT")
    rows = [{"audio_filepath": str(toy.parent / f"train-{n}.flac"), "text": "a"} for n in range(4)]
    lines = manifest_of(
        tmp_path, *rows, *({"audio_filepath": f"{n}.wav", "text": "a"} for n in ("nan", "loud"))
    )
    words = [f"modules.data.manifest={lines}", "modules.data.on_bad=skip", "modules.data.max_bad_share=0.5"]
    result = train(capsys, toy, tmp_path / "run", *words, "train.max_steps=3")
    assert result.code == 0
    said = " ".join(result.err.split())
    assert "dropped 1 (0.00 h): bad recording (values): nan.wav" in said
    assert "1 with samples outside -1 to 1, clipped: loud.wav" in said
    assert "5 utterances" in load_model(tmp_path / "run" / "model.neumo").card.data["data"]


def test_a_bad_recording_comes_with_the_way_on(toy, tmp_path, capsys):
    lines = manifest_of(tmp_path, {"audio_filepath": "none.wav", "text": "a"})
    result = train(capsys, toy, tmp_path / "run", f"modules.data.manifest={lines}")
    assert result.code == 1
    assert 'on_bad="skip" leaves bad recordings out, counts and names them' in " ".join(result.err.split())


def test_a_file_that_goes_away_after_the_report_is_named_with_its_line(toy, tmp_path, capsys, monkeypatch):
    soundfile.write(tmp_path / "gone.wav", np.zeros(8000), 16000)
    lines = manifest_of(tmp_path, {"audio_filepath": "gone.wav", "text": "a"})
    monkeypatch.setattr("neumo.engine.recipes.run_train", _after(tmp_path / "gone.wav"))
    result = train(capsys, toy, tmp_path / "run", f"modules.data.manifest={lines}")
    assert result.code == 1
    said = " ".join(result.err.split())
    assert f"there is no file {tmp_path}/gone.wav" in said
    assert f"{lines}:1" in said


def _after(path: Path):
    from neumo.engine.recipes import run_train

    def gone(*words, **options):
        path.unlink()
        return run_train(*words, **options)

    return gone


# --- evaluate and transcribe


def test_evaluate_names_the_line_of_a_bad_recording(model, tmp_path, capsys):
    lines = manifest_of(tmp_path, {"audio_filepath": "none.wav", "text": "a"})
    result = neumo(capsys, "evaluate", str(model), "--manifest", str(lines))
    assert result.code == 1
    assert f"{lines}:1: there is no file" in " ".join(result.err.split())


def test_evaluate_says_that_the_case_of_the_references_is_not_the_models(model, toy, tmp_path, capsys):
    sound = str(toy.parent / "dev-0.flac")
    lines = manifest_of(
        tmp_path, {"audio_filepath": sound, "text": "A B"}, {"audio_filepath": sound, "text": "c"}
    )
    result = neumo(capsys, "evaluate", str(model), "--manifest", str(lines))
    assert result.code == 0
    assert "1 of 2 references use characters that the model never writes: 'A' 1x, 'B' 1x" in result.out
    assert "in lower case" in result.out
    told = json.loads(neumo(capsys, "evaluate", str(model), "--manifest", str(lines), "--json").out)["notes"]
    assert len(told) == 2
    basic = neumo(capsys, "evaluate", str(model), "--manifest", str(lines), "--normaliser", "basic")
    assert "never writes" not in basic.out


@pytest.mark.parametrize("name", ["no/such/folder.jsonl", "."])
def test_evaluate_refuses_an_output_that_cannot_be_written_before_it_measures(
    model, toy, tmp_path, capsys, name, monkeypatch
):
    monkeypatch.setattr("neumo.cli.evaluate.measure", None)
    words = ["--manifest", str(toy.parent / "dev.jsonl"), "--utterances", str(tmp_path / name)]
    result = neumo(capsys, "evaluate", str(model), *words)
    assert result.code == 1
    assert result.err.startswith("ConfigError[output]: cannot write")


def test_evaluate_shows_no_negative_number_of_utterances(model, toy, capsys):
    words = ["evaluate", str(model), "--manifest", str(toy.parent / "dev.jsonl"), "--show", "-1"]
    assert neumo(capsys, *words).code == 2


def test_transcribe_names_its_own_option_for_channels(model, tmp_path, capsys):
    soundfile.write(tmp_path / "two.wav", np.zeros((8000, 2)), 16000)
    result = neumo(capsys, "transcribe", str(model), str(tmp_path / "two.wav"))
    assert result.code == 1
    assert "--channels mix (their mean), first or a number" in result.err


# --- model files


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"/etc/hostname", "a recipe is a mapping of sections"),
        (b"", "the recipe is empty"),
        (b"\xff\xfe\x00", "recipe.yaml in it is no UTF-8 text"),
        (b"a: " + b"[" * 5000, "nested deeper than 40 levels"),
    ],
)
@pytest.mark.parametrize("verb", ["check", "show", "transcribe"])
def test_the_recipe_in_a_model_file_is_never_taken_for_a_path(model, tmp_path, capsys, verb, text, said):
    archive = Archive(model)
    members = {RECIPE: text, WEIGHTS: archive.read(WEIGHTS), CARD: archive.read(CARD)}
    write_archive(tmp_path / "bad.neumo", members)
    result = neumo(capsys, verb, str(tmp_path / "bad.neumo"), *(["a.wav"] if verb == "transcribe" else []))
    assert result.code == 1
    assert said in " ".join(result.err.split())


def test_a_mistake_in_a_model_file_is_shown_with_the_name_of_the_file(model, tmp_path, capsys):
    archive = Archive(model)
    members = {RECIPE: archive.text(RECIPE).replace("kind: CTCHead", "kind: Nothing").encode()}
    members |= {WEIGHTS: archive.read(WEIGHTS), CARD: archive.read(CARD)}
    write_archive(tmp_path / "bad.neumo", members)
    result = neumo(capsys, "transcribe", str(tmp_path / "bad.neumo"), "a.wav")
    assert f"{tmp_path}/bad.neumo/recipe.yaml:" in "".join(result.err.split())


def test_a_model_of_nan_is_refused_and_does_not_answer_with_nothing(toy, tmp_path, capsys):
    recipe, factory = load_recipe(toy), NeuralFactory(progress=False, device="cpu", seed=3)
    arrays = factory.weights(recipe.graph("infer"))
    name = next(name for name in arrays if name.startswith("head."))
    factory.load_weights(recipe.graph("infer"), {**arrays, name: arrays[name] * np.nan})
    path = save_model(tmp_path / "nan.neumo", recipe, factory)
    result = neumo(capsys, "transcribe", str(path), str(toy.parent / "dev-0.flac"))
    assert result.code == 1
    assert "are not finite (NaN or infinity)" in " ".join(result.err.split())
    assert name in result.err


def test_a_list_from_windows_is_read(model, toy):
    lines = f"\ufeff{toy.parent}/dev-0.flac\r\n{toy.parent}/dev-1.flac\r\n"
    result = process("transcribe", str(model), "-", text=lines)
    assert result.code == 0, result.err
    assert [line.partition("\t")[0] for line in result.out.splitlines()] == lines[1:].split()


def test_lines_that_name_one_recording_twice_are_noticed(toy, tmp_path, capsys):
    rows = [{"audio_filepath": str(toy.parent / f"train-{n}.flac"), "text": "a"} for n in (0, 1, 0, 0)]
    pieces = [{**rows[0], "offset": at, "duration": 0.1} for at in (0.0, 0.1)]
    result = train(
        capsys, toy, tmp_path / "run", f"modules.data.manifest={manifest_of(tmp_path, *rows, *pieces)}"
    )
    assert "note: 2 lines name a recording that an earlier line names already" in result.out


def test_the_presets_of_a_module_are_named(capsys):
    told = neumo(capsys, "describe", "ConvEncoder").out
    assert "quartznet_15x5" in told
    assert "jasper_10x5dr" in told


# --- what a terminal is not


def test_nothing_is_coloured_or_redrawn_in_a_pipe(toy, model, tmp_path):
    sounds = [str(toy.parent / f"dev-{n}.flac") for n in range(3)]
    for words in (
        ["train", str(toy), "train.epochs=1", "--folder", str(tmp_path / "run")],
        ["evaluate", str(model), "--manifest", str(toy.parent / "dev.jsonl")],
        ["transcribe", str(model), *sounds],
        ["check", str(toy)],
        ["show", str(toy)],
    ):
        result = process(*words)
        assert result.code == 0
        assert not {"\x1b", "\r"} & set(result.out + result.err)
