"""Samples: what is written for each type of value, and that writing changes nothing."""

import json
import struct
import wave
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from neumo.engine import NeuralFactory
from neumo.engine.callbacks import Callback, Samples
from neumo.engine.callbacks.pictures import montage, to_png, to_wav
from neumo.graph.graph import Graph
from neumo.graph.module import DataLayer
from neumo.graph.signature import Signature
from neumo.types import Alignment, Audio, B, ConfigError, DataError, F, Ids, Lengths, Mel, T, U

from .toys import (
    LETTERS,
    FrameData,
    Halve,
    Line,
    MeanError,
    MeanLoss,
    PointData,
    frame_graph,
    line_graphs,
    refused,
)


def factory(**options):
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "always", **options})


class SoundSource:
    """Three utterances of 800, 600 and 400 samples, with frames of 100 samples."""

    def __len__(self) -> int:
        return 3

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        return [[2], [1], [0]]

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        return {"item": index}

    def collate(self, items: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        which = [item["item"] for item in items]
        ids = np.array([[1, 2, 3], [3, 2, 0], [1, 0, 0]])[which]
        return {
            "audio": np.full((len(which), 800), 0.5, np.float32),
            "audio_len": np.array([800, 600, 400])[which],
            "mel": np.arange(len(which) * 40, dtype=np.float32).reshape(-1, 5, 8),
            "mel_len": np.array([8, 6, 4])[which],
            "heads": np.ones((len(which), 2, 3, 8), np.float32),
            "text": ids,
            "text_len": np.array([3, 2, 1])[which],
        }

    def name(self, index: int) -> str:
        return f"sound-{index}"

    def report(self) -> Any:
        return None


@dataclass(frozen=True)
class SampledSounds(DataLayer):
    def signature(self) -> Signature:
        frames = T // 100
        gives = {
            "audio": Audio(rate=8000, peak=1.0)[B, T],
            "audio_len": Lengths(T)[B],
            "mel": Mel(n_mels=5)[B, F(5), frames],
            "mel_len": Lengths(frames)[B],
            "heads": Alignment()[B, F(2), U, frames],
            "text": Ids(LETTERS)[B, U],
            "text_len": Lengths(U)[B],
        }
        return Signature(gives=gives)

    def open(self, seed: int) -> Any:
        return SoundSource()


def sound_graph() -> Graph:
    batch = SampledSounds()()
    outputs = {name: getattr(batch, name) for name in ("audio", "mel", "heads", "text", "text_len")}
    return Graph("sounds", "infer", outputs)


class DroppingSource(SoundSource):
    """Leaves the first utterance out; of the others it cannot read one."""

    def __init__(self, unreadable: int) -> None:
        self.unreadable = unreadable

    def batches(self, epoch: int, *, rank: int = 0, world: int = 1) -> list[list[int]]:
        return [[2], [1]][rank::world]

    def item(self, index: int, epoch: int) -> dict[str, Any]:
        if index == self.unreadable:
            raise DataError(f"{self.name(index)} cannot be read", code="toy")
        return {"item": index}


@dataclass(frozen=True)
class DroppedSounds(SampledSounds):
    unreadable: int = 0

    def open(self, seed: int) -> Any:
        return DroppingSource(self.unreadable)


def dropped_graph(unreadable: int = 0) -> Graph:
    batch = DroppedSounds(unreadable)()
    return Graph("sounds", "infer", {"mel": batch.mel, "text": batch.text})


def pixels(path) -> np.ndarray:
    """Read a PNG of one palette, as its specification says: indices by row."""
    data = path.read_bytes() if hasattr(path, "read_bytes") else path
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size]) == (zlib.crc32(name + body),)
        chunks[name] = body
        at += 12 + size
    columns, rows, depth, kind, *_ = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, kind, len(chunks[b"PLTE"])) == (8, 3, 768)
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(rows, columns + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:]


def test_a_picture_has_its_first_row_at_the_bottom_and_the_largest_number_brightest():
    drawn = pixels(to_png([[0.0, 1.0], [2.0, 4.0]]))
    assert drawn.shape == (96, 96)
    assert (drawn[0, 0], drawn[0, -1], drawn[-1, 0], drawn[-1, -1]) == (128, 255, 0, 64)


