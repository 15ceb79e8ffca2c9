"""Losses of transducers: exact, with the analytic gradient, over logits or out of the joint network itself.

Both need, of all V scores of a node (frame, labels so far), only a few log-probabilities: of the blank, of
the next label, and of the durations. The sums over alignments run over these (`alignments`); their gradient
by the scores of a node is

    d loss / d score_v = - (how often v is taken here) + softmax_v * (how often this node is passed).

`LeanLoss` therefore never holds the scores of all nodes: it goes over pieces of single utterances twice, once
for the log-probabilities and once for the gradient, and keeps the scores in between where they fit.

Shapes: B utterances, T frames, U labels, N = U + 1, H width of the joint network, V labels and blank,
D durations, R rows of a piece (frames x labels so far).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from neumo.asr.torch.alignments import PLAIN, duration_arcs, sum_alignments
from neumo.backends.torch.lengths import at_least_float32


@dataclass(frozen=True)
class Objective:
    """What is made of the alignments: the settings of `TransducerLoss` and `TDTLoss`.

    Without `durations` it is the plain loss. `omega` is the share of the plain loss where there are some.
    """

    durations: tuple[int, ...] = ()
    sigma: float = 0.0
    omega: float = 0.0
    fastemit: float = 0.0


class Emissions(NamedTuple):
    """Log-probabilities at each node; or the gradient of a loss by them."""

    blank: Tensor  # (B, T, N)
    label: Tensor  # (B, T, N), of the next label of the target
    durations: Tensor | None  # (B, T, N, D)

    def each(self, change: Callable[[Tensor], Tensor]) -> Emissions:
        """Change all of them."""
        lasting = None if self.durations is None else change(self.durations)
        return Emissions(change(self.blank), change(self.label), lasting)


class Targets(NamedTuple):
    """Labels, and how much of each row counts."""

    labels: Tensor  # (B, U)
    labels_len: Tensor  # (B,)
    frames: Tensor  # (B,), how many frames each utterance has

    def next_labels(self) -> Tensor:
        """The label after each number of labels, some label after the last: (B, N)."""
        inside = torch.arange(self.labels.shape[1], device=self.labels.device) < self.labels_len[:, None]
        return F.pad(self.labels * inside, (0, 1))


def transducer_losses(
    logits: Tensor, targets: Tensor, frames: Tensor, targets_len: Tensor, objective: Objective = Objective()
) -> Tensor:
    """Compute the loss of each utterance out of the scores of all its nodes.

    >>> logits = torch.zeros(1, 2, 2, 3)  # 2 frames, 1 label, 3 scores: two alignments of three arcs
    >>> two, one = torch.tensor([2]), torch.tensor([1])
    >>> transducer_losses(logits, torch.tensor([[0]]), two, one).neg().exp() * 27
    tensor([2.0000])

    (B, T, N, V + D), (B, U), (B,), (B,) -> (B,); infinite where there is no alignment. The gradient of what
    lies beyond an utterance is 0. Takes as much memory as the scores once more; `lean_loss` does not.
    """
    wanted = torch.is_grad_enabled() and logits.requires_grad
    found: Tensor = _DenseLoss.apply(logits, Targets(targets, targets_len, frames), objective, wanted)
    return found


class _DenseLoss(torch.autograd.Function):
    """The losses of given scores; the gradient is worked out with them."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Targets, objective: Objective, wanted: bool) -> Tensor:
        scores = at_least_float32(logits)
        following = targets.next_labels()[:, None, :].expand(scores.shape[:3])
        emissions = read_emissions(scores, following, len(objective.durations))
        losses, slopes = alignment_losses(emissions, targets, objective, gradient=wanted)
        if slopes is not None:
            ctx.save_for_backward(score_gradient(scores, following, slopes).to(logits.dtype))
        return losses

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, losses: Tensor
    ) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * losses[:, None, None, None].to(gradient.dtype), None, None, None


def read_emissions(scores: Tensor, following: Tensor, durations: int) -> Emissions:
    """Read the log-probabilities that alignments need off the scores: (..., V + D), (...) -> (...) each."""
    tokens, lasting = _parted(scores, durations)
    total = tokens.logsumexp(dim=-1)
    label = tokens.gather(-1, following[..., None]).squeeze(-1) - total
    return Emissions(tokens[..., -1] - total, label, lasting.log_softmax(-1) if durations else None)


