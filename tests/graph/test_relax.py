"""Relaxed facets warn where they would refuse, with the reason; what is no facet is refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import neumo
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.relax import known_facets, relax
from neumo.graph.signature import Signature
from neumo.graph.value import Record
from neumo.types import B, ConfigError, F, Features, Lengths, Mel, Pitch, PortError, T

from .specs import WaveGlow


@dataclass(frozen=True)
class Counted(NeuralModule):
    """Takes counts of steps."""

    def signature(self) -> Signature:
        return Signature(takes={"x": Features()[B, T], "n": Lengths(T)[B]}, gives={"y": Features()[B]})


@dataclass(frozen=True)
class Intonation(NeuralModule):
    """Takes pitch in semitones."""

    def signature(self) -> Signature:
        return Signature(takes={"pitch": Pitch(unit="semitones")[B, T]}, gives={"y": Features()[B]})


LOW = "both floors lie below the noise"


def vocode(**facets: Any) -> Record:
    want = Mel(scale="log10", floor=1e-5, n_mels=80, window="hann")
    given = Mel(scale="log10", n_mels=80, **facets)
    return WaveGlow(mel=want)(mel=inputs(mel=given[B, F(80), T]).mel)


def test_a_relaxed_facet_warns_where_it_would_refuse() -> None:
    with pytest.raises(PortError, match=r"floor is 1e-09, not 1e-05"):
        vocode(floor=1e-9)
    with neumo.relax("floor", reason=LOW):
        record = vocode(floor=1e-9)
    assert [(port, str(reason)) for port, reason in Graph(outputs=record).warnings()] == [
        ("WaveGlow.mel", f"floor is 1e-09, not 1e-05 (relaxed: {LOW})")
    ]
    assert record.audio.step.relaxed == {"floor": LOW}
    with pytest.raises(PortError):
        vocode(floor=1e-9)


def test_only_what_is_named_is_relaxed() -> None:
    with relax("floor", "window", reason=LOW), pytest.raises(PortError, match="scale is ln, not log10"):
        WaveGlow(mel=Mel(scale="log10"))(mel=inputs(mel=Mel(scale="ln")[B, F(80), T]).mel)


def test_relaxations_add_up_each_with_its_reason() -> None:
    with relax("floor", reason=LOW), relax("window", reason="short windows"):
        record = vocode(floor=1e-9, window="hamming")
    assert sorted(str(reason) for _, reason in record.audio.step.warnings) == [
        f"floor is 1e-09, not 1e-05 (relaxed: {LOW})",
        "window is hamming, not hann (relaxed: short windows)",
    ]
    assert vocode(window="hamming").audio.step.relaxed == {}


def test_a_relaxation_that_was_not_needed_leaves_no_trace() -> None:
    with relax("floor", reason=LOW):
        record = vocode(floor=1e-5, window="hamming")
    assert record.audio.step.relaxed == {}
    assert [str(reason) for _, reason in record.audio.step.warnings] == ["window is hamming, not hann"]


def test_a_graph_that_is_nested_keeps_what_it_relaxed() -> None:
    opened = inputs(mel=Mel(scale="log10", floor=1e-9, n_mels=80)[B, F(80), T])
    with relax("floor", reason=LOW):
        vocoder = Graph("vocoder", outputs=WaveGlow(mel=Mel(scale="log10", floor=1e-5))(mel=opened.mel))
    outer = inputs(mel=Mel(scale="log10", floor=1e-9, n_mels=80)[B, F(80), T])
    again = Graph(outputs=vocoder(mel=outer.mel))
    assert [str(reason) for _, reason in again.warnings()] == [f"floor is 1e-09, not 1e-05 (relaxed: {LOW})"]


@pytest.mark.parametrize(
    ("facets", "reason", "what", "fix"),
    [
        (("flor",), LOW, "no element has a facet 'flor'", "did you mean 'floor'?"),
        (("of",), LOW, "no element has a facet 'of'", None),
        ((), LOW, "nothing is relaxed", None),
        (("floor",), "", "without a reason", None),
        (("floor",), None, "without a reason", None),
    ],
)
def test_what_cannot_be_relaxed_is_refused(
    facets: tuple[str, ...], reason: Any, what: str, fix: str | None
) -> None:
    with pytest.raises(ConfigError, match=what) as caught, relax(*facets, reason=reason):
        pass
    assert caught.value.code == "relax"
    assert fix is None or fix in [each.text for each in caught.value.fixes]


def test_facets_of_every_element_are_known() -> None:
    assert {"rate", "floor", "window", "vocab", "true", "prior", "clock"} <= known_facets()


def test_a_relaxed_facet_lets_no_other_class_of_numbers_in() -> None:
    opened = inputs(x=Features()[B, T], share=Lengths(T, unit="fraction")[B])
    with relax("unit", reason="told to"), pytest.raises(PortError) as caught:
        Counted()(x=opened.x, n=opened.share)
    assert caught.value.code == "dtype"
    assert "its numbers are float, not int" in str(caught.value)


def test_a_relaxed_facet_of_the_same_numbers_is_let_pass() -> None:
    opened = inputs(pitch=Pitch(unit="hz")[B, T])
    with relax("unit", reason="the model was trained so"):
        record = Intonation()(pitch=opened.pitch)
    assert len(Graph(outputs=record).warnings()) == 1


def test_a_facet_that_is_like_no_other_is_refused_with_the_list() -> None:
    with (
        pytest.raises(ConfigError, match=r"facets are .*center, channels") as refused,
        relax("zzz", reason="x"),
    ):
        pass
    assert refused.value.code == "relax"
    assert not refused.value.fixes
