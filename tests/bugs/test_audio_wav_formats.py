import struct

import numpy as np
import pytest

from neumo.data import read_audio
from neumo.types.errors import DataError

RAMP = np.linspace(-1, 1, 1001)[:-1]
GUID = bytes.fromhex("000000001000800000aa00389b71")


def pcm(bits):
    scale = 2 ** (bits - 1)
    values = np.round(RAMP * scale).clip(-scale, scale - 1).astype(np.int64)
    if bits == 8:
        return (values + 128).astype(np.uint8).tobytes()
    return b"".join(int(value).to_bytes(bits // 8, "little", signed=True) for value in values)


def samples(tag, bits):
    if tag == 3:
        return RAMP.astype(f"<f{bits // 8}").tobytes()
    return pcm(bits)


def chunk(name, body):
    return name + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)


def fmt(tag, bits, *, extensible=False):
    size = bits // 8
    head = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, 1, 16000, 16000 * size, size, bits)
    return head + struct.pack("<HHIH", 22, bits, 4, tag) + GUID if extensible else head


def wav(fmt_body, data, *, before=b""):
    body = b"WAVE" + chunk(b"fmt ", fmt_body) + before + chunk(b"data", data)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def rf64(fmt_body, data):
    ds64 = struct.pack("<QQQI", 0, len(data), len(data) // 2, 0)
    body = b"WAVE" + chunk(b"ds64", ds64) + chunk(b"fmt ", fmt_body) + b"data\xff\xff\xff\xff" + data
    return b"RF64\xff\xff\xff\xff" + body


CASES = [(1, 8), (1, 16), (1, 24), (1, 32), (3, 32), (3, 64)]


@pytest.mark.parametrize("extensible", [False, True], ids=["plain", "extensible"])
@pytest.mark.parametrize(("tag", "bits"), CASES)
def test_hand_written_headers_of_every_kind_are_read(tag, bits, extensible):
    """PCM 8/16/24/32, float 32/64, each also as WAVE_FORMAT_EXTENSIBLE."""
    wave = read_audio(wav(fmt(tag, bits, extensible=extensible), samples(tag, bits)))
    error = 2.0 ** (1 - bits) if tag == 1 else 1e-7
    assert wave.rate == 16000
    assert np.abs(wave.samples - RAMP).max() <= max(error, 1e-7)


def test_rf64_is_read():
    """The size of the data stands in the ds64 chunk."""
    wave = read_audio(rf64(fmt(1, 16), pcm(16)))
    assert wave.format == "RF64"
    assert len(wave.samples) == 1000


def test_other_chunks_before_the_data_are_passed_over():
    before = chunk(b"LIST", b"INFOISFT" + bytes(601)) + chunk(b"junk", bytes(3))
    assert len(read_audio(wav(fmt(1, 16), pcm(16), before=before)).samples) == 1000


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000])
def test_sizes_that_programs_write_into_pipes_mean_until_the_end(size):
    blob = wav(fmt(1, 16), pcm(16)).replace(
        b"data" + struct.pack("<I", 2000), b"data" + struct.pack("<I", size)
    )
    assert len(read_audio(blob).samples) == 1000


def test_an_rf64_file_that_is_cut_is_refused():
    blob = rf64(fmt(1, 16), pcm(16) * 20)
    with pytest.raises(DataError, match="truncated"):
        read_audio(blob[: len(blob) // 2])


@pytest.mark.parametrize(
    ("blob", "words"),
    [
        (b"RIFF\x04\0\0\0WAVE", "no fmt chunk"),
        (b"RIFF\x04\0\0\0WAVE" + chunk(b"fmt ", fmt(1, 16)), "no data chunk"),
        (b"RIFF\x04\0\0\0WAVE" + chunk(b"data", bytes(10)), "no fmt chunk before the data"),
    ],
)
def test_wav_files_without_their_chunks_are_refused(blob, words):
    with pytest.raises(DataError, match=words):
        read_audio(blob)
