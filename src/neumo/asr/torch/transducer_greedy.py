"""Greedy decoding of transducers, each utterance at its own frame.

Shapes: B utterances, T frames, H width of the joint network, P of the prediction network, E emitted labels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.torch.transducer import Lattice, State
from neumo.backends.torch.registry import implements


class GreedyDecoded(NamedTuple):
    """Labels without blanks, the frame in which each was read, and how probable it was."""

    ids: Tensor  # (B, E)
    ids_len: Tensor  # (B,)
    frames: Tensor  # (B, E)
    log_probs: Tensor  # (B, E)
    score: Tensor  # (B,)


@implements(specs.TransducerGreedy)
class TransducerGreedy(nn.Module):
    """All utterances are scored together, each in the frame that it has come to."""

    compiles = False  # it ends where the last label is read

    def __init__(self, spec: specs.TransducerGreedy) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, lattice: Lattice, lattice_len: Tensor) -> GreedyDecoded:
        """(B, T), (B,) -> (B, E), (B,), (B, E), (B, E), (B,); E is the most that any utterance has."""
        walk = _Walk(lattice, lattice_len, self.spec.max_symbols)
        while walk.step():
            pass
        return walk.result()


class _Walk:
    """Where each utterance is: its frame, its labels and the state behind them."""

    def __init__(self, lattice: Lattice, lengths: Tensor, most: int) -> None:
        self.lattice, self.lengths, self.most = lattice, lengths, most
        self.projected = lattice.frames(lengths)
        B = len(lengths)
        self.predicted, self.state = lattice.predictor.start(B)
        self.at = torch.zeros_like(lengths)  # the frame
        self.here = torch.zeros_like(lengths)  # labels in this frame so far
        self.rows = torch.arange(B, device=lengths.device)
        self.durations = torch.tensor(lattice.durations, device=lengths.device)
        self.emitted: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []  # row, id, frame, log-probability

    def step(self) -> bool:
        """Read one token in each utterance that has frames left; False once none has."""
        rows = self.rows[self.at < self.lengths]
        if not len(rows):
            return False
        at = self.at[rows]
        scores, lasting = self.lattice.log_probs(self.projected[rows, at], self.predicted[rows])
        log_prob, token = scores.max(dim=-1)
        is_label = token != self.lattice.blank
        if lasting is None:
            on = (~is_label).long()
        else:
            on = self.durations[lasting.argmax(dim=-1)]
            on = on.where(is_label, on.clamp(min=1))  # a blank always goes on
        here = (self.here[rows] + 1) * is_label * (on == 0)  # in the frame that it stays in
        full = here >= self.most
        self.at[rows] = at + on + full
        self.here[rows] = here.masked_fill(full, 0)
        if is_label.any():
            self._emit(rows[is_label], token[is_label], at[is_label], log_prob[is_label])
        return True

    def _emit(self, rows: Tensor, ids: Tensor, at: Tensor, log_prob: Tensor) -> None:
        self.emitted.append((rows, ids, at, log_prob))
        predicted, state = self.lattice.predictor.step(ids, tuple(part[rows] for part in self.state))
        self.predicted = self.predicted.index_copy(0, rows, predicted)
        self.state = _put(self.state, rows, state)

    def result(self) -> GreedyDecoded:
        """Lay the labels out by utterance."""
        B, device = len(self.lengths), self.lengths.device
        score = torch.zeros(B, device=device, dtype=torch.promote_types(self.projected.dtype, torch.float32))
        if not self.emitted:
            nothing = self.lengths.new_zeros(B, 0)
            return GreedyDecoded(nothing, self.lengths.new_zeros(B), nothing, score.new_zeros(B, 0), score)
        rows, ids, at, log_prob = (torch.cat(parts) for parts in zip(*self.emitted, strict=True))
        ids_len = torch.bincount(rows, minlength=B)
        order = rows.argsort(stable=True)  # in the order of time within each utterance
        rows = rows[order]
        place = torch.arange(len(rows), device=device) - (ids_len.cumsum(0) - ids_len)[rows]
        longest = int(ids_len.max())
        laid = [
            part.new_zeros(B, longest).index_put((rows, place), part[order]) for part in (ids, at, log_prob)
        ]
        return GreedyDecoded(laid[0], ids_len, laid[1], laid[2], laid[2].sum(dim=1))


def _put(state: State, rows: Tensor, new: State) -> State:
    return tuple(old.index_copy(0, rows, part) for old, part in zip(state, new, strict=True))
