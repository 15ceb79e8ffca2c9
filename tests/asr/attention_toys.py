"""Spelled words as frames: each label is a few noisy frames, and copying them is all there is to learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neumo.asr import CTCHead, CTCLoss, RecurrentDecoder, SequenceLoss, TransformerDecoder
from neumo.graph import DataLayer, Graph, LossSum, Signature
from neumo.metrics import CharErrorRate
from neumo.types import Acoustic, B, F, Ids, Item, Lengths, T, U, Vocab

ABC = Vocab("abc", name="abc")
WIDTH = 6
LSTM = RecurrentDecoder(ABC, width=WIDTH, hidden=24, embedding=8, attention=16, filters=4, kernel=9)
GRU = RecurrentDecoder(
    ABC, width=WIDTH, hidden=16, layers=2, cell="gru", embedding=8, attention=12, filters=0, smoothing=True
)
TRANSFORMER = TransformerDecoder(ABC, width=WIDTH, hidden=24, layers=2, heads=2, feed_forward=48, dropout=0.0)


@dataclass(frozen=True)
class Spelled(DataLayer):
    """Reads words of 1 to 3 labels, two or three frames each."""

    words: int = 128
    batch_size: int = 16
    shuffle: bool = True

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
        return SpelledSource(self, seed)


class SpelledSource:
    def __init__(self, spec: Spelled, seed: int) -> None:
        self.spec, self.seed = spec, seed

    def __len__(self) -> int:
        return self.spec.words

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        order = np.arange(self.spec.words)
        if self.spec.shuffle:
            order = np.random.default_rng([self.seed, epoch]).permutation(order)
        size = self.spec.batch_size
        return [order[at : at + size].tolist() for at in range(0, len(order), size)][rank::world]

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        rng = np.random.default_rng([5, index])
        text = rng.integers(0, 3, rng.integers(1, 4))
        lasting = rng.integers(2, 4, len(text))
        encoded = 0.1 * rng.normal(size=(WIDTH, lasting.sum()))
        encoded[np.repeat(text, lasting), np.arange(lasting.sum())] += 1
        encoded[3, np.cumsum(lasting) - lasting] += 1  # where a label begins
        encoded[4] += np.repeat(np.arange(len(text)) % 2, lasting)
        encoded[5] += np.repeat(np.arange(len(text)) // 2, lasting)
        return {"encoded": encoded.astype(np.float32), "text": text, "item": index}

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
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

    def name(self, index: int) -> str:
        return f"word {index}"

    def report(self) -> Any:
        return None


def training(
    decoder: Any, data: Spelled | None = None, head: CTCHead | None = None, *, mean_over: Any = "utterances"
) -> Graph:
    """A decoder that is trained alone, or with CTC on the same frames."""
    batch = (data or Spelled())()
    told = decoder(
        encoded=batch.encoded, encoded_len=batch.encoded_len, targets=batch.text, targets_len=batch.text_len
    )
    loss = SequenceLoss(ABC, smoothing=0.05, mean_over=mean_over)(
        log_probs=told.log_probs, targets=batch.text, targets_len=batch.text_len
    )
    if head is None:
        return Graph("train", "train", {"loss": loss.loss})
    ctc = CTCLoss(ABC)(
        log_probs=head(encoded=batch.encoded).log_probs,
        log_probs_len=batch.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    both = LossSum({"ctc": 0.3, "attention": 0.7})(
        ctc=ctc.loss, attention=loss.loss, ctc_count=ctc.count, attention_count=loss.count
    )
    return Graph("train", "train", {"loss": both.loss})


def recognising(decoder: Any, search: Any, data: Spelled | None = None, head: CTCHead | None = None) -> Graph:
    """A decoder that is searched: the same module as in training, called without targets."""
    batch = (data or Spelled(shuffle=False))()
    given = {"scorer": decoder(encoded=batch.encoded, encoded_len=batch.encoded_len).scorer}
    if head is not None:
        given |= {"log_probs": head(encoded=batch.encoded).log_probs, "log_probs_len": batch.encoded_len}
    heard = search(**given, encoded_len=batch.encoded_len)
    rate = CharErrorRate(ABC)(
        hypothesis=heard.ids, hypothesis_len=heard.ids_len, reference=batch.text, reference_len=batch.text_len
    )
    return Graph("test", "infer", {"cer": rate.score, "ids": heard.ids, "ids_len": heard.ids_len})
