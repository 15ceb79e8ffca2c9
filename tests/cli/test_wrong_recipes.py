"""Wrong graphs, written as recipes, are refused with file, line, column, a caret and a verified way out."""

from __future__ import annotations

import json

import pytest

from .runner import HERE, expect, neumo

RIGHT = (HERE / "recipes" / "right.yaml").read_text(encoding="utf-8")
HEAD = "  head:    {kind: CTCHead, vocab: letters, width: 256}"
OTHER = '  other: {labels: "\'abcdefghijklmnopqrstuvwxyz "}\n  letters: {'
BLANK = "  letters: {"

# name: (what to replace in the right recipe, by what), as in the list of wrong graphs of every speech toolkit
WRONG: dict[str, list[tuple[str, str]]] = {
    "01_rate": [("dev.jsonl, vocab: letters", "dev.jsonl, vocab: letters, rate: 22050")],
    "02_n_mels": [("n_mels: 64", "n_mels: 80")],
    "03_width": [(HEAD, HEAD.replace("256", "512"))],
    "04_logits": [
        (HEAD, HEAD.replace("CTCHead", "OwnHead")),
        ("log_probs=scores.log_probs", "log_probs=scores.logits"),
    ],
    "05_stride": [("log_probs_len=enc.encoded_len, targets", "log_probs_len=feats.mel_len, targets")],
    "06_samples": [("log_probs_len=enc.encoded_len, targets", "log_probs_len=batch.audio_len, targets")],
    "07_label_order": [("  letters: {", OTHER), ("train.jsonl, vocab: letters", "train.jsonl, vocab: other")],
    "09_typo": [("augment(mel=", "augment(mell=")],
    "10_left_out": [("log_probs_len=enc.encoded_len, targets", "targets")],
    "11_second_loader": [
        ("      batch: data()\n", "      batch: data()\n      more: dev()\n"),
        ("targets=batch.text, targets_len=batch.text_len", "targets=more.text, targets_len=more.text_len"),
    ],
    "12_several": [
        ("n_mels: 64", "n_mels: 80"),
        ("reference=batch.text,", "referense=batch.text,"),
        ("log_probs_len=enc.encoded_len)\n      score", "log_probs_len=feats.mel_len)\n      score"),
    ],
}


def wrong(name: str) -> str:
    text = RIGHT
    for old, new in WRONG[name]:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.fixture
def folder(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.chdir(str(tmp_path))
    monkeypatch.syspath_prepend(str(HERE / "recipes"))
    return tmp_path


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_recipe_is_refused_with_its_whole_message(
    name: str, folder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("wrong.yaml", "w", encoding="utf-8") as file:
        file.write(wrong(name))
    result = neumo(capsys, "check", "wrong.yaml", "--import", "my_modules")
    assert (result.code, result.out) == (1, "")
    assert max(map(len, result.err.splitlines())) <= 100
    expect(name, result.err)


@pytest.mark.parametrize("name", WRONG)
def test_json_holds_the_place_of_every_mistake(
    name: str, folder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    text = wrong(name)
    with open("wrong.yaml", "w", encoding="utf-8") as file:
        file.write(text)
    result = neumo(capsys, "check", "wrong.yaml", "--json", "--import", "my_modules")
    assert (result.code, result.err) == (1, "")
    found = json.loads(result.out)
    assert found["ok"] is False
    for error in found["also"] if found["code"] == "recipe" else [found]:
        where = error["where"]
        assert where["text"] == text.split("\n")[where["line"] - 1]
        assert where["file"] == "wrong.yaml"
        assert where["end"] > where["start"]


TEXT = """\
neumo: 1
vocabs:
  words: {labels: [a, b, c], unit: word}
  tags: {labels: [O, PER], unit: word}
modules:
  data: {kind: OwnTags, vocab: words, tags: tags}
  bert: {kind: OwnBert, vocab: words}
  loss: {kind: OwnTagLoss, tags: tags}
  mel: {kind: MelSpectrogram}
  wave: {kind: OwnVocoder, mel: "Mel(scale=log10)"}
  turned: {kind: OwnTimeMajor}
graphs:
  g:
    inputs: {audio: "Audio(rate=16000, peak=1.0)[B, T]", audio_len: "Lengths(T)[B]"}
    steps:
      batch: data()
      feats: mel(audio=audio, audio_len=audio_len)
"""


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("20_mask", "x: bert(ids=batch.ids, mask=batch.mask)"),
        ("21_label_pad", "x: loss(tags=batch.tags)"),
        ("22_scale", "x: wave(mel=feats.mel)"),
        ("23_time_major", "x: turned(mel=feats.mel)"),
    ],
)
def test_a_wrong_step_is_refused_with_its_whole_message(
    name: str, step: str, folder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("wrong.yaml", "w", encoding="utf-8") as file:
        file.write(f"{TEXT}      {step}\n")
    result = neumo(capsys, "check", "wrong.yaml", "--import", "my_modules")
    assert result.code == 1
    expect(name, result.err)


BAD = {
    "tab": "neumo: 1\nmodules:\n\tmel: {kind: MelSpectrogram}\n",
    "duplicate": "neumo: 1\nmodules:\n  mel: {kind: SpecCutout}\n  mel: {kind: MelSpectrogram}\ngraphs: {}\n",
    "unknown_kind": "neumo: 1\nmodules:\n  mel: {kind: MelSpectogram}\ngraphs: {g: {steps: {x: mel()}}}\n",
    "python_tag": "neumo: 1\nmodules:\n  mel: !!python/object/apply:os.system ['touch canary']\ngraphs: {}\n",
    "empty": "",
    "no_graphs": "neumo: 1\n",
    "newer": "neumo: 2\ngraphs: {}\n",
    "unclosed": "neumo: 1\ngraphs: {g: {steps: {x: mel(\n",
}


@pytest.mark.parametrize("name", BAD)
def test_bad_yaml_is_refused_with_its_whole_message(
    name: str, folder: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("bad.yaml", "w", encoding="utf-8") as file:
        file.write(BAD[name])
    result = neumo(capsys, "check", "bad.yaml")
    assert (result.code, result.out) == (1, "")
    expect(f"bad_{name}", result.err)


def test_a_missing_and_a_binary_file_are_refused(folder: object, capsys: pytest.CaptureFixture[str]) -> None:
    with open("recipe.yaml", "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n\x00")
    missing = neumo(capsys, "check", "recipes.yaml")
    expect("bad_missing", missing.err)
    binary = neumo(capsys, "check", "recipe.yaml")
    expect("bad_binary", binary.err)
    assert (missing.code, binary.code) == (1, 1)
