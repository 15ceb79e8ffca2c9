"""`neumo check` says in a moment, without a framework, whether the graphs of a recipe are right."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from .runner import HERE, ROOT, neumo, process

RIGHT = HERE / "recipes" / "right.yaml"


def test_a_right_recipe_passes(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "check", str(RIGHT))
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    assert re.fullmatch(rf"{re.escape(str(RIGHT))}: right \(\d+ ms\)", lines[0])
    assert lines[1:] == [
        "  train     train  6 modules, 11 connections  -> loss",
        "  validate  both   6 modules, 11 connections  -> wer",
        "  infer     infer  4 modules, 7 connections  -> ids, ids_len, frames",
    ]


def test_the_result_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(neumo(capsys, "check", str(RIGHT), "--json").out)
    assert found["ok"] is True
    assert found["graphs"]["infer"] == {
        "mode": "infer",
        "modules": 4,
        "steps": 5,
        "connections": 7,
        "inputs": {"audio": "Audio(rate=16000, peak=1.0)[B, T]", "audio_len": "Lengths(T)[B]"},
        "outputs": found["graphs"]["infer"]["outputs"],
        "assumptions": [],
        "warnings": [],
        "findings": [],
    }
    assert found["notes"] == []


def test_overrides_change_the_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert neumo(capsys, "check", str(RIGHT), "modules.mel.hop=200", "train.epochs=3").code == 0
    wrong = neumo(capsys, "check", str(RIGHT), "modules.mel.n_mels=80")
    assert wrong.code == 1
    assert "64 features" in wrong.err or "n_mels is 80" in wrong.err
    unknown = neumo(capsys, "check", str(RIGHT), "modules.mell.n_mels=80")
    assert unknown.code == 2
    assert "did you mean 'mel'?" in unknown.err
    field = neumo(capsys, "check", str(RIGHT), "modules.mel.n_mel=80")
    assert "command line" in field.err
    assert "did you mean 'n_mels'?" in field.err


# Their vocabularies are made from the corpus first; tests/examples makes small ones.
WITHOUT_LABELS = ("asr_aishell", "asr_librispeech_fastconformer")


@pytest.mark.parametrize(
    "recipe",
    [
        *sorted(p for p in ROOT.glob("examples/*/recipe*.yaml") if p.parent.name not in WITHOUT_LABELS),
        *sorted(ROOT.glob("src/neumo/*/recipes/*.yaml")),
        RIGHT,
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_recipes_of_the_repository_keep_all_rules(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(neumo(capsys, "check", str(recipe), "--json").out)
    assert found["ok"]
    assert [graph["findings"] for graph in found["graphs"].values()] == [[]] * len(found["graphs"])


RULES = """
neumo: 1
vocabs:
  letters: {labels: " abc"}
modules:
  data: {kind: SpeechData, manifest: train.jsonl, vocab: letters, rate: 8000}
  wide: {kind: Resample, source: 8000, target: 16000}
  mel: {kind: MelSpectrogram}
  encoder: {kind: ConvEncoder, preset: digits, width: 64}
  head: {kind: CTCHead, vocab: letters, width: 64}
  other: {kind: CTCHead, vocab: letters, width: 64}
  loss: {kind: CTCLoss, vocab: letters}
