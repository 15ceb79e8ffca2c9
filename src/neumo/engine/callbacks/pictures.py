"""Pictures and sounds out of numbers: PNG and WAV files, with the standard library and numpy."""

from __future__ import annotations

import io
import math
import struct
import wave
import zlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Nine colours of viridis (van der Walt and Smith 2015), whose lightness grows evenly from dark to bright.
_VIRIDIS: Final = "440154 472d7b 3b528b 2c728e 21918c 28ae80 5ec962 addc30 fde725"
_LOW: Final = 96  # pixels: smaller pictures are enlarged, each number to a square


def to_png(values: Any) -> bytes:
    r"""Draw numbers `[rows, columns]` as a PNG: the first row at the bottom, the smallest number darkest.

    >>> import numpy as np
    >>> picture = to_png(np.eye(128))
    >>> picture[:8], picture[16:24] == bytes([0, 0, 0, 128, 0, 0, 0, 128])
    (b'\x89PNG\r\n\x1a\n', True)

    Numbers that are not finite are drawn as the smallest. Small pictures are enlarged; of no numbers at all
    there is a dark square, since a PNG has at least one pixel.
    """
    levels = _levels(values)
    rows, columns = levels.shape
    scale = max(1, _LOW // max(1, min(rows, columns)))
    levels = levels[::-1].repeat(scale, axis=0).repeat(scale, axis=1)
    rows, columns = levels.shape
    raw = b"".join(b"\0" + row.tobytes() for row in levels)  # a line of pixels, unfiltered
    header = struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)  # 8 bits, each an index into the palette
    chunks = [(b"IHDR", header), (b"PLTE", _palette()), (b"IDAT", zlib.compress(raw)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def to_wav(samples: Any, rate: int, peak: float = 1.0) -> bytes:
    """Write samples `[T]` or `[channels, T]`, of magnitudes up to `peak`, as 16-bit WAV; louder is clipped.

    >>> len(to_wav([0.0, 0.5, -0.5], 16000))
    50
    """
    import numpy as np

    wide = np.atleast_2d(np.asarray(samples, np.float64)) / peak
    whole = np.round(np.clip(np.nan_to_num(wide), -1.0, 1.0) * 32767).astype("<i2")
    memory = io.BytesIO()
    with wave.open(memory, "wb") as file:
        file.setnchannels(len(whole))
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(whole.T.tobytes())
    return memory.getvalue()


def montage(values: Any) -> Any:
    """Lay slices `[..., rows, columns]`, such as the heads of an attention, one above the other."""
    import numpy as np

    slices = np.asarray(values).reshape(math.prod(values.shape[:-2]), *values.shape[-2:])
    gap = np.full((1, slices.shape[-1]), np.nan)
    parts = [part for each in slices for part in (each, gap)]
    return np.concatenate(parts[:-1]) if parts else slices.reshape(0, slices.shape[-1])


def _levels(values: Any) -> NDArray[np.uint8]:
    import numpy as np

    numbers = np.asarray(values, np.float64)
    if not numbers.size:
        return np.zeros((1, 1), np.uint8)
    known = np.isfinite(numbers)
    low = float(numbers[known].min()) if known.any() else 0.0
    span = float(numbers[known].max()) - low if known.any() else 0.0
    parts = (np.where(known, numbers, low) - low) / (span or 1.0)
    return np.round(parts * 255).astype(np.uint8)


def _palette() -> bytes:
    """256 colours on the lines between those that are known."""
    known = [bytes.fromhex(each) for each in _VIRIDIS.split()]
    colours = bytearray()
    for level in range(256):
        place, part = divmod(level * (len(known) - 1) / 255, 1)
        first, second = known[int(place)], known[min(int(place) + 1, len(known) - 1)]
        colours += bytes(round(a + (b - a) * part) for a, b in zip(first, second, strict=True))
    return bytes(colours)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
