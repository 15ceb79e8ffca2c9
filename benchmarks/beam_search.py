"""How fast and how well a beam search over CTC posteriors decodes, beside pyctcdecode where there is one.

    OMP_NUM_THREADS=1 python benchmarks/beam_search.py --text sentences.txt --peer /path/to/venv/bin/python

Posteriors are made of sentences: each letter peaks in one or two frames, often beside another letter that is
as likely, between frames of blanks, with noise on top; the best path alone gets about half of the words
wrong. A 3-gram is estimated on the sentences that are not decoded. Without `--text` the sentences are words
of invented syllables, which follow one another by habit. `--peer` is a Python with pyctcdecode and kenlm,
which runs in a process of its own, in turns with neumo. Figures are medians of the rounds, by the time of
the processor, of which both use one thread. Both have the same beam, the same pruning and the same weights.
Targets: 5 times the utterances of the peer in a second without a model, 2 times with the 3-gram, and no more
wrong words than the peer. Without a model the last one is missed by some words in a thousand so far.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from neumo.asr.search import fuse, prefix_beam_search
from neumo.lm import estimate, perplexity, read_arpa, units_of, write_arpa
from neumo.metrics.edit import edit_distance
from neumo.types import Vocab

VOCAB = Vocab.english()
BLANK = len(VOCAB)
ALPHA, BETA = 0.5, 1.5
TARGETS = {"no model": 5.0, "3-gram": 2.0}

PEER = r"""
import json, logging, sys, time
import numpy as np
logging.disable(logging.CRITICAL)
from pyctcdecode import build_ctcdecoder
logits, (labels, arpa, words, beam) = np.load(sys.argv[1]), json.load(open(sys.argv[2]))
make = lambda path: build_ctcdecoder(labels + [""], path, words if path else None, alpha=0.5, beta=1.5)
decoders = {"no model": make(None), "3-gram": make(arpa)}
print("ready", flush=True)
for line in sys.stdin:
    kind, count = line.split(":")
    begun = time.process_time()
    texts = [decoders[kind].decode(utterance, beam_width=beam) for utterance in logits[:int(count)]]
    print(json.dumps([time.process_time() - begun, texts]), flush=True)
