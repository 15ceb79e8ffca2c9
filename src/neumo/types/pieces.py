"""Models of SentencePiece as data: their pieces and roles, read from the file without the library."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from neumo.types.errors import ConfigError

SPACE: Final = "\u2581"  # what SentencePiece writes for a space
LARGEST_MODEL: Final = 32 << 20  # bytes; a vocabulary of 256,000 pieces has 5 MB

_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
_SPELT, _CONTROL, _BYTES = 1, 3, 6  # types of a piece in sentencepiece_model.proto
_ROLE_FIELDS: Final = {40: "unk", 41: "bos", 42: "eos", 43: "pad"}  # numbers of the fields of TrainerSpec
_ROLE_DEFAULTS: Final = {"unk": 0, "bos": 1, "eos": 2, "pad": -1}


@dataclass(frozen=True, slots=True)
class PieceModel:
    """Holds what a vocabulary needs of a SentencePiece model: the pieces in order, and those with a role.

    `roles` maps "unk", "bos", "eos" and "pad" to a place. `digest` are eight hex digits of the file's sha256.
    """

    pieces: tuple[str, ...]
    roles: tuple[tuple[str, int], ...]
    digest: str


@lru_cache(maxsize=16)
def read_pieces(model: bytes) -> PieceModel:
    """Read the pieces of a SentencePiece model from the bytes of its file; nothing in them is executed.

    Raises `ConfigError` where the bytes are no such model.

    >>> piece = bytes([0x0A, 3]) + "a".encode().join([b"\\x0a\\x01", b""])
    >>> read_pieces(piece).pieces
    ('a',)
    """
    if len(model) > LARGEST_MODEL:
        raise ConfigError(f"a SentencePiece model of {len(model)} bytes is too large", code="vocab")
    pieces: list[str] = []
    kinds: list[int] = []
    roles = dict(_ROLE_DEFAULTS)
    try:
        for number, value in _fields(model):
            if number == 1 and isinstance(value, bytes):
                piece, kind = _piece(value)
                pieces.append(piece)
                kinds.append(kind)
            elif number == 2 and isinstance(value, bytes):
                settings = ((_ROLE_FIELDS.get(at), found) for at, found in _fields(value))
                roles |= {role: _signed(found) for role, found in settings if role and isinstance(found, int)}
    except (ValueError, IndexError):
        pieces = []
    if not pieces:
        raise ConfigError(
            "these bytes are no SentencePiece model",
            code="vocab",
            fixes=["give the .model file; the .vocab file beside it lists the pieces for people"],
        )
    given = {
        role: place
        for role, place in roles.items()
        if 0 <= place < len(pieces) and kinds[place] not in (_SPELT, _BYTES)
    }
    return PieceModel(tuple(pieces), tuple(given.items()), hashlib.sha256(model).hexdigest()[:8])


def join_pieces(pieces: Iterable[str]) -> str:
    """Put pieces together to a text: U+2581 is a space, none stands at the start, bytes are UTF-8.

    >>> join_pieces(["\\u2581the", "\\u2581c", "at", "<0xC3>", "<0xA9>"])
    'the caté'
    """
    text: list[str] = []
    held = bytearray()
    for piece in pieces:
        byte = _BYTE.fullmatch(piece)
        if byte:
            held.append(int(byte[1], 16))
            continue
        text.append(held.decode("utf-8", "replace"))
        held.clear()
        text.append(piece)
    text.append(held.decode("utf-8", "replace"))
    return "".join(text).replace(SPACE, " ").removeprefix(" ")


def extends(labels: Sequence[str], pieces: Sequence[str]) -> bool:
    """Tell whether labels are those of a model, in their order, with others before or behind them.

    >>> extends(["<blank>", "a", "b"], ["a", "b"]), extends(["b", "a"], ["a", "b"])
    (True, False)
    """
    if len(labels) < len(pieces) or pieces[0] not in labels:
        return False
    start = labels.index(pieces[0])
    return tuple(labels[start : start + len(pieces)]) == tuple(pieces)


def _piece(data: bytes) -> tuple[str, int]:
    """Read a SentencePiece message: its text is field 1, its kind field 3."""
    text, kind = "", _SPELT
    for number, value in _fields(data):
        if number == 1 and isinstance(value, bytes):
            text = value.decode("utf-8")
        elif number == 3 and isinstance(value, int):
            kind = value
    return text, kind


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Walk the fields of a protobuf message (protobuf.dev/programming-guides/encoding)."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
            continue
        size = {1: 8, 5: 4}.get(wire)
        if wire == 2:
            size, at = _varint(data, at)
        if size is None or number == 0 or at + size > len(data):
            raise ValueError("no protobuf message")
        yield number, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("no number of at most 64 bits")


def _signed(value: int) -> int:
    """Read a number of 64 bits as int32, which protobuf writes with its sign extended."""
    return value - (1 << 64) if value >= 1 << 63 else value
