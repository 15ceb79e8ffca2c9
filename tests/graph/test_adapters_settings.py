"""Settings of adapters that no conversion has are refused where they are written."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from neumo.graph import adapters as ad
from neumo.graph.inputs import inputs
from neumo.types import ONE, B, ConfigError, F, Features, H, Ids, Lengths, PortError, T, U, W

from .more_specs import PIECES


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: ad.Resample(16000, -5), "a rate is above 0, not -5"),
        (lambda: ad.Resample(0, 16000), "a rate is above 0, not 0"),
        (lambda: ad.Repeak(0.0, 1.0), "a peak is above 0, not 0"),
        (lambda: ad.ScalePixels(255.0, float("nan")), "a peak is above 0, not nan"),
        (lambda: ad.Subsample(0), "a stride is above 0, not 0"),
        (lambda: ad.Transpose("B T T", "T B T"), "not the same axes in two orders"),
        (lambda: ad.Transpose("1 1", "1 1"), "not the same axes in two orders"),
    ],
)
def test_numbers_that_nothing_can_have_are_refused(make: Callable[[], object], what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        make()
    assert caught.value.code == "field"


@pytest.mark.parametrize(
    ("fill", "pad", "is_id"), [(0, None, True), (99, None, False), (-1, None, False), (-100, -100, True)]
)
def test_what_stands_for_an_absent_label_is_one(fill: int, pad: int | None, is_id: bool) -> None:
    ids = Ids(PIECES, pad=pad)
    given = inputs(ids=ids.optional()[B, U], like=ids[B, U])
    if is_id:
        assert ad.Default(fill)(value=given.ids, like=given.like).value.type.element == ids
        return
    with pytest.raises(PortError, match="is neither a label nor the pad of Ids") as caught:
        ad.Default(fill)(value=given.ids, like=given.like)
    assert caught.value.code == "adapter"


@pytest.mark.parametrize("target", ["bos..", "..eos", "bos..eos"])
def test_the_old_pad_does_not_matter_where_the_ends_are_known(target: str) -> None:
    given = inputs(ids=Ids(PIECES, pad=-1, frame="none")[B, U], n=Lengths(U)[B])
    framed = ad.Reframe("none", target, PIECES, pad=0)(ids=given.ids, ids_len=given.n)
    assert framed.ids.type.element == Ids(PIECES, pad=0, frame=target)


def test_the_old_pad_stays_where_no_end_is_known() -> None:
    given = inputs(ids=Ids(PIECES, pad=-1, frame="none")[B, U])
    framed = ad.Reframe("none", "bos..", PIECES, pad=-1)(ids=given.ids)
    assert framed.ids.type.element == Ids(PIECES, pad=-1, frame="bos..")
    with pytest.raises(PortError, match="pad is -1, not 0"):
        ad.Reframe("none", "bos..", PIECES)(ids=given.ids)


def test_each_of_several_axes_of_size_one_goes_to_one_place() -> None:
    assert ad.Transpose("B 1 T 1", "B T 1 1").order == (0, 2, 1, 3)
    given = inputs(x=Features()[B, ONE, T, ONE])
    assert str(ad.Transpose("B 1 T 1", "T 1 1 B")(value=given.x).value.type) == "Features[T, 1, 1, B]"


def test_a_picture_is_a_row_of_patches() -> None:
    given = inputs(x=Features()[B, T(H // 16 * (W // 16)), F(64)])
    record = ad.Transpose("B T F", "T B F")(value=given.x)
    assert str(record.value.type) == "Features[T=(H//16)*(W//16), B, F=64]"
