"""Wrong declarations that running can show are refuted, and right ones never are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F_
from torch import Tensor, nn

from neumo.backends.torch.prove.report import Proof
from neumo.backends.torch.prove.signature import prove
from neumo.backends.torch.registry import implements
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    ONE,
    Alignment,
    B,
    Durations,
    F,
    Features,
    Flags,
    H,
    Ids,
    Image,
    Latent,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mask,
    NeuralType,
    Positions,
    Probs,
    Speaker,
    Strings,
    Struct,
    T,
    U,
    V,
    Vocab,
    W,
)


@dataclass(frozen=True)
class Planted(NeuralModule):
    """Declares ports and names the code that gives them."""

    takes: dict[str, NeuralType]
    gives: dict[str, NeuralType]
    code: Callable[..., Any]

    def signature(self) -> Signature:
        return Signature(takes=self.takes, gives=self.gives)


@implements(Planted)
class PlantedLayer(nn.Module):
    def __init__(self, spec: Planted) -> None:
        super().__init__()
        self.code = spec.code
        self.linear = nn.Linear(8, 8)
        self.conv = nn.Conv1d(8, 8, 5)
        self.strided = nn.Conv1d(8, 8, 4, stride=2, padding=1)
        self.up = nn.ConvTranspose1d(8, 8, 3, stride=2, padding=1, output_padding=1)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.slow = nn.GRU(8, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.positions = nn.Embedding(512, 8)
        self.norm = nn.BatchNorm1d(8)

        self.calls, self.kept = 0, None

    def alternated(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.gru(x)[0][:, self.calls % 2 :]

    def kept_for(self, x: Tensor) -> Any:
        self.kept = torch.zeros(x.shape[2]) if self.kept is None else self.kept
        return self.kept

    def forward(self, **ports: Any) -> Any:
        return self.code(self, **ports)


ABC = Vocab("abc")
SPOKEN = {"x": Features()[B, F(8), T], "n": Lengths(T)[B]}
FRAMES = {"x": Features()[B, F(8), T]}
ROWS = {"x": Features()[B, T, F(8)]}
SAME = {"y": Features()[B, F(8), T]}
PICTURE = {"x": Image(channels="rgb")[B, F(3), H, W]}
NEW = T("T'")
HALF = T // 2
Ports = dict[str, NeuralType]


def proof_of(takes: Ports, gives: Ports, code: Callable[..., Any], **more: Any) -> Proof:
    return prove(Planted(takes, gives, code), **more)


def halved(x: Tensor) -> Tensor:
    return x[..., : x.shape[-1] // 2]


def padded(x: Tensor, by: int) -> Tensor:
    return F_.pad(x, (0, -x.shape[-1] % by))


def stretched(x: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Repeat each label as long as it lasts: (B, F, U), (B, U) -> (B, F, T'), (B,)."""
    ends = counts.sum(1)
    made = x.new_zeros(x.shape[0], x.shape[1], int(ends.max()))
    for row, (values, repeats) in enumerate(zip(x, counts, strict=True)):
        made[row, :, : int(ends[row])] = values.repeat_interleave(repeats, -1)
    return made, ends


def keep(n: Tensor, x: Tensor) -> Tensor:
    return torch.arange(x.shape[-1]) < n[:, None]


