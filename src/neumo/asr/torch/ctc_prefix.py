"""How probable CTC finds all texts that begin with given labels, label by label.

Watanabe et al. 2017, algorithm 2, https://arxiv.org/abs/1609.06773. The recursion over frames is
g[t] = (g[t-1] + f[t-1]) p[t]: a cumulative sum, once it is divided by the products of p, so there is no loop
over frames. Sums are in float64: the products get small.

Shapes: B utterances, N hypotheses (a multiple of B), T frames, V labels with the blank last. Along an axis of
T + 1, index t stands behind the first t frames.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from neumo.backends.torch.lengths import frame_mask

_LEAST = -1e4  # a logarithm of an impossible label: sums of it stay exact, and it is as good as -inf


class PrefixState(NamedTuple):
    """Hypotheses, and the log-probability that the first t frames say just that, by how they end."""

    in_label: Tensor  # (N, T + 1) the last frame is of the last label
    in_blank: Tensor  # (N, T + 1) the last frame is blank
    last: Tensor  # (N,) the last label, -1 where there is none
    rows: Tensor  # (N,) the utterance of each

    @property
    def ended(self) -> Tensor:
        """The log-probability that all frames say just the hypothesis: (N,)."""
        return torch.logaddexp(self.in_label[:, -1], self.in_blank[:, -1])


class CTCPrefix:
    """Scores what may follow hypotheses by the posteriors of a CTC model.

    >>> log_probs = torch.tensor([[[0.6, 0.4], [0.7, 0.3]]]).log()  # a label and the blank in two frames
    >>> prefix = CTCPrefix(log_probs, torch.tensor([2]))
    >>> empty = prefix.start(copies=1)
    >>> one = prefix.extend(empty, torch.tensor([0]), torch.tensor([0]))
    >>> [round(x.exp().item(), 2) for x in (empty.ended, prefix.next(empty)[:, 0], one.ended)]
    [0.12, 0.88, 0.88]
    """

    def __init__(self, log_probs: Tensor, lengths: Tensor) -> None:
        real = frame_mask(lengths, log_probs.shape[1])
        # Beyond the end nothing changes: the blank is certain there, and no label begins.
        known = log_probs.double().clamp(min=_LEAST)
        self._labels = known[:, :, :-1].masked_fill(~real[:, :, None], -torch.inf)  # (B, T, V - 1)
        self._chances = self._labels.exp()
        self._blank = known[:, :, -1].masked_fill(~real, 0)  # (B, T)
        self._real = real

    def start(self, copies: int) -> PrefixState:
        """Begin `copies` hypotheses of each utterance without a label."""
        rows = torch.arange(len(self._real), device=self._real.device).repeat_interleave(copies)
        in_blank = F.pad(self._blank.cumsum(dim=1), (1, 0))[rows]
        return PrefixState(torch.full_like(in_blank, -torch.inf), in_blank, torch.full_like(rows, -1), rows)

    def next(self, state: PrefixState) -> Tensor:
        """The log-probability of all texts that begin with a hypothesis and one more label: (N, V - 1)."""
        before = torch.logaddexp(state.in_label, state.in_blank)[:, :-1]  # (N, T)
        # A product of matrices sums over the frames in which a label may begin; the largest term becomes 1.
        rows, frames = self._real.shape
        largest = F.pad(before, (0, 1), value=-torch.inf).amax(dim=1, keepdim=True)  # there may be no frame
        largest = largest.masked_fill(largest == -torch.inf, 0)
        parts = (before - largest).exp().view(rows, len(before) // max(rows, 1), frames)
        found = (parts @ self._chances).flatten(0, 1).log() + largest
        # The last label begins anew only behind a blank.
        label = state.last.clamp(min=0)
        again = (state.in_blank[:, :-1] + self._labels[state.rows, :, label]).logsumexp(dim=1)
        kept = torch.where(state.last < 0, found.gather(1, label[:, None]).squeeze(1), again)
        return found.scatter(1, label[:, None], kept[:, None])

    def extend(self, state: PrefixState, chosen: Tensor, labels: Tensor) -> PrefixState:
        """Add a label to hypotheses that are chosen by number: (M,), (M,)."""
        in_label, in_blank, last, rows = (part[chosen] for part in state)
        # What is no label, such as <eos> of a hypothesis that is over, leaves it without a future.
        known = labels < self._labels.shape[2]
        labels = torch.where(known, labels, -1)
        scores = self._labels[rows, :, labels.clamp(min=0)]
        again = (last == labels)[:, None]
        before = torch.where(again, in_blank, torch.logaddexp(in_label, in_blank))[:, :-1]
        before = before.masked_fill(~known[:, None], -torch.inf)
        real = self._real[rows]
        in_label = _summed(before, scores.masked_fill(~real, 0), real)
        in_blank = _summed(in_label[:, :-1], self._blank[rows], real)
        return PrefixState(in_label, in_blank, labels, rows)


def _summed(entering: Tensor, scores: Tensor, real: Tensor) -> Tensor:
    """Solve g[t] = (g[t-1] + entering[t-1]) p[t] in logarithms, from g[0] = 0: (M, T) -> (M, T + 1)."""
    gathered = scores.cumsum(dim=1)
    earlier = F.pad(gathered, (1, 0))[:, :-1]
    parts = (entering - earlier).masked_fill(~real, -torch.inf)
    return F.pad(gathered + torch.logcumsumexp(parts, dim=1), (1, 0), value=-torch.inf)
