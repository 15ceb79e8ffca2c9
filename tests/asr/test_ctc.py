"""CTC: the loss against enumeration and the original, greedy decoding against its definition."""

import itertools
import math

import numpy as np
import pytest
import torch

from neumo.asr import CTCHead, CTCLoss, GreedyCTC
from neumo.asr.torch.ctc import needed_frames
from neumo.backends.torch.registry import build
from neumo.types import DataError, Vocab

AB = Vocab("ab")
LETTERS = Vocab.english()
BLANK = 2


def collapse(path, blank=BLANK):
    merged = [label for n, label in enumerate(path) if n == 0 or label != path[n - 1]]
    return [label for label in merged if label != blank]


def enumerated(log_probs, target):
    """Minus the log of the summed probability of every path that collapses to the target."""
    frames, labels = log_probs.shape
    paths = (path for path in itertools.product(range(labels), repeat=frames) if collapse(path) == target)
    total = sum(math.exp(sum(log_probs[t, label] for t, label in enumerate(path))) for path in paths)
    return -math.log(total) if total else None


@pytest.mark.parametrize("target", [[], [0], [1], [0, 1], [0, 0], [1, 0, 1], [1, 1, 1], [0, 1, 0, 1]])
@pytest.mark.parametrize("frames", [1, 2, 3, 5])
def test_the_loss_is_what_enumeration_gives(target, frames):
    generator = torch.Generator().manual_seed(frames)
    log_probs = (
        torch.randn(1, 6, 3, generator=generator, dtype=torch.float64).log_softmax(-1).requires_grad_()
    )
    expected = enumerated(log_probs[0, :frames].detach().numpy(), target)
    padded = torch.tensor([target + [0] * (5 - len(target))])
    loss, infeasible, _ = build(CTCLoss(AB))(
        log_probs, torch.tensor([frames]), padded, torch.tensor([len(target)])
    )
    assert infeasible.tolist() == [expected is None]
    assert loss.item() == pytest.approx(expected or 0, abs=1e-9)
    loss.backward()
    assert torch.isfinite(log_probs.grad).all()
    assert not log_probs.grad[0, frames:].any()


def test_the_loss_is_the_mean_over_the_feasible_utterances():
    log_probs = torch.randn(4, 5, 3, dtype=torch.float64).log_softmax(-1)
    lengths, targets = torch.tensor([5, 4, 3, 2]), torch.tensor([[0, 1, 0], [1, 1, 0], [0, 0, 0], [0, 0, 0]])
    targets_len = torch.tensor([3, 2, 3, 1])  # the third needs 5 frames and has 3
    single = [
        enumerated(log_probs[n, : lengths[n]].numpy(), targets[n, : targets_len[n]].tolist())
        for n in range(4)
    ]
    loss, infeasible, _ = build(CTCLoss(AB))(log_probs, lengths, targets, targets_len)
    assert infeasible.tolist() == [False, False, True, False]
    assert single[2] is None
    assert loss.item() == pytest.approx((single[0] + single[1] + single[3]) / 3)


@pytest.mark.parametrize("name", ["quartznet_small", "jasper_dense_small"])
def test_the_loss_is_that_of_the_original(checkpoints, name):
    arrays = {key: torch.tensor(value) for key, value in np.load(checkpoints / f"{name}.npz").items()}
    loss, infeasible, _ = build(CTCLoss(LETTERS))(
        arrays["fwd_logprobs"], arrays["fwd_len"], arrays["targets"], arrays["target_len"]
    )
    assert not infeasible.any()
    assert loss.item() == pytest.approx(arrays["ctc_loss"].item(), rel=1e-6)


@pytest.mark.parametrize("name", ["quartznet_small", "jasper_dense_small"])
def test_greedy_decoding_is_that_of_the_original(checkpoints, name):
    arrays = {key: torch.tensor(value) for key, value in np.load(checkpoints / f"{name}.npz").items()}
    ids, ids_len, _ = build(GreedyCTC(LETTERS))(arrays["fwd_logprobs"], arrays["fwd_len"])
    for row, length in enumerate(arrays["fwd_len"].tolist()):
        expected = collapse(arrays["fwd_pred"][row, :length].tolist(), blank=28)
        assert ids[row, : ids_len[row]].tolist() == expected


@pytest.mark.parametrize("frames", [0, 1, 2, 17])
def test_greedy_decoding_collapses_and_drops_blanks(frames):
    generator = torch.Generator().manual_seed(frames)
    scores, lengths = torch.randn(6, frames, 3, generator=generator), torch.arange(6) * frames // 5
    ids, ids_len, read_at = build(GreedyCTC(AB))(scores, lengths)
    for row, length in enumerate(lengths.tolist()):
        best = scores[row, :length].argmax(-1).tolist()
        assert ids[row, : ids_len[row]].tolist() == collapse(best)
        assert not ids[row, ids_len[row] :].any()
        firsts = [n for n, label in enumerate(best) if label != BLANK and (n == 0 or best[n - 1] != label)]
        assert read_at[row, : ids_len[row]].tolist() == firsts
        assert not read_at[row, ids_len[row] :].any()


def test_the_same_label_with_a_blank_between_counts_twice():
    best = torch.tensor([[0, 0, 2, 0, 1, 1, 2, 2, 1]])
    ids, ids_len, frames = build(GreedyCTC(AB))(
        torch.nn.functional.one_hot(best, 3).float(), torch.tensor([9])
    )
    assert ids[0, : ids_len[0]].tolist() == [0, 0, 1, 1]
    assert frames[0, : ids_len[0]].tolist() == [0, 3, 4, 8]


def test_needed_frames_count_repeats_within_the_target_only():
    targets = torch.tensor([[1, 1, 2, 2], [1, 1, 1, 1], [3, 3, 3, 3], [0, 0, 0, 0]])
    assert needed_frames(targets, torch.tensor([4, 3, 1, 0])).tolist() == [6, 5, 1, 0]
    assert needed_frames(torch.zeros(2, 0, dtype=torch.long), torch.tensor([0, 0])).tolist() == [0, 0]


@pytest.mark.parametrize("wrong", [28, 29, -1, -100])
def test_an_id_outside_of_the_vocabulary_is_refused(wrong):
    log_probs = torch.zeros(1, 6, 29).log_softmax(-1)
    with pytest.raises(DataError, match="vocabulary has 0 to 27"):
        build(CTCLoss(LETTERS))(log_probs, torch.tensor([6]), torch.tensor([[1, wrong]]), torch.tensor([2]))
    behind_the_end = build(CTCLoss(LETTERS))(
        log_probs, torch.tensor([6]), torch.tensor([[1, wrong]]), torch.tensor([1])
    )
    assert torch.isfinite(behind_the_end.loss)


def test_the_head_gives_log_probabilities_in_float32_under_autocast():
    head = build(CTCHead(LETTERS, 16))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        log_probs = head(torch.randn(2, 16, 5).bfloat16())
    assert log_probs.shape == (2, 5, 29)
    assert log_probs.dtype == torch.float32
    assert torch.allclose(log_probs.exp().sum(-1), torch.ones(2, 5), atol=1e-5)


def test_the_loss_computes_in_float32_under_autocast():
    logits = torch.randn(2, 6, 29)
    arguments = torch.tensor([6, 5]), torch.tensor([[1, 2], [3, 3]]), torch.tensor([2, 2])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss, *_ = build(CTCLoss(LETTERS))(logits.log_softmax(-1), *arguments)
    expected, *_ = build(CTCLoss(LETTERS))(logits.log_softmax(-1), *arguments)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item())
