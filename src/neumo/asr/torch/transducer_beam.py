"""Beam search of transducers: asks the networks for what the searches of all utterances want to know.

Shapes: B utterances, N best hypotheses, U labels, R nodes or contexts that are asked for together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.search.transducer import (
    BeamSettings,
    Context,
    Hypothesis,
    NodeScores,
    Search,
    Wanted,
    best_labels,
    search_lattice,
)
from neumo.asr.torch.transducer import Lattice
from neumo.backends.torch.registry import implements
from neumo.nn.scorer import LabelScorer, pick

_SEARCHED = (
    "search",
    "beam",
    "max_symbols",
    "max_per_frame",
    "steps",
    "extra",
    "gamma",
    "prefix",
    "length_norm",
)


@implements(specs.TransducerBeam)
class TransducerBeam(nn.Module):
    """One search for each utterance, all of them in step."""

    compiles = False  # where it goes depends on what it finds

    def __init__(self, spec: specs.TransducerBeam) -> None:
        super().__init__()
        self.spec = spec

    @torch.no_grad()
    def forward(self, lattice: Lattice, lattice_len: Tensor, lm: LabelScorer | None = None) -> Any:
        """(B, T), (B,) -> (B, U), (B,), (B, U), (B,), and of several best (B, N, U), (B, N), (B, N)."""
        spec = self.spec
        settings = BeamSettings(
            **{name: getattr(spec, name) for name in _SEARCHED}, durations=tuple(lattice.durations)
        )
        networks = _Networks(lattice, lattice_len, lm, spec, settings.tokens)
        searches = [
            search_lattice(root, frames, settings)
            for root, frames in zip(networks.roots(), lattice_len.tolist(), strict=True)
        ]
        return self._laid_out(_drive(searches, networks), lattice_len)

    def _laid_out(self, found: Sequence[list[Hypothesis]], like: Tensor) -> tuple[Tensor, ...]:
        ids, ids_len = _padded([one[0].labels for one in found], like)
        frames, _ = _padded([one[0].frames for one in found], like)
        score = torch.tensor([one[0].score for one in found], device=like.device)
        if self.spec.n_best == 1:
            return ids, ids_len, frames, score
        N = self.spec.n_best
        rows = [[*one[:N], *[None] * (N - len(one))] for one in found]
        each = [one for row in rows for one in row]
        best, best_len = _padded([() if one is None else one.labels for one in each], like)
        scores = [float("-inf") if one is None else one.score for one in each]
        B = len(found)
        return (
            *(ids, ids_len, frames, score),
            best.view(B, N, -1) if best.numel() else best.new_zeros(B, N, best.shape[1]),
            best_len.view(B, N),
            torch.tensor(scores, device=like.device).view(B, N),
        )


def _padded(rows: Sequence[Sequence[int]], like: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of numbers as a rectangle with zeros behind them, and how many there are in each."""
    lengths = [len(row) for row in rows]
    longest = max(lengths, default=0)
    laid = [[*row, *[0] * (longest - len(row))] for row in rows]
    found = torch.tensor(laid, dtype=torch.long, device=like.device).view(len(rows), longest)
    return found, torch.tensor(lengths, dtype=torch.long, device=like.device)


def _drive(searches: Sequence[Search], networks: _Networks) -> list[list[Hypothesis]]:
    """Let all searches go on, as long as any does."""
    found: list[list[Hypothesis]] = [[] for _ in searches]
    wanted: dict[int, Wanted] = {}

    def go_on(row: int, scores: Sequence[NodeScores] | None) -> None:
        try:
            wanted[row] = next(searches[row]) if scores is None else searches[row].send(scores)
        except StopIteration as end:
            found[row] = end.value
            wanted.pop(row, None)

    for row in range(len(searches)):
        go_on(row, None)
    while wanted:
        asked = [(row, frame, context) for row, nodes in wanted.items() for frame, context in nodes]
        answers = iter(networks.score(asked))
        for row, nodes in list(wanted.items()):
            go_on(row, [next(answers) for _ in nodes])
    return found


@dataclass(slots=True)
class _Memory:
    """What the networks have made of some labels: a row of what was computed together."""

    row: int
    predicted: Tensor  # (R, P)
    state: Any
    lm: Tensor | None = None  # (R, V), log-probabilities of the next label
    lm_state: Any = None


