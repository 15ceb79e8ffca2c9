"""Reading recordings: samples as float32 in [-1, 1], at the rate and with the channel that were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from neumo.data.decode import (
    AudioSource,
    Origin,
    check_container,
    decode,
    missing_package,
    name_of,
    open_audio,
    open_decoder,
)

ChannelPolicy = Literal["refuse", "mix", "first"] | int
RatePolicy = Literal["resample", "refuse"]

_INTEGER_SCALE = 32.0  # float samples above this are integers that nobody divided
_FULL_SCALE = {"uint8": 128.0, "int16": 32768.0, "int32": 2147483648.0}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Says which form recordings must have, and what to do with those that have another.

    `rate` in Hz, None keeps the file's. `on_rate` is "resample" or "refuse". `channels` is "refuse" (only
    mono), "mix" (the mean), "first" or a number from 0; `channel` picks one and goes before `channels`.

    >>> Wanted(rate=16000).on_rate
    'resample'
    """

    rate: int | None = None
    on_rate: RatePolicy = "resample"
    channels: ChannelPolicy = "refuse"
    channel: int | None = None

    def check_rate(self, rate: int, origin: Origin) -> None:
        """Raise `DataError` if a recording has another rate and resampling is refused."""
        if self.rate is None or rate == self.rate or self.on_rate == "resample":
            return
        fixes = ['on_rate="resample"', f"resample the file to {self.rate} Hz"]
        raise origin.error("rate", f"{origin.name} has {rate} Hz, expected {self.rate} Hz", fixes=fixes)

    def pick_channel(self, count: int, origin: Origin) -> int | None:
        """Give the channel to take, or None for the mean; raise `DataError` where neither is allowed."""
        wanted = self.channels if self.channel is None else self.channel
        if isinstance(wanted, int):
            if 0 <= wanted < count:
                return wanted
            have = "1 channel, number 0" if count == 1 else f"{count} channels, numbers 0 to {count - 1}"
            raise origin.error("channels", f"{origin.name} has no channel {wanted}: it has {have}")
        if count == 1 or wanted == "first":
            return 0
        if wanted == "mix":
            return None
        fixes = ['channels="mix" (their mean), "first" or a number', 'a field "channel" in the manifest line']
        raise origin.error("channels", f"{origin.name} has {count} channels, expected 1", fixes=fixes)


@dataclass(frozen=True, slots=True)
class Waveform:
    """Holds one channel of sound and what was done to get it.

    `samples` is float32 [T] in [-1, 1] at `rate` Hz. `source_rate`, `channels` and `format` describe the
    file; `clipped` counts samples that lay outside [-1, 1].
    """

    samples: np.ndarray
    rate: int
    source_rate: int
    channels: int
    format: str
    clipped: int = 0

    @property
    def seconds(self) -> float:
        """Give the duration in seconds."""
        return len(self.samples) / self.rate

    @property
    def resampled(self) -> bool:
        """Tell whether the rate was changed."""
        return self.rate != self.source_rate


@dataclass(frozen=True, slots=True)
class AudioInfo:
    """Holds what the header of a recording says; nothing is decoded for it."""

    rate: int
    channels: int
    frames: int
    format: str

    @property
    def seconds(self) -> float:
        """Give the duration in seconds."""
        return self.frames / self.rate


def read_audio(
    source: AudioSource,
    *,
    rate: int | None = None,
    on_rate: RatePolicy = "resample",
    channels: ChannelPolicy = "refuse",
    channel: int | None = None,
    offset: float = 0.0,
    duration: float | None = None,
    where: str = "",
) -> Waveform:
    """Read a recording, or `duration` seconds of it from `offset`, from a path, bytes or an open binary file.

    WAV (PCM 8/16/24/32, float 32/64, extensible, RF64, MPEG layer 3 inside), FLAC, Ogg (Vorbis, Opus), MP3,
    AIFF and more are told apart by their bytes; no file name matters and no outside program is needed. The
    policies are those of `Wanted`. A piece has round(duration * rate) samples, unless the recording ends
    earlier. `where` is named in errors, such as the line of a manifest. Raises `DataError` for everything
    that can be wrong.

    >>> import io, soundfile
    >>> file = io.BytesIO()
    >>> soundfile.write(file, np.full(8000, 0.5, np.float32), 8000, format="WAV")
    >>> wave = read_audio(file, rate=16000, offset=0.25, duration=0.5)
    >>> len(wave.samples), wave.samples.dtype.name, wave.source_rate
    (8000, 'float32', 8000)
    """
    origin = Origin(name_of(source), where)
    with open_audio(source, origin) as file:
        kind = check_container(file, origin, checksums=True)
        frames, source_rate = decode(file, kind, origin, offset=offset, duration=duration)
    return _finish(frames, source_rate, kind, Wanted(rate, on_rate, channels, channel), origin)


