"""Prediction network, joint network, the values they give, and the losses over these values.

`Predictor` and `Lattice` are what the two networks give: objects that hold the module, and ask it for numbers
by calling it with a task. So whatever hangs on a module's call (sharded weights that are gathered, hooks)
happens wherever the object is asked, and it computes in the precision that the module was called in.

Shapes: B utterances, C encoder width, P width of the prediction network, H width of the joint network,
T frames, U labels, N = U + 1, V labels and blank, D durations, R rows of a search, L layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from neumo.asr import modules as specs
from neumo.asr.torch.transducer_loss import Head, Objective, Targets, activate, feasible, lean_loss
from neumo.backends.torch.lengths import at_least_float32, frame_mask
from neumo.backends.torch.registry import implements
from neumo.types.errors import DataError

Found = TypeVar("Found")
State = tuple[Tensor, ...]  # of a prediction network: the first axis of each is the rows


class _Precision:
    """The precision of products in which a module was called, to be entered again."""

    def __init__(self, device: torch.device) -> None:
        self.device = device.type
        self.mixed = torch.is_autocast_enabled(self.device)
        self.dtype = torch.get_autocast_dtype(self.device)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with torch.autocast(self.device, self.dtype, enabled=self.mixed):
            yield


class Predictor:
    """A prediction network as a value: `sequence` for given labels, `start` and `step` to search for them."""

    shape = ()  # as its type says

    def __init__(self, module: PredictionNetwork) -> None:
        self.module = module
        self.dtype = module.embed.weight.dtype
        self._precision = _Precision(module.embed.weight.device)

    def _ask(self, task: Callable[[PredictionNetwork], Found]) -> Found:
        with self._precision():
            return self.module(task)

    def sequence(self, labels: Tensor) -> Tensor:
        """What it makes of no label, the first, the first two, ...: (B, U) -> (B, N, P)."""
        return self._ask(lambda module: module.sequence(labels))

    def start(self, rows: int) -> tuple[Tensor, State]:
        """What it makes of no label at all, (R, P), and the state behind that."""
        return self._ask(lambda module: module.step(*module.before(rows)))

    def step(self, labels: Tensor, state: State) -> tuple[Tensor, State]:
        """What it makes of one more label in each row: (R,) -> (R, P), and the state behind it."""
        return self._ask(lambda module: module.step(labels, state))


@implements(specs.PredictionNetwork)
class PredictionNetwork(nn.Module):
    """Embeddings, then an LSTM or a convolution over the last few of them."""

    compiles = False  # it gives an object

    def __init__(self, spec: specs.PredictionNetwork) -> None:
        super().__init__()
        self.spec = spec
        self.start = len(spec.vocab)  # the start symbol: its embedding is, and stays, zero
        self.embed = nn.Embedding(self.start + 1, spec.width, padding_idx=self.start)
        if spec.network == "lstm":
            between = spec.dropout if spec.layers > 1 else 0.0
            self.lstm = nn.LSTM(spec.width, spec.width, spec.layers, dropout=between, batch_first=True)
        else:
            self.conv = nn.Conv1d(spec.width, spec.width, spec.context)

    def forward(self, task: Callable[[PredictionNetwork], Any] | None = None) -> Any:
        """Give a `Predictor`; or do what one has been asked for."""
        return Predictor(self) if task is None else task(self)

    def sequence(self, labels: Tensor) -> Tensor:
        """(B, U) -> (B, N, P); what is behind the end of an utterance changes nothing before it."""
        first = 1 if self.spec.network == "lstm" else self.spec.context
        embedded = self.embed(F.pad(labels.clamp(0, self.start), (first, 0), value=self.start))
        if self.spec.network == "lstm":
            return self._dropped(self.lstm(_lowered(embedded))[0])
        return self._dropped(self.conv(embedded.transpose(1, 2)).relu().transpose(1, 2))

    def before(self, rows: int) -> tuple[Tensor, State]:
        """The start symbol, and the state before it."""
        weight = self.embed.weight
        start = torch.full((rows,), self.start, device=weight.device)
        if self.spec.network == "lstm":
            nothing = weight.new_zeros(rows, self.spec.layers, self.spec.width)
            return start, (nothing, nothing)
        return start, (start[:, None].expand(rows, self.spec.context - 1),)

    def step(self, labels: Tensor, state: State) -> tuple[Tensor, State]:
        """(R,) -> (R, P)."""
        if self.spec.network == "stateless":
            last = torch.cat([state[0], labels[:, None]], dim=1)  # (R, context)
            found = self.conv(self.embed(last).transpose(1, 2)).relu().squeeze(-1)
            return self._dropped(found), (last[:, 1:],)
        hidden, cell = (each.transpose(0, 1).contiguous() for each in state)  # (L, R, P)
        embedded, hidden, cell = map(_lowered, (self.embed(labels)[:, None], hidden, cell))
        found, (hidden, cell) = self.lstm(embedded, (hidden, cell))
        return self._dropped(found.squeeze(1)), (hidden.transpose(0, 1), cell.transpose(0, 1))

    def _dropped(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.spec.dropout, self.training)


def _lowered(x: Tensor) -> Tensor:
    """Bring a value to the precision of products: on a CPU, fp16 has no LSTM that takes float32."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


