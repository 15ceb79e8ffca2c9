"""Proves that a training that is killed again and again is the training that was never killed, bit for bit.

    OMP_NUM_THREADS=1 python proofs/kills.py
    OMP_NUM_THREADS=1 python proofs/kills.py --kills 5 --utterances 60 --epochs 2

The AN4 recipe (see `--data`; without AN4, generated digits) trains a small network with two processes, a
worker each, four batches a step, speed perturbation, SpecAugment, dropout, averaging and evaluations. It is
started by torchrun once without kills, and once with SIGKILL of one process or both at random points: between
steps, in the middle of one, at an epoch boundary, at a write of a checkpoint. Whatever was killed is started
again. The joined log of losses and the last weights must be those of the training that was never killed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from neumo.engine import read_log

HERE = Path(__file__).resolve().parent
RECIPE = HERE.parent / "examples" / "asr_an4" / "recipe.yaml"
AN4 = HERE.parents[1] / "shared" / "data" / "an4"
BATCH, PER_STEP = 4, 4
EVERY = 3  # steps between two checkpoints
FILES = 11  # that are written, flushed and renamed for one


def train(folder: Path, manifests: Path, epochs: int) -> None:
    """Train in this process, which torchrun has started."""
    from neumo.engine.recipes import make_factory, run_train
    from neumo.graph.yaml import load_recipe

    recipe = load_recipe(
        RECIPE,
        [
            f"modules.data.manifest={json.dumps(str(manifests / 'train.jsonl'))}",
            f"modules.dev.manifest={json.dumps(str(manifests / 'dev.jsonl'))}",
            f"modules.data.batch_size={BATCH}",
            "modules.encoder.preset=digits",
            "factory.precision=fp32",
            "factory.workers=1",
            f"train.epochs={epochs}",
            f"train.batches_per_step={PER_STEP}",
            "train.schedule.warmup_steps=10",
            "train.evaluate={every_epochs: 1, best: wer}",
            f"train.checkpoint={{every_steps: {EVERY}, keep_last: 2}}",
        ],
    )
    factory = make_factory(recipe, folder=folder, progress=False, device="cpu")
    run_train(recipe, factory=factory, resume="auto")


def subset(data: Path, folder: Path, utterances: int) -> int:
    """Write manifests of some utterances, with paths that hold anywhere; returns how many there are."""
    if not data.is_dir():
        from neumo.asr.corpus import DigitCorpus, generate_digits

        corpus = generate_digits(folder / "digits", DigitCorpus(train=utterances, evaluate=10))
        sources = {"train": corpus.train, "dev": corpus.evaluate}
    else:
        sources = {"train": data / "train_sub.jsonl", "dev": data / "dev.jsonl"}
    counts = {"train": utterances, "dev": 10}
    for name, source in sources.items():
        rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()[: counts[name]]]
        for row in rows:
            row["audio_filepath"] = str((source.parent / row["audio_filepath"]).resolve())
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        counts[name] = len(rows)
    return counts["train"]


def draw(kills: int, steps: int, epochs: int, seed: int) -> list[str]:
    """Draw kills; each is of a training that was started again as often as its place in the list says.

    A kill is drawn behind the step that the training may have reached at the one before, so that it happens.
    """
    rng = random.Random(seed)
    per_epoch, reached = steps // epochs, 1
    drawn: list[str] = []
    for restart, wanted in enumerate(sorted(rng.randint(1, steps) for _ in range(kills))):
        step = min(max(wanted, reached), steps)
        epoch = -(-step // per_epoch)
        points = {  # and the first step that the training that goes on may begin with
            f"step={step}": step,
            f"step-end={step}": step + 1,
            f"epoch-end={epoch}": epoch * per_epoch + 1,
            f"batch={rng.randint(1, PER_STEP)}": reached + 1,
            f"checkpoint-file={rng.randint(1, FILES)}": reached + EVERY,
        }
        point = rng.choice([*points, f"step={step}"])
        rank = ",rank=0" if point.startswith("checkpoint") else rng.choice([",rank=0", ",rank=1", ""])
        drawn.append(f"kill@{point}{rank},restart={restart}")
        reached = max(reached, points[point])
    return drawn


def launch(folder: Path, manifests: Path, epochs: int, kills: list[str]) -> float:
    """Train with torchrun; returns the seconds that it took."""
    began = time.perf_counter()
    fired = folder.with_suffix(".fired")
    given = {**os.environ, "NEUMO_FAULTS": "; ".join(kills), "NEUMO_FAULTS_FIRED": str(fired)}
    words = ["--standalone", "--nproc-per-node=2", f"--max-restarts={len(kills)}", "--monitor-interval=0.1"]
    own = [str(Path(__file__).resolve()), "--worker", str(folder), str(manifests), "--epochs", str(epochs)]
    log = folder.with_suffix(".log")
    with log.open("w", encoding="utf-8") as file:
        ended = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *words, *own],
            env=given,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ended.returncode:
        raise SystemExit(f"torchrun ended with {ended.returncode}:\n{log.read_text()[-4000:]}")
    return time.perf_counter() - began


def outcome(folder: Path) -> tuple[list[str], str]:
    """The joined log without notes, line by line, and the SHA-256 of the last weights."""
    rows = [json.dumps(row) for row in read_log(folder / "metrics.jsonl") if row.get("event") != "note"]
    newest = max((folder / "checkpoints").glob("step-*"))
    digest = hashlib.sha256()
    for path in sorted(newest.glob("*.safetensors")):
        digest.update(path.read_bytes())
    return rows, digest.hexdigest()


def prove(place: Path, data: Path, kills: int, utterances: int, epochs: int, seed: int) -> None:
    """Train without and with kills, and compare; exits with 1 if anything differs."""
    found = subset(data, place, utterances)
    steps = epochs * -(-found // (BATCH * PER_STEP))
    seconds = launch(place / "whole", place, epochs, [])
    print(f"uninterrupted: {found} utterances, {steps} steps, 2 processes ({seconds:.0f} s)", flush=True)
    drawn = draw(kills, steps, epochs, seed)
    seconds = launch(place / "killed", place, epochs, drawn)
    fired = (place / "killed.fired").read_text(encoding="utf-8").splitlines()
    happened = sorted({line.partition("\t")[0] for line in fired}, key=drawn.index)
    for text in happened:
        print(f"  {text}")
    print(f"killed {len(happened)} of {kills} times and started again ({seconds:.0f} s)")
    (rows, weights), (killed_rows, killed_weights) = outcome(place / "whole"), outcome(place / "killed")
    differ = [n for n, (one, two) in enumerate(zip(rows, killed_rows, strict=False)) if one != two]
    if differ or len(rows) != len(killed_rows):
        first = differ[0] if differ else min(len(rows), len(killed_rows)) - 1
        raise SystemExit(f"the logs differ at line {first}:\n{rows[first]}\n{killed_rows[first]}")
    if weights != killed_weights:
        raise SystemExit(f"the weights differ: {weights} and {killed_weights}")
    if not happened:
        raise SystemExit("no kill happened: nothing was proved")
    print(f"the same: {len(rows)} lines of the log, last weights and optimizer {weights[:16]}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--utterances", type=int, default=120)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1, help="of the points at which it is killed")
    parser.add_argument("--data", type=Path, default=AN4, help="the folder of AN4")
    parser.add_argument("--worker", nargs=2, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        train(*given.worker, given.epochs)
        return
    with tempfile.TemporaryDirectory(prefix="neumo-kills-") as folder:
        prove(Path(folder), given.data, given.kills, given.utterances, given.epochs, given.seed)


if __name__ == "__main__":
    main()