def audio_from_array(
    samples: np.ndarray,
    *,
    source_rate: int,
    rate: int | None = None,
    on_rate: RatePolicy = "resample",
    channels: ChannelPolicy = "refuse",
    channel: int | None = None,
    where: str = "",
) -> Waveform:
    """Take samples that are already in memory, [time] or [time, channels], of integers or floats.

    Integers are divided by their full scale. No audio library is imported unless the rate has to change.

    >>> audio_from_array(np.array([0, 16384, -32768], np.int16), source_rate=16000).samples.tolist()
    [0.0, 0.5, -1.0]
    """
    origin = Origin("an array", where)
    frames = samples[:, None] if samples.ndim == 1 else samples
    if frames.ndim != 2 or 0 in frames.shape:
        raise origin.error("empty", f"an array of shape {list(samples.shape)} holds no sound")
    if frames.shape[1] > 64:
        what = f"an array of shape {list(samples.shape)} would have {frames.shape[1]} channels"
        raise origin.error("channels", what, fixes=["give [time, channels], such as samples.T"])
    return _finish(
        _scaled(frames, origin), source_rate, "array", Wanted(rate, on_rate, channels, channel), origin
    )


def audio_info(source: AudioSource, *, where: str = "") -> AudioInfo:
    """Read the header of a recording and check that its container is whole; nothing is decoded.

    >>> import io, soundfile
    >>> file = io.BytesIO()
    >>> soundfile.write(file, np.zeros((800, 2)), 8000, format="FLAC")
    >>> audio_info(file)
    AudioInfo(rate=8000, channels=2, frames=800, format='FLAC')
    """
    origin = Origin(name_of(source), where)
    with open_audio(source, origin) as file:
        kind = check_container(file, origin)
        with open_decoder(file, kind, origin) as sound:
            if sound.frames <= 0:
                raise origin.error("empty", f"{origin.name} holds no samples ({kind})")
            return AudioInfo(sound.samplerate, sound.channels, sound.frames, kind)


def _scaled(frames: np.ndarray, origin: Origin) -> np.ndarray:
    kind = frames.dtype.name
    if np.issubdtype(frames.dtype, np.floating):
        return frames.astype(np.float32, copy=False)
    if kind not in _FULL_SCALE:
        raise origin.error("values", f"an array of {kind} is not sound", fixes=["give int16 or float32"])
    centre = 128.0 if kind == "uint8" else 0.0
    return ((frames.astype(np.float64) - centre) / _FULL_SCALE[kind]).astype(np.float32)


def _finish(frames: np.ndarray, source_rate: int, kind: str, wanted: Wanted, origin: Origin) -> Waveform:
    """Take one channel, check the values, change the rate by policy, and keep the peak at 1."""
    picked = wanted.pick_channel(frames.shape[1], origin)
    wanted.check_rate(source_rate, origin)
    mono = (
        frames.mean(axis=1, dtype=np.float32) if picked is None else np.ascontiguousarray(frames[:, picked])
    )
    _check_values(mono, origin)
    rate = wanted.rate or source_rate
    if rate != source_rate:
        mono = _resample(mono, source_rate, rate)
    clipped = 0
    if _peak(mono) > 1.0:
        clipped = int(np.count_nonzero(np.abs(mono) > 1.0))
        mono = np.clip(mono, -1.0, 1.0)
    return Waveform(mono, rate, source_rate, frames.shape[1], kind, clipped)


def _peak(mono: np.ndarray) -> float:
    return max(float(mono.max()), -float(mono.min()))


def _check_values(mono: np.ndarray, origin: Origin) -> None:
    peak = _peak(mono)
    if not np.isfinite(peak):
        bad = int(np.count_nonzero(~np.isfinite(mono)))
        raise origin.error(
            "values", f"{origin.name} holds {bad} samples that are not finite (NaN or infinity)"
        )
    if peak > _INTEGER_SCALE:
        what = f"{origin.name} holds float samples up to {peak:.0f}, expected -1 to 1"
        raise origin.error("values", what, fixes=["divide the samples by 32768, or store 16-bit integers"])


def _resample(mono: np.ndarray, source_rate: int, rate: int) -> np.ndarray:
    """Change the rate; n samples become round(n * rate / source_rate), and at least one."""
    try:
        import soxr
    except ModuleNotFoundError as error:
        raise missing_package("changing the sample rate", error) from None

    length = max(1, round(len(mono) * rate / source_rate))
    resampled: np.ndarray = soxr.resample(mono, source_rate, rate, quality="HQ")
    if len(resampled) < length:
        last = resampled[-1] if len(resampled) else mono[-1]
        resampled = np.concatenate([resampled, np.full(length - len(resampled), last, np.float32)])
    return np.ascontiguousarray(resampled[:length], dtype=np.float32)
