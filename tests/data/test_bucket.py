import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neumo.data import Bucketing
from neumo.types.errors import ConfigError

lengths = st.lists(st.floats(0.1, 30.0, allow_nan=False), max_size=120)


@settings(max_examples=300, deadline=None)
@given(
    seconds=lengths,
    size=st.integers(1, 9),
    limit=st.one_of(st.none(), st.floats(1.0, 100.0)),
    window=st.integers(0, 4),
    world=st.integers(1, 5),
    shuffle=st.booleans(),
    epoch=st.integers(0, 3),
)
def test_every_item_comes_once_and_ranks_have_as_many_batches(
    seconds, size, limit, window, world, shuffle, epoch
):
    bucketing = Bucketing(size, limit, shuffle, window)
    ranks = [bucketing.batches(seconds, seed=1, epoch=epoch, rank=rank, world=world) for rank in range(world)]
    assert len({len(batches) for batches in ranks}) == 1
    items = [index for batches in ranks for batch in batches for index in batch]
    assert set(items) == set(range(len(seconds)))
    if len(items) > len(seconds):  # nothing was left to split
        assert all(len(batch) == 1 for batches in ranks for batch in batches)
        assert len(items) - len(seconds) < world
    for batch in itertools.chain(*ranks):
        assert 1 <= len(batch) <= size
        if limit is not None and len(batch) > 1:
            assert max(seconds[index] for index in batch) * len(batch) <= limit


def test_batches_are_a_pure_function_of_their_arguments():
    seconds = np.random.default_rng(0).uniform(1, 20, 200)
    make = Bucketing(8).batches
    again = Bucketing(8).batches
    first = make(seconds, seed=3, epoch=5, rank=1, world=2)
    make(seconds, seed=9, epoch=0)
    assert again(seconds, seed=3, epoch=5, rank=1, world=2) == first
    assert make(seconds, seed=4, epoch=5, rank=1, world=2) != first
    assert make(seconds, seed=3, epoch=6, rank=1, world=2) != first


def test_padding_is_small_and_the_neighbours_still_change():
    seconds = np.random.default_rng(0).uniform(1, 20, 2000)

    def padding(bucketing):
        batches = bucketing.batches(seconds, seed=0, epoch=0)
        padded = sum(len(batch) * seconds[batch].max() for batch in batches)
        return padded / seconds.sum() - 1

    assert padding(Bucketing(16, window=0)) > 0.6
    assert padding(Bucketing(16, window=16)) < 0.08
    pairs = [
        {
            frozenset(pair)
            for batch in Bucketing(16).batches(seconds, seed=0, epoch=e)
            for pair in itertools.combinations(batch, 2)
        }
        for e in range(2)
    ]
    assert len(pairs[0] & pairs[1]) < 0.3 * len(pairs[0])


def test_no_batch_is_a_small_remainder():
    sizes = [len(batch) for batch in Bucketing(16).batches(np.ones(819), seed=0, epoch=0)]
    assert len(sizes) == 52
    assert min(sizes) >= 12


def test_without_shuffling_the_order_is_that_of_the_items():
    batches = Bucketing(3, shuffle=False, window=0).batches([5.0, 1.0, 4.0, 2.0], seed=0, epoch=7)
    assert batches == [[0, 1, 2], [3]]


def test_neighbours_in_length_make_one_step_of_all_ranks():
    seconds = np.random.default_rng(0).uniform(1, 20, 1024)
    ranks = [Bucketing(8).batches(seconds, seed=0, epoch=0, rank=r, world=4) for r in range(4)]
    spread = [np.ptp([seconds[rank[step]].max() for rank in ranks]) for step in range(len(ranks[0]))]
    assert np.mean(spread) < 1.5


def test_fewer_items_than_ranks_are_repeated_so_that_no_rank_waits():
    ranks = [Bucketing(4).batches([1.0, 2.0], seed=0, epoch=0, rank=r, world=3) for r in range(3)]
    assert [len(batches) for batches in ranks] == [1, 1, 1]


@pytest.mark.parametrize(
    "fields", [{"batch_size": 0}, {"max_seconds": 0.0}, {"max_seconds": float("nan")}, {"window": -1}]
)
def test_settings_that_cannot_be_are_refused(fields):
    with pytest.raises(ConfigError):
        Bucketing(**fields)
    with pytest.raises(ConfigError, match="rank is 2"):
        Bucketing().batches([1.0], seed=0, epoch=0, rank=2, world=2)
