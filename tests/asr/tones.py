"""A recogniser of tones that has nothing to learn: three tones are three letters, quiet is a space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from neumo.asr import GreedyCTC, MelSpectrogram
from neumo.backends.torch.registry import implements
from neumo.graph import Graph, NeuralModule, Signature, inputs
from neumo.types import Audio, B, F, Lengths, LogProbs, Mel, Probs, Scores, T, V, Vocab

LETTERS = Vocab(" abc")
LABELS = LETTERS.with_blank("end")
LOG_PROBS = LogProbs(LABELS)
TONES = {"a": 500, "b": 1200, "c": 2500}  # Hz
RATE = 16000


@dataclass(frozen=True)
class ToneReader(NeuralModule):
    """Reads tones as letters and quiet frames as spaces; only every `stride`th frame is looked at."""

    stride: int = 1
    scores: Scores = LOG_PROBS

    def signature(self) -> Signature:
        frames = T.ceildiv(self.stride)
        return Signature(
            takes={"mel": Mel()[B, F, T], "mel_len": Lengths(T)[B]},
            gives={"scores": self.scores[B, frames, V(LABELS)], "scores_len": Lengths(frames)[B]},
        )


@implements(ToneReader)
class TorchToneReader(nn.Module):
    def __init__(self, spec: ToneReader) -> None:
        super().__init__()
        self.spec = spec
        top = 2595 * np.log10(1 + np.array([8000, *TONES.values()]) / 700)  # in mel (HTK)
        self.bands = (top[1:] / top[0] * 64).round().astype(int).tolist()

    def forward(self, mel, mel_len):
        power = mel[:, :, :: self.spec.stride].exp()
        tones = torch.stack([power[:, band - 2 : band + 2].sum(1) for band in self.bands], -1)  # (B, T, 3)
        loud = power.sum(1)
        inside = torch.arange(mel.shape[-1])[:: self.spec.stride] < mel_len[:, None]
        # Half a window of a tone has a quarter of its power.
        quiet = loud < 0.25 * loud.masked_fill(~inside, 0).amax(1, keepdim=True)
        best = torch.where(quiet, 0, tones.argmax(-1) + 1)
        sure = torch.full((*best.shape, 5), 0.025).scatter(-1, best[..., None], 0.9)
        scores = sure if isinstance(self.spec.scores, Probs) else sure.log()
        return scores, (mel_len + self.spec.stride - 1) // self.spec.stride


def recogniser(stride=1, length="floor+1", scores=None, pad_to=0):
    spoken = inputs(audio=Audio(rate=RATE)[B, T], audio_len=Lengths(T)[B])
    front_end = MelSpectrogram(
        length=length, norm="none", preemphasis=0.0, dither=0.0, mel_scale="htk", pad_to=pad_to
    )
    mel = front_end(audio=spoken.audio, audio_len=spoken.audio_len)
    reader = ToneReader(stride, scores or LogProbs(LABELS))
    read = reader(mel=mel.mel, mel_len=mel.mel_len)
    heard = GreedyCTC(LETTERS)(log_probs=read.scores, log_probs_len=read.scores_len)
    return Graph("infer", "infer", {"ids": heard.ids, "ids_len": heard.ids_len})


def play(*tones, seconds):
    """Tones `(letter, start, end)` in a recording of so many seconds, at full strength from start to end."""
    samples = np.zeros(int(seconds * RATE), np.float32)
    for letter, start, end in tones:
        span = np.arange(int(start * RATE), int(end * RATE))
        samples[span] = 0.5 * np.sin(2 * np.pi * TONES[letter] * span / RATE)
    return samples