WRONG: dict[str, tuple[Ports, Ports, Callable[..., Any]]] = {
    # found by a user
    "cut at 100 frames": (FRAMES, SAME, lambda m, x: x if x.shape[2] < 100 else x[:, :, :100]),
    "made odd by a branch": (FRAMES, SAME, lambda m, x: x if x.shape[2] % 2 else x[:, :, :-1]),
    "short of one at multiples of 16": (FRAMES, SAME, lambda m, x: x if x.shape[2] % 16 else x[:, :, :-1]),
    "drops a row of large batches": (FRAMES, SAME, lambda m, x: x if x.shape[0] < 5 else x[:-1]),
    "scores that are not normalised": (ROWS, {"y": LogProbs()[B, T, V(8)]}, lambda m, x: m.linear(x)),
    "normalised over time": (ROWS, {"y": Probs()[B, T, V(8)]}, lambda m, x: x.softmax(1)),
    "labels beyond the vocabulary": (ROWS, {"y": Ids(ABC)[B, T]}, lambda m, x: x.argmax(-1)),
    "changes its input": (FRAMES, SAME, lambda m, x: x.mul_(2)),
    "cut at 100 frames behind a recurrent layer": (
        ROWS,
        {"y": Features()[B, T, F(8)]},
        lambda m, x: m.gru(x)[0][:, :100],
    ),
    "durations below nothing": (ROWS, {"y": Durations()[B, T]}, lambda m, x: -x.abs().sum(-1).long()),
    "durations that are longer together": (
        {"x": Features()[B, T], "d": Durations(T)[B, U]},
        {"y": Durations(T)[B, U]},
        lambda m, x, d: d + 1,
    ),
    "positions beyond the end": (
        FRAMES,
        {"y": Positions(T)[B]},
        lambda m, x: torch.full((x.shape[0],), x.shape[2]),
    ),
    "a loss that is not a number": (FRAMES, {"y": Loss()[()]}, lambda m, x: (x - 99).log().mean()),
    "voices of any length": (FRAMES, {"y": Speaker(norm="l2")[B, F(8)]}, lambda m, x: x.mean(2)),
    "a hard alignment of soft weights": (
        FRAMES,
        {"y": Alignment(form="hard")[B, F(8), T]},
        lambda m, x: x.softmax(-1),
    ),
    "weights below nothing": (FRAMES, {"y": Alignment(form="soft")[B, F(8), T]}, lambda m, x: x),
    "deviations below nothing": (FRAMES, {"y": Latent(part="std")[B, F(8), T]}, lambda m, x: x),
    "alternates from call to call": (ROWS, {"y": Features()[B, T, F(8)]}, lambda m, x: m.alternated(x)),
    "keeps what it made for the first size": (FRAMES, SAME, lambda m, x: x + m.kept_for(x)),
    "wrong in training only": (
        {**FRAMES, "t": Ids().only("train")[B, U]},
        SAME,
        lambda m, x, t=None: x if t is None else x[..., 1:],
    ),
    "changes a field of its input": (
        {"x": Struct(a=Features()[B, T])[()]},
        {"y": Features()[B, T]},
        lambda m, x: x["a"].add_(1),
    ),
    "takes a field out of its input": (
        {"x": Struct(a=Features()[B, T])[()]},
        {"y": Features()[B, T]},
        lambda m, x: x.pop("a"),
    ),
    "as many as U frames where T is large": (
        {**ROWS, "z": Features()[B, U]},
        {"y": Features()[B, T, F(8)]},
        lambda m, x, z: x[:, : 2 * z.shape[1]] if x.shape[1] > 2 * z.shape[1] + 40 else x,
    ),
    "a field that lacks an axis": (
        FRAMES,
        {"y": Struct(a=Features()[B, F(8), T], b=Features()[B, F(8)])[()]},
        lambda m, x: {"a": x, "b": x.mean(1)},
    ),
    "a field that is missing": (FRAMES, {"y": Struct(a=Features()[B, F(8), T])[()]}, lambda m, x: {"b": x}),
    "too few texts": (FRAMES, {"y": Strings()[B.list()]}, lambda m, x: ["text"] * (x.shape[0] - 1)),
    "tensors for texts": (FRAMES, {"y": Strings()[B.list()]}, lambda m, x: list(x)),
    "needs the target": ({**FRAMES, "t": Ids().only("train")[B, U]}, SAME, lambda m, x, t=None: x + t.sum()),
    "lengths beyond what there is": (
        SPOKEN,
        {"y": Features()[B, F(8), NEW], "l": Lengths(NEW)[B]},
        lambda m, x, n: (torch.cat([x, x], 2), 3 * n),
    ),
    # everyday mistakes
    "too short for one remainder of 3": (
        FRAMES,
        SAME,
        lambda m, x: x[..., :-1] if x.shape[2] % 3 == 0 else x,
    ),
    "too short for one remainder of 7": (FRAMES, SAME, lambda m, x: x[..., 1:] if x.shape[2] % 7 == 2 else x),
    "a crop in the middle": (FRAMES, SAME, lambda m, x: x[..., :300]),
    "a convolution without padding": (FRAMES, SAME, lambda m, x: m.conv(x)),
    "transposed with output padding": (FRAMES, {"y": Features()[B, F(8), T * 2 - 1]}, lambda m, x: m.up(x)),
    "down and up again": (FRAMES, SAME, lambda m, x: m.up(m.strided(x))),
    "pooled with ceil_mode": (
        FRAMES,
        {"y": Features()[B, F(8), HALF]},
        lambda m, x: F_.max_pool1d(x, 2, ceil_mode=True),
    ),
    "pooled without ceil_mode": (
        FRAMES,
        {"y": Features()[B, F(8), T.ceildiv(2)]},
        lambda m, x: F_.avg_pool1d(x, 2),
    ),
    "unfolded with a rest": (
        FRAMES,
        {"y": Features()[B, F(8), T.ceildiv(4), F(4)]},
        lambda m, x: x.unfold(2, 4, 4),
    ),
    "folded patches": (PICTURE, {"y": Features()[B, F(12), H * W]}, lambda m, x: F_.unfold(x, 2, padding=1)),
    "pixels shuffled the other way": (
        {"x": Features()[B, F(8), H, W]},
        {"y": Features()[B, F(2), H // 2, W // 2]},
        lambda m, x: F_.pixel_shuffle(x, 2),
    ),
    "cumulative strides rounded once": (
        FRAMES,
        {"y": Features()[B, F(8), T // 4]},
        lambda m, x: x[..., ::2][..., ::2],
    ),
    "durations that are repeated once more": (
        {"x": Features()[B, F(8), U], "d": Durations(NEW)[B, U]},
        {"y": Features()[B, F(8), NEW]},
        lambda m, x, d: stretched(x, d + 1)[0],
    ),
    "lengths of labels behind durations": (
        {"x": Features()[B, F(8), U], "d": Durations()[B, U], "n": Lengths(U)[B]},
        {"y": Features()[B, F(8), NEW], "l": Lengths(NEW)[B]},
        lambda m, x, d, n: (halved(stretched(x, d)[0]), stretched(x, d)[1]),
    ),
    "an inverted mask": (SPOKEN, {"y": Mask(T, true="pad")[B, T]}, lambda m, x, n: keep(n, x)),
    "an inverted mask of its own lengths": (
        SPOKEN,
        {"l": Lengths(HALF)[B], "y": Mask(HALF, true="pad")[B, HALF]},
        lambda m, x, n: (n // 2, keep(n // 2, halved(x))),
    ),
    "lengths that are wrong when T is odd": (
        SPOKEN,
        {"y": Features()[B, F(8), T], "l": Lengths(T)[B]},
        lambda m, x, n: (x, n - n % 2),
    ),
    "lengths that are wrong in odd batches of frames": (
        SPOKEN,
        {"l": Lengths(T)[B]},
        lambda m, x, n: n if x.shape[2] % 2 else n - 1,
    ),
    "batch and time exchanged": (ROWS, {"y": Features()[T, B, F(8)]}, lambda m, x: m.gru(x)[0]),
    "a state that is not batch first": (ROWS, {"y": Features()[B, ONE, F(8)]}, lambda m, x: m.gru(x)[1]),
    "without keepdim": (FRAMES, {"y": Features()[B, F(8), ONE]}, lambda m, x: x.mean(-1)),
    "with keepdim": (FRAMES, {"y": Features()[B, F(8)]}, lambda m, x: x.mean(-1, keepdim=True)),
    "whole numbers": (FRAMES, SAME, lambda m, x: x.long()),
    "yes and no as numbers": (FRAMES, {"y": Flags()[B, F(8), T]}, lambda m, x: (x > 0).float()),
    "a mask of whole numbers": (SPOKEN, {"y": Mask(T, true="keep")[B, T]}, lambda m, x, n: keep(n, x).int()),
    "lengths as numbers with a point": (SPOKEN, {"l": Lengths(T)[B]}, lambda m, x, n: n / 1),
    "a batch of one is squeezed": (FRAMES, SAME, lambda m, x: x.squeeze()),
    "a batch of one is squeezed at its place": (FRAMES, SAME, lambda m, x: x.squeeze(0)),
    "one frame is squeezed": (FRAMES, SAME, lambda m, x: x.squeeze(-1)),
    "square pictures are turned": (
        {"x": Features()[B, F(8), H, W]},
        {"y": Features()[B, F(8), H, W]},
        lambda m, x: x.mean(3) if x.shape[2] == x.shape[3] else x,
    ),
    "breaks on even sizes": (FRAMES, SAME, lambda m, x: x if x.shape[2] % 2 else x.view(7, -1)),
    "not a number": (FRAMES, SAME, lambda m, x: (x - 9).log()),
    "labels where a list is": (
        FRAMES,
        {"y": Features()[B.list(), F(8)]},
        lambda m, x: [each.mean(1) for each in x][1:],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_declaration_is_refuted(name: str) -> None:
    takes, gives, code = WRONG[name]
    proof = proof_of(takes, gives, code)
    assert proof.verdict == "refuted", proof
    assert any(port.reason for port in proof.refuted)


def even(m: Any, x: Tensor) -> Tensor:
    """Pad to an even number of frames by a branch, as U-Nets do."""
    return F_.pad(x, (0, 1)) if x.shape[2] % 2 else x


def generated(m: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """As many frames as the numbers say, the longest row as long as all."""
    ends = (x.abs().sum((1, 2)).long() % 17) + 1
    return x.new_zeros(x.shape[0], 8, int(ends.max())), ends


def held(x: Tensor) -> tuple[Tensor, Tensor]:
    """A buffer of 9 frames, 3 of them in use."""
    return x.new_zeros(x.shape[0], 8, 9), torch.full((x.shape[0],), 3)


def both(m: Any, x: Tensor, n: Tensor) -> Any:
    return {"frames": halved(x), "n": n // 2}


RIGHT: dict[str, tuple[Ports, Ports, Callable[..., Any], str]] = {
    "padded to an even size": (FRAMES, {"y": Features()[B, F(8), T.ceildiv(2) * 2]}, even, "sampled"),
    "padded to a multiple without a branch": (
        FRAMES,
        {"y": Features()[B, F(8), T.ceildiv(8) * 8]},
        lambda m, x: padded(x, 8),
        "proved",
    ),
    "normalised over the labels": (
        ROWS,
        {"y": LogProbs()[B, T, V(8)]},
        lambda m, x: m.linear(x).log_softmax(-1),
        "proved",
    ),
    "labels of its vocabulary": (
        ROWS,
        {"y": Ids(Vocab("abcdefgh"))[B, T]},
        lambda m, x: x.argmax(-1),
        "proved",
    ),
    "a struct": (
        SPOKEN,
        {"y": Struct(frames=Features()[B, F(8), HALF], n=Lengths(HALF)[B])[()]},
        both,
        "sampled",
    ),
    "texts": (
        FRAMES,
        {"y": Strings()[B.list()]},
        lambda m, x: [f"row {n}" for n in range(len(x))],
        "sampled",
    ),
    "tensors in a list": (FRAMES, {"y": Features()[B.list(), F(8)]}, lambda m, x: list(x.mean(2)), "sampled"),
    "does without the target": (
        {**FRAMES, "t": Ids().only("train")[B, U]},
        SAME,
        lambda m, x, t=None: x if t is None else x + t.sum(),
        "sampled",
    ),
    "a decoder with its own lengths": (
        FRAMES,
        {"y": Features()[B, F(8), NEW], "l": Lengths(NEW)[B]},
        generated,
        "sampled",
    ),
    "lengths of rows side by side": (
        SPOKEN,
        {"y": Features()[B, F(8), NEW], "l": Lengths(NEW)[B]},
        lambda m, x, n: (torch.cat([x, x], 2), 2 * n),
        "proved",
    ),
    "pooled with ceil_mode": (
        FRAMES,
        {"y": Features()[B, F(8), T.ceildiv(2)]},
        lambda m, x: F_.max_pool1d(x, 2, ceil_mode=True),
        "sampled",
    ),
    "strided and transposed": (
        FRAMES,
        {"y": Features()[B, F(8), HALF * 2]},
        lambda m, x: m.up(m.strided(x)),
        "proved",
    ),
    "pixels shuffled": (
        {"x": Features()[B, F(8), H, W]},
        {"y": Features()[B, F(2), H * 2, W * 2]},
        lambda m, x: F_.pixel_shuffle(x, 2),
        "proved",
    ),
    "patches unfolded": (
        FRAMES,
        {"y": Features()[B, F(8), T // 4, F(4)]},
        lambda m, x: x.unfold(2, 4, 4),
        "proved",
    ),
    "repeated by durations": (
        {"x": Features()[B, F(8), U], "d": Durations()[B, U]},
        {"y": Features()[B, F(8), NEW], "l": Lengths(NEW)[B]},
        lambda m, x, d: stretched(x, d),
        "sampled",
    ),
    "durations that sum to what there is": (
        {"x": Features()[B, T], "d": Durations(T)[B, U]},
        {"y": Durations(T)[B, U], "p": Positions(T)[B]},
        lambda m, x, d: (d.clone(), x.argmax(1)),
        "proved",
    ),
    "a loss, a voice and an alignment": (
        FRAMES,
        {
            "l": Loss()[()],
            "s": Speaker(norm="l2")[B, F(8)],
            "a": Alignment(form="soft")[B, F(8), T],
            "d": Latent(part="std")[B, F(8)],
        },
        lambda m, x: (x.mean(), F_.normalize(x.mean(2)), x.softmax(-1), x.std(2, correction=0)),
        "proved",
    ),
    "a mask of lengths": (SPOKEN, {"y": Mask(T, true="pad")[B, T]}, lambda m, x, n: ~keep(n, x), "proved"),
    "a recurrent layer": (ROWS, {"y": Features()[B, T, F(8)]}, lambda m, x: m.gru(x)[0], "sampled"),
    "time first": (
        {"x": Features()[T, B, F(8)]},
        {"y": Features()[T, B, F(8)]},
        lambda m, x: m.slow(x)[0],
        "sampled",
    ),
    "attention": (ROWS, {"y": Features()[B, T, F(8)]}, lambda m, x: m.attention(x, x, x)[0], "proved"),
    "positions up to a limit": (
        ROWS,
        {"y": Features()[B, T, F(8)]},
        lambda m, x: x + m.positions.weight[: x.shape[1]],
        "proved",
    ),
    "half precision": (ROWS, {"y": Features()[B, T, F(8)]}, lambda m, x: x.bfloat16(), "proved"),
    "logits without a bound": (
        ROWS,
        {"y": Logits()[B, T, V(8)]},
        lambda m, x: x.masked_fill(x < 0, -torch.inf),
        "proved",
    ),
    "a view of its input": (FRAMES, {"y": Features()[B, T, F(8)]}, lambda m, x: x.transpose(1, 2), "proved"),
    "changes a copy": (FRAMES, SAME, lambda m, x: x.clone().mul_(2), "proved"),
    "normalised over the batch": (FRAMES, SAME, lambda m, x: m.norm(x), "proved"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_declaration_is_never_refuted(name: str) -> None:
    takes, gives, code, verdict = RIGHT[name]
    assert proof_of(takes, gives, code).verdict == verdict


def test_rows_that_never_fill_what_they_count_are_told() -> None:
    gives = {"y": Features()[B, F(8), NEW], "l": Lengths(NEW)[B]}
    proof = proof_of(SPOKEN, gives, lambda m, x, n: (torch.cat([x, x], 2), n))
    assert proof.limits == ("in no run does a row of l have as much as there is: the rest is padding in all",)
    buffer = proof_of(FRAMES, gives, lambda m, x: held(x))
    assert buffer.verdict == "proved"


def test_a_state_that_is_left_out_has_any_size() -> None:
    past = T("P")
    takes = {**ROWS, "s": Features().optional()[B, past, F(8)]}
    cached = lambda m, x, s=None: x.clone() if s is None else torch.cat([s, x], 1)  # noqa: E731
    assert proof_of(takes, {"s": Features()[B, past + T, F(8)]}, cached).verdict == "proved"
    wrong = proof_of(takes, {"s": Features()[B, past + T + 1, F(8)]}, cached)
    assert wrong.verdict == "refuted"


def test_a_mask_of_positions_and_positions_knows_no_rows() -> None:
    ahead = lambda m, x: torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)  # noqa: E731
    assert proof_of(ROWS, {"y": Mask(T, true="pad")[T, T]}, ahead).verdict == "proved"


def test_a_size_that_a_later_output_has_is_known_to_the_earlier_one() -> None:
    gives = {"y": Features()[B, F(8), NEW * 2], "z": Features()[B, F(8), NEW]}
    assert proof_of(FRAMES, gives, lambda m, x: (torch.cat([x, x], 2), x.clone())).verdict == "proved"
    assert proof_of(FRAMES, gives, lambda m, x: (x.clone(), x.clone())).verdict == "refuted"


def test_of_what_a_trace_took_for_granted_only_what_may_be_otherwise_is_told() -> None:
    folded = lambda m, x: x[:, : x.shape[1] // 3 * 3].unflatten(1, (-1, 3)).flatten(2)  # noqa: E731
    proof = proof_of(ROWS, {"y": Features()[B, T // 3, F(24)]}, folded)
    assert proof.verdict == "proved"
    assert not any("!=" in limit for limit in proof.limits)
