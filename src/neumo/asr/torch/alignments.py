"""Sums over all alignments of a transducer by dynamic programming, along anti-diagonals.

A node is (frames passed, labels emitted). Arcs lead from node to node: a blank passes frames, a label emits
one and may pass frames, too. An alignment is a way from (0, 0) to (T, U). All arcs into a node come from
anti-diagonals before its own (t + u is smaller), so the nodes of one diagonal are computed together for all
utterances: T + U steps instead of T x U.

Arrays are skewed for this, so that a diagonal is a row: [k, u] stands for the node (k - u, u).

Shapes: B utterances, A kinds of arcs, T frames, N labels and the end (U + 1), K diagonals (T + U + 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

INFINITY = math.inf


class Arc(NamedTuple):
    """How far a kind of arc leads."""

    frames: int
    labels: int  # 1 for a label, 0 for a blank

    @property
    def span(self) -> int:
        """How many diagonals it leads on."""
        return self.frames + self.labels


class Alignments(NamedTuple):
    """The sum over all alignments, and how much of it goes over each arc."""

    log_prob: Tensor  # (B,), -inf where there is no alignment
    occupancy: Tensor | None  # (B, A, T, N), from 0 to 1; all 0 where there is no alignment


def sum_alignments(
    weights: Tensor, arcs: Sequence[Arc], frames: Tensor, labels: Tensor, *, occupancy: bool
) -> Alignments:
    """Sum the probabilities of all alignments, given the log-probability of each arc out of each node.

    >>> half = torch.full((1, 2, 2, 2), 0.5).log()  # 2 frames, 1 label: blank or label, each one half
    >>> found = sum_alignments(half, PLAIN, torch.tensor([2]), torch.tensor([1]), occupancy=True)
    >>> found.log_prob.exp(), found.occupancy[0, 1, :, 0]  # two alignments of three arcs each
    (tensor([0.2500]), tensor([0.5000, 0.5000]))

    `weights` is (B, A, T, N); what lies beyond `frames` or `labels` of an utterance is not read.
    """
    _, _, T, N = weights.shape
    allowed = _allowed(arcs, frames, labels, T, N)
    lattice = _Skewed(weights.masked_fill(~allowed, -INFINITY), arcs)
    if not occupancy:
        return Alignments(lattice.forward(frames, labels), None)
    log_prob = lattice.forward(frames, labels)
    through = lattice.backward(frames, labels)  # (B, A, K, N), of everything behind each arc
    possible = torch.isfinite(log_prob)
    log_share = lattice.alpha[:, None] + through - log_prob.where(possible, 0)[:, None, None, None]
    share = log_share.exp_().masked_fill_(~possible[:, None, None, None], 0)
    return Alignments(log_prob, _straight(share, T))


PLAIN = (Arc(1, 0), Arc(0, 1))  # a blank passes one frame, a label none


def duration_arcs(durations: Sequence[int]) -> tuple[Arc, ...]:
    """List the arcs of a token-and-duration transducer: blanks that pass frames, then labels.

    >>> [tuple(arc) for arc in duration_arcs((0, 1, 2))]
    [(1, 0), (2, 0), (0, 1), (1, 1), (2, 1)]
    """
    return (*(Arc(d, 0) for d in durations if d), *(Arc(d, 1) for d in durations))


def _allowed(arcs: Sequence[Arc], frames: Tensor, labels: Tensor, T: int, N: int) -> Tensor:
    """Which arcs stay inside of their utterance: only a blank behind the last label may end it.

    (B,), (B,) -> (B, A, T, N).
    """
    device = frames.device
    t = torch.arange(T, device=device)[:, None]  # (T, 1)
    u = torch.arange(N, device=device)  # (N,)
    last, end = labels[:, None, None], frames[:, None, None]
    kinds: list[Tensor] = []
    for arc in arcs:
        if arc.labels:
            kinds.append((t + arc.frames < end) & (u < last))
        else:
            kinds.append(((t + arc.frames < end) & (u <= last)) | ((t + arc.frames == end) & (u == last)))
    return torch.stack(kinds, dim=1)


class _Skewed:
    """Weights of arcs by diagonal, and sums from the start (alpha) and to the end (beta)."""

    def __init__(self, weights: Tensor, arcs: Sequence[Arc]) -> None:
        B, A, T, N = weights.shape
        self.arcs = arcs
        self.K = T + N
        self.weights = _skew(weights)  # (B, A, K, N)
        self.margin = max(arc.span for arc in arcs)
        self.shape = (B, A, N)
        self.alpha = weights.new_full((B, self.K, N), -INFINITY)

    def forward(self, frames: Tensor, labels: Tensor) -> Tensor:
        """Sum from the start to each node; returns what arrives at the end of each utterance: (B,)."""
        B, A, N = self.shape
        K, margin, width = self.K, self.margin, N + 1
        # What leaves each node over each arc; the margins are nodes that there are not.
        leaving = self.weights.new_full((B, A, margin + K, width), -INFINITY)
        leaving[:, :, margin:, 1:] = self.weights
        flat = leaving.view(B, -1)
        index = self._index([(margin - arc.span, 1 - arc.labels) for arc in self.arcs], margin + K, width)
        self.alpha[:, 0, 0] = 0
        for k in range(1, K):
            arriving = flat[:, index + k * width]  # (B, A, N)
            torch.logsumexp(arriving, dim=1, out=self.alpha[:, k])
            leaving[:, :, margin + k, 1:] += self.alpha[:, k, None]
        rows = torch.arange(B, device=frames.device)
        return self.alpha[rows, frames + labels, labels]

    def backward(self, frames: Tensor, labels: Tensor) -> Tensor:
        """Sum from each node to the end, for each arc out of it: (B, A, K, N)."""
        B, _, N = self.shape
        K, width = self.K, N + 1
        beta = self.weights.new_full((B, K + self.margin, width), -INFINITY)
        rows = torch.arange(B, device=frames.device)
        beta[rows, frames + labels, labels] = 0
        flat = beta.view(B, -1)
        index = self._index([(arc.span, arc.labels) for arc in self.arcs], 0, width)
        through = self.weights.clone()
        for k in range(K - 1, -1, -1):
            through[:, :, k] += flat[:, index + k * width]
            here = torch.logsumexp(through[:, :, k], dim=1)
            torch.maximum(beta[:, k, :N], here, out=beta[:, k, :N])  # 0 at the end, out of which no arc leads
        return through

    def _index(self, starts: Sequence[tuple[int, int]], rows: int, width: int) -> Tensor:
        """Where, in a flat array of (A, rows, width) or (rows, width), the other ends of arcs are: (A, N)."""
        A, N = self.shape[1:]
        offsets = [a * rows * width + row * width + column for a, (row, column) in enumerate(starts)]
        first = torch.tensor(offsets, device=self.weights.device)
        return first.view(A, 1) + torch.arange(N, device=self.weights.device)


def _skew(x: Tensor) -> Tensor:
    """(B, A, T, N) -> (B, A, T + N, N) with the node (k - u, u) at [k, u], and -inf where there is none."""
    B, A, T, N = x.shape
    moved = x.new_full((B, A, N * (T + N)), -INFINITY)
    moved[..., _places(T, N, x.device)] = x.transpose(2, 3).reshape(B, A, -1)
    return moved.view(B, A, N, T + N).transpose(2, 3).contiguous()


def _straight(x: Tensor, T: int) -> Tensor:
    """Undo `_skew`: (B, A, K, N) -> (B, A, T, N)."""
    B, A, K, N = x.shape
    flat = x.transpose(2, 3).reshape(B, A, N * K)
    return flat[..., _places(T, N, x.device)].view(B, A, N, T).transpose(2, 3)


def _places(T: int, N: int, device: torch.device) -> Tensor:
    """Where the node (t, u), in the order of u, then t, is in a flat (N, T + N): at column t + u."""
    u = torch.arange(N, device=device)[:, None]
    return (u * (T + N) + u + torch.arange(T, device=device)).flatten()
