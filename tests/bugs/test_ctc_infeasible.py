"""An infinite CTC loss became nan gradients and the run never recovered; others hid it as zero."""

import copy

import pytest
import torch

from neumo.asr import ConvEncoder, CTCHead, CTCLoss
from neumo.backends.torch.registry import build
from neumo.types import Vocab

LETTERS = Vocab.english()


def model():
    torch.manual_seed(3)
    spec = ConvEncoder.preset("digits", width=32)
    return torch.nn.ModuleDict({"encoder": build(spec), "head": build(CTCHead(LETTERS, spec.width))})


def loss_of(modules, mel, mel_len, targets, targets_len):
    encoded, encoded_len = modules["encoder"](mel, mel_len)
    return build(CTCLoss(LETTERS))(modules["head"](encoded), encoded_len, targets, targets_len)


def batch_of_three():
    """The second target needs 9 frames (8 labels, one repeat); it has 8."""
    mel, mel_len = torch.randn(3, 64, 40), torch.tensor([40, 16, 40])
    targets = torch.tensor([[3, 1, 20, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 5, 6, 7], [4, 15, 7, 0, 0, 0, 0, 0]])
    return mel, mel_len, targets, torch.tensor([3, 8, 3])


def test_the_infeasible_utterance_is_named_and_the_others_are_learned_from():
    modules = model().eval()  # no batch statistics: the utterances of a batch do not meet
    mel, mel_len, targets, targets_len = batch_of_three()
    loss, infeasible, _ = loss_of(modules, mel, mel_len, targets, targets_len)
    loss.backward()
    assert infeasible.tolist() == [False, True, False]
    found = [weight.grad.clone() for weight in modules.parameters()]
    modules.zero_grad()
    rows = [0, 2]
    expected, *_ = loss_of(modules, mel[rows], mel_len[rows], targets[rows], targets_len[rows])
    expected.backward()
    assert torch.isfinite(loss)
    assert torch.allclose(loss, expected, rtol=1e-5)
    for weight, gradient in zip(modules.parameters(), found, strict=True):
        assert torch.allclose(weight.grad, gradient, rtol=1e-4, atol=1e-5)


def test_a_batch_of_infeasible_utterances_leaves_the_weights_untouched():
    modules = model().train()
    mel, mel_len, targets, targets_len = (part[1:2] for part in batch_of_three())
    optimizer = torch.optim.SGD(modules.parameters(), lr=1.0)
    before = copy.deepcopy(dict(modules.named_parameters()))
    loss, infeasible, _ = loss_of(modules, mel, mel_len, targets, targets_len)
    loss.backward()
    optimizer.step()
    assert loss.item() == 0
    assert infeasible.tolist() == [True]
    assert all(torch.equal(before[name], weight) for name, weight in modules.named_parameters())


@pytest.mark.parametrize("frames", [0, 1])
def test_an_utterance_without_frames_is_infeasible_even_for_an_empty_target(frames):
    log_probs = torch.randn(1, 4, 29).log_softmax(-1).requires_grad_()
    loss, infeasible, _ = build(CTCLoss(LETTERS))(
        log_probs, torch.tensor([frames]), torch.zeros(1, 2, dtype=torch.long), torch.tensor([0])
    )
    loss.backward()
    assert infeasible.tolist() == [frames == 0]
    assert torch.isfinite(log_probs.grad).all()
    assert loss.item() == pytest.approx(-frames * log_probs[0, 0, 28].item(), rel=1e-6)


def test_an_infeasible_utterance_with_infinite_scores_does_not_spread():
    log_probs = torch.randn(2, 6, 29).log_softmax(-1)
    log_probs[0] = float("-inf")
    log_probs.requires_grad_()
    targets = torch.tensor([[1, 1, 1, 1], [1, 2, 3, 4]])
    loss, infeasible, _ = build(CTCLoss(LETTERS))(
        log_probs, torch.tensor([6, 6]), targets, torch.tensor([4, 4])
    )
    loss.backward()
    assert infeasible.tolist() == [True, False]
    assert torch.isfinite(loss)
    assert not log_probs.grad[0].any()
    assert torch.isfinite(log_probs.grad[1]).all()
