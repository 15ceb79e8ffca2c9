"""Manifests are seen as often as their weights say, by seed and epoch alone."""

from collections import Counter

import numpy as np
import pytest
import soundfile

from neumo.asr import SpeechData
from neumo.data import SpeechSource
from neumo.data.weights import weigh
from neumo.types import Vocab
from neumo.types.errors import ConfigError


@pytest.fixture
def manifests(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(1600, np.int16), 16000)
    paths = []
    for name, count in (("large", 10), ("small", 4)):
        path = tmp_path / f"{name}.jsonl"
        path.write_text('{"audio_filepath": "a.wav", "duration": 0.1, "text": "yes"}\n' * count)
        paths.append(path)
    return paths


def seen(source, epoch, **ranks):
    return Counter(index for batch in source.batches(epoch, **ranks) for index in batch)


def test_a_weight_is_how_often_a_manifest_is_seen(manifests):
    source = SpeechSource(manifests, weights=[0.5, 2.25], batch_size=3)
    found = seen(source, 0)
    assert sum(found[n] for n in range(10)) == 5
    assert sorted(found[n] for n in range(10, 14)) == [2, 2, 2, 3]


def test_fractions_go_round_until_all_were_seen_equally_often(manifests):
    source = SpeechSource(manifests, weights=[0.2, 0.75])
    total = sum((seen(source, epoch) for epoch in range(20)), Counter())
    assert {total[n] for n in range(10)} == {4}
    assert {total[n] for n in range(10, 14)} == {15}


def test_the_batches_are_those_of_seed_and_epoch(manifests):
    one, two = (SpeechSource(manifests, weights=[0.5, 2], seed=3, batch_size=2) for _ in range(2))
    assert one.batches(5) == two.batches(
        5
    )  # the other has given no batches of epochs before: as after a resume
    assert one.batches(5) != one.batches(6)
    assert SpeechSource(manifests, weights=[0.5, 2], seed=4, batch_size=2).batches(5) != one.batches(5)


def test_ranks_share_what_is_seen(manifests):
    source = SpeechSource(manifests, weights=[1, 2], batch_size=2)
    parts = [seen(source, 1, rank=rank, world=3) for rank in range(3)]
    assert sum(parts, Counter()) == seen(source, 1)


def test_weights_of_one_change_nothing(manifests):
    assert SpeechSource(manifests, weights=[1, 1]).batches(2) == SpeechSource(manifests).batches(2)


def test_a_weight_of_nothing_leaves_a_manifest_out(manifests):
    assert sorted(seen(SpeechSource(manifests, weights=[0, 1]), 0)) == [10, 11, 12, 13]


@pytest.mark.parametrize(
    "weights", [[1], [1, -1], [1, float("inf")], [1, float("nan")], [0, 0], [1, True], ["a", 1]]
)
def test_weights_that_cannot_be_meant_are_refused(manifests, weights):
    with pytest.raises(ConfigError):
        SpeechSource(manifests, weights=weights)


def test_a_recipe_gives_weights(manifests):
    layer = SpeechData(tuple(manifests), vocab=Vocab.english(), weights=(1, 3))
    assert sum(seen(layer.open(0), 0).values()) == 22
    with pytest.raises(ConfigError, match="weights"):
        SpeechData(tuple(manifests), weights=(1,))


def test_an_empty_group_is_no_trouble():
    assert weigh(np.arange(2), np.array([0, 0]), [1.5, 0.3], seed=0, epoch=3).size == 3
