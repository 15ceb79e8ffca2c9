"""`neumo quickstart`: the whole way in small, its parts, and once in full."""

from __future__ import annotations

import json
import os
from functools import partial

import numpy as np
import pytest

from neumo.asr import corpus as corpora
from neumo.cli import threads
from neumo.cli.picture import spectrogram
from neumo.cli.quickstart import _recipe, _refusal
from neumo.hub import load_model

from .runner import neumo, process

pytest.importorskip("espeakng_loader")


@pytest.fixture
def small(monkeypatch):
    """A corpus of a few seconds, and no change to the environment."""
    monkeypatch.setattr(corpora, "DigitCorpus", partial(corpora.DigitCorpus, train=16, evaluate=4))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    settings = corpora.DigitCorpus(train=2, evaluate=1)
    made = corpora.generate_digits(tmp_path_factory.mktemp("a 'b' {c}") / "corpus", settings, workers=1)
    return _recipe(made, 7)


def test_every_step_is_told_and_a_bad_recogniser_is_a_failure(small, tmp_path, capsys):
    folder = tmp_path / "quick"
    result = neumo(capsys, "quickstart", "--folder", str(folder))
    for words in (
        "1  A spoken corpus",
        "16 strings in",
        "2  A graph of typed modules",
        "Mel(rate=16000",
        "PortError[lengths]",
        "4  Training",
        "model.neumo",
        "WER ",
        "$ neumo transcribe",
        "With your own recordings:",
        "  3  learn from both:",
    ):
        assert words in result.out, words
    assert "epoch 8 of 8" in result.err
    assert result.code == 1
    assert "worse than it should be" in result.err
    assert load_model(folder / "run-1" / "model.neumo").card.parameters == 195_933


def test_it_can_be_run_again_in_the_same_folder(small, tmp_path, capsys):
    words = ["quickstart", "--folder", str(tmp_path / "quick"), "--json"]
    first, second = (json.loads(neumo(capsys, *words).out) for _ in range(2))
    assert first["wer"] == second["wer"]
    assert (first["steps"], second["steps"]) == (16, 16)


def test_the_wrong_graph_is_refused_with_a_caret_and_a_fix(recipe):
    lines = _refusal(recipe).splitlines()
    assert (
        lines[0] == "PortError[lengths]: mel.mel_len cannot feed loss.log_probs_len: it counts other frames"
    )
    assert any(line.strip() == "^" * len("frames.mel_len") or "^^^" in line for line in lines)
    assert any("log_probs_len=states.encoded_len" in line and "(fits)" in line for line in lines)


def test_the_recipe_takes_folders_of_any_name(recipe):
    assert "a 'b' {c}" in str(recipe.modules["data"].manifest)
    assert recipe.actions["factory"]["seed"] == 7


def test_a_spectrogram_shows_where_the_sound_is():
    samples = np.concatenate([np.zeros(8000), np.sin(np.arange(8000) * 2 * np.pi * 250 / 16000)])
    rows = spectrogram(samples, 16000, columns=20, rows=8).split("\n")
    assert len(rows) == 8
    assert {len(row) for row in rows} == {20}
    assert rows[-1][:8].isspace()
    assert not rows[-1][12:].isspace()
    assert rows[0].isspace()


@pytest.mark.parametrize("samples", [np.zeros(1), np.zeros(16000), np.ones(100)])
def test_a_spectrogram_of_nothing_is_no_error(samples):
    assert len(spectrogram(samples, 16000).split("\n")) == 8


@pytest.mark.parametrize(
    ("busy", "cores", "expected"), [(0.1, 2, 2), (1.0, 2, 1), (5, 2, 1), (0, 64, 4), (1, 4, 3)]
)
def test_threads_are_no_more_than_idle_cores(monkeypatch, busy, cores, expected):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(threads, "busy_cores", lambda: busy)
    monkeypatch.setattr(threads, "_cores", lambda: cores)
    assert threads.settle_threads(4) == expected
    assert os.environ["OMP_NUM_THREADS"] == str(expected)


def test_the_users_choice_of_threads_is_respected(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert threads.settle_threads(4) is None
    assert os.environ["OMP_NUM_THREADS"] == "3"


@pytest.mark.slow
def test_the_whole_quickstart_hears_unseen_voices(tmp_path):
    """At most 2 % of words wrong; see the figures in the README."""
    result = process("quickstart", "--folder", str(tmp_path / "quick"), "--seed", "2", "--json")
    assert result.code == 0, result.err
    found = json.loads(result.out)
    assert found["wer"] <= 0.02
