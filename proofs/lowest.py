"""Proves the bounds of pyproject.toml: the lowest and the newest versions resolve, import and work.

    python proofs/lowest.py            resolve every extra at both ends; use the core and `asr` at the lowest
    python proofs/lowest.py --torch    install the lowest torch too (3 GB on x86_64) and compute with it

It asks the package index, which takes minutes, so it is no test; `make proof` runs it without --torch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
FOR_USERS = [
    name
    for name, needs in EXTRAS.items()
    if needs and name != "dev" and not any(need.startswith("neumo[") for need in needs)
]

# What is done with an installation: a recipe is checked; with `asr` a sound is written, read and resampled.
USE_CORE = ["-m", "neumo", "check", str(ROOT / "src" / "neumo" / "asr" / "recipes" / "digits.yaml")]
USE_ASR = """
import tempfile, pathlib, numpy, soundfile, neumo
from neumo.data import read_audio
path = pathlib.Path(tempfile.mkdtemp()) / "tone.wav"
tone = numpy.sin(numpy.arange(22050) / 20).astype("float32") / 2
soundfile.write(path, tone, 22050)
audio = read_audio(path, rate=16000)
samples = getattr(audio, "samples", audio)
print("numpy", numpy.__version__, "soundfile", soundfile.__version__, "read", len(samples), "samples")
"""
USE_TORCH = """
import torch, neumo
from neumo.asr import ConvEncoder
from neumo.types import F, Lengths, Mel, B, T
feats = neumo.inputs(mel=Mel(n_mels=64)[B, F(64), T], mel_len=Lengths(T)[B])
encoder = ConvEncoder.preset("digits")(mel=feats.mel, mel_len=feats.mel_len)
graph = neumo.Graph("encode", "infer", {"encoded": encoder.encoded, "encoded_len": encoder.encoded_len})
given = {"mel": torch.randn(2, 64, 50).numpy(), "mel_len": torch.tensor([50, 31]).numpy()}
found = neumo.NeuralFactory(device="cpu", progress=False, verify="values").infer(graph, given)[0]
print("torch", torch.__version__, "encoded", found["encoded"].shape)
"""


def lowest(needs: list[str]) -> list[str]:
    """Turn lower bounds into pins: numpy>=1.26 into numpy==1.26."""
    return [need.replace(">=", "==") for need in needs]


def run(*command: str | Path) -> str:
    """Run a command; print what it said and stop if it failed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        raise SystemExit(f"failed: {' '.join(str(part) for part in command)}")
    return done.stdout


def new_python(folder: Path) -> Path:
    """Make an empty environment and return its interpreter."""
    venv.create(folder, with_pip=True, clear=True)
    return folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"


def pip(python: Path, *arguments: str) -> str:
    """Run pip of an environment."""
    return run(python, "-m", "pip", "--disable-pip-version-check", *arguments)


def resolve(python: Path) -> None:
    """Ask the index whether each extra can be had, at its lowest versions and at the newest."""
    for extra in FOR_USERS:
        needs = [*PROJECT["dependencies"], *EXTRAS[extra]]
        newest = [need for need in needs if not need.startswith("torch")]  # the tests run with a new torch
        for end, wanted in (("lowest", lowest(needs)), ("newest", newest)):
            report = pip(
                python, "install", "--dry-run", "--quiet", "--report=-", "--only-binary=:all:", *wanted
            )
            print(f"  {extra:<6} {end}: resolves, {len(json.loads(report)['install'])} packages")


def use(extra: str, code: list[str], pins: list[str]) -> None:
    """Install neumo with an extra at the lowest versions and run something with it."""
    with tempfile.TemporaryDirectory() as folder:
        python = new_python(Path(folder))
        target = str(ROOT) + (f"[{extra}]" if extra else "")
        pip(python, "install", "--quiet", "--prefer-binary", target, *pins)
        print(f"  {extra or 'core':<6} lowest: {run(python, *code).strip().splitlines()[0]}")


def main() -> None:
    """Prove what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--torch", action="store_true", help="install and use the lowest torch too")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        resolve(new_python(Path(folder)))
    core = lowest(PROJECT["dependencies"])
    use("", USE_CORE, core)
    use("asr", ["-c", USE_ASR], [*core, *lowest(EXTRAS["asr"])])
    if wanted.torch:
        both = dict.fromkeys([*EXTRAS["torch"], *EXTRAS["asr"]])
        use("torch,asr", ["-c", USE_TORCH], [*core, *lowest(list(both))])


if __name__ == "__main__":
    main()
