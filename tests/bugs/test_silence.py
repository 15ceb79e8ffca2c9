"""Silence ended in `max()` of an empty sequence, or in invented sentences."""

import json

import numpy as np
import pytest
import soundfile

from neumo.engine import NeuralFactory
from neumo.graph.yaml import load_recipe
from neumo.hub import save_model

from ..cli.runner import neumo
from ..cli.toy_speech import make_toy, speak

RATE = 16000


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    recipe = load_recipe(make_toy(folder))
    return save_model(folder / "m.neumo", recipe, NeuralFactory(seed=3, progress=False, device="cpu"))


def noise(decibels: float) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(int(6.6 * RATE)) * 10 ** (decibels / 20)


QUIET = {
    "zeros": np.zeros(int(6.6 * RATE)),
    "noise at -60 dB": noise(-60),
    "a constant": np.full(RATE, 0.001),
    "one sample": np.zeros(1),
    "ten milliseconds": speak("a")[:160],
}


@pytest.mark.parametrize("name", QUIET)
def test_silence_gives_empty_text_and_exit_0(model, tmp_path, capsys, name):
    soundfile.write(tmp_path / "a.wav", QUIET[name], RATE, subtype="FLOAT")
    result = neumo(capsys, "transcribe", str(model), str(tmp_path / "a.wav"))
    assert (result.code, result.out, result.err) == (0, "\n", "")
    told = json.loads(neumo(capsys, "transcribe", str(model), str(tmp_path / "a.wav"), "--json").out)
    assert told["text"] == ""
    assert told["silent"] is True


def test_silence_can_be_evaluated_and_among_others_changes_nothing(model, tmp_path, capsys):
    soundfile.write(tmp_path / "quiet.wav", QUIET["zeros"], RATE)
    soundfile.write(tmp_path / "said.wav", speak("a b c"), RATE)
    line = {"audio_filepath": "quiet.wav", "text": ""}
    (tmp_path / "m.jsonl").write_text(json.dumps(line) + "\n")
    found = json.loads(
        neumo(capsys, "evaluate", str(model), "--manifest", str(tmp_path / "m.jsonl"), "--json").out
    )
    assert found["words"]["rate"] == 0
    alone = neumo(capsys, "transcribe", str(model), str(tmp_path / "said.wav")).out.strip()
    both = neumo(
        capsys, "transcribe", str(model), str(tmp_path / "quiet.wav"), str(tmp_path / "said.wav")
    ).out
    assert both.splitlines()[1] == f"{tmp_path}/said.wav\t{alone}"
