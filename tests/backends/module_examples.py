"""Instances of every module of neumo: the settings that matter for what goes in and what comes out."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator

from neumo.asr import modules as asr
from neumo.asr.blocks import ConvBlock
from neumo.graph import adapters
from neumo.graph.loss_sum import LossSum
from neumo.graph.module import NeuralModule
from neumo.graph.multi import MultiData
from neumo.graph.registry import known_kinds, lookup
from neumo.types import Any_, Durations, Vocab

ABC, CAB, LETTERS = Vocab("abc", name="abc"), Vocab("cab", name="cab"), Vocab.english()
FULL = Vocab(["<pad>", "<s>", "</s>", "<unk>", *"abcdef"], name="full", pad=0, bos=1, eos=2, unk=3)


def preset(name: str, width: int) -> asr.ConvEncoder:
    """A published encoder, narrow."""
    return asr.ConvEncoder.preset(name, width=width)


def encoder(*blocks: ConvBlock, **fields: object) -> asr.ConvEncoder:
    return asr.ConvEncoder(n_mels=8, blocks=blocks, **fields)


EXAMPLES: dict[str, list[NeuralModule]] = {
    "MelSpectrogram": [
        asr.MelSpectrogram(),
        asr.MelSpectrogram(length="ceil", pad_mode="reflect", n_mels=80),
        asr.MelSpectrogram(length="floor", hop=200, rate=8000),
        asr.MelSpectrogram(pad_to=16),
        asr.MelSpectrogram(pad_to=8, length="ceil", norm="all_features"),
        asr.MelSpectrogram(rate=22050, hop=256, win=1024, n_fft=1024, norm="none", log=False, power=1.0),
    ],
    "LinearSpectrogram": [
        asr.LinearSpectrogram(),
        asr.LinearSpectrogram(n_fft=400, log=True, norm="per_feature", length="floor", pad_to=16),
    ],
    "MelCepstrum": [asr.MelCepstrum(), asr.MelCepstrum(n_mfcc=13, lifter=22, length="floor+1")],
    "StackFrames": [asr.StackFrames(n_mels=8), asr.StackFrames(n_mels=4, frames=1)],
    "SpeedPerturb": [asr.SpeedPerturb()],
    "TimeStretch": [asr.TimeStretch()],
    "Gain": [asr.Gain()],
    "TimeShift": [asr.TimeShift()],
    "WhiteNoise": [asr.WhiteNoise()],
    "TelephoneBand": [asr.TelephoneBand()],
    "RecordedNoise": [asr.RecordedNoise("noises.jsonl")],
    "ImpulseResponse": [asr.ImpulseResponse("rooms.jsonl")],
    "CropOrPad": [asr.CropOrPad(frames=24), asr.CropOrPad(frames=24, place="start")],
    "SpecAugment": [asr.SpecAugment(freq_width=4, time_width=4)],
    "SpecCutout": [asr.SpecCutout(freq_width=4, time_width=4)],
    "ConvEncoder": [
        preset("digits", 32),
        preset("an4", 32),
        preset("quartznet_5x5", 64),
        asr.ConvEncoder(n_mels=8, blocks=(ConvBlock(8, 3, stride=3), ConvBlock(8, 5, dilation=2))),
        encoder(ConvBlock(8, 11, stride=2), ConvBlock(8, 5, stride=2, residual=True)),
        encoder(ConvBlock(8, 3, stride=2, separable=True), ConvBlock(8, 1, groups=2), masked=False),
        encoder(ConvBlock(8, 3, residual=True, dense=True), ConvBlock(8, 3, residual=True, dense=True)),
        encoder(ConvBlock(8, 3, stride=2, repeat=2, residual=True), activation="gelu"),
    ],
    "CTCHead": [asr.CTCHead(LETTERS, width=16)],
    "CTCLoss": [asr.CTCLoss(LETTERS)],
    "GreedyCTC": [asr.GreedyCTC(LETTERS)],
    "RecurrentDecoder": [
        asr.RecurrentDecoder(ABC, width=6, hidden=8, embedding=4, attention=5, filters=2, kernel=5),
        asr.RecurrentDecoder(
            ABC, width=6, hidden=8, embedding=4, attention=5, filters=0, cell="gru", layers=2
        ),
    ],
    "TransformerDecoder": [
        asr.TransformerDecoder(ABC, width=6, hidden=8, heads=2, layers=2, feed_forward=12),
        asr.TransformerDecoder(
            ABC, width=6, hidden=8, heads=2, layers=1, feed_forward=12, norm="post", positions="learned"
        ),
    ],
    "SequenceLoss": [asr.SequenceLoss(ABC, smoothing=0.1), asr.SequenceLoss(ABC, mean_over="positions")],
    "LossSum": [LossSum({"ctc": 0.3, "attention": 0.7})],
    "Resample": [
        adapters.Resample(22050, 16000),
        adapters.Resample(8000, 16000),
        adapters.Resample(16000, 16000),
    ],
    "Repeak": [adapters.Repeak(32768.0, 1.0)],
    "Mono": [adapters.Mono()],
    "Rescale": [adapters.Rescale("ln", "log10"), adapters.Rescale("db", "linear", 2.0)],
    "Reorder": [adapters.Reorder(CAB, ABC)],
    "RemapIds": [adapters.RemapIds(ABC, LETTERS)],
    "Repad": [adapters.Repad(0, -100)],
    "LengthsToMask": [adapters.LengthsToMask("keep"), adapters.LengthsToMask("pad")],
    "Subsample": [adapters.Subsample(2), adapters.Subsample(3, "floor"), adapters.Subsample(4)],
    "Transpose": [adapters.Transpose("B F T", "T B F"), adapters.Transpose("B T U V", "B U T V")],
    "Unsqueeze": [adapters.Unsqueeze(1)],
    "Squeeze": [adapters.Squeeze(1)],
    "Default": [adapters.Default(0.0)],
    "Reframe": [
        adapters.Reframe("none", "bos..eos", FULL),
        adapters.Reframe("bos..eos", "bos..", FULL),
        adapters.Reframe("bos..eos", "none", FULL, pad=-100),
    ],
    "Shift": [adapters.Shift(-100)],
    "ScalePixels": [adapters.ScalePixels(255.0, 1.0)],
    "FlipChannels": [adapters.FlipChannels()],
    "Pick": [adapters.Pick("ids")],
    "Concat": [adapters.Concat(1), adapters.Concat(2, parts=3)],
    "Upsample": [adapters.Upsample(4)],
    "Offset": [adapters.Offset(2), adapters.Offset(-1)],
    "Reduce": [adapters.Reduce("mean"), adapters.Reduce("sum")],
    "Spread": [adapters.Spread("std", "log_variance"), adapters.Spread("log_variance", "std")],
    "Repower": [adapters.Repower(1, 2, "linear"), adapters.Repower(2, 1, "ln")],
    "Assume": [],
    "MultiData": [MultiData((asr.SpeechData("a.jsonl", vocab=ABC), asr.SpeechData("b.jsonl", rate=8000)))],
    "SpeechData": [asr.SpeechData("train.jsonl", vocab=LETTERS), asr.SpeechData("train.jsonl")],
}
_WORDS = {"str": "x", "int": 2, "float": 1.0, "bool": True, "Vocab": ABC}


def ours() -> list[type[NeuralModule]]:
    """Every public module class that neumo defines."""
    found = (lookup(kind) for kind in known_kinds() if not kind.startswith("_"))
    return [
        cls for cls in found if cls.__module__.startswith("neumo.") and "__dataclass_params__" in vars(cls)
    ]


def examples(cls: type[NeuralModule]) -> list[NeuralModule]:
    """The instances of a class: those above, or else one made from the kinds of its fields."""
    known = EXAMPLES.get(cls.__name__)
    if known is not None or cls.role == "data":
        return known or []
    hints = typing.get_type_hints(cls)
    kinds = {name: getattr(hints[name], "__name__", "") for name in _needed(cls)}
    if any(kind not in _WORDS for kind in kinds.values()):
        return []  # a test says so: give it an example above
    return [cls(**{name: _WORDS[kind] for name, kind in kinds.items()})]


def _needed(cls: type[NeuralModule]) -> list[str]:
    """The settings without a default."""
    fields = dataclasses.fields(cls)
    return [f.name for f in fields if f.init and f.default is f.default_factory is dataclasses.MISSING]


def hands_over_objects(spec: NeuralModule) -> bool:
    """Whether a module takes or gives what is no tensor, such as what scores the next label for a search."""
    signatures = spec.signature(), spec.signature_for({})
    ports = [port for each in signatures for port in (*each.takes.values(), *each.gives.values())]
    elements = [port.element for port in ports]
    return any(each.dtype == "any" and not isinstance(each, Any_ | Durations) for each in elements)


def all_examples() -> Iterator[NeuralModule]:
    for cls in ours():
        yield from examples(cls)
