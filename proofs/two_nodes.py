"""Prove that two machines train together, and that a process which dies on one of them costs nothing.

    sudo .venv/bin/python proofs/two_nodes.py

The machines are two network namespaces of this one, joined by a virtual cable (Linux, root, `ip`). A small
recogniser is trained on tones by one machine with two processes, then by two machines with one each, of which
the second loses its process half-way. All three logs must have the same losses.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import soundfile

NODES = ("neumo1", "neumo2")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
RECIPE = """
neumo: 1
vocabs: {{letters: {{labels: " abcdefghijklmnopqrstuvwxyz'"}}}}
modules:
  data: {{kind: SpeechData, manifest: {manifest}, vocab: letters, batch_size: 4}}
  mel: {{kind: MelSpectrogram, n_mels: 32}}
  encoder: {{kind: ConvEncoder, preset: digits, n_mels: 32, dropout: 0.1}}
  head: {{kind: CTCHead, vocab: letters, width: 256}}
  loss: {{kind: CTCLoss, vocab: letters}}
graphs:
  train:
    mode: train
    steps:
      batch: data()
      frames: mel(audio=batch.audio, audio_len=batch.audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      scores: head(encoded=states.encoded)
      ctc: >-
        loss(log_probs=scores.log_probs, log_probs_len=states.encoded_len,
        targets=batch.text, targets_len=batch.text_len)
    outputs: {{loss: ctc.loss}}
factory: {{device: cpu, seed: 1, workers: 1}}
train:
  max_steps: {steps}
  batches_per_step: 4
  optimizer: {{kind: AdamW, lr: 0.002}}
  clip: 1.0
  checkpoint: {{every_steps: 5}}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    missing = "" if os.geteuid() == 0 else "it needs root, to make network namespaces"
    missing = missing or ("" if shutil.which("ip") else "it needs the command `ip` (iproute2)")
    if missing:
        print(f"skipped: {missing}")
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        recipe = write_recipe(folder, options.steps)
        alone = [*neumo(recipe, folder / "alone"), "--processes", "2"]
        done = subprocess.run(alone, check=False, capture_output=True, text=True, env=calm())
        if done.returncode:
            print(done.stdout, done.stderr, sep="\n")
            sys.exit(1)
        connect()
        try:
            undisturbed = train_on_two(recipe, folder / "two", kill=False)
            disturbed = train_on_two(recipe, folder / "killed", kill=True)
        finally:
            disconnect()
        wanted = losses(folder / "alone")
        print(f"one machine, two processes: {len(wanted)} steps, last loss {wanted[-1]:.6f}")
        for name, seconds in (("two", undisturbed), ("killed", disturbed)):
            same = losses(folder / name) == wanted
            print(f"two machines, {name}: {seconds:.0f} s, losses {'equal' if same else 'DIFFER'}")
            if not same:
                sys.exit(1)


def write_recipe(folder: Path, steps: int) -> Path:
    """Tones with texts: enough to have gradients, batches of several lengths and a loss that falls."""
    rng = np.random.default_rng(0)
    lines: list[str] = []
    for number in range(64):
        seconds = float(rng.uniform(0.5, 2.0))
        time_axis = np.arange(int(16000 * seconds)) / 16000
        samples = 0.3 * np.sin(2 * np.pi * rng.uniform(100, 3000) * time_axis)
        soundfile.write(folder / f"{number}.wav", samples.astype(np.float32), 16000)
        text = "".join(rng.choice(list("abcd"), size=3))
        lines.append(json.dumps({"audio_filepath": f"{number}.wav", "text": text, "duration": seconds}))
    (folder / "train.jsonl").write_text("\n".join(lines) + "\n")
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.format(manifest="train.jsonl", steps=steps))
    return path


def neumo(recipe: Path, folder: Path) -> list[str]:
    return [sys.executable, "-m", "neumo", "train", str(recipe), "--folder", str(folder)]


def calm() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def train_on_two(recipe: Path, folder: Path, *, kill: bool) -> float:
    """Run the same command on both machines; the one that hosts the rendezvous comes first."""
    started = time.monotonic()
    running = [start(node, recipe, folder) for node in range(2)]
    if kill:
        while len(losses(folder)) < 20 and all(process.poll() is None for process in running):
            time.sleep(0.05)
        victim = next(pid for pid in inside(NODES[1]) if is_training(pid))
        print(f"killing process {victim} on the second machine at step {len(losses(folder))}")
        os.kill(victim, signal.SIGKILL)
    codes = [process.wait(timeout=300) for process in running]
    if codes != [0, 0]:
        print(f"the machines ended with {codes}")
        for node in NODES:
            print(f"== {node}", (folder.parent / f"{folder.name}-{node}.log").read_text()[-4000:], sep="\n")
        sys.exit(1)
    return time.monotonic() - started


def start(node: int, recipe: Path, folder: Path) -> subprocess.Popen[bytes]:
    command = [
        *("ip", "netns", "exec", NODES[node], *neumo(recipe, folder), "--nodes", "2"),
        *("--rendezvous", f"{ADDRESSES[0]}:29400", "--address", ADDRESSES[node]),
        "--rendezvous-here" if node == 0 else "--no-rendezvous-here",
    ]
    environment = {**calm(), "GLOO_SOCKET_IFNAME": f"veth{NODES[node]}"}
    with (folder.parent / f"{folder.name}-{NODES[node]}.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def losses(folder: Path) -> list[float]:
    """The losses of the log, step by step, as a reader sees them at the end."""
    path = folder / "metrics.jsonl"
    if not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    return [row["loss"] for row in rows if "step" in row and "norm" in row]


def inside(node: str) -> list[int]:
    found = subprocess.run(["ip", "netns", "pids", node], check=True, capture_output=True, text=True)
    return [int(word) for word in found.stdout.split()]


def is_training(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return (
        b"-u" in words
        and b"-m" in words
        and Path(f"/proc/{pid}/environ").read_bytes().find(b"LOCAL_RANK=") >= 0
    )


def connect() -> None:
    disconnect()
    for node in NODES:
        subprocess.run(["ip", "netns", "add", node], check=True)
    first, second = (f"veth{node}" for node in NODES)
    subprocess.run(["ip", "link", "add", first, "type", "veth", "peer", "name", second], check=True)
    for node, address in zip(NODES, ADDRESSES, strict=True):
        cable = f"veth{node}"
        subprocess.run(["ip", "link", "set", cable, "netns", node], check=True)
        inner = ["ip", "-n", node]
        subprocess.run([*inner, "addr", "add", f"{address}/24", "dev", cable], check=True)
        for device in (cable, "lo"):
            subprocess.run([*inner, "link", "set", device, "up"], check=True)


def disconnect() -> None:
    for node in NODES:
        subprocess.run(["ip", "netns", "del", node], check=False, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
