"""A recogniser of pieces: made, trained, evaluated, and used where sentencepiece is not installed."""

import json
import shutil

import pytest

from .runner import process
from .toy_speech import make_toy

pytest.importorskip("sentencepiece")


@pytest.mark.slow
def test_pieces_from_the_texts_to_a_model_that_runs_elsewhere(tmp_path):
    recipe = make_toy(tmp_path)
    made = process(
        "data", "vocab", "train.jsonl", "--kind", "bpe", "--size", "6", "--case", "lower", "-o", "p.model",
        folder=tmp_path,
    )  # fmt: skip
    assert made.code == 0, made.err
    text = recipe.read_text().replace(
        'letters: {labels: " abc"}', "letters: {sentencepiece: p.model, normalise: {case: lower}}"
    )
    recipe.write_text(text)
    lines = [json.loads(line) for line in (tmp_path / "dev.jsonl").read_text().splitlines()]
    shouted = [{**line, "text": line["text"].upper()} for line in lines]
    (tmp_path / "loud.jsonl").write_text("\n".join(map(json.dumps, shouted)))
    trained = process("train", "toy.yaml", "--folder", "run", folder=tmp_path)
    assert trained.code == 0, trained.err
    model = next((tmp_path / "run").glob("*.neumo"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(model, elsewhere / "model.neumo")
    (tmp_path / "p.model").unlink()
    (elsewhere / "without.py").write_text("import sys\nsys.modules['sentencepiece'] = None\n")
    recording = str(tmp_path / lines[0]["audio_filepath"])
    heard = process("transcribe", "model.neumo", recording, "--import", "without.py", folder=elsewhere)
    assert heard.code == 0, heard.err
    assert set("".join(heard.out.split())) <= {"a", "b", "c"}
    quiet, loud = (
        process("evaluate", "model.neumo", "--manifest", str(tmp_path / name), "--json", folder=elsewhere)
        for name in ("dev.jsonl", "loud.jsonl")
    )
    assert quiet.code == loud.code == 0, quiet.err + loud.err
    figures = [json.loads(found.out) for found in (quiet, loud)]
    assert figures[0]["words"]["rate"] == figures[1]["words"]["rate"] < 0.5
    assert any("case lower" in note for note in figures[1]["notes"])
