"""Recordings of all kinds through train, evaluate and transcribe, not the reader alone."""

import json

import numpy as np
import pytest
import soundfile

from neumo.engine import Callback, NeuralFactory
from neumo.engine.recipes import run_train
from neumo.graph.yaml import load_recipe
from neumo.hub import load_model, save_model
from neumo.types import DataError

from ..cli.toy_speech import make_toy, speak

RATE = 16000
SAMPLES = np.round(speak("a b c a") * 32768) / 32768
LOSSLESS = {
    "pcm16": {"subtype": "PCM_16"},
    "pcm24": {"subtype": "PCM_24"},
    "pcm32": {"subtype": "PCM_32"},
    "float": {"subtype": "FLOAT"},
    "double": {"subtype": "DOUBLE"},
    "extensible": {"format": "WAVEX", "subtype": "PCM_24"},
    "rf64": {"format": "RF64"},
    "w64": {"format": "W64"},
    "aiff": {"format": "AIFF"},
    "flac": {"format": "FLAC"},
}
LOSSY = {
    "pcm8": {"subtype": "PCM_U8"},
    "mp3 called wav": {"format": "MP3"},
    "ogg": {"format": "OGG"},
    "opus": {"format": "OGG", "subtype": "OPUS"},
}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return make_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def model(toy):
    path = toy.parent / "m.neumo"
    save_model(path, load_recipe(toy), NeuralFactory(seed=3, progress=False, device="cpu"))
    return load_model(path, device="cpu")


def write(path, samples=SAMPLES, rate=RATE, **options):
    soundfile.write(path, samples, rate, **options)
    return path


@pytest.mark.parametrize("name", LOSSLESS)
def test_the_same_samples_in_any_container_give_the_same_text(model, tmp_path, name):
    path = write(tmp_path / "a.wav", **{"format": "WAV", **LOSSLESS[name]})
    assert model.transcribe(path)[0].text == model.transcribe(SAMPLES.astype(np.float32))[0].text


def test_one_of_eight_channels_gives_the_text_of_that_channel(model, tmp_path):
    eight = np.zeros((len(SAMPLES), 8))
    eight[:, 5] = SAMPLES
    path = write(tmp_path / "a.wav", eight, subtype="PCM_16")
    assert model.transcribe(path, channels=5)[0].text == model.transcribe(SAMPLES.astype(np.float32))[0].text
    with pytest.raises(DataError, match=r"8\s+channels,\s+expected 1"):
        model.transcribe(path)


def recipe_of(toy, folder, rows, *words):
    lines = folder / "lines.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = [f"modules.data.manifest={lines}", "train.epochs=2", "train.evaluate=[]"]
    return load_recipe(toy, [*given, *words])


def go(recipe, folder, **options):
    factory = NeuralFactory(seed=3, progress=False, device="cpu", folder=folder / "run")
    return run_train(recipe, factory=factory, **options), factory.source(recipe.modules["data"]).report()


def test_recordings_of_all_kinds_rates_and_lengths_are_trained_on(toy, tmp_path):
    rows = []
    for name, options in {**LOSSLESS, **LOSSY}.items():
        write(tmp_path / f"{name}.wav", **{"format": "WAV", **options})
        rows.append({"audio_filepath": f"{name}.wav", "text": "a b c a"})
    for rate in (8000, 44100, 48000):
        write(tmp_path / f"{rate}.wav", rate=rate)
        rows.append({"audio_filepath": f"{rate}.wav", "text": "a"})
    for length in (1, 10, 100, 399):
        write(tmp_path / f"short{length}.wav", SAMPLES[:length])
        rows.append({"audio_filepath": f"short{length}.wav", "text": ""})
    result, report = go(recipe_of(toy, tmp_path, rows), tmp_path)
    assert all(np.isfinite(row["loss"]) for row in result.history)
    assert not result.skipped
    assert report.kept + sum(dropped.count for dropped in report.dropped) == len(rows)
    assert report.resampled == {8000: 1, 44100: 1, 48000: 1}


class Removes(Callback):
    def __init__(self, path):
        self.path = path

    def on_epoch_end(self, run):
        self.path.unlink(missing_ok=True)


@pytest.fixture
def rows(tmp_path):
    for number in range(4):
        write(tmp_path / f"{number}.wav")
    return [{"audio_filepath": f"{number}.wav", "text": "a"} for number in range(4)]


def test_a_file_that_is_deleted_after_the_first_epoch_is_named(toy, tmp_path, rows):
    recipe = recipe_of(toy, tmp_path, rows, "modules.data.cache=off")
    with pytest.raises(DataError) as caught:
        go(recipe, tmp_path, callbacks=[Removes(tmp_path / "2.wav")])
    assert caught.value.code == "audio-missing"
    assert str(caught.value.where) == f"{tmp_path}/lines.jsonl:3"
    assert any("on_bad" in fix.text for fix in caught.value.fixes)


def test_a_file_that_is_deleted_is_left_out_and_counted_where_that_is_allowed(toy, tmp_path, rows):
    words = ["modules.data.cache=off", "modules.data.on_bad=skip", "modules.data.max_bad_share=0.3"]
    recipe = recipe_of(toy, tmp_path, rows, *words)
    result, report = go(recipe, tmp_path, callbacks=[Removes(tmp_path / "2.wav")])
    assert report.kept == 3
    assert any("dropped 1" in note and "2.wav" in note for note in result.notes)
    assert "2.wav" in (tmp_path / "run" / "data" / "dropped.tsv").read_text()


def test_too_many_of_them_end_the_training(toy, tmp_path, rows):
    words = ["modules.data.cache=off", "modules.data.on_bad=skip", "modules.data.max_bad_share=0.2"]
    with pytest.raises(DataError, match="1 of 4 recordings are bad"):
        go(recipe_of(toy, tmp_path, rows, *words), tmp_path, callbacks=[Removes(tmp_path / "2.wav")])
