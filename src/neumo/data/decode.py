"""Decoding through libsndfile: frames at the file's own rate, and every fault as one kind of error."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import numpy as np

from neumo.data.containers import Riff, ogg_fault, read_riff, sniff
from neumo.types.errors import BackendError, DataError

# Seconds by which a decoded recording may fall short of, or differ from, what a header or a manifest says
# before that is reported. An MP3 encoder adds 1105 samples of delay (69 ms at 16 kHz); 0.1 s covers it and
# little more.
DURATION_TOLERANCE = 0.1

AudioSource = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO

_BLOCK = 1 << 22  # frames that are decoded at once
_READABLE = ("WAV holding PCM", "WAV holding IEEE", "RF64", "FLAC", "Ogg Vorbis", "Ogg Opus", "MP3")


@dataclass(frozen=True, slots=True)
class Origin:
    """Names what is being read, and the manifest line that asked for it, in errors.

    >>> Origin("a.wav", "train.jsonl:3").error("empty", "a.wav is empty").code
    'audio-empty'
    """

    name: str
    where: str = ""

    def error(self, kind: str, what: str, *, fixes: Sequence[str] = (), why: str = "") -> DataError:
        """Make the error of one kind (`audio-KIND`) at this place."""
        return DataError(what, code=f"audio-{kind}", where=self.where or None, fixes=fixes, why=why)


def name_of(source: AudioSource) -> str:
    """Give what messages call a source of audio.

    >>> name_of(b"RIFF")
    '4 bytes of audio'
    """
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    if isinstance(source, bytes | bytearray | memoryview):
        return f"{len(source)} bytes of audio"
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "an open file"


@contextmanager
def open_audio(source: AudioSource, origin: Origin) -> Iterator[BinaryIO]:
    """Give a seekable file; whatever the system refuses becomes a `DataError`."""
    if isinstance(source, bytes | bytearray | memoryview):
        yield io.BytesIO(source)
    elif isinstance(source, str | os.PathLike):
        with _open_path(source, origin) as file:
            yield file
    elif source.seekable():
        source.seek(0)
        yield source
    else:
        yield io.BytesIO(source.read())


def _open_path(path: str | os.PathLike[str], origin: Origin) -> BinaryIO:
    try:
        return open(path, "rb")
    except FileNotFoundError as error:
        folder = os.path.dirname(os.path.abspath(path))
        why = "" if os.path.isdir(folder) else f"There is no folder {folder} either."
        raise origin.error("missing", f"there is no file {origin.name}", why=why) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise origin.error("unreadable", f"{origin.name} cannot be opened: {reason}") from error


def check_container(file: BinaryIO, origin: Origin, *, checksums: bool = False) -> str:
    """Name the format, after finding what a decoder would pass over: empty, cut and unfinished files.

    `checksums` reads all of an Ogg file, whose pages have them; FLAC's decoder checks its own.
    """
    try:
        head = file.read(512)
        kind = sniff(head)
        if not head:
            raise origin.error("empty", f"{origin.name} is empty (0 bytes)")
        if kind in ("WAV", "RF64"):
            _check_riff(file, origin)
        elif kind.startswith("Ogg"):
            fault = ogg_fault(file, checksums=checksums)
            if fault is not None:
                raise origin.error("truncated", f"{origin.name} is truncated or damaged: {fault}")
        file.seek(0)
    except OSError as error:
        raise origin.error(
            "unreadable", f"{origin.name} cannot be read: {error.strerror or error}"
        ) from error
    return kind


def _check_riff(file: BinaryIO, origin: Origin) -> None:
    riff = read_riff(file)
    if isinstance(riff, str):
        raise origin.error("truncated", f"{origin.name} is a WAV file with {riff}")
    fault = riff.fault(DURATION_TOLERANCE)
    if fault is not None:
        raise origin.error(fault[0], f"{origin.name}: {fault[1]}")


def missing_package(need: str, error: ModuleNotFoundError) -> BackendError:
    """Make the error that names the package and the command that installs it."""
    return BackendError(
        f"{need} needs the package {error.name}, which is not installed",
        code="missing-package",
        fixes=["pip install 'neumo[asr]'"],
    )


@contextmanager
def open_decoder(file: BinaryIO, kind: str, origin: Origin) -> Iterator[Any]:
    """Open a `soundfile.SoundFile`; its complaints become a `DataError` that names the real format."""
    try:
        import soundfile
    except ModuleNotFoundError as error:
        raise missing_package("reading recordings", error) from None

    stream = _Stream(_payload(file, kind))
    try:
        with soundfile.SoundFile(cast(BinaryIO, stream)) as sound:
            yield sound
    except (soundfile.SoundFileError, RuntimeError, OSError, MemoryError) as error:
        stream.check(origin)
        reason = str(getattr(error, "error_string", "") or error).strip().rstrip(".").removeprefix("Error : ")
        raise _complaint(file, kind, origin, reason) from error
    stream.check(origin)


class _Stream:
    """Passes bytes on without a file's name, by which soundfile thinks that `.raw` has no header.

    libsndfile takes an error of the system for the end of the file, so the error is kept.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.fault: OSError | None = None
        self.seek = file.seek
        self.tell = file.tell
        self.read = self._keeping(file.read, b"")
        if isinstance(file, io.BytesIO | io.BufferedReader):
            self.readinto = self._keeping(file.readinto, 0)

    def _keeping(self, read: Callable[[Any], Any], nothing: Any) -> Callable[[Any], Any]:
        def kept(wanted: Any) -> Any:
            try:
                return read(wanted)
            except OSError as error:
                self.fault = self.fault or error
                return nothing

        return kept

    def check(self, origin: Origin) -> None:
        """Raise the error of the system, if there was one."""
        if (fault := self.fault) is not None:
            raise origin.error(
                "unreadable", f"{origin.name} cannot be read: {fault.strerror or fault}"
            ) from fault


