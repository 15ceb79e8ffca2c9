"""The sizes that a proof runs beside its trace, and how what comes is compared and told."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
import torch
from torch import Tensor, nn

import neumo
from neumo.backends.torch.prove.cases import SizeCase, guard_cases, size_cases, told_guards, within
from neumo.backends.torch.prove.compare import Comparison, describe, leaves
from neumo.backends.torch.prove.signature import prove
from neumo.backends.torch.prove.sizes import Sizes
from neumo.types import (
    B,
    BackendError,
    F,
    Features,
    Lengths,
    Loss,
    Mask,
    NeuralType,
    Strings,
    Struct,
    Symbol,
    T,
)

FREE = {"B": 3, "T": 19}
SAME = {"y": Features()[B, F(8), T]}


def times(cases: Any) -> list[int]:
    return [case.sizes["T"] for case in cases if case.sizes["B"] == 3]


def test_every_remainder_of_small_numbers_is_run() -> None:
    strict = [case.sizes["T"] for case in size_cases(SAME, FREE) if case.strict and case.sizes["B"] == 3]
    for by in (2, 3, 4, 5, 6, 7, 8):
        assert {number % by for number in strict} == set(range(by))
    batches = {case.sizes["B"] for case in size_cases(SAME, FREE) if case.sizes["T"] == 19}
    assert batches == {1, 2, 4, 5, 7, 8}


def test_long_sizes_are_run_around_a_multiple_at_which_they_round() -> None:
    gives = {"y": Features()[B, F(8), T // 160 + 1]}
    found = times(size_cases(gives, {"B": 3, "T": 8000}))
    assert {8159, 8160, 8161} <= set(found)
    assert len(found) <= 12
    assert 307 in times(size_cases(SAME, FREE, far=True))


def test_the_other_side_of_what_a_trace_took_for_granted_is_run() -> None:
    t, b = sympy.Symbol("s1", integer=True), sympy.Symbol("s0", integer=True)
    known = {t: T.size, b: B.size}
    odd, short, small = sympy.Ne(sympy.Mod(t, 2), 0), t < 100, t * b < 600
    sizes = Sizes(known=known, guards=(odd, short, small, sympy.Ne(sympy.Symbol("u"), 1)))
    found = [dict(case.sizes) for case in guard_cases(sizes, FREE)]
    assert {"B": 3, "T": 20} in found
    assert {"B": 3, "T": 18} in found
    assert {"B": 3, "T": 100} in found
    assert any(each["T"] * each["B"] >= 600 for each in found)
    assert told_guards(sizes, FREE) == [
        "proved where B*T < 600; other sizes were run",
        "proved where Mod(T, 2) != 0; other sizes were run",
    ]
    hidden = Sizes(known={t: Symbol("X").size}, guards=(t < 100,))
    assert not list(guard_cases(hidden, FREE))


def test_a_failure_outside_of_what_a_trace_told_is_no_news() -> None:
    ranges = {"T": (4, 512)}
    assert within(SizeCase(FREE), ranges) == SizeCase(FREE)
    beyond = within(SizeCase({"B": 3, "T": 513}), ranges)
    assert (beyond.strict, beyond.told) == (False, True)
    assert not within(SizeCase({"B": 1, "T": 1}), ranges).told


def wrong(gives: dict[str, NeuralType], outputs: dict[str, Any]) -> str:
    takes = {"x": Features()[B, T], "n": Lengths(T)[B]}
    batch = {"x": torch.zeros(2, 6), "n": torch.tensor([6, 4])}
    found = Comparison(takes, gives)(batch, outputs, {"B": 2, "T": 6})
    return "; ".join(f"{each.port}: {each.reason}" for each in found if each.verdict == "refuted")


def test_what_comes_is_compared_field_by_field() -> None:
    half = Struct(frames=Features()[B, T // 2], n=Lengths(T // 2)[B])[()]
    right = {"frames": torch.zeros(2, 3), "n": torch.tensor([3, 2])}
    assert wrong({"y": half}, {"y": right}) == ""
    assert "field frames: axis 1" in wrong({"y": half}, {"y": {**right, "frames": torch.zeros(2, 4)}})
    late = wrong({"y": half}, {"y": {**right, "n": torch.tensor([3, 1])}})
    assert late == "y: a row with T=4 has 1, and T//2 is 2, in y.n (with B=2, T=6)"
    assert "it is a Tensor, not a mapping" in wrong({"y": half}, {"y": torch.zeros(2)})


def test_lists_and_texts_are_compared() -> None:
    losses = Loss()[B.list()]
    assert wrong({"y": losses}, {"y": [torch.zeros(()), torch.ones(())]}) == ""
    assert "B=2 (from x), here 1" in wrong({"y": losses}, {"y": [torch.zeros(())]})
    assert wrong({"y": Strings()[B.list()]}, {"y": ["a", "b"]}) == ""
    assert "it is a int, not a text" in wrong({"y": Strings()[B.list()]}, {"y": ["a", 3]})


def test_a_size_below_nothing_is_out_of_range() -> None:
    assert wrong({"y": Features()[B, T - 9]}, {"y": torch.zeros(2, 1)}) == ""


def test_lengths_of_another_shape_and_masks_are_compared() -> None:
    assert "axes" in wrong({"n": Lengths(T)[B]}, {"n": torch.zeros(2, 1, dtype=torch.int64)})
    mask = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    assert wrong({"m": Mask(T, true="keep")[B, T]}, {"m": mask}) == ""
    assert wrong({"m": Mask(T, true="pad")[B, T]}, {"m": mask})


def test_what_came_is_described() -> None:
    assert describe(None) == "NoneType"
    assert describe([]) == "[]"
    assert describe(
        {"a": [torch.zeros(2), torch.zeros(3)]}
    ) == "{a: [2 times (2) float or (3) float]}".replace("(2)", "(2,)").replace("(3)", "(3,)")
    types = {"x": Loss().many()[()], "y": Features()[B]}
    found = leaves(types, {"x": (torch.zeros(()), torch.zeros(()))})
    assert [place for place, _, _ in found] == ["x[0]", "x[1]"]


def test_optional_and_absent_outputs() -> None:
    assert wrong({"y": Features()[B].as_optional()}, {"y": None}) == ""
    assert wrong({"y": Features()[B].only("train")}, {"y": None}) == ""
    assert "not optional" in wrong({"y": Features()[B]}, {"y": None})


class Broken(nn.Module):
    """Holds no code for the port that it declares."""

    def forward(self, x: Tensor) -> Tensor:
        return x


def test_code_that_cannot_be_called_says_so_itself() -> None:
    spec = neumo.wrap(Broken(), takes={"x": Features()[B, T]}, gives={"y": Features()[B, T]})
    assert prove(spec).verdict == "proved"
    with pytest.raises(BackendError, match="forward"):
        prove(
            neumo.wrap(Broken(), takes={"x": Features()[B], "z": Features()[B]}, gives={"y": Features()[B]})
        )


def test_training_that_fails_on_a_single_row_is_a_limit() -> None:
    norm = neumo.wrap(nn.BatchNorm1d(8), takes={"x": Features()[B, F(8), T]}, gives=SAME)
    proof = prove(norm, train=True)
    assert proof.verdict == "sampled"
    assert any("fails with B=1, T=1" in limit for limit in proof.limits)


def test_what_dropout_leaves_out_changes_no_size() -> None:
    takes = {"x": Features()[B, F(8), T]}
    dropped = neumo.wrap(nn.Dropout(0.5, inplace=True), takes=takes, gives=SAME)
    assert prove(neumo.wrap(nn.Dropout(), takes=takes, gives=SAME), train=True).holds
    assert prove(dropped).verdict == "proved"
    assert "changes its input x in place" in str(prove(dropped, train=True))
