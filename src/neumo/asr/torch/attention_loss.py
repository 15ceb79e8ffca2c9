"""Cross-entropy of sequences with their ends, with smoothed labels.

Shapes: B utterances, U labels, V labels with ends.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.torch.attention_targets import Ends
from neumo.backends.torch.lengths import at_least_float32
from neumo.backends.torch.registry import implements


class SequenceResult(NamedTuple):
    """The loss, and how many things it is the mean over."""

    loss: Tensor  # ()
    count: Tensor  # () # pyright: ignore[reportIncompatibleMethodOverride]


@implements(specs.SequenceLoss)
class SequenceLoss(nn.Module):
    """Minus the log-probability of each wanted label; a share of it goes to all labels alike."""

    compiles = False  # ids are looked at

    def __init__(self, spec: specs.SequenceLoss) -> None:
        super().__init__()
        self.spec = spec
        self.smoothing = float(spec.smoothing)
        self._ends = Ends.of(spec.vocab)

    def forward(self, log_probs: Tensor, targets: Tensor, targets_len: Tensor) -> SequenceResult:
        """(B, U + 1, V), (B, U), (B,) -> (), ()."""
        log_probs = at_least_float32(log_probs)
        wanted, real = self._ends.wanted(targets, targets_len)
        missed = -log_probs.gather(2, wanted[:, :, None]).squeeze(2)  # (B, U + 1)
        if self.smoothing:
            missed = missed + self.smoothing * (-log_probs.mean(dim=2) - missed)
        total = missed.masked_fill(~real, 0).sum()
        count = total.new_full((), len(real))
        if self.spec.mean_over == "positions":
            count = real.sum().to(total.dtype)
        return SequenceResult(total / count.clamp(min=1), count)
