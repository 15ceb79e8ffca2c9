"""Connectionist temporal classification: head, loss and greedy decoding.

Shapes: B utterances, T frames, V labels with the blank last, U target labels.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.backends.torch.lengths import at_least_float32, frame_mask
from neumo.backends.torch.registry import implements
from neumo.types.errors import DataError


@implements(specs.CTCHead)
class CTCHead(nn.Module):
    """A linear layer over the features of each frame, then log-softmax in float32 even under autocast."""

    def __init__(self, spec: specs.CTCHead) -> None:
        super().__init__()
        self.linear = nn.Linear(spec.width, len(spec.vocab) + 1)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, encoded: Tensor) -> Tensor:
        """(B, C, T) -> (B, T, V)."""
        logits = self.linear(encoded.transpose(1, 2))
        return at_least_float32(logits).log_softmax(dim=-1)


class CTCResult(NamedTuple):
    """The loss, the utterances that it left out, and how many it is the mean over."""

    loss: Tensor  # ()
    infeasible: Tensor  # (B,) bool
    count: Tensor  # () # pyright: ignore[reportIncompatibleMethodOverride]


@implements(specs.CTCLoss)
class CTCLoss(nn.Module):
    """The loss of the feasible utterances; the others are not even given to the recursion."""

    compiles = False  # which utterances are feasible is in the numbers

    def __init__(self, spec: specs.CTCLoss) -> None:
        super().__init__()
        self.blank = len(spec.vocab)

    def forward(
        self, log_probs: Tensor, log_probs_len: Tensor, targets: Tensor, targets_len: Tensor
    ) -> CTCResult:
        """(B, T, V), (B,), (B, U), (B,) -> (), (B,), ()."""
        infeasible = needed_frames(targets, targets_len).clamp(min=1) > log_probs_len
        left_out, frames, labels, ends = _on_host(
            infeasible, log_probs_len, targets_len, _ends(targets, targets_len)
        )
        self._check(*ends)
        rows = [row for row, bad in enumerate(left_out) if not bad]
        chosen = at_least_float32(log_probs)
        if len(rows) < len(left_out):
            chosen, targets = chosen[rows], targets[rows]
        count = chosen.new_full((), len(rows))
        if not rows:
            return CTCResult(chosen.sum(), infeasible, count)  # 0, with a graph behind it and no gradient
        frames_used, labels_used = [frames[row] for row in rows], [labels[row] for row in rows]
        loss = F.ctc_loss(
            chosen.transpose(0, 1),
            targets,
            frames_used,  # pyright: ignore[reportArgumentType]  # numbers: torch would wait for tensors
            labels_used,  # pyright: ignore[reportArgumentType]
            blank=self.blank,
            reduction="sum",
        )
        return CTCResult(loss / len(rows), infeasible, count)

    def _check(self, lowest: int, highest: int) -> None:
        """An id outside of the vocabulary would read memory that is not ours."""
        if not 0 <= lowest <= highest < self.blank:
            raise DataError(
                f"CTC targets have ids from {lowest} to {highest}; the vocabulary has 0 to {self.blank - 1}",
                code="ids",
                why="The labels were made with another vocabulary, or the blank is among them.",
            )


def _ends(targets: Tensor, targets_len: Tensor) -> Tensor:
    """The lowest and the highest id within the lengths; 0 is always among them: (2,)."""
    used = F.pad(targets.masked_fill(~frame_mask(targets_len, targets.shape[1]), 0), (0, 1))
    return torch.stack([used.min(), used.max()]) if used.numel() else targets_len.new_zeros(2)


def _on_host(*values: Tensor) -> list[list[int]]:
    """Bring whole numbers to the host at once, since a device is waited for each time."""
    numbers = iter(torch.cat([value.long() for value in values]).tolist())
    return [list(islice(numbers, len(value))) for value in values]


def needed_frames(targets: Tensor, targets_len: Tensor) -> Tensor:
    """The fewest frames that can emit each target: one a label, and a blank between equal neighbours: (B,).

    >>> import torch
    >>> needed_frames(torch.tensor([[1, 1, 2], [3, 3, 3]]), torch.tensor([3, 1]))
    tensor([4, 1])
    """
    repeats = (targets[:, 1:] == targets[:, :-1]) & frame_mask(targets_len - 1, max(targets.shape[1] - 1, 0))
    return targets_len + repeats.sum(dim=1)


class Decoded(NamedTuple):
    """Labels without blanks, how many of them each utterance has, and the frame in which each was read."""

    ids: Tensor  # (B, U')
    ids_len: Tensor  # (B,)
    frames: Tensor  # (B, U')


@implements(specs.GreedyCTC)
class GreedyCTC(nn.Module):
    """The best label of each frame, without repeats and blanks."""

    def __init__(self, spec: specs.GreedyCTC) -> None:
        super().__init__()
        self.blank = len(spec.vocab)

    def forward(self, log_probs: Tensor, log_probs_len: Tensor) -> Decoded:
        """(B, T, V), (B,) -> (B, T), (B,), (B, T); as many columns as frames, so that no size depends on
        values.
        """
        best = log_probs.argmax(dim=-1)  # (B, T)
        before = F.pad(best, (1, 0), value=self.blank)[:, :-1]
        kept = (best != self.blank) & (best != before) & frame_mask(log_probs_len, best.shape[1])
        # The kept ones go to 1, 2, ...; all others to 0, which is cut off.
        place = kept.cumsum(dim=1) * kept
        index = torch.arange(best.shape[1], device=best.device).expand_as(best)
        frames = best.new_zeros(best.shape[0], best.shape[1] + 1).scatter(1, place, index)[:, 1:]
        ids_len = kept.sum(dim=1)
        ids = best.gather(1, frames) * frame_mask(ids_len, best.shape[1])
        return Decoded(ids, ids_len, frames)
