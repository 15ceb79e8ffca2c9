"""A spectrogram in letters, for a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_BLOCKS, _LETTERS = " ░▒▓█", " .:*#"
_RANGE = 50.0  # dB below the loudest that are shown


def spectrogram(samples: np.ndarray, rate: int, *, columns: int = 72, rows: int = 8) -> str:
    """Draw samples `[T]`: time to the right, frequency upwards (0 to 4 kHz), darker where it is louder.

    >>> import numpy as np
    >>> tone = np.sin(np.arange(16000) * 2 * np.pi * 3800 / 16000)
    >>> lines = spectrogram(tone, 16000, columns=4, rows=2).split("\\n")
    >>> [set(line) <= set(" ") for line in lines]
    [False, True]
    """
    import numpy as np

    size = 512 * rate // 16000 // 2 * 2
    samples = np.pad(samples, (0, max(0, size - len(samples))))
    starts = np.linspace(0, len(samples) - size, columns).astype(int)
    frames = np.stack([samples[start : start + size] for start in starts]) * np.hanning(size)
    power = np.abs(np.fft.rfft(frames)) ** 2
    top = max(rows, min(power.shape[1], round(4000 * size / rate)))
    bands = np.stack([band.max(axis=1) for band in np.array_split(power[:, :top], rows, axis=1)])
    level = 10 * np.log10(bands / max(float(bands.max()), 1e-20) + 1e-20)
    shades = _shades()
    steps = np.clip((level + _RANGE) / _RANGE * len(shades), 0, len(shades) - 1).astype(int)
    return "\n".join("".join(shades[step] for step in row) for row in steps[::-1])


def _shades() -> str:
    """Blocks where the terminal can show them, letters elsewhere."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    try:
        _BLOCKS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return _LETTERS
    return _BLOCKS
