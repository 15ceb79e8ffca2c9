"""Made-up utterances for recipes: a second of tones and noise, and a text that is as good as any."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import soundfile

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def write_utterances(folder: Path, texts: Sequence[str], rate: int = 16000) -> Path:
    """Write a recording for each text, and the manifest of all; give the manifest."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    lines: list[str] = []
    for number, text in enumerate(texts):
        seconds = 0.9 + 0.2 * number
        time = np.arange(int(seconds * rate)) / rate
        sound = 0.2 * np.sin(2 * np.pi * (300 + 150 * number) * time) + 0.02 * rng.standard_normal(len(time))
        soundfile.write(folder / f"{number}.wav", sound, rate)
        lines.append(
            json.dumps(
                {
                    "audio_filepath": f"{number}.wav",
                    "duration": len(time) / rate,
                    "text": text,
                    "speaker": "a",
                }
            )
        )
    manifest = folder / "train.jsonl"
    manifest.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return manifest