graphs:
  train:
    mode: train
    steps:
      batch: data()
      heard: wide(audio=batch.audio, audio_len=batch.audio_len)
      frames: mel(audio=heard.audio, audio_len=heard.audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      scores: head(encoded=states.encoded)
      more: other(encoded=states.encoded)
      ctc: >-
        loss(log_probs=scores.log_probs, log_probs_len=states.encoded_len,
        targets=batch.text, targets_len=batch.text_len)
    outputs: {loss: ctc.loss, more: more.log_probs}
train: {epochs: 1}
"""


@pytest.fixture
def ruled(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(RULES)
    return path


def without_lengths(path: Path) -> None:
    path.write_text(
        RULES.replace("wide(audio=batch.audio, audio_len=batch.audio_len)", "wide(audio=batch.audio)")
    )


def test_warnings_of_rules_are_printed(ruled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "check", str(ruled))
    assert (result.code, result.err) == (0, "")
    (line,) = [line for line in result.out.splitlines() if line.startswith("  warning")]
    assert line.startswith("  warning  train: the loss does not reach other: its weights stay as they are")
    assert "[untrained-module], " in line
    assert "recipe.yaml:22" in line
    assert neumo(capsys, "check", str(ruled), "train.freeze=[other]").out.count("  warning ") == 0
    assert neumo(capsys, "check", str(ruled), "train.freeze=['oth*']").out.count("  warning ") == 0
    assert neumo(capsys, "check", str(ruled), "train.freeze=['other.*']").out.count("  warning ") == 1


def test_errors_of_rules_make_a_recipe_wrong(ruled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without_lengths(ruled)
    for verb in ("check", "train"):
        result = neumo(capsys, verb, str(ruled))
        assert (result.code, result.out) == (1, "")
        assert result.err.startswith(
            "GraphError[padding]: wide is not told where the padding of audio begins"
        )
        assert "audio_len=batch.audio_len" in result.err
    found = json.loads(neumo(capsys, "check", str(ruled), "--json").out)
    assert (found["ok"], found["code"]) == (False, "padding")


def test_errors_of_all_graphs_are_told_together(ruled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without_lengths(ruled)
    ruled.write_text(
        ruled.read_text().replace(
            "train: {epochs: 1}",
            "  infer:\n    mode: infer\n"
            "    inputs: {audio: 'Audio(rate=8000)[B, T]', n: 'Lengths(T)[B]'}\n"
            "    steps:\n      heard: wide(audio=audio)\n    outputs: {audio: heard.audio, n: n}\n",
        )
    )
    result = neumo(capsys, "check", str(ruled))
    assert result.code == 1
    assert result.err.count("GraphError[padding]") == 2
    assert "2 mistakes in" in result.err
    assert "audio_len=n " in result.err


def test_silenced_rules_are_listed_with_the_reason(ruled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    without_lengths(ruled)
    silence = "mode: train\n    silence: {padding: rows are equally long, softmax-twice: who knows}"
    ruled.write_text(ruled.read_text().replace("mode: train", silence))
    result = neumo(capsys, "check", str(ruled))
    assert (result.code, result.err) == (0, "")
    assert "  silenced train: wide is not told where the padding of audio begins" in result.out
    assert "because: rows are equally long" in result.out
    assert "  note     train: silences softmax-twice, which it keeps" in result.out
    found = json.loads(neumo(capsys, "check", str(ruled), "--json").out)["graphs"]["train"]["findings"]
    assert [(each["rule"], each["silenced"]) for each in found] == [
        ("padding", "rows are equally long"),
        ("untrained-module", ""),
    ]


def test_an_unknown_rule_is_refused(ruled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ruled.write_text(RULES.replace("mode: train", "mode: train\n    silence: {paddings: why not}"))
    result = neumo(capsys, "check", str(ruled))
    assert result.code == 1
    assert "recipe.yaml:16:25" in result.err
    assert "did you mean 'padding'?" in result.err


def test_settings_of_actions_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "check", str(RIGHT), "train.epoch=3")
    assert result.code == 1
    assert "did you mean 'epochs'?" in result.err
    assert neumo(capsys, "check", str(RIGHT), "train.epochs=many").code == 1


def test_what_is_taken_on_trust_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "neumo: 1\nmodules: {mel: {kind: MelSpectrogram}, idle: {kind: SpecCutout}}\n"
        "graphs:\n  g:\n    inputs: {audio: 'Audio[B, T]', n: 'Lengths(T)[B]'}\n"
        "    steps: {x: 'mel(audio=audio, audio_len=n)'}\n"
    )
    result = neumo(capsys, "check", str(path))
    assert result.code == 0
    assert "  assumed  g: mel.audio: rate = 16000, checked when it runs" in result.out
    assert "  note     no graph uses the module idle" in result.out


def test_a_model_file_is_checked_by_the_recipe_inside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from neumo.hub.archive import write_archive

    members = {"recipe.yaml": RIGHT.read_bytes(), "weights.safetensors": b"", "card.json": b'{"format": 1}'}
    path = tmp_path / "model.neumo"
    write_archive(path, members)
    assert neumo(capsys, "check", str(path)).code == 0
    members["recipe.yaml"] = RIGHT.read_bytes().replace(b"n_mels: 64", b"n_mels: 80")
    write_archive(path, members)
    result = neumo(capsys, "check", str(path))
    assert result.code == 1
    assert "model.neumo/recipe.yaml:" in result.err


def test_a_wrong_command_line_is_no_wrong_recipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert neumo(capsys, "check").code == 2
    assert neumo(capsys, "check", str(RIGHT), "--nonsense").code == 2


def test_it_needs_no_framework_and_no_numpy() -> None:
    code = (
        "import sys; from neumo.cli.main import run\n"
        "class No:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] in {'torch', 'numpy', 'soundfile', 'safetensors'}:\n"
        "            raise ImportError(name)\n"
        "sys.meta_path.insert(0, No())\n"
        f"run(['check', {str(RIGHT)!r}])"
    )
    import os
    import subprocess
    import sys

    start = time.perf_counter()
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    print(f"neumo check: {time.perf_counter() - start:.2f} s in a new process")
    assert (done.returncode, done.stderr) == (0, "")
    assert "right" in done.stdout


def test_importing_neumo_loads_neither_torch_nor_numpy() -> None:
    import os
    import subprocess
    import sys

    code = (
        "import sys, neumo, neumo.graph.yaml, neumo.cli.check\n"
        "print(sorted({'torch', 'numpy', 'rich'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_paths_of_a_recipe_start_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "letters.txt").write_text("a\nb\n")
    text = RIGHT.read_text().replace('labels: " abcdefghijklmnopqrstuvwxyz\'"', "file: letters.txt")
    (tmp_path / "deep" / "recipe.yaml").write_text(text)
    result = process("check", "deep/recipe.yaml", folder=tmp_path)
    assert (result.code, result.err) == (0, "")