def _complaint(file: BinaryIO, kind: str, origin: Origin, reason: str) -> DataError:
    riff = read_riff(file) if kind in ("WAV", "RF64") else None
    if isinstance(riff, Riff):
        kind = f"{kind} holding {riff.coding}"
    if kind.startswith(_READABLE):
        return origin.error("damaged", f"{origin.name} is {kind} and damaged: {reason}")
    fixes = ["convert it to FLAC or WAV"]
    if kind == "unknown":
        return origin.error("format", f"{origin.name} is not audio of a known format ({reason})", fixes=fixes)
    return origin.error("format", f"{origin.name} is {kind}, which cannot be decoded ({reason})", fixes=fixes)


def _payload(file: BinaryIO, kind: str) -> BinaryIO:
    """Unpack MPEG layer 3 from its WAV container, which not every build of libsndfile does."""
    riff = read_riff(file) if kind == "WAV" else None
    file.seek(0)
    if not isinstance(riff, Riff) or riff.coding != "MPEG layer 3":
        return file
    file.seek(riff.data_start)
    return io.BytesIO(file.read(min(riff.data_size, riff.available)))


def decode(
    file: BinaryIO, kind: str, origin: Origin, *, offset: float = 0.0, duration: float | None = None
) -> tuple[np.ndarray, int]:
    """Decode float32 [T, channels] and the rate; raise if no samples come from a file that has some.

    `offset` and `duration` are in seconds. A second try decodes as double, because some builds of libsndfile
    give nothing for some MP3 files as float.
    """
    with open_decoder(file, kind, origin) as sound:
        rate, total = sound.samplerate, sound.frames
        start = round(offset * rate)
        if start >= total > 0:
            what = f"{origin.name} lasts {total / rate:.3f} s: nothing is left from {offset:g} s on"
            raise origin.error("slice", what)
        count = total - start if duration is None else max(1, round(duration * rate))
        expected = min(count, total - start)
        frames = _read(sound, kind, start=start, count=count, dtype="float32")
    if len(frames) == 0:
        with open_decoder(file, kind, origin) as sound:
            frames = _read(sound, kind, start=start, count=count, dtype="float64").astype(np.float32)
    if len(frames) == 0:
        raise origin.error("empty", f"no samples could be decoded from {origin.name} ({kind})")
    if expected - len(frames) > DURATION_TOLERANCE * rate:
        got, wanted = len(frames) / rate, expected / rate
        what = f"{origin.name} is truncated or damaged: {got:.3f} of {wanted:.3f} s could be decoded"
        raise origin.error("truncated", what)
    return frames, rate


def _read(sound: Any, kind: str, *, start: int, count: int, dtype: str) -> np.ndarray:
    """Read `count` frames from `start`: exactly those that decoding the whole file would give there.

    libsndfile 1.2.2 does not land on the sample it is asked for in Ogg streams, so those are decoded from
    their beginning.
    """
    skip = 0
    if start and kind.startswith("Ogg"):
        skip = start
    elif start:
        sound.seek(start)
    blocks: list[np.ndarray] = []
    while skip + count > 0:
        block = sound.read(min(_BLOCK, skip + count), dtype=dtype, always_2d=True)
        if len(block) == 0:
            break
        dropped = min(skip, len(block))
        skip -= dropped
        count -= len(block) - dropped
        if dropped < len(block):
            blocks.append(block[dropped:])
    if not blocks:
        return np.zeros((0, sound.channels), dtype)
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
