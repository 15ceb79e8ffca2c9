from __future__ import annotations

import json
import pickle

import pytest

from neumo.types import (
    BackendError,
    CheckpointError,
    ConfigError,
    DataError,
    Fix,
    GraphError,
    NeumoError,
    PortError,
    Row,
    Source,
    did_you_mean,
    nearest,
)

LENGTHS = PortError(
    "MelSpectrogram.mel_len cannot feed CTCLoss.log_probs_len: it counts other frames",
    code="lengths",
    where=Source(
        "train_asr.py",
        24,
        "    loss = ctc(log_probs=lp, log_probs_len=mel.mel_len, targets=d.text, targets_len=d.text_len)",
        29,
        54,
    ),
    details=(
        Row("given", "Lengths(T//160 + 1)[B]", "made by MelSpectrogram, train_asr.py:20"),
        Row("wanted", "Lengths(T//320 + 1)[B]", "because log_probs has T//320 + 1 frames, train_asr.py:22"),
    ),
    why="It is 2 times too long: QuartzNetEncoder (stride 2) stands between the two.",
    path="AudioDataLayer.audio -> MelSpectrogram.mel_len -> CTCLoss.log_probs_len",
    fixes=(Fix("log_probs_len=enc.encoded_len", "fits"), Fix("insert Subsample(by=2) before it", "fits")),
)
RENDERED = """\
PortError[lengths]: MelSpectrogram.mel_len cannot feed CTCLoss.log_probs_len: it counts other frames

  train_asr.py:24
      loss = ctc(log_probs=lp, log_probs_len=mel.mel_len, targets=d.text, targets_len=d.text_len)
                               ^^^^^^^^^^^^^^^^^^^^^^^^^
  given    Lengths(T//160 + 1)[B]    made by MelSpectrogram, train_asr.py:20
  wanted   Lengths(T//320 + 1)[B]    because log_probs has T//320 + 1 frames, train_asr.py:22

  It is 2 times too long: QuartzNetEncoder (stride 2) stands between the two.

  path     AudioDataLayer.audio -> MelSpectrogram.mel_len -> CTCLoss.log_probs_len
  fix      log_probs_len=enc.encoded_len       (fits)
  or       insert Subsample(by=2) before it    (fits)"""


def test_the_whole_form():
    assert str(LENGTHS) == RENDERED


def test_an_error_is_data():
    data = json.loads(json.dumps(LENGTHS.to_json()))
    assert (data["error"], data["code"], data["where"]["line"]) == ("PortError", "lengths", 24)
    assert data["details"][0]["label"] == "given"
    assert data["fixes"][1] == {"text": "insert Subsample(by=2) before it", "note": "fits"}


def test_only_what_is_there_is_printed():
    assert str(GraphError("no steps")) == "GraphError[graph]: no steps"
    error = DataError("2 bad lines", details=["a.jsonl:3  no text", "a.jsonl:9  no audio"], data={"bad": 2})
    assert str(error) == "DataError[data]: 2 bad lines\n\n  a.jsonl:3  no text\n  a.jsonl:9  no audio"
    assert error.to_json()["data"] == {"bad": 2}
    assert error.to_json()["details"][0] == "a.jsonl:3  no text"


def test_the_place_is_looked_up_when_it_is_needed_and_once():
    calls = []

    def find():
        calls.append(1)
        return "here.py:1"

    error = ConfigError("wrong", where=find)
    assert not calls
    assert "here.py:1" in str(error)
    assert error.to_json()["where"] == "here.py:1"
    assert len(calls) == 1


@pytest.mark.parametrize(
    "kind", [BackendError, CheckpointError, ConfigError, DataError, GraphError, PortError]
)
def test_errors_of_one_root_survive_pickling(kind):
    error = kind("x" * 20, code="c", where=lambda: "here", details=(Row("given", "a"),), why=("b", "c"))
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert isinstance(again, NeumoError)
    assert str(again) == str(error)
    assert kind("x").code == kind.default_code


def test_further_errors_follow():
    error = GraphError("2 mistakes", also=(PortError("one"), PortError("two")))
    assert str(error) == "GraphError[graph]: 2 mistakes\n\nPortError[port]: one\n\nPortError[port]: two"
    assert [e["what"] for e in error.to_json()["also"]] == ["one", "two"]


def test_nothing_is_wider_than_100_columns():
    word = "Mel(rate=16000, hop=160, n_mels=64)[B, F=64, T//160 + 1]"
    error = PortError(
        f"{word} cannot feed {word}",
        where=Source("a.py", 3, "        loss = ctc(" + "x=y, " * 60 + ")", 199, 202),
        details=(
            Row("given", word, "made by " + "somebody " * 8),
            Row("wanted", word + word + " " + word),
            "x " * 90,
        ),
        why="why " * 60,
        path=" -> ".join(["AudioDataLayer.audio"] * 9),
        fixes=("do " * 50, Fix(word, "fits")),
    )
    lines = str(error).splitlines()
    assert max(map(len, lines)) <= 100
    code, caret = lines[4], lines[5]
    at = caret.index("^")
    assert code[at : at + caret.count("^")] == "x=y"


def test_a_caret_stays_on_a_line_that_is_cut_or_unknown():
    assert Source("a.py").render() == "a.py"
    assert Source("a.py", 1, "   x = 1").render() == "a.py:1\n    x = 1"
    assert Source("a.py", 1, "x = 1", 4).render() == "a.py:1\n    x = 1\n        ^"
    cut = Source("a.py", 1, "y" * 300).render().splitlines()[1]
    assert cut.endswith("y...")
    assert len(cut) <= 100
    head = Source("a.py", 1, "abc(" + "y" * 300, 0, 3).render().splitlines()
    assert head[1].startswith("    abc(")
    assert head[2] == "    ^^^"
    last = Source("a.py", 1, "y" * 300 + "abc", 300, 303).render().splitlines()
    assert last[1].endswith("abc")
    assert last[2].endswith("^^^")
    whole = Source("a.py", 1, "y" * 300, 0, 300).render().splitlines()
    assert len(whole[2]) <= 100
    single = Source("a.py", 1, "y" * 300, 290).render().splitlines()
    assert single[2].strip() == "^"


def test_the_nearest_match():
    assert nearest("mell", ["mel", "audio"]) == "mel"
    assert did_you_mean("mell", ["mel"])[0].text == "did you mean 'mel'?"
    assert did_you_mean("zzz", ["mel"]) == ()


def test_no_line_breaks_within_the_axes_of_a_type() -> None:
    facets = ", ".join(f"facet_{n}=value" for n in range(5))
    text = str(NeumoError("no", details=[Row("given", f"Mel({facets})[B, F=80, T]", "made by Reader")]))
    assert text.splitlines()[3] == " " * 11 + "facet_4=value)[B, F=80, T]"


def test_axes_that_are_longer_than_a_line_are_broken() -> None:
    axes = ", ".join(f"F=V{n}" for n in range(30))
    text = str(NeumoError("no", details=[Row("given", f"Features[{axes}]", "made by Reader")]))
    assert max(map(len, text.splitlines())) <= 100
    assert " ".join(text.split()).count(axes) == 1
