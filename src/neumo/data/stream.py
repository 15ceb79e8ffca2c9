"""Reading recordings block by block, so that two hours need no more memory than two minutes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from neumo.data.audio import (
    ChannelPolicy,
    Wanted,
    _check_values,  # pyright: ignore[reportPrivateUsage]
    read_audio,
)
from neumo.data.decode import (
    DURATION_TOLERANCE,
    AudioSource,
    Origin,
    check_container,
    missing_package,
    name_of,
    open_audio,
    open_decoder,
)

__all__ = ["BLOCK_SECONDS", "stream_audio"]

BLOCK_SECONDS = 10.0


def stream_audio(
    source: AudioSource,
    *,
    rate: int,
    channels: ChannelPolicy = "refuse",
    channel: int | None = None,
    offset: float = 0.0,
    duration: float | None = None,
    where: str = "",
    block: float = BLOCK_SECONDS,
) -> Iterator[np.ndarray]:
    """Yield what `read_audio` would give, float32 [T] at `rate` Hz, in blocks of about `block` seconds.

    The blocks put one behind the other have as many samples as the whole would have. Changing the rate goes
    on over their edges, so there are no seams. Never more than a few blocks are in memory. Raises
    `DataError`, perhaps after some blocks: only at its end does one know that a file is cut off.

    >>> import io, soundfile
    >>> file = io.BytesIO()
    >>> soundfile.write(file, np.full(20000, 0.5, np.float32), 8000, format="WAV")
    >>> [len(piece) for piece in stream_audio(file, rate=8000, block=1.0)]
    [8000, 8000, 4000]
    """
    origin, wanted = Origin(name_of(source), where), Wanted(rate, channels=channels, channel=channel)
    begun = False
    with open_audio(source, origin) as file:
        kind = check_container(file, origin, checksums=True)
        with open_decoder(file, kind, origin) as sound:
            picked = wanted.pick_channel(sound.channels, origin)
            frames = _frames(sound, kind, origin, offset, duration, max(1, round(block * sound.samplerate)))
            blocks = (_one_channel(each, picked, origin) for each in frames)
            for samples in _at_rate(blocks, sound.samplerate, rate):
                begun = True
                yield np.clip(samples, -1.0, 1.0)
    if not begun:  # as nothing for some MP3 files, which decode as double; or the error that says why
        yield read_audio(
            source,
            rate=rate,
            channels=channels,
            channel=channel,
            offset=offset,
            duration=duration,
            where=where,
        ).samples


def _frames(
    sound: Any, kind: str, origin: Origin, offset: float, duration: float | None, block: int
) -> Iterator[np.ndarray]:
    """Decode [T, channels] at the file's own rate; nothing if the very first block is empty."""
    rate, total = sound.samplerate, sound.frames
    start = round(offset * rate)
    if start >= total > 0:
        raise origin.error(
            "slice", f"{origin.name} lasts {total / rate:.3f} s: nothing is left from {offset:g} s on"
        )
    count = total - start if duration is None else max(1, round(duration * rate))
    _go_to(sound, start, kind, block)
    got = 0
    while got < count:
        frames = sound.read(min(block, count - got), dtype="float32", always_2d=True)
        if not len(frames):
            break
        got += len(frames)
        yield frames
    expected = min(count, total - start)
    if got and expected - got > DURATION_TOLERANCE * rate:
        what = f"{got / rate:.3f} of {expected / rate:.3f} s could be decoded"
        raise origin.error("truncated", f"{origin.name} is truncated or damaged: {what}")


def _go_to(sound: Any, start: int, kind: str, block: int) -> None:
    """Decode Ogg from its beginning: libsndfile 1.2.2 does not land on the sample that is asked for."""
    if not kind.startswith("Ogg"):
        if start:
            sound.seek(start)
        return
    while start > 0:
        passed = len(sound.read(min(block, start), dtype="float32", always_2d=True))
        if not passed:
            return
        start -= passed


def _one_channel(frames: np.ndarray, picked: int | None, origin: Origin) -> np.ndarray:
    mono = (
        frames.mean(axis=1, dtype=np.float32) if picked is None else np.ascontiguousarray(frames[:, picked])
    )
    _check_values(mono, origin)
    return mono


def _at_rate(blocks: Iterator[np.ndarray], source_rate: int, rate: int) -> Iterator[np.ndarray]:
    """Change the rate; n samples become round(n * rate / source_rate) over all blocks, and at least one."""
    if source_rate == rate:
        yield from blocks
        return
    try:
        import soxr
    except ModuleNotFoundError as error:
        raise missing_package("changing the sample rate", error) from None

    stream = soxr.ResampleStream(source_rate, rate, 1, dtype="float32", quality="HQ")
    taken = given = 0
    last = np.float32(0.0)
    for block in blocks:
        taken += len(block)
        last = block[-1]
        samples = stream.resample_chunk(block)
        given += len(samples)
        if len(samples):
            yield samples
    if taken:
        missing = max(1, round(taken * rate / source_rate)) - given
        rest = stream.resample_chunk(np.zeros(0, np.float32), last=True)[: max(0, missing)]
        filling = np.full(max(0, missing - len(rest)), rest[-1] if len(rest) else last, np.float32)
        yield np.concatenate([rest, filling])
