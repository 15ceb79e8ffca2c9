"""Beam search over the scores of CTC. The search itself needs no torch: `neumo.asr.search`.

Shapes: B utterances, T frames, V labels with the blank last, U' labels of a result, M best hypotheses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.search import Found, Fusion, best_frames, choose, combine, fuse, prefix_beam_search
from neumo.backends.torch.lengths import at_least_float32
from neumo.backends.torch.registry import implements
from neumo.lm import shared_arpa


class BeamHeard(NamedTuple):
    """The best labels of each utterance, how many, where they begin and how probable they are there."""

    ids: Tensor  # (B, U')
    ids_len: Tensor  # (B,)
    frames: Tensor  # (B, U')
    label_log_probs: Tensor  # (B, U')
    score: Tensor  # (B,)


class BestBeamHeard(NamedTuple):
    """The same, and the best few of each utterance, with the parts of their scores."""

    ids: Tensor  # (B, U')
    ids_len: Tensor  # (B,)
    frames: Tensor  # (B, U')
    label_log_probs: Tensor  # (B, U')
    score: Tensor  # (B,)
    best_ids: Tensor  # (B, M, U')
    best_len: Tensor  # (B, M)
    best_score: Tensor  # (B, M)
    best_acoustic: Tensor  # (B, M)
    best_lm: Tensor  # (B, M)


@implements(specs.BeamCTC)
class BeamCTC(nn.Module):
    """Prefix beam search in numpy, on the CPU; a language model is read when the module is made."""

    compiles = False

    def __init__(self, spec: specs.BeamCTC) -> None:
        super().__init__()
        self.spec = spec
        self._fusion: Fusion | None = None
        if spec.lm is not None:
            self._fusion = fuse(
                shared_arpa(spec.lm),
                spec.vocab,
                alpha=spec.alpha,
                beta=spec.beta,
                unknown=spec.unknown,
                unit=spec.lm_unit,
                name=str(spec.lm),
            )

    def forward(self, log_probs: Tensor, log_probs_len: Tensor) -> BeamHeard | BestBeamHeard:
        """(B, T, V), (B,) -> (B, T), (B,), (B, T), (B,), and more for n_best; as many columns as frames."""
        logs = at_least_float32(log_probs.detach()).cpu().numpy()
        lengths = log_probs_len.detach().cpu().long().numpy()
        found = prefix_beam_search(
            logs,
            lengths,
            beam=self.spec.beam,
            least_label=self.spec.token_min_logp,
            least_beam=self.spec.beam_prune_logp,
            fusion=self._fusion,
            n_best=self.spec.n_best,
        )
        best = [each.labels[0] for each in found]
        place, frames = log_probs.device, logs.shape[1]
        ids, at = _rows(best, frames), _rows(best_frames(logs, lengths, best), frames)
        sizes = np.array([len(row) for row in best], dtype=np.int64)
        sure = logs[np.arange(len(ids))[:, None], at, ids] * (np.arange(frames) < sizes[:, None])
        heard = BeamHeard(
            ids=torch.from_numpy(ids).to(place),
            ids_len=torch.from_numpy(sizes).to(place),
            frames=torch.from_numpy(at).to(place),
            label_log_probs=torch.from_numpy(sure).float().to(place),
            score=_numbers([each.scores[:1] for each in found], 1, place).squeeze(1),
        )
        return heard if self.spec.n_best == 1 else self._several(heard, found, frames)

    def _several(self, heard: BeamHeard, found: list[Found], frames: int) -> BestBeamHeard:
        most, place = self.spec.n_best, heard.ids.device
        none = np.zeros(0, dtype=np.int64)
        rows = [row for each in found for row in (*each.labels, *[none] * (most - len(each.labels)))]
        sizes = torch.tensor([len(row) for row in rows], dtype=torch.long, device=place)
        return BestBeamHeard(
            *heard,
            best_ids=torch.from_numpy(_rows(rows, frames)).to(place).view(-1, most, frames),
            best_len=sizes.view(-1, most),
            best_score=_numbers([each.scores for each in found], most, place),
            best_acoustic=_numbers([each.acoustic for each in found], most, place),
            best_lm=_numbers([each.lm for each in found], most, place),
        )


def _rows(rows: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Ids or frames in one array, 0 behind them: (rows, width)."""
    whole = np.zeros((len(rows), width), dtype=np.int64)
    for row, values in zip(whole, rows, strict=True):
        row[: len(values)] = values
    return whole


def _numbers(rows: Sequence[np.ndarray], width: int, place: torch.device) -> Tensor:
    """Scores as one tensor in float32, -inf behind them: (rows, width)."""
    whole = np.full((len(rows), width), -np.inf, dtype=np.float32)
    for row, values in zip(whole, rows, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(whole).to(place)


class Chosen(NamedTuple):
    """The best labels of each utterance, how many they are, their score, and their place among the best."""

    ids: Tensor  # (B, U')
    ids_len: Tensor  # (B,)
    score: Tensor  # (B,)
    chosen: Tensor  # (B,)


@implements(specs.Rescore)
class Rescore(nn.Module):
    """Adds the scores of two models and takes the best."""

    compiles = False

    def __init__(self, spec: specs.Rescore) -> None:
        super().__init__()
        self.spec = spec

    def forward(self, best_ids: Tensor, best_len: Tensor, best_score: Tensor, log_probs: Tensor) -> Chosen:
        """(B, M, U'), (B, M), (B, M), (B, M) -> (B, U'), (B,), (B,), (B,)."""
        scores = combine(
            best_score.detach().cpu().double().numpy(),
            log_probs.detach().cpu().double().numpy(),
            best_len.detach().cpu().numpy(),
            weight=self.spec.weight,
            length_bonus=self.spec.length_bonus,
        )
        place = choose(scores)
        rows = torch.arange(len(best_ids), device=best_ids.device)
        chosen = torch.from_numpy(place).to(best_ids.device)
        score = torch.from_numpy(scores[np.arange(len(place)), place]).to(best_score)
        return Chosen(best_ids[rows, chosen], best_len[rows, chosen], score, chosen)