def score_gradient(scores: Tensor, following: Tensor, slopes: Emissions, *, inplace: bool = False) -> Tensor:
    """Turn the gradient by the log-probabilities of nodes into that by their scores; shaped as the scores."""
    durations = 0 if slopes.durations is None else slopes.durations.shape[-1]
    found = scores if inplace else scores.clone()
    tokens, lasting = _parted(found, durations)
    tokens.sub_(tokens.logsumexp(dim=-1, keepdim=True)).exp_()
    tokens.mul_(-(slopes.blank + slopes.label)[..., None])
    tokens[..., -1] += slopes.blank
    tokens.scatter_add_(-1, following[..., None], slopes.label[..., None])
    if slopes.durations is not None:
        lasting.copy_(lasting.softmax(-1) * -slopes.durations.sum(-1, keepdim=True) + slopes.durations)
    return found


def _parted(scores: Tensor, durations: int) -> tuple[Tensor, Tensor]:
    """Views of the scores of tokens and of those of durations behind them."""
    tokens = scores.shape[-1] - durations
    return scores[..., :tokens], scores[..., tokens:]


def alignment_losses(
    emissions: Emissions, targets: Targets, objective: Objective, *, gradient: bool
) -> tuple[Tensor, Emissions | None]:
    """The loss of each utterance, (B,), and its gradient by the log-probabilities of its nodes."""
    if emissions.durations is None:
        return _plain_losses(emissions, targets, objective, gradient=gradient)
    if not objective.omega:
        return _duration_losses(emissions, targets, objective, gradient=gradient)
    one, by_one = _duration_losses(emissions, targets, objective, gradient=gradient)
    two, by_two = _plain_losses(emissions, targets, objective, gradient=gradient)
    share = objective.omega
    slopes = None
    if by_one is not None and by_two is not None and by_one.durations is not None:
        slopes = Emissions(
            by_one.blank * (1 - share) + by_two.blank * share,
            by_one.label * (1 - share) + by_two.label * share,
            by_one.durations * (1 - share),
        )
    return one * (1 - share) + two * share, slopes


def _plain_losses(
    emissions: Emissions, targets: Targets, objective: Objective, *, gradient: bool
) -> tuple[Tensor, Emissions | None]:
    weights = torch.stack([emissions.blank, emissions.label], dim=1)  # (B, 2, T, N)
    log_prob, passed = sum_alignments(weights, PLAIN, targets.frames, targets.labels_len, occupancy=gradient)
    if passed is None:
        return -log_prob, None
    blank, label = passed.neg_().unbind(dim=1)
    nothing = None if emissions.durations is None else torch.zeros_like(emissions.durations)
    return -log_prob, Emissions(blank, label * (1 + objective.fastemit), nothing)


def _duration_losses(
    emissions: Emissions, targets: Targets, objective: Objective, *, gradient: bool
) -> tuple[Tensor, Emissions | None]:
    arcs = duration_arcs(objective.durations)
    lasting = emissions.durations
    assert lasting is not None  # asked for by who has them
    lasts = [objective.durations.index(arc.frames) for arc in arcs]  # which duration each arc has
    token = [emissions.label if arc.labels else emissions.blank for arc in arcs]
    weights = torch.stack(
        [score + lasting[..., at] - objective.sigma for score, at in zip(token, lasts, strict=True)], dim=1
    )
    log_prob, passed = sum_alignments(weights, arcs, targets.frames, targets.labels_len, occupancy=gradient)
    if passed is None:
        return -log_prob, None
    passed = passed.neg_()
    blanks = sum(1 for arc in arcs if not arc.labels)
    by_duration = torch.zeros_like(lasting)
    for at, part in zip(lasts, passed.unbind(dim=1), strict=True):
        by_duration[..., at] += part
    label = passed[:, blanks:].sum(dim=1) * (1 + objective.fastemit)
    return -log_prob, Emissions(passed[:, :blanks].sum(dim=1), label, by_duration)


@dataclass(frozen=True)
class Head:
    """The part of a joint network behind the sum of its projections, and how it computes."""

    activation: str
    dropout: float  # 0 where nothing is to be dropped
    compute: torch.dtype  # of the products
    memory: float  # bytes of scores that may be held at once


