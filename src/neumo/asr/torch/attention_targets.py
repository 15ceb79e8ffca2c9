"""Targets without ends as a decoder reads them, and as a loss wants them: both one position longer.

Shapes: B utterances, U labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from neumo.backends.torch.lengths import frame_mask
from neumo.types import Vocab
from neumo.types.errors import DataError


@dataclass(frozen=True)
class Ends:
    """Where bos and eos are, of a vocabulary that may have to get them first.

    >>> Ends.of(Vocab("ab"))
    Ends(labels=2, bos=2, eos=3, size=4)
    """

    labels: int  # that targets may have
    bos: int
    eos: int
    size: int  # of the vocabulary with ends

    @classmethod
    def of(cls, vocab: Vocab) -> Ends:
        """Look them up."""
        ends = vocab.with_ends()
        roles = dict(ends.roles)
        return cls(len(vocab), roles["bos"], roles["eos"], len(ends))

    def before(self, targets: Tensor, targets_len: Tensor) -> Tensor:
        """The label before each position, `<bos>` before the first: (B, U), (B,) -> (B, U + 1).

        >>> Ends.of(Vocab("ab")).before(torch.tensor([[0, 1], [1, -9]]), torch.tensor([2, 1]))
        tensor([[2, 0, 1],
                [2, 1, 3]])
        """
        real = frame_mask(targets_len, targets.shape[1])
        self._check(targets, real)
        filled = targets.masked_fill(~real, self.eos)
        return torch.cat([filled.new_full((len(filled), 1), self.bos), filled], dim=1)

    def wanted(self, targets: Tensor, targets_len: Tensor) -> tuple[Tensor, Tensor]:
        """The label of each position, `<eos>` behind the last, and which are real: 2 x (B, U + 1).

        >>> Ends.of(Vocab("ab")).wanted(torch.tensor([[0, 1], [1, -9]]), torch.tensor([2, 1]))[0]
        tensor([[0, 1, 3],
                [1, 3, 3]])
        """
        real = frame_mask(targets_len, targets.shape[1])
        self._check(targets, real)
        filled = targets.masked_fill(~real, self.eos)
        wanted = torch.cat([filled, filled.new_full((len(filled), 1), self.eos)], dim=1)
        return wanted, frame_mask(targets_len + 1, wanted.shape[1])

    def _check(self, targets: Tensor, real: Tensor) -> None:
        """An id outside of the vocabulary would read memory that is not ours."""
        used = targets.masked_fill(~real, 0)
        if not used.numel():
            return
        lowest, highest = torch.stack([used.min(), used.max()]).tolist()
        if not 0 <= lowest <= highest < self.labels:
            raise DataError(
                f"targets have ids from {lowest} to {highest}; the vocabulary has 0 to {self.labels - 1}",
                code="ids",
                why="The labels were made with another vocabulary, or ends are among them: "
                "targets are given without bos and eos.",
            )
