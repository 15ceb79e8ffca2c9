"""The neural modules of speech recognition: what each takes and gives. Their torch code is in `torch/`."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from neumo.asr.blocks import ConvBlock
from neumo.asr.checks import a_share, at_least, one_of
from neumo.asr.presets import PRESETS, preset_blocks
from neumo.graph.module import DataLayer, NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Audio,
    B,
    F,
    Flags,
    Hypotheses,
    Ids,
    Item,
    Lengths,
    LogProbs,
    Loss,
    Mel,
    Positions,
    Scores,
    T,
    U,
    V,
    Values,
    Var,
    Vocab,
)
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.data.source import DataSource

# What passes through an augmentation unchanged: every facet is a variable that the connection solves.
_ANY_MEL = Mel(**{field.name: Var(field.name) for field in dataclasses.fields(Mel)})
_ANY_AUDIO = Audio(**{field.name: Var(field.name) for field in dataclasses.fields(Audio)})


@dataclass(frozen=True)
class MelSpectrogram(NeuralModule):
    """Turns samples into log-mel frames, numerically as the front-end of the public QuartzNet checkpoints.

    >>> MelSpectrogram(n_mels=64).signature().gives["mel_len"]
    Lengths(T//160 + 1)[B]

    The order is: dither (training only), pre-emphasis, STFT, power, mel filters, logarithm, normalisation
    over the valid frames of each utterance, zeros beyond them, padding to a multiple of `pad_to` frames. It
    computes in float32 inside autocast.

    `hop`, `win`, `n_fft` count samples; `fmin`, `fmax` are in Hz (`fmax=None` is half the rate). `length`
    says how many frames are valid in an utterance of T samples, in the words of the public releases:

    =============  =====================  ==========  =========================
    `length`       frames                 `pad_mode`  generation of checkpoints
    =============  =====================  ==========  =========================
    "ceil"         ceil(T / hop)          "reflect"   0.9 to 0.11
    "floor+1"      floor(T / hop) + 1     "reflect"   1.0 to 2.4
    "floor"        floor(T / hop)         "constant"  3.0
    =============  =====================  ==========  =========================

    Short audio never fails: a signal shorter than the padding is mirrored again and again; the features of an
    utterance of one frame have no deviation and become 0; under `length="floor"` less than `hop` samples are
    no frame at all. `pad_mode="reflect"` mirrors each utterance at its own end, so what else is in the batch
    changes nothing.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("audio",)

    rate: int = 16000
    n_mels: int = 64
    hop: int = 160
    win: int = 320
    n_fft: int = 512
    window: str = "hann"
    periodic: bool = False
    fmin: float = 0.0
    fmax: float | None = None
    mel_scale: Literal["slaney", "htk"] = "slaney"
    area_norm: bool = True
    preemphasis: float = 0.97
    dither: float = 1e-5
    power: float = 2.0
    log: bool = True
    floor: float = 2.0**-24
    floor_mode: Literal["add", "clamp"] = "add"
    norm: Literal["per_feature", "all_features", "none"] = "per_feature"
    pad_to: int = 0
    pad_mode: Literal["constant", "reflect"] = "constant"
    length: Literal["ceil", "floor+1", "floor"] = "floor+1"

    def __post_init__(self) -> None:
        one_of(self, "window", ("hann", "hamming", "blackman", "bartlett", "ones"))
        one_of(self, "mel_scale", ("slaney", "htk"))
        one_of(self, "floor_mode", ("add", "clamp"))
        one_of(self, "norm", ("per_feature", "all_features", "none"))
        one_of(self, "pad_mode", ("constant", "reflect"))
        one_of(self, "length", ("ceil", "floor+1", "floor"))
        at_least(self, 1, "rate", "n_mels", "hop", "win", "n_fft")
        at_least(self, 0, "fmin", "preemphasis", "dither", "power", "floor", "pad_to")
        if self.win > self.n_fft:
            raise ConfigError(
                f"MelSpectrogram.win {self.win} is longer than n_fft {self.n_fft}", code="field"
            )
        if not self.fmin < self.highest <= self.rate / 2:
            raise ConfigError(
                f"MelSpectrogram has bands from {self.fmin} to {self.highest} Hz, "
                f"which is not within 0 to {self.rate / 2} Hz",
                code="field",
            )

    @property
    def highest(self) -> float:
        """The upper end of the mel band in Hz."""
        return self.rate / 2 if self.fmax is None else self.fmax

    def frames(self, samples: Any) -> Any:
        """The number of valid frames in a number of samples: for an int, a tensor or an axis.

        >>> MelSpectrogram().frames(16000), MelSpectrogram(length="ceil").frames(T)
        (101, ceil(T/160))
        """
        if self.length == "ceil":
            return (samples + (self.hop - 1)) // self.hop
        return samples // self.hop + (1 if self.length == "floor+1" else 0)

    def element(self) -> Mel:
        """What the frames mean, with every facet known."""
        return Mel(
            rate=self.rate,
            hop=self.hop,
            n_fft=self.n_fft,
            win=self.win,
            window=self.window,
            power=self.power,
            scale="ln" if self.log else "linear",
            floor=self.floor if self.log else 0.0,
            norm=self.norm,
            center=True,
            n_mels=self.n_mels,
            fmin=self.fmin,
            fmax=self.highest,
            mel_scale=self.mel_scale,
        )

    def signature(self) -> Signature:
        """Samples at `rate` with a peak of 1.0 to mel frames."""
        frames = self.frames(T)
        if self.pad_to:
            frames = frames.ceildiv(self.pad_to) * self.pad_to
        return Signature(
            takes={"audio": Audio(rate=self.rate, peak=1.0)[B, T], "audio_len": Lengths(T)[B]},
            gives={"mel": self.element()[B, F(self.n_mels), frames], "mel_len": Lengths(frames)[B]},
        )


@dataclass(frozen=True)
class SpeedPerturb(NeuralModule):
    """Plays each training utterance at a speed drawn from `factors`, which also moves its pitch.

    >>> SpeedPerturb(factors=(0.9, 1.0, 1.1)).new_length(16000, 1.1)
    14546

    Resampled with a windowed sinc (Ko et al. 2015, Audio augmentation for speech recognition). In evaluation
    it changes nothing. Factors have at most two decimals.
    """

    mixes: ClassVar[tuple[str, ...] | None] = ("audio",)

    factors: tuple[float, ...] = (0.9, 1.0, 1.1)

    def __post_init__(self) -> None:
        if not self.factors or any(not 0.1 <= factor <= 10 for factor in self.factors):
            raise ConfigError(f"SpeedPerturb.factors {self.factors} must be between 0.1 and 10", code="field")
        if any(abs(factor * 100 - round(factor * 100)) > 1e-9 for factor in self.factors):
            raise ConfigError(
                f"SpeedPerturb.factors {self.factors} must have at most two decimals", code="field"
            )

    @staticmethod
    def ratio(factor: float) -> tuple[int, int]:
        """The factor as a fraction in lowest terms.

        >>> SpeedPerturb.ratio(0.9)
        (9, 10)
        """
        hundredths = round(factor * 100)
        common = math.gcd(hundredths, 100)
        return hundredths // common, 100 // common

    @classmethod
    def new_length(cls, samples: Any, factor: float) -> Any:
        """The number of samples after a change of speed, for an int or a tensor: ceil(samples / factor)."""
        above, below = cls.ratio(factor)
        return (samples * below + (above - 1)) // above

    def signature(self) -> Signature:
        """Audio of any rate to audio of the same rate and another length."""
        changed = T("T'")
        return Signature(
            takes={"audio": _ANY_AUDIO[B, T], "audio_len": Lengths(T)[B]},
            gives={"audio": _ANY_AUDIO[B, changed], "audio_len": Lengths(changed)[B]},
        )


@dataclass(frozen=True)
class SpecAugment(NeuralModule):
    """Sets random bands of mel frequencies and stretches of time to 0 in training (Park et al. 2019).

    >>> SpecAugment(freq_masks=2, freq_width=12, time_masks=2, time_width=12)
    SpecAugment(freq_width=12, time_width=12)

    Each mask is 0 to `freq_width` bands or 0 to `time_width` frames wide, and at most `time_share` of the
    utterance long. In evaluation it changes nothing. https://arxiv.org/abs/1904.08779
    """

    mixes: ClassVar[tuple[str, ...] | None] = ()

    freq_masks: int = 2
    freq_width: int = 27
    time_masks: int = 2
    time_width: int = 100
    time_share: float = 1.0

    def __post_init__(self) -> None:
        at_least(self, 0, "freq_masks", "freq_width", "time_masks", "time_width")
        a_share(self, "time_share")

    def signature(self) -> Signature:
        """Mel frames of any settings to the same."""
        return _mel_to_mel()


@dataclass(frozen=True)
class SpecCutout(NeuralModule):
    """Sets random rectangles of the mel frames to 0 in training (DeVries and Taylor 2017).

    >>> SpecCutout(masks=5, freq_width=50, time_width=120)
    SpecCutout()

    Each rectangle is 0 to `freq_width` bands by 0 to `time_width` frames. In evaluation it changes nothing.
    https://arxiv.org/abs/1708.04552
    """

    mixes: ClassVar[tuple[str, ...] | None] = ()

    masks: int = 5
    freq_width: int = 50
    time_width: int = 120

    def __post_init__(self) -> None:
        at_least(self, 0, "masks", "freq_width", "time_width")

    def signature(self) -> Signature:
        """Mel frames of any settings to the same."""
        return _mel_to_mel()


def _mel_to_mel() -> Signature:
    mel, mel_len = _ANY_MEL[B, F, T], Lengths(T)[B]
    return Signature(takes={"mel": mel, "mel_len": mel_len}, gives={"mel": mel})


@dataclass(frozen=True)
class ConvEncoder(NeuralModule):
    """Encodes mel frames with (separable) convolutions over time: the Jasper and QuartzNet family.

    >>> encoder = ConvEncoder.preset("quartznet_15x5")
    >>> encoder.width, encoder.stride
    (1024, 2)
    >>> encoder.signature().gives["encoded"]
    Acoustic[B, F=1024, ceil(T/2)]

    With `masked` (as all public checkpoints) no frame beyond an utterance's end reaches a convolution, so an
    utterance is encoded the same alone and in any batch. `mel` states the settings of the frames that the
    weights were trained on, where they are known; anything else is then refused.
    """

    trainable: ClassVar[bool] = True
    mixes: ClassVar[tuple[str, ...] | None] = ("mel",)
    presets: ClassVar[tuple[str, ...]] = tuple(PRESETS)

    n_mels: int = 64
    blocks: tuple[ConvBlock, ...] = dataclasses.field(default_factory=lambda: preset_blocks("digits"))
    activation: Literal["relu", "hardtanh", "selu", "silu", "gelu"] = "relu"
    masked: bool = True
    mel: Mel | None = None

    def __post_init__(self) -> None:
        one_of(self, "activation", ("relu", "hardtanh", "selu", "silu", "gelu"))
        at_least(self, 1, "n_mels")
        if not self.blocks:
            raise ConfigError("ConvEncoder.blocks is empty", code="field")
        width = self.n_mels
        for number, block in enumerate(self.blocks):
            if width % block.groups:
                raise ConfigError(
                    f"ConvEncoder.blocks[{number}] has {block.groups} groups, its input has {width} channels",
                    code="field",
                )
            width = block.width

    @classmethod
    def preset(
        cls, name: str, *, width: int | None = None, dropout: float | None = None, **fields: Any
    ) -> ConvEncoder:
        """Make a published encoder, or a small one: see `neumo.asr.presets.PRESETS` for the names.

        >>> ConvEncoder.preset("an4", width=128).blocks[-1].width
        128

        `width` is the width of the output and scales all blocks; `dropout` sets that of all blocks.
        """
        return cls(blocks=preset_blocks(name, width=width, dropout=dropout), **fields)

    @property
    def width(self) -> int:
        """The number of features of each encoded frame."""
        return self.blocks[-1].width

    @property
    def stride(self) -> int:
        """How many mel frames make one encoded frame."""
        return math.prod(block.stride for block in self.blocks)

    def signature(self) -> Signature:
        """Mel frames to encoded frames, `stride` times fewer (rounded up)."""
        frames = T.ceildiv(self.stride)
        mel = dataclasses.replace(self.mel or Mel(), n_mels=self.n_mels)
        return Signature(
            takes={"mel": mel[B, F(self.n_mels), T], "mel_len": Lengths(T)[B]},
            gives={"encoded": Acoustic()[B, F(self.width), frames], "encoded_len": Lengths(frames)[B]},
        )


@dataclass(frozen=True)
class CTCHead(NeuralModule):
    """Scores the labels and the blank in each encoded frame: one linear layer and a log-softmax in float32.

    >>> CTCHead(Vocab.english(), width=1024).signature().gives["log_probs"].axes[:2]
    (B, T)

    The blank is the last label: `vocab.with_blank("end")`.
    """

    trainable: ClassVar[bool] = True

    vocab: Vocab
    width: int = 1024

    def __post_init__(self) -> None:
        at_least(self, 1, "width")

    def signature(self) -> Signature:
        """Encoded frames to log-probabilities."""
        labels = self.vocab.with_blank("end")
        return Signature(
            takes={"encoded": Acoustic()[B, F(self.width), T]},
            gives={"log_probs": LogProbs(labels)[B, T, V(labels)]},
        )


@dataclass(frozen=True)
class CTCLoss(NeuralModule):
    """Connectionist temporal classification: minus the log-probability of a target, mean over utterances.

    >>> list(CTCLoss(Vocab.english()).signature().gives)
    ['loss', 'infeasible', 'count']

    An utterance is infeasible if its target needs more frames than there are (one for each label and one
    between equal neighbours), or if it has no frame: `infeasible` says which, and it adds nothing to the
    loss, the mean or any gradient. A batch of only infeasible utterances has the loss 0. `count` is how many
    the mean is over, so that batches of a step can be weighted. Graves et al. 2006,
    https://www.cs.toronto.edu/~graves/icml_2006.pdf
    """

    role: ClassVar[Role] = "loss"

    vocab: Vocab

    def signature(self) -> Signature:
        """Log-probabilities and targets, each with lengths, to a loss and the utterances it left out."""
        labels = self.vocab.with_blank("end")
        return Signature(
            takes={
                "log_probs": LogProbs(labels)[B, T, V(labels)],
                "log_probs_len": Lengths(T)[B],
                "targets": Ids(self.vocab)[B, U],
                "targets_len": Lengths(U)[B],
            },
            gives={
                "loss": Loss(reduction="mean")[()],
                "infeasible": Flags()[B],
                "count": Values("utterances")[()],
            },
        )

    @staticmethod
    def needed_frames(ids: Sequence[int]) -> int:
        """Count the frames that a target needs, so that a training can name infeasible utterances at once.

        >>> CTCLoss.needed_frames([7, 4, 11, 11, 14])
        6
        """
        labels = list(ids)
        repeats = sum(1 for before, label in itertools.pairwise(labels) if before == label)
        return max(1, len(labels) + repeats)


@dataclass(frozen=True)
class GreedyCTC(NeuralModule):
    """Reads off the best label of each frame, then drops repeats and blanks.

    >>> list(GreedyCTC(Vocab.english()).signature().gives)
    ['ids', 'ids_len', 'frames']

    `frames` says in which frame each label was read: the first of those in a row where it is the best one.
    The clock of the scores makes seconds of them, see `neumo.asr.word_times`; a label peaks somewhere in its
    sound, so these are no exact onsets. Beyond `ids_len` ids and frames are 0. Takes logits as well as
    log-probabilities: the best label is the same.
    """

    role: ClassVar[Role] = "decoder"

    vocab: Vocab

    def signature(self) -> Signature:
        """Scores of labels and blank to ids without blank, and the frames in which they were read."""
        labels, emitted = self.vocab.with_blank("end"), U("U'")
        return Signature(
            takes={"log_probs": Scores(labels)[B, T, V(labels)], "log_probs_len": Lengths(T)[B]},
            gives={
                "ids": Hypotheses(self.vocab)[B, emitted],
                "ids_len": Lengths(emitted)[B],
                "frames": Positions(T)[B, emitted],
            },
        )


@dataclass(frozen=True)
class SpeechData(DataLayer):
    """Reads utterances and their transcripts from JSON-lines manifests, in batches of similar length.

    >>> data = SpeechData("train.jsonl", vocab=Vocab.english(), batch_size=16)
    >>> data.signature().gives["audio"]
    Audio(rate=16000, peak=1.0, channels=1)[B, T]

    Durations are in seconds. `max_batch_seconds` limits a batch by its padded audio as well as by
    `batch_size`, `max_batch_tokens` by the padded ids of its texts. `channels` says what happens to a
    recording with several: "refuse", "mix", "first", or the number of one. `on_rate` is "resample" or
    "refuse" for a recording at another rate, `on_bad` "raise" or "skip" for one that cannot be read,
    `on_unknown` "raise", "drop_utterance" or "drop_character" for a text with characters outside of `vocab`.
    Whatever is left out is counted and reported. Without `vocab` there are no texts, as for transcription.
    `cache="memory"` keeps the decoded audio. `retries` is how often a recording is read again after an error
    of the system that may pass, before it counts as bad.
    `neumo.data.speech.SpeechSource` says more.
    """

    targets: ClassVar[tuple[str, ...] | None] = ("text", "text_len")

    manifest: str | Path | tuple[str | Path, ...]
    vocab: Vocab | None = None
    rate: int = 16000
    batch_size: int = 16
    shuffle: bool = True
    min_duration: float | None = None
    max_duration: float | None = None
    channels: Literal["refuse", "mix", "first"] | int = "refuse"
    on_rate: Literal["resample", "refuse"] = "resample"
    on_bad: Literal["raise", "skip"] = "raise"
    on_unknown: Literal["raise", "drop_utterance", "drop_character"] = "raise"
    max_bad_share: float = 0.1
    max_unknown_share: float = 0.1
    max_batch_seconds: float | None = None
    bucket_window: int | None = None
    cache: Literal["memory", "off"] = "off"
    cache_limit: int = 1 << 30
    text_field: str | None = None
    check: Literal["auto", "headers", "files", "off"] = "auto"
    max_batch_tokens: int | None = None
    retries: int = 2

    def __post_init__(self) -> None:
        at_least(self, 1, "rate", "batch_size")
        at_least(self, 0, "retries")
        a_share(self, "max_bad_share", "max_unknown_share")
        one_of(self, "on_rate", ("resample", "refuse"))
        one_of(self, "on_bad", ("raise", "skip"))
        one_of(self, "on_unknown", ("raise", "drop_utterance", "drop_character"))
        one_of(self, "cache", ("memory", "off"))
        one_of(self, "check", ("auto", "headers", "files", "off"))
        if not isinstance(self.channels, int):
            one_of(self, "channels", ("refuse", "mix", "first"))

    def signature(self) -> Signature:
        """Audio, texts if there is a vocabulary, and the index of each utterance."""
        audio = {
            "audio": Audio(rate=self.rate, peak=1.0, channels=1)[B, T],
            "audio_len": Lengths(T)[B],
        }
        text = {}
        if self.vocab is not None:
            text = {"text": Ids(self.vocab)[B, U], "text_len": Lengths(U)[B]}
        return Signature(gives={**audio, **text, "item": Item()[B]})

    def open(self, seed: int) -> DataSource:
        """Read the manifests; `seed` decides the order of the batches."""
        from neumo.data.speech import SpeechSource

        settings = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return SpeechSource(seed=seed, **settings)
