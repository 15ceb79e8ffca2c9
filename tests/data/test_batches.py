import numpy as np
import pytest

from neumo.data.batches import Batches
from neumo.data.bucket import Bucketing, Budget
from neumo.types.errors import ConfigError

LISTS = [[4, 0], [2], [7, 7, 1]]


def test_batches_are_a_sequence_of_lists():
    batches = Batches.of(LISTS)
    assert list(batches) == LISTS
    assert batches == LISTS
    assert batches == tuple(map(tuple, LISTS))
    assert batches != LISTS[:2]
    assert batches != [[4, 0], [2], [7, 7, 2]]
    assert batches != "abc"
    assert (len(batches), batches[-1], batches[1:], batches[::2]) == (3, LISTS[2], LISTS[1:], LISTS[::2])
    assert type(batches[0][0]) is int
    assert batches.sizes.tolist() == [2, 1, 3]
    with pytest.raises(IndexError):
        batches[3]


def test_no_batches_are_a_sequence_too():
    assert Batches.of([]) == []
    assert len(Batches.of([])) == 0


def test_a_slice_shares_the_items():
    batches = Batches.of(LISTS)
    assert batches[1:].items is batches.items


def test_a_long_list_is_not_written_out():
    assert repr(Batches.of([[1]] * 30)) == "[" + "[1], " * 20 + "... 30 batches]"


def test_a_million_items_take_a_few_bytes_each():
    batches = Bucketing(16).batches(np.ones(100_000), seed=0, epoch=0)
    assert batches.items.nbytes + batches.starts.nbytes + batches.stops.nbytes < 6 * 100_000


@pytest.fixture
def pairs():
    rng = np.random.default_rng(0)
    source = rng.integers(1, 60, 3000)
    return {"source": source, "target": np.maximum(1, source + rng.integers(-5, 20, 3000))}


def padded(batches, lengths, names):
    return [len(batch) * sum(int(lengths[name][batch].max()) for name in names) for batch in batches]


@pytest.mark.parametrize("window", [0, 16])
def test_a_budget_bounds_the_padded_sum_of_several_lengths(pairs, window):
    bucketing = Bucketing(999, window=window, budgets=(Budget(2000, of=("source", "target")),))
    batches = bucketing.batches(pairs, seed=0, epoch=0)
    sizes = padded(batches, pairs, ("source", "target"))
    assert max(sizes) <= 2000
    assert sorted(index for batch in batches for index in batch) == list(range(3000))
    if window:  # sorted batches are nearly full
        assert np.median(sizes) > 1800


def test_several_budgets_hold_at_once(pairs):
    budgets = (Budget(1500, of=("source",)), Budget(2500, of=("target",)))
    batches = Bucketing(24, budgets=budgets).batches(pairs, seed=0, epoch=0)
    assert max(padded(batches, pairs, ("source",))) <= 1500
    assert max(padded(batches, pairs, ("target",))) <= 2500
    assert batches.sizes.max() == 24


def test_budgets_are_a_pure_function_of_seed_epoch_rank_and_world(pairs):
    make = Bucketing(999, budgets=(Budget(2000, of=("source", "target")),)).batches
    first = make(pairs, seed=3, epoch=5, rank=1, world=2)
    assert make(pairs, seed=3, epoch=5, rank=1, world=2) == first
    assert make(pairs, seed=3, epoch=6, rank=1, world=2) != first
    other = make(pairs, seed=3, epoch=5, rank=0, world=2)
    assert len(first) == len(other)
    assert not {i for batch in first for i in batch} & {i for batch in other for i in batch}


def test_one_length_or_the_mapping_of_it_is_the_same(pairs):
    by_name = Bucketing(99, budgets=(Budget(700, of=("source",)),))
    plain = Bucketing(99, 700.0)
    assert by_name.batches(pairs, seed=0, epoch=0).sizes.sum() == 3000
    only = {"source": pairs["source"]}
    assert by_name.batches(only, seed=0, epoch=0) == plain.batches(pairs["source"], seed=0, epoch=0)


def test_the_second_length_decides_between_equals():
    lengths = {"source": [1, 1, 1, 1], "target": [9, 3, 8, 2]}
    batches = Bucketing(2, shuffle=False).batches(lengths, seed=0, epoch=0)
    assert batches == [[3, 1], [2, 0]]


def test_an_item_over_the_budget_has_a_batch_of_its_own():
    lengths = {"a": [1, 99, 1], "b": [1, 1, 1]}
    bucketing = Bucketing(9, shuffle=False, window=0, budgets=(Budget(10, of=("a", "b")),))
    assert bucketing.batches(lengths, seed=0, epoch=0) == [[0], [1], [2]]


def test_budgets_that_cannot_be_are_refused(pairs):
    with pytest.raises(ConfigError, match="leaves room for nothing"):
        Budget(0)
    with pytest.raises(ConfigError, match="did you mean 'source'"):
        Bucketing(budgets=(Budget(10, of=("sourse",)),)).batches(pairs, seed=0, epoch=0)
