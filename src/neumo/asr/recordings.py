"""Recordings that training data is mixed with: read when they are drawn, kept as far as memory allows."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import numpy as np

from neumo.data import Entry, Manifest, audio_info, read_audio, read_manifest

_SAMPLE_BYTES = 4
_SHARE = 4  # a recording that would take more than this part of the memory is read piece by piece


class Recordings:
    """Holds the recordings of manifests at one rate, the last ones used in up to `limit` bytes.

    >>> import pathlib, soundfile, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> soundfile.write(folder / "hum.wav", np.full(8000, 0.5, np.float32), 8000)
    >>> _ = (folder / "noises.jsonl").write_text('{"audio_filepath": "hum.wav"}')
    >>> noises = Recordings(folder / "noises.jsonl", rate=8000, limit=1 << 20)
    >>> len(noises), noises.whole(0).shape, noises.piece(0, 20, 0.5).shape
    (1, (8000,), (20,))

    The manifest is read at once, recordings when they are asked for. Each process has its own, and which are
    kept changes no result. Raises `DataError` with file and line for what cannot be read.
    """

    def __init__(self, manifest: str | Path | tuple[str | Path, ...], *, rate: int, limit: int) -> None:
        paths = manifest if isinstance(manifest, str | Path) else list(manifest)
        self._manifest: Manifest = read_manifest(paths)
        self._rate = rate
        self._limit = limit
        self._kept: OrderedDict[int, np.ndarray] = OrderedDict()
        self._bytes = 0
        self._lengths: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._manifest)

    def name(self, index: int) -> str:
        """Give what messages call a recording, with file and line."""
        return self._manifest.name(index)

    def whole(self, index: int) -> np.ndarray:
        """Give all samples of a recording: float32 [T]."""
        if index in self._kept:
            self._kept.move_to_end(index)
            return self._kept[index]
        samples = self._read(self._manifest[index])
        self._keep(index, samples)
        return samples

    def piece(self, index: int, length: int, place: float) -> np.ndarray:
        """Give `length` samples from a place between 0 and 1; a recording that is too short is repeated.

        A place of 0 is the first possible start, 1 the last; in a shorter recording, any sample.
        """
        if _SAMPLE_BYTES * self._length(index) <= self._limit // _SHARE:
            return _cut(self.whole(index), length, place)
        entry = self._manifest[index]
        seconds = self._length(index) / self._rate
        room = max(0.0, seconds - length / self._rate)
        if not room:
            return _cut(self._read(entry), length, place)
        samples = self._read(entry, skip=room * place, duration=length / self._rate)
        return _cut(samples, length, 0.0)

    def _length(self, index: int) -> int:
        """How many samples a recording has at the rate that was asked for; its header says."""
        if index not in self._lengths:
            entry = self._manifest[index]
            if entry.offset is not None and entry.duration is not None:
                seconds = entry.duration
            else:
                seconds = audio_info(entry.audio, where=entry.where).seconds - (entry.offset or 0.0)
            self._lengths[index] = max(1, round(seconds * self._rate))
        return self._lengths[index]

    def _read(self, entry: Entry, *, skip: float = 0.0, duration: float | None = None) -> np.ndarray:
        if duration is None and entry.offset is not None:
            duration = entry.duration
        return read_audio(
            entry.audio,
            rate=self._rate,
            channels="mix",
            channel=entry.channel,
            offset=(entry.offset or 0.0) + skip,
            duration=duration,
            where=entry.where,
        ).samples

    def _keep(self, index: int, samples: np.ndarray) -> None:
        if samples.nbytes > self._limit:
            return
        self._kept[index] = samples
        self._bytes += samples.nbytes
        while self._bytes > self._limit:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= oldest.nbytes


def _cut(samples: np.ndarray, length: int, place: float) -> np.ndarray:
    if len(samples) > length:
        start = min(round(place * (len(samples) - length)), len(samples) - length)
        return samples[start : start + length]
    start = min(int(place * len(samples)), len(samples) - 1)
    return np.resize(np.roll(samples, -start), length)
