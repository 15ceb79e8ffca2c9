"""An infinite CTC loss passed the check for NaN, and from the next step on all weights were NaN."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from torch import Tensor, nn

from neumo.asr import CTCLoss
from neumo.backends.torch.registry import implements
from neumo.engine import SGD, NeuralFactory, faults
from neumo.graph.graph import Graph
from neumo.graph.module import DataLayer, NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, BackendError, DataError, F, Ids, Lengths, LogProbs, T, U, V, Vocab

LETTERS = Vocab("abcd", name="four-letters")
FRAMES = 6
TEXTS = ([0, 1], [2, 2, 2, 2], [3])  # the second needs 7 frames: a blank between equal labels


class ThreeSource:
    """Three utterances, some of them left out of the only batch."""

    def __init__(self, chosen: tuple[int, ...]) -> None:
        self.chosen = chosen

    def __len__(self) -> int:
        return len(TEXTS)

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        return [list(self.chosen)]

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        features = np.random.default_rng(index).normal(size=(3, FRAMES)).astype(np.float32)
        return {"features": features, "text": TEXTS[index]}

    def collate(self, items: Any) -> dict[str, np.ndarray]:
        text = np.zeros((len(items), max(len(item["text"]) for item in items)), np.int64)
        for row, item in zip(text, items, strict=True):
            row[: len(item["text"])] = item["text"]
        return {
            "features": np.stack([item["features"] for item in items]),
            "features_len": np.full(len(items), FRAMES),
            "text": text,
            "text_len": np.array([len(item["text"]) for item in items]),
        }

    def name(self, index: int) -> str:
        return f"utterance-{index}"

    def report(self) -> Any:
        return None


@dataclass(frozen=True)
class ThreeData(DataLayer):
    chosen: tuple[int, ...] = (0, 1, 2)

    def signature(self) -> Signature:
        gives = {"features": Acoustic()[B, F(3), T], "features_len": Lengths(T)[B]}
        return Signature(gives={**gives, "text": Ids(LETTERS)[B, U], "text_len": Lengths(U)[B]})

    def open(self, seed: int) -> Any:
        return ThreeSource(self.chosen)


@dataclass(frozen=True)
class FrameScores(NeuralModule):
    """Scores of each frame by itself, so that the utterances of a batch do not meet."""

    trainable: ClassVar[bool] = True

    def signature(self) -> Signature:
        labels = LETTERS.with_blank("end")
        takes = {"features": Acoustic()[B, F(3), T]}
        return Signature(takes=takes, gives={"log_probs": LogProbs(labels)[B, T, V(labels)]})


@implements(FrameScores)
class FrameScoresLayer(nn.Module):
    def __init__(self, spec: FrameScores) -> None:
        super().__init__()
        self.linear = nn.Linear(3, len(LETTERS) + 1)

    def forward(self, features: Tensor) -> Tensor:
        return self.linear(features.transpose(1, 2)).log_softmax(-1)


def train(chosen=(0, 1, 2), steps=1, **options):
    batch, scores = ThreeData(chosen)(), FrameScores().named("scores")
    loss = CTCLoss(LETTERS)(
        log_probs=scores(features=batch.features).log_probs,
        log_probs_len=batch.features_len,
        targets=batch.text,
        targets_len=batch.text_len,
    ).loss
    graph = Graph("train", "train", {"loss": loss})
    maker = NeuralFactory(device="cpu", seed=3, progress=False)
    before = maker.weights(graph)
    result, error = None, None
    try:
        result = maker.train(graph, max_steps=steps, optimizer=SGD(lr=0.5), **options)
    except (BackendError, DataError) as caught:
        error = caught
    return before, maker.weights(graph), result, error


def same(left, right):
    return all(np.array_equal(left[name], right[name]) for name in left)


def test_the_infeasible_utterance_is_counted_and_named_and_the_step_is_that_of_the_others():
    before, after, result, _ = train(steps=4)
    _, others, _, _ = train(chosen=(0, 2), steps=4)
    assert result.infeasible == {"utterance-1": 4}
    assert any("leave out 1 utterances, too short for their text: utterance-1" in n for n in result.notes)
    assert not result.skipped
    assert not same(before, after)
    for name, value in others.items():
        np.testing.assert_allclose(after[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_batch_of_infeasible_utterances_alone_leaves_the_weights_untouched_and_is_an_error():
    before, after, _, error = train(chosen=(1,))
    assert same(before, after)
    assert isinstance(error, DataError)
    assert "utterance-1" in str(error)


@pytest.mark.parametrize("value", ["inf", "nan"])
def test_a_loss_that_is_infinite_all_the_same_never_reaches_the_weights(value):
    with faults.armed(f"{value}@step=1"):
        before, after, result, _ = train()
    assert same(before, after)
    assert [(row["what"], row["items"]) for row in result.skipped] == [
        ("loss", ["utterance-0", "utterance-1", "utterance-2"])
    ]
    with faults.armed(f"{value}@step=2"):
        _, recovered, result, _ = train(steps=4)
    assert len(result.skipped) == 1
    assert all(np.isfinite(array).all() for array in recovered.values())
