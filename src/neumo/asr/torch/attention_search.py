"""Searches over what scores the next label: the best label after the other, or a beam of hypotheses.

Shapes: B utterances, K hypotheses of each, N = B K, V labels with ends, L labels so far, M best results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.torch.attention_targets import Ends
from neumo.asr.torch.ctc_prefix import CTCPrefix, PrefixState
from neumo.backends.torch.lengths import frame_mask
from neumo.backends.torch.registry import implements
from neumo.nn.scorer import LabelScorer, pick


class Heard(NamedTuple):
    """The best labels of each utterance, how many they are, and their log-probability."""

    ids: Tensor  # (B, U')
    ids_len: Tensor  # (B,)
    score: Tensor  # (B,)


class BestHeard(NamedTuple):
    """The same, and the best few of each utterance."""

    ids: Tensor  # (B, U')
    ids_len: Tensor  # (B,)
    score: Tensor  # (B,)
    best_ids: Tensor  # (B, M, U')
    best_len: Tensor  # (B, M)
    best_score: Tensor  # (B, M)


def _most_labels(spec: specs.AttentionGreedy | specs.AttentionBeam, encoded_len: Tensor) -> Tensor:
    """How many labels an utterance may have: (B,)."""
    most = (encoded_len * spec.max_per_frame).ceil().long()
    return most if spec.max_labels is None else most.clamp(max=spec.max_labels)


@implements(specs.AttentionGreedy)
class AttentionGreedy(nn.Module):
    """One hypothesis of each utterance, until it ends."""

    compiles = False  # when it ends is in the numbers

    def __init__(self, spec: specs.AttentionGreedy) -> None:
        super().__init__()
        self.spec = spec
        self._ends = Ends.of(spec.vocab)

    @torch.no_grad()
    def forward(self, scorer: LabelScorer, encoded_len: Tensor) -> Heard:
        """What scores the next label, (B,) -> (B, U'), (B,), (B,)."""
        most, ends = _most_labels(self.spec, encoded_len), self._ends
        state, label = scorer.start(1), torch.full_like(encoded_len, ends.bos)
        going, score = torch.ones_like(most, dtype=torch.bool), most.new_zeros(len(most), dtype=torch.float64)
        labels, lengths = list[Tensor](), torch.zeros_like(most)
        while bool(going.any()):
            log_probs, state = scorer.score(label, state)
            log_probs[:, ends.bos] = -torch.inf
            label = torch.where(most > len(labels), log_probs.argmax(dim=1), ends.eos)
            score += log_probs.gather(1, label[:, None]).squeeze(1).double() * going
            going = going & (label != ends.eos)
            lengths += going
            labels.append(label.masked_fill(~going, 0))
        ids = torch.stack(labels[:-1], dim=1) if len(labels) > 1 else most.new_zeros(len(most), 0)
        return Heard(ids, lengths, score.float())


@dataclass
class _Beam:
    """All hypotheses that go on, and the best of those that ended."""

    scores: Tensor  # (B, K) of what scores next labels, weighted, without CTC; -inf where there is none
    labels: Tensor  # (B, K, L)
    best_scores: Tensor  # (B, M)
    best_labels: Tensor  # (B, M, L)
    best_len: Tensor  # (B, M)


@implements(specs.AttentionBeam)
class AttentionBeam(nn.Module):
    """In each round all hypotheses are one label longer; those that took `<eos>` are set aside."""

    compiles = False  # when it ends is in the numbers

    def __init__(self, spec: specs.AttentionBeam) -> None:
        super().__init__()
        self.spec = spec
        self._ends = Ends.of(spec.vocab)

    @torch.no_grad()
    def forward(
        self,
        scorer: LabelScorer,
        encoded_len: Tensor,
        log_probs: Tensor | None = None,
        log_probs_len: Tensor | None = None,
        lm: LabelScorer | None = None,
    ) -> Heard | BestHeard:
        """What scores the next label, (B,), (B, T, V), (B,) -> (B, U'), (B,), (B,), and more for n_best."""
        scorers = [
            (scorer, 1 - self.spec.ctc_weight),
            *([(lm, self.spec.lm_weight)] if lm is not None else []),
        ]
        ctc = None
        if log_probs is not None and log_probs_len is not None:
            ctc = CTCPrefix(log_probs, log_probs_len)
        return self._given(self._search(scorers, ctc, _most_labels(self.spec, encoded_len)))

    def _search(self, scorers: list[tuple[LabelScorer, float]], ctc: CTCPrefix | None, most: Tensor) -> _Beam:
        size, beam = self.spec.beam, self._start(most)
        states = [scorer.start(size) for scorer, _ in scorers]
        prefixes = None if ctc is None else ctc.start(size)
        last = most.new_full((len(most) * size,), self._ends.bos)
        while bool((beam.scores > -torch.inf).any()):
            told = [each.score(last, state) for (each, _), state in zip(scorers, states, strict=True)]
            log_probs = [part.double().view(len(most), size, -1) for part, _ in told]
            apart = beam.scores[:, :, None] + self._step_scores(log_probs, [w for _, w in scorers])
            whole = apart if ctc is None or prefixes is None else apart + self._ctc_scores(ctc, prefixes)
            whole = self._allowed(whole, log_probs[0], beam.labels.shape[2], most)
            totals, places = whole.flatten(1).topk(size, dim=1)  # (B, K)
            parents, label = places // self._ends.size, places % self._ends.size
            scores = apart.flatten(1).gather(1, places)
            beam = self._advance(beam, totals, scores, parents, label, most)
            rows = torch.arange(len(most), device=most.device)[:, None] * size + parents
            rows, last = rows.flatten(), label.flatten()
            states = [pick(state, rows) for _, state in told]
            if ctc is not None and prefixes is not None:
                prefixes = ctc.extend(prefixes, rows, last)
        return beam

    def _start(self, most: Tensor) -> _Beam:
        rows, best = len(most), self.spec.n_best
        scores = most.new_full((rows, self.spec.beam), -torch.inf, dtype=torch.float64)
        scores[:, 0] = 0  # the others would be copies of the first
        return _Beam(
            scores,
            most.new_zeros(rows, self.spec.beam, 0),
            scores.new_full((rows, best), -torch.inf),
            most.new_zeros(rows, best, 0),
            most.new_zeros(rows, best),
        )

    def _step_scores(self, log_probs: list[Tensor], weights: list[float]) -> Tensor:
        """What each label adds: (B, K, V)."""
        added = sum((part * weight for part, weight in zip(log_probs, weights, strict=True)))
        assert isinstance(added, Tensor)
        bonus = added.new_full((self._ends.size,), self.spec.length_bonus)
        bonus[self._ends.eos] = 0
        return added + bonus

    def _ctc_scores(self, ctc: CTCPrefix, prefixes: PrefixState) -> Tensor:
        """The weighted prefix score of each hypothesis with each label: (B, K, V)."""
        found = F.pad(ctc.next(prefixes), (0, self._ends.size - self._ends.labels), value=-torch.inf)
        found[:, self._ends.eos] = prefixes.ended
        return self.spec.ctc_weight * found.view(-1, self.spec.beam, self._ends.size)

    def _allowed(self, whole: Tensor, log_probs: Tensor, length: int, most: Tensor) -> Tensor:
        """Take out what cannot come next: `<bos>`, an early `<eos>`, labels that are too many."""
        eos, refused = self._ends.eos, torch.zeros_like(whole, dtype=torch.bool)
        refused[:, :, self._ends.bos] = True
        if self.spec.eos_threshold is not None:
            others = log_probs.clone()
            others[:, :, [self._ends.bos, eos]] = -torch.inf
            early = log_probs[:, :, eos] <= self.spec.eos_threshold * others.amax(dim=2)
            refused[:, :, eos] = early
        over = (most <= length)[:, None].expand(refused.shape[:2])  # has to end, whatever it thinks
        refused[over] = True
        refused[:, :, eos] &= ~over
        return whole.masked_fill(refused, -torch.inf)

    def _advance(
        self, beam: _Beam, totals: Tensor, scores: Tensor, parents: Tensor, label: Tensor, most: Tensor
    ) -> _Beam:
        """Set aside what ended, keep what goes on, and stop where nothing can get better."""
        length = beam.labels.shape[2]
        before = beam.labels.gather(1, parents[:, :, None].expand(-1, -1, length))
        ended = label == self._ends.eos
        finals = self._normalised(totals, length + 1).masked_fill(~ended, -torch.inf)
        every = torch.cat([beam.best_scores, finals], dim=1)
        best_scores, chosen = every.topk(self.spec.n_best, dim=1)
        best_labels = torch.cat([beam.best_labels, before], dim=1)
        best_labels = best_labels.gather(1, chosen[:, :, None].expand(-1, -1, length))
        best_len = torch.cat([beam.best_len, torch.full_like(parents, length)], dim=1).gather(1, chosen)
        totals = totals.masked_fill(ended, -torch.inf)
        hopeless = self._bound(totals.amax(dim=1), length + 1, most) <= best_scores[:, -1]
        scores = scores.masked_fill(ended | (totals == -torch.inf) | hopeless[:, None], -torch.inf)
        labels = torch.cat([before, label[:, :, None]], dim=2)
        return _Beam(scores, labels, best_scores, F.pad(best_labels, (0, 1)), best_len)

    def _normalised(self, score: Tensor, length: int | Tensor) -> Tensor:
        """Divide by what grows with the length, `<eos>` counted."""
        return score / ((5 + length) / 6) ** self.spec.length_penalty if self.spec.length_penalty else score

    def _bound(self, score: Tensor, length: int, most: Tensor) -> Tensor:
        """The best that a hypothesis of `length` labels can still become: (B,) -> (B,).

        Labels only take away from a score, but for the bonus; a later end divides by more.
        """
        score = score + max(self.spec.length_bonus, 0.0) * (most - length).clamp(min=0)
        if not self.spec.length_penalty:
            return score
        return torch.maximum(self._normalised(score, length + 1), self._normalised(score, most + 1))

    def _given(self, beam: _Beam) -> Heard | BestHeard:
        lengths = beam.best_len.masked_fill(beam.best_scores == -torch.inf, 0)
        longest = int(lengths.max()) if lengths.numel() else 0
        real = frame_mask(lengths.flatten(), longest).view(*lengths.shape, longest)
        labels, scores = beam.best_labels[:, :, :longest] * real, beam.best_scores.float()
        best = Heard(labels[:, 0], lengths[:, 0], scores[:, 0])
        return best if self.spec.n_best == 1 else BestHeard(*best, labels, lengths, scores)