class _Networks:
    """The networks behind the searches, asked for many nodes at once."""

    def __init__(
        self,
        lattice: Lattice,
        lengths: Tensor,
        lm: LabelScorer | None,
        spec: specs.TransducerBeam,
        tokens: int,
    ) -> None:
        self.lattice, self.lm, self.tokens = lattice, lm, tokens
        self.lm_weight, self.bonus = spec.lm_weight, spec.length_bonus
        self.projected = lattice.frames(lengths)

    def roots(self) -> list[Context]:
        """For each utterance, what has read nothing."""
        B = self.lattice.shape[0]
        predicted, state = self.lattice.predictor.start(B)
        scores = lm_state = None
        if self.lm is not None:
            begin = torch.full(
                (B,), self.lattice.blank, device=self.lattice.device
            )  # `<bos>`: behind the labels
            scores, lm_state = self.lm.score(begin, self.lm.start(1))
        contexts = [Context() for _ in range(B)]
        for row, context in enumerate(contexts):
            context.memory = _Memory(row, predicted, state, scores, lm_state)
        return contexts

    def score(self, asked: Sequence[tuple[int, int, Context]]) -> list[NodeScores]:
        """Score nodes: (utterance, frame, labels so far)."""
        self._read(list(dict.fromkeys(context for _, _, context in asked if context.memory is None)))
        memories: list[_Memory] = [context.memory for _, _, context in asked]
        device = self.lattice.device
        rows = torch.tensor([row for row, _, _ in asked], device=device)
        at = torch.tensor([frame for _, frame, _ in asked], device=device)
        predicted = _gathered([(each.predicted, each.row) for each in memories])
        tokens, lasting = self.lattice.log_probs(self.projected[rows, at], predicted)
        labels = tokens[:, :-1] + self.bonus
        if self.lm is not None:
            said = _gathered([(each.lm, each.row) for each in memories])
            labels = labels + self.lm_weight * said[:, : labels.shape[1]]
        blanks, values = tokens[:, -1].tolist(), labels.cpu().numpy()
        durations = [None] * len(asked) if lasting is None else list(lasting.cpu().numpy())
        best = best_labels(values, self.tokens)
        return [NodeScores(*each) for each in zip(blanks, values, best, durations, strict=True)]

    def _read(self, contexts: Sequence[Context]) -> None:
        """Let the networks read the last label of contexts, behind what they have made of those before."""
        if not contexts:
            return
        before: list[_Memory] = [cast("Context", context.parent).memory for context in contexts]
        last = torch.tensor([context.labels[-1] for context in contexts], device=self.lattice.device)
        state = _gathered([(each.state, each.row) for each in before])
        predicted, state = self.lattice.predictor.step(last, state)
        scores = lm_state = None
        if self.lm is not None:
            scores, lm_state = self.lm.score(last, _gathered([(each.lm_state, each.row) for each in before]))
        for row, context in enumerate(contexts):
            context.memory = _Memory(row, predicted, state, scores, lm_state)


def _gathered(parts: Sequence[tuple[Any, int]]) -> Any:
    """Rows of several states as one: rows of one and the same are picked together."""
    sources = list({id(part): part for part, _ in parts}.values())
    if len(sources) == 1:
        rows = torch.tensor([row for _, row in parts], device=_device(sources[0]))
        return pick(sources[0], rows)
    place = {id(part): number for number, part in enumerate(sources)}
    sizes = [_rows(part) for part in sources]
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    rows = [starts[place[id(part)]] + row for part, row in parts]
    return pick(_joined(sources), torch.tensor(rows, device=_device(sources[0])))


def _joined(parts: Sequence[Any]) -> Any:
    """States of tensors, tuples and lists, one behind the other."""
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(list(parts))
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return cast("Any", type(first))(*(_joined(each) for each in zip(*parts, strict=True)))
    if isinstance(first, tuple | list):
        kind: Any = type(first)
        return kind(_joined(each) for each in zip(*parts, strict=True))
    return first


def _tensors(state: Any) -> Iterable[Tensor]:
    if isinstance(state, Tensor):
        yield state
    elif isinstance(state, tuple | list):
        for part in cast("Sequence[Any]", state):
            yield from _tensors(part)


def _rows(state: Any) -> int:
    return next((len(part) for part in _tensors(state)), 0)


def _device(state: Any) -> torch.device | None:
    return next((part.device for part in _tensors(state)), None)
