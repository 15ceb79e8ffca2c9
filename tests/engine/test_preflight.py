"""Utterances that a loss could never align are left out before the training, by name."""

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from neumo.backends.torch.registry import implements
from neumo.engine import NeuralFactory
from neumo.graph.graph import Graph
from neumo.graph.module import DataLayer, NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Audio, B, GraphError, Ids, Lengths, LogProbs, Loss, T, U, V

from .toys import LETTERS, Line, PointData, refused


class SoundSource:
    """Eight utterances of 2 to 9 samples, all with the text 'abb'."""

    def __init__(self) -> None:
        self.frames = np.arange(2, 10)
        self.indices = np.arange(8)
        self.excluded: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self.indices)

    def batches(self, epoch, *, rank=0, world=1):
        every = [int(i) for i in self.indices]
        return [every[at : at + 2] for at in range(0, len(every), 2)]

    def item(self, index, epoch):
        return {"index": index}

    def collate(self, items):
        lengths = np.array([self.frames[item["index"]] for item in items])
        return {
            "audio": np.zeros((len(items), lengths.max()), np.float32),
            "audio_len": lengths,
            "text": np.array([[0, 1, 1]] * len(items)),
            "text_len": np.full(len(items), 3),
        }

    def text_ids(self, index):
        return np.array([0, 1, 1])

    def exclude(self, indices, reason):
        self.excluded[reason] = list(indices)
        self.indices = np.array([i for i in self.indices if i not in indices])

    def name(self, index):
        return f"sound {index}"

    def report(self):
        return None


SOURCES: list[SoundSource] = []


@dataclass(frozen=True)
class SoundData(DataLayer):
    def signature(self) -> Signature:
        gives = {"audio": Audio()[B, T], "audio_len": Lengths(T)[B], "text": Ids(LETTERS)[B, U]}
        return Signature(gives={**gives, "text_len": Lengths(U)[B]})

    def open(self, seed: int) -> Any:
        SOURCES.append(SoundSource())
        return SOURCES[-1]


@dataclass(frozen=True)
class Scorer(NeuralModule):
    """Scores every second sample; with `own_time` the number of frames is only known when it runs."""

    trainable: ClassVar[bool] = True
    own_time: bool = False

    def signature(self) -> Signature:
        frames = T.named("T2") if self.own_time else T.ceildiv(2)
        return Signature(
            takes={"audio": Audio()[B, T], "audio_len": Lengths(T)[B]},
            gives={"log_probs": LogProbs(LETTERS)[B, frames, V(LETTERS)], "frames_len": Lengths(frames)[B]},
        )


@implements(Scorer)
class ScorerLayer(nn.Module):
    def __init__(self, spec):
        super().__init__()
        self.project = nn.Linear(1, 4)

    def forward(self, audio, audio_len):
        return self.project(audio[:, ::2, None]).log_softmax(-1), (audio_len + 1) // 2


@dataclass(frozen=True)
class Aligner(NeuralModule):
    role: ClassVar[Any] = "loss"

    def needed_frames(self, ids) -> int:
        return len(ids) + sum(a == b for a, b in itertools.pairwise(ids))

    def signature(self) -> Signature:
        takes = {"log_probs": LogProbs(LETTERS)[B, T, V(LETTERS)], "frames_len": Lengths(T)[B]}
        return Signature(takes={**takes, "targets": Ids(LETTERS)[B, U]}, gives={"loss": Loss()[()]})


@implements(Aligner)
class AlignerLayer(nn.Module):
    def __init__(self, spec):
        super().__init__()

    def forward(self, log_probs, frames_len, targets):
        return -log_probs[..., 0].mean()


def sound_graph(own_time=False):
    batch = SoundData()()
    scores = Scorer(own_time)(audio=batch.audio, audio_len=batch.audio_len)
    loss = Aligner()(log_probs=scores.log_probs, frames_len=scores.frames_len, targets=batch.text).loss
    return Graph("sound", "train", {"loss": loss})


def train(graph):
    return NeuralFactory(device="cpu", progress=False, verify="values").train(graph, epochs=1)


def test_what_can_never_be_aligned_is_left_out_and_named():
    """'abb' needs 4 frames; half of 2 to 6 samples, rounded up, is at most 3."""
    result = train(sound_graph())
    (reason,) = SOURCES[-1].excluded
    assert reason == "too short for its text at Aligner"
    assert SOURCES[-1].excluded[reason] == [0, 1, 2, 3, 4]
    assert result.steps == 2
    assert any("left out 5 too short" in note and "sound 0, sound 1" in note for note in result.notes)


def test_lengths_that_only_a_run_can_tell_are_left_to_the_loss():
    assert train(sound_graph(own_time=True)).steps == 4
    assert SOURCES[-1].excluded == {}


def test_two_data_layers_are_refused():
    one, two = PointData()(), PointData()()
    graph = Graph(outputs={"y": Line()(x=one.x).y, "z": two.y})
    with refused(GraphError, "reads from 2 data layers"):
        NeuralFactory(device="cpu", progress=False).infer(graph)


@pytest.mark.parametrize("batch", [1, 2])
def test_the_loss_must_be_one_number_that_depends_on_weights(batch):
    from neumo.backends.torch.training.trainer import TorchTrainer

    trainer = TorchTrainer.__new__(TorchTrainer)
    loss = torch.zeros(batch) if batch > 1 else torch.zeros(())
    with refused(Exception, "a loss is one number" if batch > 1 else "does not depend on any weight"):
        trainer._check(loss)
