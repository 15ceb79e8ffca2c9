import io
import os
import struct
import threading

import numpy as np
import pytest
import soundfile

from neumo.data import read_audio, sniff
from neumo.types.errors import DataError

NOISE = 0.1 * np.random.default_rng(0).standard_normal(16000)


def encoded(kind, subtype=None):
    file = io.BytesIO()
    soundfile.write(file, NOISE, 16000, format=kind, subtype=subtype)
    return file.getvalue()


def riff(tag, payload):
    body = struct.pack("<HHIIHHHHIHHH", tag, 1, 16000, 8000, 1, 0, 12, 1, 2, 0, 1, 0)
    chunks = (
        b"WAVEfmt "
        + struct.pack("<I", len(body))
        + body
        + b"data"
        + struct.pack("<I", len(payload))
        + payload
    )
    return b"RIFF" + struct.pack("<I", len(chunks)) + chunks


def test_mpeg_layer_3_inside_of_wav_is_read():
    """RIFF format tag 0x55."""
    mp3 = encoded("MP3")
    assert np.array_equal(read_audio(riff(0x55, mp3)).samples, read_audio(mp3).samples)


@pytest.mark.parametrize("kind", ["MP3", "FLAC", "OGG", "WAV", "AIFF"])
@pytest.mark.parametrize("name", ["a.wav", "a.mp3", "a.raw", "a.txt", "a"])
def test_the_bytes_count_and_not_the_name(tmp_path, kind, name):
    """MP3 bytes as a.wav."""
    blob = encoded(kind)
    (tmp_path / name).write_bytes(blob)
    assert np.array_equal(read_audio(tmp_path / name).samples, read_audio(blob).samples)


@pytest.mark.parametrize("kind", ["MP3", "FLAC", "OGG", "WAV"])
def test_open_files_without_a_name_are_read(kind):
    """WAV bytes in a BytesIO, in whichever position it stands."""
    blob = encoded(kind)
    file = io.BytesIO(blob)
    file.seek(7)
    assert len(read_audio(file).samples) == 16000
    assert len(read_audio(memoryview(blob)).samples) == 16000


def test_a_pipe_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(encoded("WAV"),))
    writer.start()
    with open(tmp_path / "pipe", "rb") as file:
        assert len(read_audio(file).samples) == 16000
    writer.join()


@pytest.mark.parametrize(
    ("tag", "name"), [(0x00FF, "AAC"), (0x0161, "Windows Media Audio"), (0x1234, "format tag 0x1234")]
)
def test_an_error_names_the_real_format(tag, name):
    """Name the real format in the error."""
    with pytest.raises(DataError) as caught:
        read_audio(riff(tag, bytes(1000)))
    assert f"is WAV holding {name}, which cannot be decoded" in caught.value.what


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("MP3", "MP3"),
        ("FLAC", "FLAC"),
        ("OGG", "Ogg Vorbis"),
        ("WAV", "WAV"),
        ("RF64", "RF64"),
        ("AIFF", "AIFF"),
    ],
)
def test_formats_are_told_from_64_bytes(kind, name):
    assert sniff(encoded(kind)[:64]) == name