class Lattice:
    """A joint network over the frames of a batch as a value, for losses and searches."""

    def __init__(self, module: JointNetwork, encoded: Tensor, predictor: Predictor) -> None:
        self.module, self.encoded, self.predictor = module, encoded, predictor
        self.durations = module.spec.durations
        self.blank = len(module.spec.vocab)
        self.dtype = encoded.dtype
        self.device = encoded.device
        self._precision = _Precision(encoded.device)

    @property
    def shape(self) -> tuple[int, int]:
        """Utterances and frames, as its type says."""
        return self.encoded.shape[0], self.encoded.shape[2]

    def ask(self, task: Callable[[JointNetwork], Found]) -> Found:
        """Do something with the joint network, in its precision."""
        with self._precision():
            return self.module(self.encoded, self.predictor, task)

    def frames(self, lengths: Tensor | None = None) -> Tensor:
        """The projections of all frames: (B, T, H); what is beyond `lengths` is not looked at."""
        encoded = self.encoded.transpose(1, 2)
        if lengths is not None:  # even where the padding is not finite
            encoded = encoded.masked_fill(~frame_mask(lengths, encoded.shape[1])[..., None], 0)
        return self.ask(lambda module: module.enc(encoded))

    def log_probs(self, frames: Tensor, predicted: Tensor) -> tuple[Tensor, Tensor | None]:
        """Score frames (R, H) after what the predictor makes of some labels (R, P): (R, V), (R, D)."""
        scores = self.ask(lambda module: module.score(frames + module.pred(predicted)))
        scores = at_least_float32(scores)
        if not self.durations:
            return scores.log_softmax(-1), None
        tokens = self.blank + 1
        return scores[:, :tokens].log_softmax(-1), scores[:, tokens:].log_softmax(-1)

    def scores(self, labels: Tensor) -> Tensor:
        """The scores of all nodes before any softmax, in float32: (B, U) -> (B, T, N, V + D).

        For short utterances and tests: a loss needs no such thing.
        """
        predicted, frames = self.predictor.sequence(labels), self.frames()

        def whole(module: JointNetwork) -> Tensor:
            return module.score(frames[:, :, None] + module.pred(predicted)[:, None])

        return at_least_float32(self.ask(whole))

    def loss(self, targets: Targets, share: Tensor, objective: Objective, memory: float) -> Tensor:
        """Sum the losses of utterances, each times its share, in so many bytes of scores."""
        predicted, frames = self.predictor.sequence(targets.labels), self.frames(targets.frames)

        def piecewise(module: JointNetwork) -> Tensor:
            labels = module.pred(predicted)
            head = Head(
                module.spec.activation,
                module.spec.dropout if module.training else 0.0,
                torch.promote_types(frames.dtype, labels.dtype),
                memory,
            )
            weight, bias = module.out.weight, module.out.bias
            return lean_loss(
                frames, labels, weight, bias, targets=targets, share=share, head=head, objective=objective
            )

        return self.ask(piecewise)