def lean_loss(
    frames: Tensor,
    labels: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    targets: Targets,
    share: Tensor,
    head: Head,
    objective: Objective = Objective(),
) -> Tensor:
    """Sum the losses of utterances, each times its `share`, out of the projections of a joint network.

    `frames` (B, T, H) and `labels` (B, N, H) are the projections of the encoded frames and of what the
    prediction network gives, `weight` (V + D, H) and `bias` (V + D,) those of the last layer. Gradients reach
    all four. Utterances of `share` 0 are not looked at. Never holds more scores than `head.memory` bytes.
    """
    inputs = (frames, labels, weight, bias)
    wanted = torch.is_grad_enabled() and any(each.requires_grad for each in inputs)
    found: Tensor = _LeanLoss.apply(*inputs, targets, share, head, objective, wanted)
    return found


class _LeanLoss(torch.autograd.Function):
    """The gradient is worked out with the loss, piece by piece, and is as small as the inputs."""

    @staticmethod
    def forward(
        ctx: Any,
        frames: Tensor,
        labels: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Targets,
        share: Tensor,
        head: Head,
        objective: Objective,
        wanted: bool,
    ) -> Tensor:
        with torch.autocast(frames.device.type, enabled=False):
            pieces = _Pieces(frames, labels, weight, bias, targets, share, head, objective)
            emissions = pieces.emissions(keep=wanted)
            counted = targets._replace(frames=targets.frames * (share != 0))
            losses, slopes = alignment_losses(emissions, counted, objective, gradient=wanted)
            if slopes is not None:
                ctx.save_for_backward(*pieces.gradients(slopes))
        return (losses.where(share != 0, 0) * share).sum()

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, loss: Tensor
    ) -> tuple[Tensor | None, ...]:
        gradients = (each * loss.to(each.dtype) for each in ctx.saved_tensors)
        return (*gradients, None, None, None, None, None)


class _Piece(NamedTuple):
    """Some frames of one utterance, with all numbers of labels."""

    row: int
    first: int
    last: int
    labels: int  # how many, with the end
    number: int


