"""Train on three speakers of FSDD and measure on the fourth.

python examples/asr_fsdd/run.py                      # holds theo out, into runs/asr_fsdd
python examples/asr_fsdd/run.py --speaker jackson    # another one
python examples/asr_fsdd/run.py train.epochs=30      # what follows is passed to `neumo train`
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from neumo.data import read_manifest, write_manifest

HERE = Path(__file__).resolve().parent
SPEAKERS = ("jackson", "nicolas", "theo", "yweweler")


def split(manifest: Path, speaker: str, folder: Path) -> dict[str, int]:
    """Write train.jsonl without a speaker and dev.jsonl with nobody else; return how many lines each has."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"train": [], "dev": []}
    for entry in read_manifest(manifest, needs_text=True):
        line = {
            "audio_filepath": str(Path(entry.audio).resolve()),
            "duration": entry.duration,
            "text": entry.text,
            "speaker": entry.speaker,
        }
        parts["dev" if entry.speaker == speaker else "train"].append(line)
    for name, lines in parts.items():
        write_manifest(folder / f"{name}.jsonl", lines)
    return {name: len(lines) for name, lines in parts.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Train on three speakers of FSDD, measure on the fourth.")
    parser.add_argument("--data", type=Path, default=HERE.parents[2] / "shared/data/fsdd/train.jsonl")
    parser.add_argument("--speaker", choices=SPEAKERS, default="theo", help="who is held out")
    parser.add_argument("--folder", type=Path, default=HERE.parents[1] / "runs/asr_fsdd")
    parser.add_argument("--resume", action="store_true")
    given, overrides = parser.parse_known_args()
    print(split(given.data, given.speaker, given.folder), "utterances;", given.speaker, "is held out")
    places = {"data": given.folder.resolve() / "train.jsonl", "dev": given.folder.resolve() / "dev.jsonl"}
    manifests = [f"modules.{layer}.manifest={place}" for layer, place in places.items()]
    words = ["train", str(HERE / "recipe.yaml"), *manifests, *overrides, "--folder", str(given.folder)]
    command = [sys.executable, "-c", "from neumo.cli.main import run; run()", *words]
    return subprocess.run([*command, *(["--resume"] if given.resume else [])], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
