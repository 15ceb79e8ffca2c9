"""Look-alikes of public corpora: a few short recordings in the layout that each publisher uses."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import soundfile


def sound(form: str = "WAV", seconds: float = 0.2, rate: int = 16000) -> bytes:
    file = io.BytesIO()
    samples = 0.1 * np.sin(np.arange(int(seconds * rate)) / 10)
    soundfile.write(file, samples, rate, format=form)
    return file.getvalue()


def tar(path: Path, members: dict[str, bytes], mode: str = "w:gz") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as file:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


def as_tar(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as packed:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            packed.addfile(info, io.BytesIO(data))
    return file.getvalue()


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


def librispeech(part: str, speaker: str) -> dict[str, bytes]:
    folder = f"LibriSpeech/{part}/{speaker}/100"
    rows = "".join(f"{speaker}-100-{n:04d} THE TEXT NUMBER {n}\n" for n in range(2))
    sounds = {f"{folder}/{speaker}-100-{n:04d}.flac": sound("FLAC") for n in range(2)}
    return {
        f"{folder}/{speaker}-100.trans.txt": rows.encode(),
        "LibriSpeech/README.TXT": b"read me",
        **sounds,
    }


def an4() -> dict[str, bytes]:
    members = {
        "an4/etc/an4_train.transcription": b"<s> HELLO ERASE </s> (an251-fash-b)\n"
        b"<s> A B C </s> (cen1-fash-b)\n",
        "an4/etc/an4_test.transcription": b"YES (an1-mtcv-b)\n",
    }
    for name in (
        "an4_clstk/fash/an251-fash-b",
        "an4_clstk/fash/cen1-fash-b",
        "an4test_clstk/mtcv/an1-mtcv-b",
    ):
        members[f"an4/wav/{name}.sph"] = sound("NIST")
    return members


def commonvoice() -> dict[str, bytes]:
    home = "cv-corpus-99.0-2026-01-01/cy"
    head = "client_id\tpath\tsentence\tup_votes\tdown_votes\tage\tgender\taccents\tlocale\n"
    rows = {
        "train": 'abc\tcommon_voice_cy_1.mp3\t"Bore da," meddai.\t2\t0\t\t\t\tcy\n',
        "test": "def\tcommon_voice_cy_2.mp3\tNos da\t2\t0\t\t\t\tcy\n",
    }
    members = {f"{home}/{name}.tsv": (head + row).encode() for name, row in rows.items()}
    return members | {f"{home}/clips/common_voice_cy_{n}.mp3": sound("MP3", 0.5) for n in (1, 2)}


def aishell1() -> dict[str, bytes]:
    texts = "BAC009S0002W0122 而 对 楼市\nBAC009S0724W0121 广州市\nBAC009S0764W0121 甚至 出现\n"
    members = {"data_aishell/transcript/aishell_transcript_v0.8.txt": texts.encode()}
    for split, speaker, name in (
        ("train", "S0002", "BAC009S0002W0122"),
        ("dev", "S0724", "BAC009S0724W0121"),
        ("test", "S0764", "BAC009S0764W0121"),
    ):
        inner = {f"{split}/{speaker}/{name}.wav": sound()}
        if split == "train":
            inner[f"{split}/{speaker}/BAC009S0002W0999.wav"] = (
                sound()
            )  # without a transcript, as there are some
        members[f"data_aishell/wav/{speaker}.tar.gz"] = as_tar(inner)
    return members


def aishell2() -> dict[str, bytes]:
    members: dict[str, bytes] = {}
    for folder, speaker in (("iOS/data", "C0001"), ("iOS/dev", "D0012")):
        home, name = f"AISHELL-2/{folder}", f"I{speaker}W0001"
        members[f"{home}/wav.scp"] = f"{name}\twav/{speaker}/{name}.wav\n".encode()
        members[f"{home}/trans.txt"] = f"{name}\t厨房用品\n".encode()
        members[f"{home}/wav/{speaker}/{name}.wav"] = sound()
    return members


def ljspeech() -> dict[str, bytes]:
    rows = 'LJ001-0001|In 1455, "printing"|In fourteen fifty-five, "printing"\nLJ001-0002|only|only\n'
    sounds = {f"LJSpeech-1.1/wavs/LJ001-000{n}.wav": sound(rate=22050) for n in (1, 2)}
    return {"LJSpeech-1.1/metadata.csv": rows.encode(), **sounds}


def fsdd() -> dict[str, bytes]:
    home = "free-spoken-digit-dataset-1.0.9"
    names = ("0_jackson_0", "7_theo_4", "7_theo_5", "9_lucas_49")
    return {f"{home}/recordings/{name}.wav": sound(rate=8000) for name in names} | {f"{home}/README.md": b"#"}


def speech_commands() -> dict[str, bytes]:
    names = ("yes/aa_nohash_0", "yes/bb_nohash_0", "no/cc_nohash_1", "_background_noise_/pink_noise")
    return {
        "./validation_list.txt": b"yes/bb_nohash_0.wav\n",
        "./testing_list.txt": b"no/cc_nohash_1.wav\n",
        **{f"./{name}.wav": sound() for name in names},
    }
