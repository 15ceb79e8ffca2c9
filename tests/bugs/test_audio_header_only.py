import struct

import numpy as np
import pytest
import soundfile

from neumo.data import SpeechSource, audio_info, read_audio
from neumo.types.errors import DataError

HEADER = (
    b"RIFF" + struct.pack("<I", 36) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
)
HEADER += b"data" + struct.pack("<I", 0)


def manifest_of(folder, good=19):
    (folder / "empty.wav").write_bytes(HEADER)
    lines = [{"audio_filepath": str(folder / "empty.wav"), "duration": 3.2}]
    for n in range(good):
        soundfile.write(folder / f"{n}.wav", np.full(1600, 0.1, np.float32), 16000)
        lines.append({"audio_filepath": str(folder / f"{n}.wav"), "duration": 0.1})
    return lines


def test_a_header_without_samples_is_named_with_file_and_line(tmp_path):
    """A 44-byte WAV whose manifest says 3.2 s."""
    assert len(HEADER) == 44
    with pytest.raises(DataError) as caught:
        SpeechSource(manifest_of(tmp_path))
    assert "only a header: the data chunk has 0 bytes" in caught.value.what
    assert caught.value.code == "audio-empty"
    assert caught.value.where == "entries:1"
    assert "empty.wav" in caught.value.what


def test_a_header_without_samples_is_skipped_and_counted_by_policy(tmp_path):
    """The data report counts it and names it."""
    source = SpeechSource(manifest_of(tmp_path), on_bad="skip")
    assert len(source) == 19
    (dropped,) = source.report().dropped
    assert (dropped.count, dropped.reason) == (1, "bad recording (empty)")
    assert "empty.wav" in dropped.names[0]
    assert "entries:1" in dropped.names[0]


@pytest.mark.parametrize("read", [read_audio, audio_info])
def test_a_recorder_that_did_not_close_its_file_is_told_from_an_empty_one(read):
    """Data size 0, yet samples follow."""
    with pytest.raises(DataError, match="did not close the file"):
        read(HEADER + bytes(2000))


def test_an_empty_file_is_an_error():
    with pytest.raises(DataError, match="0 bytes"):
        read_audio(b"")
