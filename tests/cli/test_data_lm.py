"""`neumo data lm`: from texts to an ARPA file, with figures."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from neumo.lm import read_arpa

from .runner import neumo

TEXT = "so be it\nbe it so\nit is so\n\nso it is\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_a_text_becomes_an_arpa_file(capsys: pytest.CaptureFixture[str], text: Path) -> None:
    output = text.parent / "lm.arpa"
    done = neumo(capsys, "data", "lm", str(text), "-o", str(output), "--order", "2", "--test", str(text))
    assert done.code == 0
    assert "4 sentences of 12 words, 4 different ones" in done.out
    assert f"{text}: perplexity" in done.out
    assert "the text is too small" in done.out
    assert read_arpa(output).counts == (7, 12)


def test_figures_are_given_as_json(capsys: pytest.CaptureFixture[str], text: Path) -> None:
    output = text.parent / "lm.arpa.gz"
    words = ("data", "lm", str(text), "-o", str(output), "--order", "2", "--test", str(text), "--json")
    figures = json.loads(neumo(capsys, *words).out)
    assert figures["ngrams"] == [7, 12]
    assert figures["bytes"] == output.stat().st_size
    assert figures["perplexity"][str(text)]["unknown"] == 0
    assert gzip.decompress(output.read_bytes()).startswith(b"\\data\\\nngram 1=7\n")


def test_manifests_and_packed_texts_are_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = [{"audio_filepath": f"{n}.wav", "text": line} for n, line in enumerate(TEXT.split("\n")) if line]
    manifest, packed = tmp_path / "train.jsonl", tmp_path / "text.gz"
    manifest.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    packed.write_bytes(gzip.compress(TEXT.encode()))
    counts: list[object] = []
    for source in (manifest, packed):
        output = tmp_path / f"{source.stem}.arpa"
        done = neumo(capsys, "data", "lm", str(source), "-o", str(output), "--json")
        counts.append(json.loads(done.out)["ngrams"])
    assert counts[0] == counts[1]


def test_characters_are_counted_with_the_space_between_words(
    capsys: pytest.CaptureFixture[str], text: Path
) -> None:
    output = text.parent / "lm.arpa"
    done = neumo(capsys, "data", "lm", str(text), "-o", str(output), "--unit", "char", "--order", "3")
    assert done.code == 0
    assert set(read_arpa(output).words) == {"<unk>", "<s>", "</s>", "<space>", *"sobeit"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nope.txt", "-o", "{out}"), "the text nope.txt cannot be read"),
        (("{text}", "-o", "{out}", "--prune", "a"), "--prune a is no list of counts"),
        (("{text}", "-o", "{out}", "--prune", "2,1"), "must not fall"),
        (("{text}", "-o", "{out}/there/lm.arpa"), "there is no folder"),
        (("{empty}", "-o", "{out}"), "the text for a language model has no words"),
    ],
)
def test_what_cannot_be_done_is_said(
    capsys: pytest.CaptureFixture[str], text: Path, words: tuple[str, ...], message: str
) -> None:
    empty = text.parent / "empty.txt"
    empty.write_text(" \n\n")
    places = {"text": text, "out": text.parent / "lm.arpa", "empty": empty}
    done = neumo(capsys, "data", "lm", *(word.format(**places) for word in words))
    assert done.code != 0
    assert message in done.err
    assert not places["out"].exists()
