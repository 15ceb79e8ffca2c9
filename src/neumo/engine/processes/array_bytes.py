"""Arrays as bytes, for their way from one process to another: a header of JSON, and the numbers as they are.

    8 bytes   the length of the header, little-endian
    header    JSON: for each array its dtype, its shape and how many bytes it has; null for what is absent
    the rest  the bytes of the arrays, one after the other, in C order

Nothing that is read can run code: arrays of Python objects are refused on both sides.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from neumo.types.errors import BackendError

_KINDS: Final = "biufcSU"  # truth values, numbers and texts of fixed width
_LENGTH: Final = 8  # bytes


def pack_arrays(arrays: Sequence[Any], names: Sequence[str] = ()) -> bytes:
    """Write arrays as bytes; None stands for what is absent.

    >>> import numpy as np
    >>> packed = pack_arrays([np.array([1.5, 2.5], np.float32), None, np.array(["yes"])])
    >>> unpack_arrays(packed)
    [array([1.5, 2.5], dtype=float32), None, array(['yes'], dtype='<U3')]

    `names` are for messages. Raises `BackendError` for an array of objects, such as lists of different
    lengths.
    """
    header: list[Any] = []
    parts: list[bytes] = []
    for position, array in enumerate(arrays):
        if array is None:
            header.append(None)
            continue
        if array.dtype.kind not in _KINDS:
            raise _cannot_travel(array, names[position] if position < len(names) else f"array {position}")
        data = array.tobytes()
        header.append([array.dtype.str, list(array.shape), len(data)])
        parts.append(data)
    head = json.dumps(header).encode()
    return b"".join([len(head).to_bytes(_LENGTH, "little"), head, *parts])


def unpack_arrays(data: bytes | memoryview) -> list[Any]:
    """Read what `pack_arrays` has written; raises `BackendError` for anything else."""
    import numpy as np

    view = memoryview(data)
    start = _LENGTH + int.from_bytes(view[:_LENGTH], "little")
    arrays: list[Any] = []
    try:
        for entry in json.loads(bytes(view[_LENGTH:start])):
            if entry is None:
                arrays.append(None)
                continue
            text, shape, length = entry
            dtype = np.dtype(text)
            if dtype.kind not in _KINDS:
                raise ValueError(f"arrays of {dtype}")
            own = bytearray(view[start : start + length])  # so that the array may be written to, as any other
            arrays.append((np.frombuffer(own, dtype) if length else np.empty(0, dtype)).reshape(shape))
            start += length
    except (ValueError, TypeError) as error:
        raise BackendError(f"these bytes are no packed arrays: {error}", code="packed") from error
    return arrays


def pack_several(parts: Sequence[bytes]) -> bytes:
    """Join several byte strings so that they can be told apart again.

    >>> [bytes(part) for part in unpack_several(pack_several([b"ab", b"", b"c"]))]
    [b'ab', b'', b'c']
    """
    sizes = [len(part).to_bytes(_LENGTH, "little") for part in parts]
    return b"".join([len(parts).to_bytes(_LENGTH, "little"), *sizes, *parts])


def unpack_several(data: bytes) -> list[memoryview]:
    """Take apart what `pack_several` has joined."""
    view = memoryview(data)
    numbers = [
        int.from_bytes(view[at : at + _LENGTH], "little")
        for at in range(0, _LENGTH * (1 + int.from_bytes(view[:_LENGTH], "little")), _LENGTH)
    ]
    parts: list[memoryview] = []
    start = _LENGTH * len(numbers)
    for size in numbers[1:]:
        parts.append(view[start : start + size])
        start += size
    return parts


def _cannot_travel(array: Any, name: str) -> BackendError:
    return BackendError(
        f"{name} is an array of {array.dtype}, and with several processes arrays go from one to another",
        code="packed",
        details=[f"its shape is {tuple(array.shape)}"],
        why="Only numbers and texts can be sent: objects would have to be pickled, and that can run code.",
        fixes=["let the module return numbers, with lengths beside them", "use one process"],
    )
