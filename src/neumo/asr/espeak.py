"""Speech from text with the espeak-ng library that ships in the wheel of `espeakng-loader` (extra `tts`).

The engine is GPL-3, therefore an optional package that is loaded at run time and never a dependency of the
core. Its state is global to a process and it is not thread safe: one call at a time here, and several
processes for several voices at once (`neumo.asr.corpus` does that).

The C interface is that of espeak-ng 1.52, `speak_lib.h`:
https://github.com/espeak-ng/espeak-ng/blob/master/src/include/espeak-ng/speak_lib.h
"""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neumo.types.errors import BackendError, DataError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["ACCENTS", "RATE", "VARIANTS", "Espeak"]

RATE = 22_050  # Hz, fixed by the voice data in the wheel

ACCENTS: dict[str, str] = {  # the name people use -> the voice file of espeak-ng 1.52
    "en-us": "en-us",
    "en-gb": "en",
    "en-gb-scotland": "en-gb-scotland",
    "en-gb-x-rp": "en-gb-x-rp",
    "en-gb-x-gbclan": "en-gb-x-gbclan",
    "en-029": "en-029",
}
VARIANTS: tuple[str, ...] = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "f1", "f2", "f3", "f4", "f5")

_SYNCHRONOUS = 2  # espeak_AUDIO_OUTPUT: hand the samples to the callback, play nothing
_DO_NOT_EXIT = 0x8000  # espeakINITIALIZE_DONT_EXIT: the library must not end the process of its host
_SPEED, _PITCH = 1, 3  # espeak_PARAMETER
_UTF8 = 1
_LONGEST_DATA_PATH = 140  # the library keeps this path in a buffer of 160 bytes

_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)


class Espeak:
    """Speaks text into samples, as `espeak-ng` does on the command line.

    >>> from neumo.asr.espeak import Espeak
    >>> samples = Espeak(seed=1).say("nine one one", voice="en-gb+f2", speed=160, pitch=50)
    >>> samples.dtype, samples.ndim, 0.5 < len(samples) / Espeak.rate < 3
    (dtype('int16'), 1, True)

    The same calls in the same order after `Espeak(seed)` in a fresh process give the same samples; inside one
    process the engine carries state from one utterance to the next, so a repeated call differs in a few
    samples.

    Raises `BackendError` where the package `espeakng-loader` is missing or its library does not start.
    """

    rate = RATE
    _one_at_a_time = threading.Lock()

    def __init__(self, seed: int = 0) -> None:
        self._library, self._data = _load()
        self._library.espeak_ng_SetRandSeed(ctypes.c_long(seed))

    def say(self, text: str, *, voice: str = "en-us", speed: int = 160, pitch: int = 50) -> np.ndarray:
        """Speak `text` and return int16 samples `[N]` at 22,050 Hz.

        `voice` is an accent of `ACCENTS` (or any voice file of espeak-ng), optionally `+` a variant, such as
        `en-gb-scotland+f3`; `speed` is in words a minute (80 to 450), `pitch` goes from 0 to 99.
        """
        import numpy as np

        chunks: list[bytes] = []

        @_Callback
        def collect(samples: int | None, count: int, _events: int | None) -> int:
            if samples and count > 0:
                chunks.append(ctypes.string_at(samples, 2 * count))
            return 0  # go on

        encoded = text.encode() + b"\0"
        with self._one_at_a_time:
            self._library.espeak_SetSynthCallback(collect)
            self._choose(voice)
            self._library.espeak_SetParameter(_SPEED, speed, 0)
            self._library.espeak_SetParameter(_PITCH, pitch, 0)
            status = self._library.espeak_Synth(encoded, len(encoded), 0, 0, 0, _UTF8, None, None)
        if status:
            raise DataError(f"espeak-ng could not speak {text!r} (status {status})", code="espeak")
        return np.frombuffer(b"".join(chunks), dtype=np.int16)

    def _choose(self, voice: str) -> None:
        accent, plus, variant = voice.partition("+")
        # The library takes an unknown variant for none at all, in silence: look it up here.
        known = not plus or (self._data / "voices" / "!v" / variant).is_file()
        name = ACCENTS.get(accent, accent) + plus + variant
        if not known or self._library.espeak_SetVoiceByName(name.encode()):
            raise DataError(
                f"espeak-ng has no voice {voice!r}",
                code="espeak-voice",
                details=(f"accents: {', '.join(ACCENTS)}", f"variants: {', '.join(VARIANTS)}"),
                fixes=('write an accent, or an accent and a variant: "en-us", "en-us+f2"',),
            )


def _load() -> tuple[Any, Path]:
    """Load and start the library; say the pip command where the package is missing."""
    try:
        import espeakng_loader
    except ImportError:
        raise BackendError(
            "speech synthesis needs espeakng-loader: pip install 'neumo[tts]'",
            code="missing-package",
        ) from None
    data = _short(Path(espeakng_loader.get_data_path()))
    try:
        library = ctypes.CDLL(espeakng_loader.get_library_path())
    except OSError as error:
        raise BackendError(f"the espeak-ng library does not load: {error}", code="espeak") from error
    library.espeak_SetVoiceByName.argtypes = [ctypes.c_char_p]
    rate = library.espeak_Initialize(_SYNCHRONOUS, 0, os.fsencode(data), _DO_NOT_EXIT)
    if rate != RATE:
        raise BackendError(
            f"the espeak-ng library does not start: expected {RATE} Hz, received {rate} (its data: {data})",
            code="espeak",
        )
    return library, data


def _short(path: Path) -> Path:
    """Return `path`, or a link in the temporary folder where it is too long for the library's buffer."""
    if len(os.fsencode(path)) <= _LONGEST_DATA_PATH:
        return path
    folder = tempfile.mkdtemp(prefix="neumo-espeak-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    link = Path(folder) / path.name
    link.symlink_to(path, target_is_directory=True)
    return link
