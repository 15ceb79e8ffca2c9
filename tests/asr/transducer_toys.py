"""Spelled words as frames, and graphs that train and test transducers on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from neumo.asr import JointNetwork, PredictionNetwork
from neumo.graph import DataLayer, Graph, Signature
from neumo.metrics import CharErrorRate
from neumo.types import Acoustic, B, F, Ids, Item, Lengths, T, U, Vocab

ABC = Vocab("abc")
WIDTH = 5


def networks(width=WIDTH, durations=(), vocab=ABC, **more):
    prediction = PredictionNetwork(vocab, width=12, **more).named("prediction")
    return prediction, JointNetwork(vocab, width, 12, 16, durations=durations).named("joint")


@dataclass(frozen=True)
class Voiced(DataLayer):
    """Words of 1 to 4 labels, two or three noisy frames each."""

    words: int = 96
    batch_size: int = 16

    def signature(self) -> Signature:
        return Signature(
            gives={
                "encoded": Acoustic()[B, F(WIDTH), T],
                "encoded_len": Lengths(T)[B],
                "text": Ids(ABC)[B, U],
                "text_len": Lengths(U)[B],
                "item": Item()[B],
            }
        )

    def open(self, seed: int) -> Any:
        return VoicedSource(self)


class VoicedSource:
    def __init__(self, spec):
        self.spec = spec

    def __len__(self):
        return self.spec.words

    def batches(self, epoch, *, rank=0, world=1):
        order = np.random.default_rng(epoch).permutation(self.spec.words)
        size = self.spec.batch_size
        return [order[at : at + size].tolist() for at in range(0, len(order), size)][rank::world]

    def item(self, index, epoch):
        rng = np.random.default_rng([5, index])
        text = rng.integers(0, 3, rng.integers(1, 5))
        lasting = rng.integers(2, 4, len(text))
        encoded = 0.1 * rng.normal(size=(WIDTH, lasting.sum()))
        encoded[np.repeat(text, lasting), np.arange(lasting.sum())] += 1
        encoded[3, np.cumsum(lasting) - lasting] += 1  # where a label begins
        return {"encoded": encoded.astype(np.float32), "text": text, "item": index}

    def collate(self, items):
        frames, labels = ([item[key].shape[-1] for item in items] for key in ("encoded", "text"))
        encoded = np.zeros((len(items), WIDTH, max(frames)), np.float32)
        text = np.zeros((len(items), max(labels)), np.int64)
        for row, item in enumerate(items):
            encoded[row, :, : frames[row]] = item["encoded"]
            text[row, : labels[row]] = item["text"]
        return {
            "encoded": encoded,
            "encoded_len": np.array(frames),
            "text": text,
            "text_len": np.array(labels),
            "item": np.array([item["item"] for item in items]),
        }

    def name(self, index):
        return f"word {index}"

    def report(self):
        return None


def training(prediction, joint, loss, data=None):
    batch = (data or Voiced())()
    lattice = joint(encoded=batch.encoded, predictor=prediction().predictor).lattice
    found = loss(
        lattice=lattice, lattice_len=batch.encoded_len, targets=batch.text, targets_len=batch.text_len
    )
    return Graph("train", "train", {"loss": found.loss})


def recognising(prediction, joint, decoder, data=None):
    batch = (data or Voiced())()
    lattice = joint(encoded=batch.encoded, predictor=prediction().predictor).lattice
    heard = decoder(lattice=lattice, lattice_len=batch.encoded_len)
    rate = CharErrorRate(ABC)(
        hypothesis=heard.ids, hypothesis_len=heard.ids_len, reference=batch.text, reference_len=batch.text_len
    )
    return Graph("test", "infer", {"cer": rate.score, "ids": heard.ids, "frames": heard.frames})
