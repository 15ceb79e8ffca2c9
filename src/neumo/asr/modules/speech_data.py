"""Data layers that read speech."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from neumo.asr.checks import a_share, at_least, one_of
from neumo.graph.module import DataLayer
from neumo.graph.signature import Signature
from neumo.types import (
    Audio,
    B,
    Ids,
    Item,
    Lengths,
    T,
    U,
    Vocab,
)
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.data.source import DataSource


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
    `weights` says how often each of several manifests is seen in an epoch: 2 is twice, 0.5 a half of it. A
    manifest may be a Kaldi folder. `cache="memory"` keeps the decoded audio. `retries` is how often a
    recording is read again after an error of the system that may pass, before it counts as bad.
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
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        at_least(self, 1, "rate", "batch_size")
        at_least(self, 0, "retries")
        count = 1 if isinstance(self.manifest, str | Path) else len(self.manifest)
        if self.weights is not None and len(self.weights) != count:
            what = f"SpeechData.weights are {len(self.weights)}, for {count} manifests"
            raise ConfigError(what, code="field", fixes=["give one weight for each manifest"])
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
