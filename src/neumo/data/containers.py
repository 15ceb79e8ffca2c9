"""What a file of audio really is: told from its bytes, never from its name."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import BinaryIO

# The start of a file, at an offset, and what such a file is called. Decodable ones come first.
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"fLaC", "FLAC"),
    (28, b"\x01vorbis", "Ogg Vorbis"),
    (28, b"OpusHead", "Ogg Opus"),
    (28, b"\x7fFLAC", "Ogg FLAC"),
    (28, b"Speex   ", "Ogg Speex"),
    (0, b"OggS", "Ogg"),
    (0, b".snd", "AU"),
    (0, b"NIST_1A", "NIST SPHERE"),
    (0, b"caff", "CAF"),
    (0, b"riff\x2e\x91\xcf\x11", "W64"),
    (4, b"ftyp", "MPEG-4 audio or video (m4a, mp4)"),
    (0, b"\x1a\x45\xdf\xa3", "Matroska or WebM"),
    (0, b"#!AMR", "AMR"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "Windows Media (wma, asf)"),
    (0, b"wvpk", "WavPack"),
    (0, b"MAC ", "Monkey's Audio"),
    (0, b"ADIF", "AAC"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"version https://git-lfs", "a Git LFS pointer (run: git lfs pull)"),
    (0, b"\x93NUMPY", "a numpy array"),
    (0, b"%PDF", "a PDF document"),
    (0, b"\x89PNG", "a PNG picture"),
    (0, b"\xff\xd8\xff", "a JPEG picture"),
)

# Format tags of WAV files (mmreg.h), for messages; the first four and MPEG layer 3 can be read.
_TAGS = {
    0x0001: "PCM",
    0x0003: "IEEE float",
    0x0006: "A-law",
    0x0007: "mu-law",
    0x0002: "Microsoft ADPCM",
    0x0011: "IMA ADPCM",
    0x0031: "GSM 6.10",
    0x0045: "G.726",
    0x0050: "MPEG layer 1 or 2",
    0x0055: "MPEG layer 3",
    0x00FF: "AAC",
    0x0161: "Windows Media Audio",
    0x2000: "AC-3",
}
_EXTENSIBLE = 0xFFFE
_OPEN_ENDED = 0x7FFFF000  # sizes from here on are what programs write that stream into a pipe


def sniff(head: bytes) -> str:
    """Name the format of a file from its first bytes (64 are enough; 512 for text).

    >>> sniff(b"RIFF....WAVEfmt "), sniff(b"fLaC"), sniff(b"ID3\\x04"), sniff(b"<html><body>")
    ('WAV', 'FLAC', 'MP3', 'an HTML page')
    >>> sniff(b"no idea")
    'unknown'
    """
    if not head:
        return "nothing (the file is empty)"
    if head[:4] in (b"RIFF", b"RIFX", b"RF64", b"BW64"):
        return _riff_kind(head)
    if head[:4] == b"FORM" and head[8:12] in (b"AIFF", b"AIFC"):
        return "AIFF"
    for offset, magic, name in _MAGIC:
        if head[offset : offset + len(magic)] == magic:
            return name
    if head[:3] == b"ID3":
        return "MP3"
    if len(head) > 2 and head[0] == 0xFF and head[1] & 0xE0 == 0xE0:
        return _mpeg_kind(head)
    return _text_kind(head)


def _riff_kind(head: bytes) -> str:
    if head[8:12] == b"WAVE":
        return {b"RF64": "RF64", b"BW64": "RF64"}.get(head[:4], "WAV")
    return "AVI video" if head[8:12] == b"AVI " else "a RIFF file that is not WAVE"


def _mpeg_kind(head: bytes) -> str:
    layer = (head[1] >> 1) & 3  # 1 = layer 3, 2 = layer 2, 3 = layer 1, 0 = ADTS
    if layer == 0:
        return "AAC"
    return "unknown" if head[2] >> 4 == 15 or (head[2] >> 2) & 3 == 3 else "MP3"


def _text_kind(head: bytes) -> str:
    if not head.strip(b"\0"):
        return "nothing but zero bytes"
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype html", b"<html")):
        return "an HTML page"
    return "JSON text" if text.startswith((b"{", b'["')) else "unknown"


@dataclass(frozen=True, slots=True)
class Riff:
    """Holds what the chunks of a WAV or RF64 file say; sizes and positions are in bytes."""

    tag: int
    byte_rate: int
    data_start: int
    data_size: int
    available: int

    @property
    def coding(self) -> str:
        """Name how the samples are coded.

        >>> Riff(0x55, 8000, 44, 100, 100).coding
        'MPEG layer 3'
        """
        return _TAGS.get(self.tag, f"format tag 0x{self.tag:04x}")

    def fault(self, tolerance: float) -> tuple[str, str] | None:
        """Say what is wrong with the amount of data as (kind, reason); `tolerance` seconds may lack."""
        if self.data_size == 0 and self.available == 0:
            return "empty", "only a header: the data chunk has 0 bytes"
        if self.data_size == 0:
            what = f"the header says 0 bytes and {self.available} follow: the recorder did not close the file"
            return "truncated", what
        if self.data_size >= _OPEN_ENDED and self.data_size <= 0xFFFFFFFF:
            return None
        missing = (self.data_size - self.available) / max(self.byte_rate, 1)
        if missing <= tolerance:
            return None
        whole = self.data_size / max(self.byte_rate, 1)
        what = f"truncated: the header promises {whole:.2f} s of data, the file has {whole - missing:.2f} s"
        return "truncated", what


def read_riff(file: BinaryIO) -> Riff | str:
    """Walk the chunks of a WAV or RF64 file; a string says why they cannot be walked.

    >>> import io
    >>> read_riff(io.BytesIO(b"RIFF\\x04\\0\\0\\0WAVE"))
    'no fmt chunk'
    """
    end = file.seek(0, 2)
    file.seek(0)
    head = file.read(12)
    order = "big" if head[:4] == b"RIFX" else "little"
    tag = byte_rate = None
    wide_size: int | None = None
    position = 12
    while position + 8 <= end:
        file.seek(position)
        name, size = file.read(4), int.from_bytes(file.read(4), order)
        if name == b"data":
            size = wide_size if wide_size is not None and size == 0xFFFFFFFF else size
            return _riff_of(tag, byte_rate, position + 8, size, end)
        body = file.read(min(size, 64))
        if name == b"ds64" and len(body) >= 16:
            wide_size = int.from_bytes(body[8:16], "little")
        if name == b"fmt " and len(body) >= 16:
            tag, byte_rate = int.from_bytes(body[:2], order), int.from_bytes(body[8:12], order)
            if tag == _EXTENSIBLE and len(body) >= 26:
                tag = int.from_bytes(body[24:26], order)
        position += 8 + size + (size & 1)  # chunks are padded to an even size
    return "no fmt chunk" if tag is None else "no data chunk"


def _riff_of(tag: int | None, byte_rate: int | None, start: int, size: int, end: int) -> Riff | str:
    if tag is None or byte_rate is None:
        return "no fmt chunk before the data"
    return Riff(tag, byte_rate, start, size, end - start)


_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def ogg_fault(file: BinaryIO, *, checksums: bool) -> str | None:
    """Walk the pages of an Ogg file and say where it is cut or, with `checksums`, damaged (RFC 3533).

    A decoder passes over a damaged page in silence, and counts the length of the stream without it.

    >>> import io
    >>> ogg_fault(io.BytesIO(b"OggS" + bytes(22)), checksums=False)
    'it ends inside an Ogg page, at byte 0'
    """
    end = file.seek(0, 2)
    position, ended = 0, False
    while position < end:
        file.seek(position)
        header = file.read(27)
        if header[:4] != b"OggS"[: len(header)]:
            return None if ended else f"there is no Ogg page where one should begin, at byte {position}"
        table = file.read(header[26]) if len(header) == 27 else b""
        size = 27 + len(table) + sum(table)
        if len(header) < 27 or len(table) < header[26] or position + size > end:
            return f"it ends inside an Ogg page, at byte {position}"
        if checksums and _ogg_checksum(header, table, file.read(sum(table))) != header[22:26]:
            return f"the Ogg page at byte {position} has a wrong checksum"
        ended = ended or bool(header[5] & 4)  # what follows the last page of a stream need not be Ogg
        position += size
    return None


def _ogg_checksum(header: bytes, table: bytes, body: bytes) -> bytes:
    """Compute an Ogg page's CRC with zlib's, which has the same polynomial but mirrors the bits.

    Ogg starts from 0 and inverts nothing; zlib inverts before and after.
    """
    page = header[:22] + bytes(4) + header[26:] + table + body
    mirrored = zlib.crc32(page.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return mirrored.to_bytes(4, "big").translate(_MIRRORED)
