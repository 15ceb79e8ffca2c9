"""Batches of very different lengths, in one step: the gradient is that of one batch that holds them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from neumo.asr import ConvEncoder, CTCHead, CTCLoss, MelSpectrogram
from neumo.engine import NeuralFactory
from neumo.engine.updates.optimizers import SGD
from neumo.graph import Graph
from neumo.graph.module import DataLayer
from neumo.graph.signature import Signature
from neumo.types import Audio, B, Ids, Lengths, T, U, Vocab

from .launch import run

LETTERS = Vocab("abcd", name="four")
# Samples and labels of each utterance, four batches of them. The last one is too short for its text.
BATCHES = (((48000, 9), (47000, 3)), ((4000, 2),), ((16000, 4), (15000, 5), (3000, 1)), ((9000, 3), (800, 6)))


class UnevenSource:
    """Noise in batches that are fixed, or all of it in one."""

    def __init__(self, spec: UnevenSpeech, seed: int) -> None:
        self.items = [item for batch in BATCHES for item in batch]
        places = iter(range(len(self.items)))
        split = [[next(places) for _ in batch] for batch in BATCHES]
        self.order = [list(range(len(self.items)))] if spec.whole else split

    def __len__(self) -> int:
        return len(self.items)

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        return self.order[rank::world]

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        rng = np.random.default_rng(index)
        samples, labels = self.items[index]
        return {"audio": rng.normal(size=samples) * 0.1, "text": rng.integers(0, 4, labels)}

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        batch: dict[str, np.ndarray] = {}
        for port in ("audio", "text"):
            lengths = np.array([len(item[port]) for item in items])
            padded = np.zeros((len(items), lengths.max()), items[0][port].dtype)
            for row, item in zip(padded, items, strict=True):
                row[: len(item[port])] = item[port]
            batch |= {port: padded, f"{port}_len": lengths}
        return batch

    def name(self, index: int) -> str:
        return f"utterance {index}"

    def report(self) -> Any:
        return None


@dataclass(frozen=True)
class UnevenSpeech(DataLayer):
    whole: bool = False

    def signature(self) -> Signature:
        gives = {"audio": Audio(rate=16000)[B, T], "audio_len": Lengths(T)[B]}
        return Signature(gives={**gives, "text": Ids(LETTERS)[B, U], "text_len": Lengths(U)[B]})

    def open(self, seed: int) -> Any:
        return UnevenSource(self, seed)


def one_step(whole: bool, batches: int) -> dict[str, Any]:
    """Make one step of plain gradient descent in double precision; what changes is the gradient."""
    encoder = ConvEncoder.preset("digits", n_mels=16, dropout=0.0).named("encoder")
    mel, head = MelSpectrogram(n_mels=16, dither=0.0), CTCHead(LETTERS, width=256).named("head")
    batch = UnevenSpeech(whole)()
    frames = mel(audio=batch.audio, audio_len=batch.audio_len)
    states = encoder(mel=frames.mel, mel_len=frames.mel_len)
    scores = head(encoded=states.encoded)
    loss = CTCLoss(LETTERS)(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    graph = Graph("train", "train", {"loss": loss.loss})
    factory = NeuralFactory(device="cpu", precision="fp64", seed=5, progress=False)
    norms = [name for name in factory.weights(encoder) if "norm" in name or "running" in name]
    factory.freeze(encoder, *norms)  # statistics of a batch are those of another one where batches are split
    before = {**factory.weights(graph)}
    result = factory.train(graph, max_steps=1, optimizer=SGD(lr=1.0), batches_per_step=batches)
    after = factory.weights(graph)
    moved = {name: (before[name] - after[name]).tolist() for name in before}
    return {"gradient": moved, "loss": result.losses[0], "left_out": result.infeasible}


def in_four() -> dict[str, Any]:
    return one_step(whole=False, batches=4)


@pytest.fixture(scope="module")
def whole() -> dict[str, Any]:
    return one_step(whole=True, batches=1)


@pytest.mark.parametrize("processes", [1, 2])
def test_four_batches_give_the_gradient_of_one(whole: dict[str, Any], processes: int) -> None:
    results = [in_four()] if processes == 1 else run(in_four, processes)
    for result in results:
        assert result["loss"] == pytest.approx(whole["loss"], rel=1e-12)
        assert result["left_out"] == whole["left_out"] == {"utterance 7": 1}
        largest = max(np.abs(value).max() for value in whole["gradient"].values())
        for name, value in whole["gradient"].items():
            np.testing.assert_allclose(result["gradient"][name], value, atol=1e-9 * largest, err_msg=name)
            norm = np.linalg.norm(value)
            assert np.linalg.norm(np.subtract(result["gradient"][name], value)) <= 1e-6 * norm, name
    assert sum(np.abs(value).max() > 0 for value in whole["gradient"].values()) > 10