class _Pieces:
    """Scores a batch piece by piece."""

    def __init__(
        self,
        frames: Tensor,
        labels: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Targets,
        share: Tensor,
        head: Head,
        objective: Objective,
    ) -> None:
        self.frames, self.labels = frames, labels
        self.weight, self.bias = weight.to(head.compute), bias.to(head.compute)
        self.kinds = (frames.dtype, labels.dtype, weight.dtype, bias.dtype)
        self.targets, self.share, self.head = targets, share, head
        self.following = targets.next_labels()
        counted = [targets.frames, targets.labels_len, (share != 0).to(targets.frames.dtype)]
        self.rows: list[list[int]] = torch.stack(counted, dim=1).tolist()  # waits for the device, once
        self.durations = len(objective.durations)
        self.real = torch.promote_types(weight.dtype, torch.float32)  # of sums
        self.seed = int(torch.randint(2**62, ())) if head.dropout else 0
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}  # by number: hidden values and scores

    def __iter__(self) -> Iterator[_Piece]:
        """Cut each utterance into pieces that take at most half of the memory, without its padding."""
        size = self.weight.shape[0] * self.real.itemsize * 2 + self.weight.shape[1] * 3 * self.real.itemsize
        number = 0
        for row, (frames, labels, counts) in enumerate(self.rows):
            step = max(1, int(self.head.memory / 2 / size / (labels + 1)))
            for first in range(0, frames if counts else 0, step):
                yield _Piece(row, first, min(first + step, frames), labels + 1, number)
                number += 1

    def emissions(self, *, keep: bool) -> Emissions:
        """Score all pieces; what fits into the other half of the memory is kept for the gradient."""
        B, T, N = (*self.frames.shape[:2], self.labels.shape[1])
        blank = self.frames.new_zeros(B, T, N, dtype=self.real)
        label = torch.zeros_like(blank)
        lasting = blank.new_zeros(B, T, N, self.durations) if self.durations else None
        room = self.head.memory / 2 if keep else 0.0
        for piece in self:
            hidden, scores = self._score(piece)
            here = (piece.row, slice(piece.first, piece.last), slice(piece.labels))
            found = read_emissions(scores, self._following(piece), self.durations)
            shape = (piece.last - piece.first, piece.labels)
            blank[here], label[here] = found.blank.view(shape), found.label.view(shape)
            if lasting is not None and found.durations is not None:
                lasting[here] = found.durations.view(*shape, -1)
            room -= sum(each.numel() * each.element_size() for each in (hidden, scores))
            if room >= 0:
                self.kept[piece.number] = hidden, scores
        return Emissions(blank, label, lasting)

    def gradients(self, slopes: Emissions) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradients by frames, labels, weight and bias."""
        slopes = slopes.each(self._shared)
        d_frames = torch.zeros_like(self.frames, dtype=self.real)
        d_labels = torch.zeros_like(self.labels, dtype=self.real)
        d_weight = torch.zeros_like(self.weight, dtype=self.real)
        d_bias = torch.zeros_like(self.bias, dtype=self.real)
        for piece in self:
            hidden, scores = self.kept.pop(piece.number, None) or self._score(piece)
            part = slopes.each(partial(_of, piece=piece))
            d_scores = score_gradient(scores, self._following(piece), part, inplace=True)  # (R, V + D)
            d_bias += d_scores.sum(dim=0)
            d_hidden = self._through(piece, hidden, d_scores, d_weight)
            d_sum = d_hidden.view(piece.last - piece.first, piece.labels, -1)
            d_frames[piece.row, piece.first : piece.last] = d_sum.sum(dim=1)
            d_labels[piece.row, : piece.labels] += d_sum.sum(dim=0)
        one, two, three, four = self.kinds
        return d_frames.to(one), d_labels.to(two), d_weight.to(three), d_bias.to(four)

    def _shared(self, slopes: Tensor) -> Tensor:
        return slopes * self.share.to(slopes.dtype).view(-1, *[1] * (slopes.dim() - 1))

    def _score(self, piece: _Piece) -> tuple[Tensor, Tensor]:
        """Hidden values before dropout, (R, H), and the scores in float32, (R, V + D)."""
        frames = self.frames[piece.row, piece.first : piece.last, None]
        hidden = activate((frames + self.labels[piece.row, None, : piece.labels]), self.head.activation)
        hidden = hidden.flatten(0, 1).to(self.head.compute)
        mask = self._mask(piece, hidden)
        kept = hidden if mask is None else hidden * mask
        return hidden, F.linear(kept, self.weight, self.bias).to(self.real)

    def _mask(self, piece: _Piece, like: Tensor) -> Tensor | None:
        """The same random mask whenever this piece is scored."""
        if not self.head.dropout:
            return None
        generator = torch.Generator(like.device).manual_seed(self.seed + piece.number)
        kept = 1 - self.head.dropout
        return torch.empty_like(like).bernoulli_(kept, generator=generator).div_(max(kept, 1e-12))

    def _through(self, piece: _Piece, hidden: Tensor, d_scores: Tensor, d_weight: Tensor) -> Tensor:
        """Go back through last layer, dropout and activation; adds to the gradient of the weight."""
        # fp16 has no small numbers, and no loss scale has enlarged these yet.
        compute = torch.float32 if self.head.compute is torch.float16 else self.head.compute
        mask = self._mask(piece, hidden)
        d_scores, dropped = d_scores.to(compute), (hidden if mask is None else hidden * mask).to(compute)
        d_weight += d_scores.t() @ dropped
        d_hidden = d_scores @ self.weight.to(compute)
        if mask is not None:
            d_hidden *= mask
        slope = (hidden > 0) if self.head.activation == "relu" else 1 - hidden.to(compute).square()
        return d_hidden.mul_(slope).to(self.real)

    def _following(self, piece: _Piece) -> Tensor:
        """The next label in each row of a piece: (R,)."""
        return self.following[piece.row, : piece.labels].repeat(piece.last - piece.first)


def _of(values: Tensor, piece: _Piece) -> Tensor:
    """The rows of a piece: (B, T, N, ...) -> (R, ...)."""
    return values[piece.row, piece.first : piece.last, : piece.labels].flatten(0, 1)


def activate(x: Tensor, activation: str) -> Tensor:
    """Apply the activation of a joint network to a value that nobody else needs."""
    return x.relu_() if activation == "relu" else x.tanh_()


def feasible(targets: Targets, durations: Sequence[int] = ()) -> Tensor:
    """Which utterances have an alignment: with a frame, and one behind what their labels take: (B,).

    >>> found = Targets(torch.zeros(3, 2, dtype=int), torch.tensor([2, 2, 0]), torch.tensor([1, 3, 0]))
    >>> feasible(found), feasible(found, (1, 2))
    (tensor([ True,  True, False]), tensor([False,  True, False]))
    """
    least = min(durations, default=0)
    return targets.frames >= targets.labels_len * least + 1
