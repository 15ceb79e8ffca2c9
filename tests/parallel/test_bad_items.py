"""A recording that breaks while several processes train is left out by all of them, also after a resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from neumo.engine import Checkpoint, NeuralFactory, faults
from neumo.engine.checkpoints.store import CheckpointStore
from neumo.graph.yaml import load_recipe

from .launch import ROOT, run
from .test_faults import trace

RATE, COUNT = 16000, 16
GONE = ("3.wav", "8.wav")  # each process removes one, at the end of the first epoch


def make_data(folder: Path) -> Path:
    """Noise with a letter each."""
    rng = np.random.default_rng(3)
    rows: list[dict[str, Any]] = []
    for n in range(COUNT):
        samples = rng.normal(scale=0.1, size=RATE // 2).astype(np.float32)
        soundfile.write(folder / f"{n}.wav", samples, RATE)
        rows.append({"audio_filepath": str(folder / f"{n}.wav"), "duration": 0.5, "text": "ab"[n % 2]})
    path = folder / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def train(folder: str, manifest: str, text: str) -> list[str]:
    recipe = load_recipe(
        ROOT / "examples" / "asr_an4" / "recipe.yaml",
        [
            f"modules.data.manifest={json.dumps(manifest)}",
            "modules.data.batch_size=2",
            "modules.data.on_bad=skip",
            "modules.data.max_bad_share=0.5",
            "modules.data.cache=off",
            "modules.encoder.preset=digits",
        ],
    )
    factory = NeuralFactory(device="cpu", seed=1, progress=False, folder=folder)
    with faults.armed(text):
        result = factory.train(
            recipe.graph("train"),
            epochs=4,
            batches_per_step=2,
            checkpoint=Checkpoint(every_steps=3, keep_last=9),
        )
    return result.notes


def bad(folder: Path) -> list[int]:
    saved, _ = CheckpointStore(folder / "checkpoints").newest()
    assert saved is not None
    return [row["index"] for row in saved.state["data"]["bad"]]


def test_recordings_that_vanish_are_left_out_exactly_after_a_kill_too(tmp_path: Path) -> None:
    found: list[Any] = []
    for name, kills in (("whole", []), ("killed", ["kill@step=8,rank=1", "kill@step=11,rank=0"])):
        place = tmp_path / name
        place.mkdir()
        manifest = str(make_data(place))
        paths = [f"vanish@epoch-end=1,rank={rank},path={place / file}" for rank, file in enumerate(GONE)]
        texts = ["; ".join(paths), *kills]
        for text in ["; ".join(texts[:2]), *texts[2:]][: len(kills)]:
            with pytest.raises(AssertionError, match="it died"):
                run(train, 2, str(place / "run"), manifest, text)
        run(train, 2, str(place / "run"), manifest, "" if kills else texts[0])
        assert bad(place / "run") == [3, 8]
        found.append(trace(place / "run"))
    assert found[0] == found[1]
