"""Manifests are looked through before a training; every finding names file, line and utterance."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import soundfile

from neumo.cli.main import run
from neumo.data.findings import KINDS
from neumo.data.validate import Frames, validate
from neumo.types import Vocab

RECIPE = """
neumo: 1
vocabs:
  letters: {labels: " abcdefghijklmnopqrstuvwxyz'"}
modules:
  data: {kind: SpeechData, manifest: train.jsonl, vocab: letters}
  speed: {kind: SpeedPerturb, factors: [0.9, 1.1]}
  mel: {kind: MelSpectrogram}
  encoder: {kind: ConvEncoder, preset: digits}
  head: {kind: CTCHead, vocab: letters, width: 256}
  loss: {kind: CTCLoss, vocab: letters}
  decoder: {kind: GreedyCTC, vocab: letters}
graphs:
  train:
    mode: train
    steps:
      batch: data()
      faster: speed(audio=batch.audio, audio_len=batch.audio_len)
      frames: mel(audio=faster.audio, audio_len=faster.audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      scores: head(encoded=states.encoded)
      ctc: >-
        loss(log_probs=scores.log_probs, log_probs_len=states.encoded_len,
        targets=batch.text, targets_len=batch.text_len)
    outputs: {loss: ctc.loss}
  infer:
    mode: infer
    inputs: {audio: "Audio(rate=16000)[B, T]", audio_len: "Lengths(T)[B]"}
    steps:
      frames: mel(audio=audio, audio_len=audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      scores: head(encoded=states.encoded)
      heard: decoder(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
    outputs: {ids: heard.ids}
"""


def sound(path, seconds=1.0, rate=16000, seed=0, level=0.1, channels=1):
    samples = level * np.random.default_rng(seed).standard_normal((int(seconds * rate), channels))
    soundfile.write(path, samples, rate)


def write(path, lines):
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


@pytest.fixture
def folder(tmp_path):
    for n in range(4):
        sound(tmp_path / f"{n}.wav", 1.0 + n / 10, seed=n)
    return tmp_path


def line(name, text="yes", **more):
    return {"audio_filepath": name, "text": text, **more}


def kinds(found):
    return [(finding.kind, finding.where.rpartition(":")[2]) for finding in found.findings]


def test_a_good_manifest_has_figures_and_no_findings(folder):
    path = write(folder / "m.jsonl", [line(f"{n}.wav", "yes no", speaker=f"s{n % 2}") for n in range(4)])
    found = validate([path], vocab=Vocab.english(), decode=True)
    assert found.findings == []
    (figures,) = found.sets
    assert (figures.entries, figures.words, len(figures.characters), len(figures.speakers)) == (4, 8, 6, 2)
    assert figures.hours == pytest.approx(4.6 / 3600)
    assert figures.quantiles((0, 0.5, 1)) == {"0": 1.0, "0.5": 1.15, "1": 1.3}
    assert dict(figures.rates) == {16000: 4}


def test_everything_that_is_wrong_is_found_at_its_line(folder):
    (folder / "damaged.wav").write_bytes(b"RIFF")
    sound(folder / "silent.wav", level=0)
    sound(folder / "copy.wav", 1.1, seed=1)
    lines = [
        line("0.wav"),
        "{",
        line("gone.wav"),
        line("damaged.wav"),
        line("1.wav", ""),
        line("silent.wav", "never"),
        line("0.wav", "again"),
        line("copy.wav", "other"),
        line("2.wav", "café"),
        line("3.wav", "abc", duration=9.0),
    ]
    found = validate([write(folder / "m.jsonl", lines)], vocab=Vocab.english(), decode=True)
    assert kinds(found) == [
        ("line", "2"),
        ("missing", "3"),
        ("corrupt", "4"),
        ("empty", "5"),
        ("silent", "6"),
        ("same-audio", "7"),
        ("same-audio", "8"),
        ("unknown", "9"),
        ("duration", "10"),
    ]
    assert not found.ok
    assert "'é' (U+00E9" in next(str(f) for f in found.findings if f.kind == "unknown")
    named = {f.kind: f.utterance for f in found.findings}
    assert (named["missing"], named["silent"]) == ("gone.wav", "silent.wav")


def test_headers_alone_do_not_hear_silence(folder):
    sound(folder / "silent.wav", level=0)
    path = write(folder / "m.jsonl", [line("silent.wav")])
    assert kinds(validate([path])) == []
    assert kinds(validate([path], decode=True)) == [("silent", "1")]


def test_the_same_text_and_duration_is_a_doubt_unless_the_speakers_differ(folder):
    sound(folder / "same.wav", 1.0, seed=9)
    for one, two, expected in (("", "", 1), ("ann", "ann", 1), ("ann", "bob", 0)):
        lines = [line("0.wav", speaker=one or None), line("same.wav", speaker=two or None)]
        found = validate([write(folder / "m.jsonl", lines)])
        assert kinds(found) == [("same-text", "2")] * expected


def test_pieces_of_one_recording_are_no_repetition(folder):
    lines = [line("0.wav", offset=0.0, duration=0.4), line("0.wav", offset=0.4, duration=0.5)]
    assert validate([write(folder / "m.jsonl", lines)]).findings == []
    lines.append(lines[0])
    assert kinds(validate([write(folder / "m.jsonl", lines)])) == [("same-audio", "3")]


def test_what_manifests_share_is_named(folder):
    train = write(folder / "train.jsonl", [line("0.wav", speaker="ann"), line("1.wav", "no", speaker="bob")])
    test = write(
        folder / "test.jsonl", [line("2.wav", "maybe", speaker="bob"), line("0.wav", speaker="cleo")]
    )
    found = validate([train, test])
    assert [(f.kind, f.utterance) for f in found.findings] == [("speakers", "speaker bob"), ("leak", "0.wav")]
    assert str(train) in found.findings[1].message
    assert found.ok


def test_texts_that_cannot_be_aligned_are_found(folder):
    path = write(folder / "m.jsonl", [line("0.wav", "a" * 14), line("1.wav", "ab" * 12)])
    found = validate([path], vocab=Vocab.english(), frames=Frames.every(0.04))
    (finding,) = found.findings
    assert (finding.kind, finding.message) == ("infeasible", "its text needs 27 frames, and 1.00 s give 25")


def test_every_kind_has_a_level_and_words():
    assert {level for level, _ in KINDS.values()} == {"error", "warning"}


def neumo(capsys, *words):
    capsys.readouterr()
    with pytest.raises(SystemExit) as done:
        run([str(word) for word in words])
    said = capsys.readouterr()
    return int(done.value.code or 0), said.out, said.err


def test_the_command_prints_a_table_and_findings(folder, capsys):
    path = write(folder / "m.jsonl", [line("0.wav"), *[line(f"gone{n}.wav") for n in range(7)]])
    code, out, err = neumo(capsys, "data", "validate", path)
    assert (code, err) == (1, "")
    assert "\x1b" not in out  # no colours in a pipe
    assert "error: 7 recordings that are not there" in out
    assert f"  {path}:2: gone0.wav: there is no file" in out
    assert "and 2 more (--all)" in out
    assert "broken: 7 errors" in out
    assert "gone6.wav" in neumo(capsys, "data", "validate", path, "--all")[1]


def test_json_has_every_finding(folder, capsys):
    path = write(folder / "m.jsonl", [line("0.wav", "")])
    code, out, _ = neumo(capsys, "data", "validate", path, "--json")
    found = json.loads(out)
    assert (code, found["ok"], found["counts"]) == (0, True, {"empty": 1})
    assert found["findings"] == [
        {
            "kind": "empty",
            "level": "warning",
            "file": str(path),
            "line": 1,
            "utterance": "0.wav",
            "message": "its text is empty",
        }
    ]
    assert found["manifests"][0]["durations"]["0.5"] == 1.0


def test_a_recipe_says_how_many_frames_there_are(folder, capsys):
    """The filter asks the model, here through the sizes in its types."""
    (folder / "r.yaml").write_text(RECIPE)
    seconds = [0.05 + n / 100 for n in range(26)]
    for n, each in enumerate(seconds):
        sound(folder / f"s{n}.wav", each, seed=n)
    path = write(folder / "train.jsonl", [line(f"s{n}.wav", "abcdefgh", id=f"u{n}") for n in range(26)])
    code, out, _ = neumo(capsys, "data", "validate", path, "--recipe", folder / "r.yaml", "--json")
    assert code == 0
    found = {row["utterance"] for row in json.loads(out)["findings"] if row["kind"] == "infeasible"}
    frames = [round(each * 16000) // 320 + 1 for each in seconds]
    assert found == {f"u{n}" for n, count in enumerate(frames) if count < 8}
    assert 0 < len(found) < 26


def test_vocabularies_are_files_or_models(folder, capsys):
    path = write(folder / "m.jsonl", [line("0.wav", "yes")])
    write(folder / "v.txt", ["y", "e", ""])
    code, out, _ = neumo(capsys, "data", "validate", path, "--vocab", folder / "v.txt")
    assert code == 1
    assert "'s' (U+0073" in out
    code, _, err = neumo(capsys, "data", "validate", path, "--vocab", folder / "gone.txt")
    assert code == 1
    assert "does not exist" in err
    code, _, err = neumo(capsys, "data", "validate", path, "--frame", "0.04")
    assert code == 2
    assert "--vocab" in err


def test_channels_are_a_matter_of_the_recipe(folder, capsys):
    sound(folder / "stereo.wav", channels=2)
    path = write(folder / "train.jsonl", [line("stereo.wav")])
    code, out, _ = neumo(capsys, "data", "validate", path)
    assert code == 0
    assert "1 recordings have several channels" in out
    (folder / "r.yaml").write_text(RECIPE)
    code, out, _ = neumo(capsys, "data", "validate", path, "--recipe", folder / "r.yaml")
    assert code == 1
    assert "stereo.wav has 2 channels, expected 1" in out
    (folder / "r.yaml").write_text(RECIPE.replace("train.jsonl,", "train.jsonl, channels: mix,"))
    assert neumo(capsys, "data", "validate", path, "--recipe", folder / "r.yaml")[0] == 0


def test_only_ctc_needs_a_frame_for_each_label(folder, capsys):
    (folder / "r.yaml").write_text(RECIPE.partition("  head:")[0] + "graphs: {}\n")
    path = write(folder / "train.jsonl", [line("0.wav", "abc" * 50)])
    code, out, _ = neumo(capsys, "data", "validate", path, "--recipe", folder / "r.yaml")
    assert code == 0
    assert "alignment" not in out


class Links(HTMLParser):
    """Gathers everything in a page that could ask for something from elsewhere, and checks its nesting."""

    def __init__(self):
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href", "srcset", "xlink:href")]
        if tag in ("script", "link", "iframe", "img", "object"):
            self.found.append(tag)
        if tag not in ("meta", "line", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag not in ("line", "rect"):
            assert self.open.pop() == tag
        elif tag in self.open:
            self.open.remove(tag)


def test_the_page_needs_nothing_from_elsewhere_and_escapes_what_it_shows(folder, capsys):
    evil = '<script>alert("x")</script>'
    lines = [line("0.wav", evil, speaker="ann"), line(f"{evil}.wav"), line("1.wav", "é" * 80, speaker="bob")]
    path = write(folder / "m.jsonl", lines)
    code, out, _ = neumo(capsys, "data", "validate", path, "--html", folder / "page.html")
    assert code == 1
    assert f"the page is {folder}/page.html" in out
    page = (folder / "page.html").read_text(encoding="utf-8")
    links = Links()
    links.feed(page)
    assert links.found == []
    assert links.open == []
    assert "<script" not in page
    assert not re.search(r"url\(|@import|https?://", page)
    assert page.count("<svg") >= 4
    assert "&lt;script&gt;" in page
    code, _, err = neumo(capsys, "data", "validate", path, "--html", folder / "no" / "page.html")
    assert code == 1
    assert "cannot write" in err
