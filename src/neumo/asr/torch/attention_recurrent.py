"""Listen, attend and spell: a recurrent network that attends to encoded frames and writes labels.

Chan et al. 2016, https://arxiv.org/abs/1508.01211; Chorowski et al. 2015, https://arxiv.org/abs/1506.07503.

Shapes: B utterances, N hypotheses (a multiple of B), T frames, C features, U labels, V labels with ends, H
hidden, A attention.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.torch.attention_targets import Ends
from neumo.backends.torch.lengths import at_least_float32, frame_mask
from neumo.backends.torch.registry import implements
from neumo.nn.location import LocationAttention
from neumo.nn.scorer import LabelScorer


class Told(NamedTuple):
    """What a decoder gives for targets that it was told."""

    log_probs: Tensor  # (B, U + 1, V)
    log_probs_len: Tensor  # (B,)
    alignment: Tensor  # (B, U + 1, T)


class Memory(NamedTuple):
    """What is attended to, projected once."""

    encoded: Tensor  # (B, T, C)
    keys: Tensor  # (B, T, A)
    keep: Tensor  # (B, T) True where a frame is real


class RecurrentState(NamedTuple):
    """What a step hands to the next one."""

    hidden: tuple[Tensor, ...]  # of each layer (N, H)
    cells: tuple[Tensor, ...]  # of each layer (N, H); none for GRUs
    context: Tensor  # (N, C)
    weights: Tensor  # (N, T)


@implements(specs.RecurrentDecoder)
class RecurrentDecoder(nn.Module):
    """Label before, what was attended to -> recurrent layers -> attention -> scores of the next label."""

    compiles = False  # without targets it gives an object

    def __init__(self, spec: specs.RecurrentDecoder) -> None:
        super().__init__()
        self.spec = spec
        self.sampling = float(spec.sampling)  # ScheduleValue changes it
        self._ends = Ends.of(spec.vocab)
        self.embedding = nn.Embedding(self._ends.size, spec.embedding)
        cell = nn.LSTMCell if spec.cell == "lstm" else nn.GRUCell
        entering = spec.embedding + (spec.width if spec.input_feeding else 0)
        widths = [entering] + [spec.hidden] * (spec.layers - 1)
        self.layers = nn.ModuleList(cell(width, spec.hidden) for width in widths)
        self.attention = LocationAttention(
            spec.hidden,
            spec.width,
            width=spec.attention,
            filters=spec.filters,
            kernel=spec.kernel,
            smoothing=spec.smoothing,
        )
        self.join = nn.Linear(spec.hidden + spec.width, spec.hidden)
        self.output = nn.Linear(spec.hidden, self._ends.size)
        self.dropout = nn.Dropout(spec.dropout)

    def forward(
        self,
        encoded: Tensor,
        encoded_len: Tensor,
        targets: Tensor | None = None,
        targets_len: Tensor | None = None,
    ) -> Told | LabelScorer:
        """(B, C, T), (B,), (B, U), (B,) -> (B, U + 1, V), (B,), (B, U + 1, T); or what scores next labels."""
        memory = self._read(encoded, encoded_len)
        if targets is None or targets_len is None:
            return LabelScorer(
                len(encoded),
                encoded.device,
                lambda copies: self._start(memory, copies),
                lambda labels, state: self._score(labels, state, memory),
            )
        joined, alignment = self._teach(self._ends.before(targets, targets_len), memory)
        scores = at_least_float32(self.output(joined))
        return Told(scores.log_softmax(dim=-1), targets_len + 1, alignment)

    def _read(self, encoded: Tensor, encoded_len: Tensor) -> Memory:
        keep = frame_mask(encoded_len, encoded.shape[-1])
        frames = encoded.transpose(1, 2).masked_fill(~keep[:, :, None], 0)  # even if padding is not finite
        return Memory(frames, self.attention.read(frames), keep)

    def _start(self, memory: Memory, copies: int) -> RecurrentState:
        rows, kind = len(memory.keep) * copies, self.join.weight
        zeros = tuple(kind.new_zeros(rows, self.spec.hidden) for _ in self.layers)
        weights = self.attention.start(memory.keep).repeat_interleave(copies, dim=0)
        context = memory.encoded.new_zeros(rows, self.spec.width)
        return RecurrentState(zeros, zeros if self.spec.cell == "lstm" else (), context, weights)

    def _teach(self, labels: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Read the label before each position in turn: (B, U + 1) -> (B, U + 1, H), (B, U + 1, T)."""
        state, joined, weights = self._start(memory, 1), list[Tensor](), list[Tensor]()
        for at, label in enumerate(labels.unbind(1)):
            if at and self.training and self.sampling > 0:
                label = self._sampled(label, joined[-1])
            now, state = self._step(label, state, memory)
            joined.append(now)
            weights.append(state.weights)
        return torch.stack(joined, dim=1), torch.stack(weights, dim=1)

    def _sampled(self, label: Tensor, joined: Tensor) -> Tensor:
        """Put labels that the decoder would write in the place of some that were told: (B,) -> (B,)."""
        with torch.no_grad():
            scores = at_least_float32(self.output(joined))
            scores[:, [self._ends.bos, self._ends.eos]] = -torch.inf  # an end is followed by nothing
            drawn = torch.multinomial(scores.softmax(dim=-1), 1).squeeze(1)
            chosen = torch.rand(len(label), device=label.device) < self.sampling
        return torch.where(chosen, drawn, label)

    def _score(self, labels: Tensor, state: RecurrentState, memory: Memory) -> tuple[Tensor, RecurrentState]:
        joined, state = self._step(labels, state, memory)
        return self.output(joined), state

    def _step(self, labels: Tensor, state: RecurrentState, memory: Memory) -> tuple[Tensor, RecurrentState]:
        """Read a label of each hypothesis and attend: (N,) -> (N, H) and the next state."""
        x = self.dropout(self.embedding(labels))
        if self.spec.input_feeding:
            x = torch.cat([x, state.context.to(x.dtype)], dim=1)
        hidden, cells = list[Tensor](), list[Tensor]()
        for number, layer in enumerate(self.layers):
            x = x.to(self.join.weight.dtype)
            if self.spec.cell == "lstm":
                x, cell = layer(x, (state.hidden[number], state.cells[number]))
                cells.append(cell)
            else:
                x = layer(x, state.hidden[number])
            hidden.append(x)
            x = self.dropout(x)
        context, weights = self._attend(x, state.weights, memory)
        joined = self.dropout(torch.tanh(self.join(torch.cat([x, context.to(x.dtype)], dim=1))))
        return joined, RecurrentState(tuple(hidden), tuple(cells), context, weights)

    def _attend(self, query: Tensor, before: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Hypotheses of an utterance share its frames: (N, H), (N, T) -> (N, C), (N, T)."""
        rows, frames = memory.keep.shape
        copies = len(query) // max(rows, 1)
        context, weights = self.attention(
            query.view(rows, copies, query.shape[1]),
            memory.keys,
            memory.encoded,
            before.view(rows, copies, frames),
            memory.keep,
        )
        return context.flatten(0, 1), weights.flatten(0, 1)