def test_pictures_of_what_is_no_number_or_all_the_same_can_be_drawn():
    drawn = pixels(to_png([[np.nan, 1.0], [np.inf, 3.0]]))
    assert (drawn[-1, 0], drawn[0, 0], drawn[0, -1]) == (0, 0, 255)
    assert not pixels(to_png(np.full((100, 100), 7.0))).any()
    assert not pixels(to_png(np.full((100, 100), np.nan))).any()


def test_slices_are_laid_above_each_other():
    laid = montage(np.arange(8.0).reshape(2, 2, 2))
    assert laid.shape == (5, 2)
    assert np.isnan(laid[2]).all()


def test_sounds_are_16_bits_and_clipped(tmp_path):
    (tmp_path / "a.wav").write_bytes(to_wav([0.0, 16384.0, -40000.0], 8000, 32768.0))
    with wave.open(str(tmp_path / "a.wav")) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (8000, 1, 2)
        assert np.frombuffer(file.readframes(9), "<i2").tolist() == [0, 16384, -32767]


class Heard(Callback):
    """What trackers get."""

    def __init__(self) -> None:
        self.samples: list[Any] = []

    def on_sample(self, run, sample) -> None:
        self.samples.append(sample)


def test_the_type_of_a_value_says_what_is_written(tmp_path):
    heard = Heard()
    samples = Samples(sound_graph(), every_steps=2, count=2)
    factory(folder=tmp_path).train(frame_graph(), max_steps=3, callbacks=[samples, heard])
    folders = sorted(path.name for path in (tmp_path / "samples").iterdir())
    assert folders == ["step-00000002", "step-00000003"]
    folder = tmp_path / "samples" / folders[0]
    pictures = [f"{name}-{n}.png" for name in ("heads", "mel") for n in range(2)]
    files = ["audio-0.wav", "audio-1.wav", *pictures, "index-sounds.json", "text.txt"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(files)
    assert (folder / "text.txt").read_text() == "sound-0\tbcd\nsound-1\tdc\n"
    index = json.loads((folder / "index-sounds.json").read_text())
    assert {"file": "mel-1.png", "value": "mel", "item": "sound-1"} in index
    assert [each.form for each in heard.samples if each.step == 2] == ["sound"] * 2 + ["picture"] * 4 + [
        "text"
    ]


def test_what_is_behind_the_end_of_an_utterance_is_cut_off(tmp_path):
    samples = Samples(sound_graph(), count=2, outputs=["audio", "mel", "heads"])
    factory(folder=tmp_path).train(frame_graph(), epochs=1, callbacks=[samples])
    folder = tmp_path / "samples" / "step-00000002"
    with wave.open(str(folder / "audio-1.wav")) as file:
        assert file.getnframes() == 600
    first, second = (pixels(folder / f"mel-{n}.png") for n in range(2))
    assert [drawn.shape[1] // (drawn.shape[0] // 5) for drawn in (first, second)] == [8, 6]
    heads = pixels(folder / "heads-1.png")  # two heads of two letters and a line between them, six frames
    assert heads.shape[0] * 6 == heads.shape[1] * 5


def test_what_is_empty_is_written_as_empty(tmp_path, monkeypatch):
    """An untrained recogniser hears nothing: no text, no alignment, and maybe no sound."""
    whole = SoundSource.collate

    def emptied(self, items):
        batch = whole(self, items)
        for name in ("audio_len", "mel_len", "text_len"):
            batch[name][0] = 0
        return batch

    monkeypatch.setattr(SoundSource, "collate", emptied)
    samples = Samples(sound_graph(), count=2)
    factory(folder=tmp_path, verify="off").train(frame_graph(), max_steps=1, callbacks=[samples])
    folder = tmp_path / "samples" / "step-00000001"
    assert (folder / "text.txt").read_text() == "sound-0\t\nsound-1\tdc\n"
    assert not pixels(folder / "mel-0.png").any()
    assert not pixels(folder / "heads-0.png").any()
    with wave.open(str(folder / "audio-0.wav")) as file:
        assert file.getnframes() == 0


def learning_graphs():
    halve = Halve().named("halve")
    batch, held_out = FrameData()(), FrameData()()
    train = Graph(
        "train",
        "train",
        {"loss": MeanLoss()(log_probs=halve(frames=batch.frames, frames_len=batch.frames_len).log_probs)},
    )
    shown = halve(frames=held_out.frames, frames_len=held_out.frames_len)
    return train, Graph("shown", "infer", {"log_probs": shown.log_probs, "ids": held_out.ids})


def test_samples_are_of_the_averaged_weights_and_change_nothing(tmp_path):
    plain, watched = learning_graphs(), learning_graphs()
    expected = factory().train(plain[0], epochs=3, ema=0.5)
    maker = factory(folder=tmp_path)
    result = maker.train(
        watched[0], epochs=3, ema=0.5, callbacks=[Samples(watched[1], every_steps=1, count=3)]
    )
    assert result.losses == expected.losses
    last = maker.infer(watched[1])[0]["log_probs"][0]
    drawn = pixels(tmp_path / "samples" / "step-00000006" / "log_probs-0.png")
    assert np.array_equal(drawn, pixels(to_png(last.T)))


def test_inputs_of_metrics_are_shown_and_values_inside_the_graph_can_be():
    halve = Halve().named("halve")
    batch = FrameData()()
    halved = halve(frames=batch.frames, frames_len=batch.frames_len)
    graph = Graph("inside", "infer", {"out_len": halved.out_len, "ids": batch.ids})
    assert [shown.name for shown in Samples(graph).shown] == ["ids"]
    inside = Samples(graph, outputs=["halve.log_probs", batch.ids]).shown
    assert [(shown.name, shown.form) for shown in inside] == [
        ("halve.log_probs", "picture"),
        ("frame_data.ids", "text"),
    ]


def test_a_resumed_training_goes_on_with_its_samples(tmp_path):
    def run(steps):
        train, shown = learning_graphs()
        samples = Samples(shown, every_steps=2, outputs=["log_probs"], count=1)
        factory(folder=tmp_path).train(train, max_steps=steps, callbacks=[samples])

    run(3)
    before = (tmp_path / "samples" / "step-00000002" / "log_probs-0.png").read_bytes()
    run(4)
    steps = sorted(path.name for path in (tmp_path / "samples").iterdir())
    assert steps == ["step-00000002", "step-00000003", "step-00000004"]
    assert (tmp_path / "samples" / "step-00000002" / "log_probs-0.png").read_bytes() == before


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Samples(sound_graph(), count=0), "count=0 is below 1"),
        (lambda: Samples(sound_graph(), outputs=["text_len"]), "text_len is Lengths.*cannot be shown"),
        (lambda: Samples(Graph("g", "infer", PointData()().x)), "has no output that can be shown"),
        (lambda: Samples(sound_graph(), every_steps=1, every_epochs=1), "not both"),
    ],
)
def test_what_cannot_be_shown_is_refused(make, words):
    with refused(ConfigError, words):
        make()


def test_samples_need_a_folder():
    with refused(ConfigError, "samples need a folder"):
        factory().train(frame_graph(), max_steps=1, callbacks=[Samples(sound_graph())])


def test_a_metric_whose_inputs_have_no_form_shows_nothing():
    batch = PointData()()
    fitted = Line()(x=batch.x).y
    graph = Graph("m", "infer", {"error": MeanError()(given=fitted, wanted=batch.y).score})
    with refused(ConfigError, "has no output that can be shown"):
        Samples(graph)


def test_utterances_that_the_data_leave_out_are_no_samples(tmp_path):
    samples = Samples(dropped_graph(), every_epochs=1, count=2)
    factory(folder=tmp_path).train(line_graphs()[0], epochs=1, callbacks=[samples])
    (folder,) = (tmp_path / "samples").iterdir()
    texts = (folder / "text.txt").read_text().splitlines()
    assert [line.partition("\t")[0] for line in texts] == ["sound-1", "sound-2"]
