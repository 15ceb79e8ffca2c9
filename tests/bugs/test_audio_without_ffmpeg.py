import os
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from neumo.data import read_audio

TONE = (0.5 * np.sin(2 * np.pi * 440 * np.arange(8000) / 16000)).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "subtype", "error"),
    [("WAV", "PCM_16", 1e-4), ("WAV", "PCM_24", 1e-6), ("WAV", "FLOAT", 0), ("FLAC", "PCM_16", 1e-4)],
)
def test_wav_and_flac_need_no_outside_program(tmp_path, monkeypatch, kind, subtype, error):
    """The PATH has no ffmpeg and torchcodec cannot be imported."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for module in ("torchcodec", "torchaudio", "av"):
        monkeypatch.setitem(sys.modules, module, None)
    soundfile.write(tmp_path / "a", TONE, 16000, format=kind, subtype=subtype)
    wave = read_audio(tmp_path / "a")
    assert np.abs(wave.samples - TONE).max() <= error
    assert wave.samples.dtype == np.float32


def test_arrays_never_import_an_audio_library():
    """Samples that are already in memory need neither soundfile nor soxr."""
    code = (
        "import sys, numpy as np\n"
        "from neumo.data import audio_from_array\n"
        "wave = audio_from_array(np.zeros(10, np.int16), source_rate=16000, rate=16000)\n"
        "assert len(wave.samples) == 10\n"
        "assert not {'soundfile', 'soxr', 'torch', 'torchcodec'} & set(sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