@implements(specs.JointNetwork)
class JointNetwork(nn.Module):
    """Projections of a frame and of the labels so far, their sum, an activation, and the scores."""

    compiles = False  # it gives an object

    def __init__(self, spec: specs.JointNetwork) -> None:
        super().__init__()
        self.spec = spec
        self.enc = nn.Linear(spec.encoder_width, spec.width)
        self.pred = nn.Linear(spec.predictor_width, spec.width)
        self.out = nn.Linear(spec.width, len(spec.vocab) + 1 + len(spec.durations))

    def forward(
        self,
        encoded: Tensor,
        predictor: Predictor,
        task: Callable[[JointNetwork], Any] | None = None,
    ) -> Any:
        """(B, C, T) -> a `Lattice` (B, T); or do what one has been asked for."""
        return Lattice(self, encoded, predictor) if task is None else task(self)

    def score(self, summed: Tensor) -> Tensor:
        """(..., H) -> (..., V + D)."""
        hidden = activate(summed, self.spec.activation)
        return self.out(F.dropout(hidden, self.spec.dropout, self.training))


class TransducerResult(NamedTuple):
    """The loss, the utterances that it left out, and how many it is the mean over."""

    loss: Tensor  # ()
    infeasible: Tensor  # (B,) bool
    count: Tensor  # () # pyright: ignore[reportIncompatibleMethodOverride]


class _LatticeLoss(nn.Module):
    """The mean of an objective over the utterances that have an alignment."""

    compiles = False  # pieces are cut by the numbers of frames and labels

    def __init__(self, spec: specs.TransducerLoss | specs.TDTLoss, objective: Objective) -> None:
        super().__init__()
        self.spec, self.objective = spec, objective

    def forward(
        self, lattice: Lattice, lattice_len: Tensor, targets: Tensor, targets_len: Tensor
    ) -> TransducerResult:
        """(B, T), (B,), (B, U), (B,) -> (), (B,), ()."""
        check_targets(targets, targets_len, len(self.spec.vocab))
        labels = targets * frame_mask(targets_len, targets.shape[1])  # whatever stands behind the end
        given = Targets(labels, targets_len, lattice_len)
        counted = feasible(given, self.objective.durations)
        count = counted.sum().to(torch.promote_types(lattice.dtype, torch.float32))
        share = counted / count.clamp(min=1)
        loss = lattice.loss(given, share, self.objective, self.spec.memory * 1e6)
        return TransducerResult(loss, ~counted, count)


@implements(specs.TransducerLoss)
class TransducerLoss(_LatticeLoss):
    """Alignments in which a blank passes one frame and a label none."""

    def __init__(self, spec: specs.TransducerLoss) -> None:
        super().__init__(spec, Objective(fastemit=spec.fastemit))


@implements(specs.TDTLoss)
class TDTLoss(_LatticeLoss):
    """Alignments in which each token says how many frames it lasts."""

    def __init__(self, spec: specs.TDTLoss) -> None:
        super().__init__(spec, Objective(tuple(spec.durations), spec.sigma, spec.omega, spec.fastemit))


def check_targets(targets: Tensor, targets_len: Tensor, labels: int) -> None:
    """Raise `DataError` for an id outside of the vocabulary, which would read memory that is not ours."""
    inside = frame_mask(targets_len, targets.shape[1])
    if not bool((inside & ((targets < 0) | (targets >= labels))).any()):
        return
    used = targets[inside]
    raise DataError(
        f"transducer targets have ids from {int(used.min())} to {int(used.max())}; "
        f"the vocabulary has 0 to {labels - 1}",
        code="ids",
        why="The labels were made with another vocabulary, or the blank is among them.",
    )
