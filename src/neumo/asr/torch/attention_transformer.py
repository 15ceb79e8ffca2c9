"""The decoder of a Transformer over encoded frames.

Vaswani et al. 2017, https://arxiv.org/abs/1706.03762.

Shapes: B utterances, N hypotheses (a multiple of B), T frames, C features, U labels, V labels with ends, D
width of the layers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.torch.attention_recurrent import Told
from neumo.asr.torch.attention_targets import Ends
from neumo.backends.torch.lengths import at_least_float32, frame_mask
from neumo.backends.torch.registry import implements
from neumo.nn.attention import KeysValues
from neumo.nn.position import LearnedPositions, SinusoidalPositions
from neumo.nn.scorer import LabelScorer
from neumo.nn.transformer import DecoderLayer


class Memory(NamedTuple):
    """The frames as each layer reads them, projected once."""

    layers: tuple[KeysValues, ...]
    keep: Tensor  # (B, T) True where a frame is real


@implements(specs.TransformerDecoder)
class TransformerDecoder(nn.Module):
    """Labels so far, with positions -> layers of attention to them and to the frames -> scores."""

    compiles = False  # without targets it gives an object

    def __init__(self, spec: specs.TransformerDecoder) -> None:
        super().__init__()
        self.spec = spec
        self._ends = Ends.of(spec.vocab)
        self.embedding = nn.Embedding(self._ends.size, spec.hidden)
        nn.init.normal_(self.embedding.weight, std=spec.hidden**-0.5)
        learned = spec.positions == "learned"
        self.positions = (
            LearnedPositions(spec.longest, spec.hidden) if learned else SinusoidalPositions(spec.hidden)
        )
        self.layers = nn.ModuleList(
            DecoderLayer(
                spec.hidden,
                spec.heads,
                spec.feed_forward,
                memory_width=spec.width,
                dropout=spec.dropout,
                norm=spec.norm,
                activation=spec.activation,
            )
            for _ in range(spec.layers)
        )
        self.norm = nn.LayerNorm(spec.hidden) if spec.norm == "pre" else nn.Identity()
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
                lambda copies: (),
                lambda labels, state: self._step(labels, state, memory),
            )
        x = self._embed(self._ends.before(targets, targets_len), 0)
        for layer, held in zip(self.layers[:-1], memory.layers[:-1], strict=True):
            x = layer(x, held, memory.keep)
        x, alignment = self._last.weigh(x, memory.layers[-1], memory.keep)
        scores = at_least_float32(self.output(self.norm(x)))
        return Told(scores.log_softmax(dim=-1), targets_len + 1, alignment)

    @property
    def _last(self) -> DecoderLayer:
        layer = self.layers[-1]
        assert isinstance(layer, DecoderLayer)
        return layer

    def _read(self, encoded: Tensor, encoded_len: Tensor) -> Memory:
        keep = frame_mask(encoded_len, encoded.shape[-1])
        frames = encoded.transpose(1, 2).masked_fill(~keep[:, :, None], 0)  # even if padding is not finite
        return Memory(tuple(layer.read(frames) for layer in self.layers), keep)  # pyright: ignore[reportCallIssue]

    def _embed(self, labels: Tensor, start: int) -> Tensor:
        """(N, U) -> (N, U, D), scaled so that labels weigh as much as positions."""
        scaled = self.embedding(labels) * math.sqrt(self.spec.hidden)
        return self.dropout(self.positions(scaled, start))

    def _step(
        self, labels: Tensor, state: tuple[KeysValues, ...], memory: Memory
    ) -> tuple[Tensor, tuple[KeysValues, ...]]:
        """Read one label of each hypothesis; the state holds the keys and values of those before."""
        x = self._embed(labels[:, None], state[0].keys.shape[2] if state else 0)
        held = list[KeysValues]()
        for number, layer in enumerate(self.layers):
            before = state[number] if state else None
            x, now = layer.step(x, before, memory.layers[number], memory.keep)  # pyright: ignore[reportCallIssue]
            held.append(now)
        return self.output(self.norm(x)).squeeze(1), tuple(held)