"""


def sentences_of(path: Path | None) -> list[str]:
    """Sentences in the letters of the vocabulary, of a file or invented."""
    if path is None:
        return invented(6000)
    lines = (line.rsplit("|", 1)[-1].lower() for line in path.read_text(encoding="utf-8").splitlines())
    kept = ("".join(c if c in VOCAB else " " for c in line) for line in lines)
    return [sentence for line in kept if len(sentence := " ".join(line.split())) > 20]


def invented(count: int) -> list[str]:
    """Sentences of 2,000 words of syllables; after each word some follow more often."""
    rng = np.random.default_rng(3)
    syllables = [a + b for a in "bdfghklmnprstvw" for b in "aeiou"]
    words = ["".join(rng.choice(syllables, size=rng.integers(1, 4))) for _ in range(2000)]
    follow = rng.integers(0, 2000, size=(2000, 12))
    found: list[str] = []
    for _ in range(count):
        at, said = int(rng.zipf(1.4)) % 2000, list[str]()
        for _ in range(int(rng.integers(8, 16))):
            said.append(words[at])
            at = int(follow[at, rng.integers(12)]) if rng.random() < 0.8 else int(rng.zipf(1.4)) % 2000
        found.append(" ".join(said))
    return found


def posteriors(texts: list[str], frames: int, noise: float, doubt: float) -> np.ndarray:
    """Log-probabilities (B, T, V) of a recogniser that is in doubt about that share of its letters."""
    rng = np.random.default_rng(1)
    logits = rng.standard_normal((len(texts), frames, BLANK + 1)) * noise
    for utterance, text in zip(logits, texts, strict=True):
        ids = VOCAB.encode(text).ids
        room = frames / (len(ids) + 1)
        utterance[:, BLANK] += 7.0
        for n, label in enumerate(ids):
            at = int((n + 0.5) * room)
            utterance[at : at + rng.integers(1, 3), BLANK] -= 4.0
            utterance[at : at + 2, label] += 6.0 + rng.standard_normal()
            if rng.random() < doubt:
                utterance[at : at + 2, rng.integers(BLANK)] += 6.0 + rng.standard_normal()
    return logits - np.log(np.exp(logits).sum(axis=2, keepdims=True))


def greedy(log_probs: np.ndarray) -> list[str]:
    """The best label of each frame, without repeats and blanks."""
    texts: list[str] = []
    for best in log_probs.argmax(axis=2):
        kept = best[(best != np.roll(best, 1)) | (np.arange(len(best)) == 0)]
        texts.append(VOCAB.decode(kept[kept != BLANK].tolist()))
    return texts


def wrong_words(texts: list[str], said: list[str]) -> float:
    """The word error rate."""
    errors = [edit_distance(b.split(), a.split()) for a, b in zip(texts, said, strict=True)]
    return sum(errors) / sum(len(text.split()) for text in said)


class Peer:
    """The other decoder in its own process."""

    def __init__(self, python: str, folder: Path, log_probs: np.ndarray, setting: list[object]) -> None:
        np.save(folder / "logits.npy", log_probs.astype(np.float32))
        (folder / "setting.json").write_text(json.dumps(setting))
        command = [python, "-c", PEER, str(folder / "logits.npy"), str(folder / "setting.json")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if self.read() != "ready":
            raise SystemExit("the peer did not start: it needs pyctcdecode, kenlm and numpy below 2")

    def read(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def __call__(self, kind: str, count: int) -> tuple[float, list[str]]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{kind}:{count}\n")
        self.process.stdin.flush()
        seconds, texts = json.loads(self.read())
        return seconds, texts


def timed(run: Callable[[], list[str]]) -> tuple[float, list[str]]:
    begun = time.process_time()
    texts = run()
    return time.process_time() - begun, texts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, help="a sentence a line, or what is behind its last |")
    parser.add_argument("--peer", help="a Python with pyctcdecode and kenlm")
    parser.add_argument("--utterances", type=int, default=16)
    parser.add_argument("--frames", type=int, default=750)
    parser.add_argument("--beam", type=int, default=64)
    parser.add_argument("--noise", type=float, default=0.8, help="of all scores, a standard deviation")
    parser.add_argument("--doubt", type=float, default=0.2, help="share of letters beside another likely one")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()

    sentences = sentences_of(asked.text)
    step = len(sentences) // asked.utterances
    said = [text[:140].rsplit(" ", 1)[0] for text in sentences[::step][: asked.utterances]]
    rest = [units_of(text, "word") for n, text in enumerate(sentences) if n % step]
    log_probs = posteriors(said, asked.frames, asked.noise, asked.doubt)
    lengths = np.full(len(said), asked.frames)
    with tempfile.TemporaryDirectory() as folder:
        arpa = Path(folder) / "lm.arpa"
        write_arpa(estimate(rest, order=3).model, arpa)
        model = read_arpa(arpa)
        likely = (log_probs > -5).sum(axis=2)
        print(f"{len(said)} utterances of {asked.frames} frames, beam {asked.beam}, {model}")
        print(
            f"{likely.mean():.1f} likely labels a frame; perplexity of what was said "
            f"{perplexity(model, [text.split() for text in said]).value:.0f}"
        )
        fusion = fuse(model, VOCAB, alpha=ALPHA, beta=BETA)
        peer = None
        if asked.peer:
            words = [word for word in model.words if word[0] != "<"]
            setting = [list(VOCAB.labels), str(arpa), words, asked.beam]
            peer = Peer(asked.peer, Path(folder), log_probs, setting)

        def ours(model: object) -> list[str]:
            found = prefix_beam_search(log_probs, lengths, beam=asked.beam, fusion=model)  # type: ignore[arg-type]
            return [VOCAB.decode(each.labels[0]) for each in found]

        seconds, texts = timed(lambda: greedy(log_probs))
        print(f"greedy              {len(said) / seconds:8.0f} utt/s  WER {wrong_words(texts, said):6.1%}")
        missed = False
        for kind, add in (("no model", None), ("3-gram", fusion)):
            mine, theirs = list[float](), list[float]()
            texts = other = list[str]()
            for _ in range(asked.rounds):
                seconds, texts = timed(lambda add=add: ours(add))
                mine.append(seconds)
                if peer:
                    seconds, other = peer(kind, len(said))
                    theirs.append(seconds)
            rate, wer = len(said) / statistics.median(mine), wrong_words(texts, said)
            print(f"neumo, {kind:<12} {rate:8.1f} utt/s  WER {wer:6.1%}")
            if peer:
                slow, worse = len(said) / statistics.median(theirs), wrong_words(other, said)
                print(f"peer,  {kind:<12} {slow:8.1f} utt/s  WER {worse:6.1%}  ratio {rate / slow:.1f}")
                for what, met in (("speed", rate / slow >= TARGETS[kind]), ("WER", wer <= worse)):
                    if not met:
                        print(f"missed, {kind}: the target for {what}")
                        missed = True
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
