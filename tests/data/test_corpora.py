import os
from pathlib import Path

import numpy as np
import pytest

from neumo.data import SpeechSource, read_audio, read_manifest
from neumo.types import Vocab

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("NEUMO_SHARED", ROOT.parent / "shared"))
CORPORA = {
    "an4/train_sub.jsonl": (819, 16000),
    "an4/dev.jsonl": (129, 16000),
    "fsdd/train.jsonl": (None, 8000),
    "mini-librispeech/dev.jsonl": (77, 16000),
    "ljspeech-subset/train.jsonl": (None, 22050),
}


def corpus(name):
    path = SHARED / "data" / name
    if not path.exists():
        pytest.skip(f"the corpus {name} is not at {SHARED / 'data'} (set NEUMO_SHARED)")
    return path


@pytest.mark.parametrize("name", CORPORA)
def test_real_manifests_are_read_whole(name):
    count, rate = CORPORA[name]
    source = SpeechSource(corpus(name), rate=16000, check="headers")
    assert count in (None, len(source))
    report = source.report()
    assert report.rates == {rate: len(source)}
    assert not report.dropped
    assert not report.mismatches
    batch = source.collate([source.item(index, 0) for index in source.batches(0)[0]])
    assert np.abs(batch["audio"]).max() <= 1.0
    assert np.array_equal(batch["audio_len"], source.frames[batch["item"]]) or rate != 16000


def test_an4_is_covered_by_the_english_labels():
    source = SpeechSource(corpus("an4/train_sub.jsonl"), vocab=Vocab.english())
    assert source.coverage.complete
    assert source.vocab.decode(source.text_ids(0)) == source.text(0)


def test_ljspeech_needs_its_normalised_text_and_more():
    source = SpeechSource(corpus("ljspeech-subset/train.jsonl"), text_field="normalized_text", check="files")
    assert source.text(1) == source.manifest.record(1)["normalized_text"]


def test_every_an4_recording_decodes():
    manifest = read_manifest(corpus("an4/dev.jsonl"))
    assert all(len(read_audio(entry.audio, rate=16000).samples) > 1000 for entry in manifest)
