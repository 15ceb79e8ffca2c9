"""Location-aware attention against the equations of Chorowski et al. 2015, written as loops."""

import math

import pytest
import torch

from neumo.nn.location import LocationAttention
from neumo.nn.scorer import LabelScorer, pick

KEEP = torch.arange(7) < torch.tensor([7, 3])[:, None]


def by_the_equations(attention, query, memory, before, length, *, smoothing):
    """Equations 5, 6, 8 and 9 there for one query: a weight for each position."""
    scores = []
    for at in range(length):
        inside = attention.query.weight @ query + attention.query.bias + attention.key.weight @ memory[at]
        if attention.place is not None:
            taps = attention.place.weight[:, 0]  # (filters, kernel)
            half = taps.shape[1] // 2
            features = torch.zeros(len(taps), dtype=memory.dtype)
            for tap in range(taps.shape[1]):
                if 0 <= at + tap - half < length:
                    features = features + taps[:, tap] * before[at + tap - half]
            inside = inside + attention.from_place.weight @ features
        scores.append((attention.score.weight @ inside.tanh()).item())
    open_ = [1 / (1 + math.exp(-each)) if smoothing else math.exp(each) for each in scores]
    return torch.tensor([each / sum(open_) for each in open_], dtype=memory.dtype)


@pytest.mark.parametrize("smoothing", [False, True])
@pytest.mark.parametrize("filters", [0, 3])
def test_the_weights_are_those_of_the_paper(smoothing, filters):
    torch.manual_seed(1)
    attention = LocationAttention(4, 5, width=6, filters=filters, kernel=5, smoothing=smoothing).double()
    query, memory = torch.randn(2, 3, 4).double(), torch.randn(2, 7, 5).double()
    before = torch.rand(2, 3, 7).double() * KEEP[:, None]
    context, weights = attention(query, attention.read(memory), memory, before, KEEP)
    for row, length in enumerate((7, 3)):
        for which in range(3):
            wanted = by_the_equations(
                attention, query[row, which], memory[row], before[row, which], length, smoothing=smoothing
            )
            assert torch.allclose(weights[row, which, :length], wanted, atol=1e-12)
            assert not weights[row, which, length:].any()
            assert torch.allclose(context[row, which], wanted @ memory[row, :length], atol=1e-12)


def test_it_begins_evenly_over_what_is_real():
    start = LocationAttention(4, 5, width=6).start(torch.cat([KEEP, torch.zeros(1, 7, dtype=torch.bool)]))
    assert torch.allclose(start.sum(1), torch.tensor([1.0, 1.0, 0.0]))
    assert start[1, 0] == pytest.approx(1 / 3)
    assert not start[1, 3:].any()


def test_a_scorer_computes_in_the_precision_it_was_made_in():
    layer = torch.nn.Linear(4, 3)
    seen = []

    def step(labels, state):
        out = layer(torch.ones(len(labels), 4))
        seen.append(out.dtype)
        return out, state

    with torch.autocast("cpu", dtype=torch.bfloat16):
        scorer = LabelScorer(1, "cpu", lambda copies: (), step)
    scores, _ = scorer.score(torch.zeros(1, dtype=torch.long), scorer.start(1))
    assert (seen, scores.dtype) == ([torch.bfloat16], torch.float32)
    exact = LabelScorer(1, "cpu", lambda copies: (), step)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        exact.score(torch.zeros(1, dtype=torch.long), ())
    assert seen[1] == torch.float32


def test_states_are_chosen_whatever_they_are_made_of():
    state = {"kept": 1}, (torch.arange(3), [torch.arange(6).view(3, 2)]), None
    found = pick(state, torch.tensor([2, 0]))
    assert found[1][0].tolist() == [2, 0]
    assert found[1][1][0].tolist() == [[4, 5], [0, 1]]
    assert found[2] is None
