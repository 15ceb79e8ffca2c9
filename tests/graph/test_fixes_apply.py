"""Ways out are taken for real: what is offered for a wrong connection composes, and breaks nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest

import neumo
from neumo.graph import adapters
from neumo.graph.adapters import LogSoftmax, RemapIds
from neumo.graph.candidates import Surroundings
from neumo.graph.compose import Mismatch, compose
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.pasted import pasted_chain
from neumo.graph.rules import RULES, find
from neumo.graph.signature import Signature
from neumo.graph.value import Record
from neumo.graph.ways_out import Advice, Way
from neumo.types import (
    ONE,
    Acoustic,
    Any_,
    AtLeast,
    Audio,
    B,
    C,
    F,
    Features,
    H,
    Ids,
    Image,
    Latent,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mask,
    Mel,
    NeuralType,
    Probs,
    Score,
    Speaker,
    Spectrogram,
    Strings,
    Struct,
    T,
    Text,
    U,
    V,
    Vocab,
    W,
)

from .apply_fixes import apply, refused_call, ways_of
from .specs import EN, EN_SORTED, TAGS, CTCLoss, Down, MelSpectrogram, SpeechData, SumLoss, Up

AB, BA = Vocab("abc", name="abc"), Vocab("cba", name="cba")
MORE = Vocab("xcbay", name="more")
PIECES = Vocab(["<pad>", "<s>", "</s>", "cat", "sat"], name="pieces", pad=0, bos=1, eos=2, unit="word")
SCORES = (B, T, V(AB))


@dataclass(frozen=True)
class Port(NeuralModule):
    """Takes what a test wants."""

    wanted: dict[str, NeuralType] = field(default_factory=dict)

    def signature(self) -> Signature:
        return Signature(takes=self.wanted, gives={"out": Score()[()]})


@dataclass(frozen=True)
class Wrong:
    """A wrong connection of port `x`: what is wanted, given, around, and one way out that is offered."""

    wanted: dict[str, NeuralType]
    given: dict[str, NeuralType]
    offered: str
    around: dict[str, NeuralType] = field(default_factory=dict)


def one(wanted: NeuralType, given: NeuralType, offered: str, **around: NeuralType) -> Wrong:
    return Wrong({"x": wanted}, {"x": given}, offered, around)


N = Lengths(T)[B]
SIXTEEN = {"x": Audio(rate=16000)[B, T], "n": Lengths(T)[B]}
WRONG = {
    "rate": Wrong(
        SIXTEEN,
        {"x": Audio(rate=22050)[B, T], "n": N},
        "insert Resample(22050 -> 16000) before it; n goes through it too as audio_len",
    ),
    "rate with lengths that are not connected": Wrong(
        {"x": Audio(rate=16000)[B, T]},
        {"x": Audio(rate=22050)[B, T]},
        "insert Resample(22050 -> 16000) before it, with audio_len=data.n",
        {"n": N},
    ),
    "rate without lengths": one(
        Audio(rate=16000)[B, T], Audio(rate=8000)[B, T], "insert Resample(8000 -> 16000) before it"
    ),
    "rate and peak": one(
        Audio(rate=16000, peak=1.0)[B, T],
        Audio(rate=8000, peak=32768.0)[B, T],
        "insert Resample(8000 -> 16000), then Repeak(32768 -> 1), before it",
    ),
    "rate, and a peak that nobody knows": one(
        Audio(rate=16000, peak=1.0)[B, T], Audio(rate=8000)[B, T], "insert Resample(8000 -> 16000) before it"
    ),
    "stereo": one(
        Audio(rate=8000, channels=1)[B, T],
        Audio(rate=8000, channels=2)[B, C(2), T],
        "insert Mono() before it",
    ),
    "stereo of another rate": Wrong(
        {"x": Audio(rate=16000)[B, T], "n": N},
        {"x": Audio(rate=8000, channels=2)[B, C(2), T], "n": N},
        "insert Mono(), then Resample(8000 -> 16000), before it; n goes through Resample too as audio_len",
    ),
    "scale": one(
        Mel(scale="log10")[B, F, T], Mel(scale="ln")[B, F(80), T], "insert Rescale(ln -> log10) before it"
    ),
    "decibels": one(
        Mel(scale="ln")[B, F, T],
        Mel(scale="db", power=2.0)[B, F(80), T],
        "insert Rescale(db -> ln) before it",
    ),
    "scale and order": one(
        Mel(scale="linear")[B, T, F],
        Mel(scale="ln")[B, F(80), T],
        "insert Rescale(ln -> linear), then Transpose(B F T -> B T F), before it",
    ),
    "linear with a floor": one(
        Mel(scale="ln", floor=1e-5)[B, F, T],
        Mel(scale="linear", floor=1e-5)[B, F(8), T],
        "insert Rescale(linear -> ln) before it",
    ),
    "power": one(
        Spectrogram(power=2.0)[B, F, T],
        Spectrogram(power=1.0, scale="ln", floor=0.0)[B, F(257), T],
        "insert Repower(1 -> 2) before it",
    ),
    "logits": one(LogProbs(AB)[SCORES], Logits(AB)[SCORES], "insert LogSoftmax(over=V) before it"),
    "logits in another order": one(
        Probs(BA)[B, T, V(BA)],
        Logits(AB)[SCORES],
        "insert Softmax(over=V), then Reorder(abc -> cba), before it",
    ),
    "probabilities": one(LogProbs(AB)[SCORES], Probs(AB)[SCORES], "insert Log() before it"),
    "columns": one(LogProbs(BA)[B, T, V(BA)], LogProbs(AB)[SCORES], "insert Reorder(abc -> cba) before it"),
    "scores with the labels in the middle": one(
        LogProbs(AB)[SCORES],
        Logits(AB)[B, V(AB), T],
        "insert Transpose(B V T -> B T V), then LogSoftmax(over=V), before it",
    ),
    "label order": one(Ids(BA)[B, U], Ids(AB)[B, U], "insert RemapIds(abc -> cba) before it"),
    "labels of a larger set": one(Ids(MORE)[B, U], Ids(AB)[B, U], "insert RemapIds(abc -> more) before it"),
    "labels of at most a set": one(
        Ids(AtLeast(MORE))[B, U], Ids(AB)[B, U], "insert RemapIds(abc -> more) before it"
    ),
    "pad that is a label": Wrong(
        {"x": Ids(TAGS, pad=-100)[B, U], "n": Lengths(U)[B]},
        {"x": Ids(TAGS, pad=0)[B, U], "n": Lengths(U)[B]},
        "insert Repad(0 -> -100) before it, with ids_len=data.n",
    ),
    "pad": one(Ids(pad=-100)[B, U], Ids(PIECES, pad=0)[B, U], "insert Repad(0 -> -100) before it"),
    "frame": Wrong(
        {"x": Ids(frame="bos..eos")[B, U], "n": Lengths(U)[B]},
        {"x": Ids(PIECES, pad=0, frame="none")[B, U], "n": Lengths(U)[B]},
        "insert Reframe(none -> bos..eos) before it; n goes through it too as ids_len",
    ),
    "frame and pad": Wrong(
        {"x": Ids(frame="bos..eos", pad=-100)[B, U], "n": Lengths(U)[B]},
        {"x": Ids(PIECES, pad=0, frame="none")[B, U], "n": Lengths(U)[B]},
        "insert Repad(0 -> -100) with ids_len=data.n, then Reframe(none -> bos..eos), before it;"
        " n goes through Reframe too as ids_len",
    ),
    "not shifted": one(
        Ids(shifted=True)[B, U], Ids(pad=-100, shifted=False)[B, U], "insert Shift(pad=-100) before it"
    ),
    "mask": one(Mask(T, true="keep")[B, T], Mask(T, true="pad")[B, T], "insert Invert(mask) before it"),
    "mask for lengths": Wrong(
        {"x": Lengths(T)[B], "y": Mel()[B, F, T]},
        {"x": Mask(T, true="pad")[B, T], "y": Mel()[B, F(8), T]},
        "insert MaskToLengths(true=pad) before it",
    ),
    "broad mask for lengths": Wrong(
        {"x": Lengths(T)[B], "y": Mel()[B, F, T]},
        {"x": Mask(T, true="keep")[B, ONE, T], "y": Mel()[B, F(8), T]},
        "insert MaskToLengths(), then Squeeze(at=1), before it",
    ),
    "lengths for a mask": Wrong(
        {"x": Mask(T, true="keep")[B, T], "y": Mel()[B, F, T]},
        {"x": N, "y": Mel()[B, F(8), T]},
        "insert LengthsToMask(true=keep, axis=2) before it, with like=data.y",
    ),
    "fractions": Wrong(
        {"x": N, "y": Audio()[B, T]},
        {"x": Lengths(T, unit="fraction")[B], "y": Audio()[B, T]},
        "insert FractionToCount() before it, with like=data.y",
    ),
    "counts": Wrong(
        {"x": Lengths(T, unit="fraction")[B], "y": Mel()[B, F, T]},
        {"x": N, "y": Mel()[B, F(8), T]},
        "insert CountToFraction(axis=2) before it, with like=data.y",
    ),
    "lengths after a stride": Wrong(
        {"x": N, "y": Mel()[B, F, T]},
        {"x": N, "y": Mel()[B, F(8), T.ceildiv(4)]},
        "insert Subsample(by=4) before it",
    ),
    "lengths before an up-sampling": Wrong(
        {"x": N, "y": Audio()[B, T]}, {"x": N, "y": Audio()[B, T * 256]}, "insert Upsample(by=256) before it"
    ),
    "lengths without padding": Wrong(
        {"x": N, "y": Mel()[B, F, T]}, {"x": N, "y": Mel()[B, F(8), T - 2]}, "insert Offset(by=-2) before it"
    ),
    "lengths in samples": Wrong(
        {"x": N, "y": Mel()[B, F, T]},
        {"x": N, "y": Mel()[B, F(8), T // 160 + 1]},
        "insert Subsample(by=160, rounding=floor), then Offset(by=1), before it",
    ),
    "lengths that may be absent": Wrong(
        {"x": N, "y": Mel()[B, F, T]},
        {"x": N.as_optional(), "y": Mel()[B, F(8), T]},
        "insert FullLengths(axis=2) before it, with like=data.y",
    ),
    "ids that may be absent": Wrong(
        {"x": Ids()[B, U], "y": Ids()[B, U]},
        {"x": Ids().optional()[B, U], "y": Ids(EN)[B, U]},
        "insert Default(0) before it, with like=data.y",
    ),
    "a mask that may be absent": Wrong(
        {"x": Mask(T, true="pad")[B, T], "y": Audio()[B, T]},
        {"x": Mask(T, true="pad").optional()[B, T], "y": Audio()[B, T]},
        "insert Default(0, numbers=bool) before it, with like=data.y",
    ),
    "a text that may be absent": one(
        Strings()[B.list()],
        Strings().optional()[B.list()],
        "insert Fallback() before it, with otherwise=data.other",
        other=Strings()[B.list()],
    ),
    "order of axes": one(Mel()[T, B, F], Mel()[B, F(80), T], "insert Transpose(B F T -> T B F) before it"),
    "an axis too few": one(Mel()[B, ONE, F, T], Mel()[B, F(80), T], "insert Unsqueeze(at=1) before it"),
    "an axis too many": one(Mel()[B, F, T], Mel()[B, F(80), T, ONE], "insert Squeeze(at=3) before it"),
    "features that are too few": one(
        Features()[B, F(96), T],
        Acoustic()[B, F(64), T],
        "insert Concat(axis=1) before it, with second=data.speaker",
        speaker=Acoustic()[B, F(32), T],
        noise=Acoustic()[B, F(16), T],
    ),
    "a loss for each row": one(Loss()[()], Loss()[B], "insert Reduce(mean) before it"),
    "a list": one(Mel()[B, F, T], Mel()[B.list(), F(80), T], "insert Stack() before it"),
    "no list": one(Mel()[B.list(), F, T], Mel()[B, F(80), T], "insert Unstack() before it"),
    "a list of logits": one(
        LogProbs(AB)[SCORES],
        Logits(AB)[B.list(), T, V(AB)],
        "insert Stack(), then LogSoftmax(over=V), before it",
    ),
    "a struct": one(
        Ids()[B, U], Struct(ids=Ids(EN)[B, U], score=Score()[B])[()], "insert Pick(ids) before it"
    ),
    "a field in another order": one(
        Ids(BA)[B, U], Struct(ids=Ids(AB)[B, U])[()], "insert Pick(ids), then RemapIds(abc -> cba), before it"
    ),
    "bytes": one(
        Image(peak=1.0)[B, C, H, W],
        Image(peak=255.0)[B, C(3), H, W],
        "insert ScalePixels(255 -> 1) before it",
    ),
    "colours": one(
        Image(channels="bgr")[B, C, H, W],
        Image(channels="rgb")[B, C(3), H, W],
        "insert FlipChannels() before it",
    ),
    "a spread": one(
        Latent("normal", part="std")[B, F, T],
        Latent("normal", part="log_variance")[B, F(4), T],
        "insert Spread(log_variance -> std) before it",
    ),
    "another spread": one(
        Latent("normal", part="log_variance")[B, F, T],
        Latent("normal", part="std")[B, F(4), T],
        "insert Spread(std -> log_variance) before it",
    ),
    "a voice": one(
        Speaker("xvector", norm="l2")[B, F],
        Speaker("xvector", norm="none")[B, F(4)],
        "insert UnitNorm() before it",
    ),
    "a train-only value": one(
        Probs(AB)[SCORES].only("train"), Logits(AB)[SCORES].only("train"), "insert Softmax(over=V) before it"
    ),
    "what is around fits as it is": one(
        Ids(EN)[B, U], Ids(EN_SORTED)[B, U], "x=data.text", text=Ids(EN)[B, U]
    ),
}


def refuse(case: Wrong):
    data = inputs(**case.given, **case.around)
    return refused_call(Port(case.wanted), {port: data[port] for port in case.given}, {"data": data})


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_every_way_out_that_is_offered_can_be_taken(case: Wrong) -> None:
    call = refuse(case)
    ((mismatch, ways),) = ways_of(call)
    assert case.offered in [way.text for way in ways]
    for way in ways:
        record = apply(call, mismatch, way)
        step = record.out.step
        trusted = [obligation for port, obligation in step.assumptions if port == mismatch.port]
        assert [str(each) for each in trusted] == [str(each) for each in way.doubts]
        graph = Graph(outputs=record, mode="train")
        assert [finding for finding in find(graph) if RULES[finding.rule].severity == "error"] == []


def test_what_was_not_known_before_is_told_with_the_fix() -> None:
    ((_, (way, *_)),) = ways_of(refuse(WRONG["rate, and a peak that nobody knows"]))
    assert way.note == "fits, assuming peak = 1.0"


VOCABS = {
    "en": EN,
    "en_sorted": EN_SORTED,
    "abc": AB,
    "cba": BA,
    "more": MORE,
    "pieces": PIECES,
    "tags": TAGS,
}


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
def test_the_code_of_a_way_out_can_be_pasted(case: Wrong) -> None:
    data = inputs(**case.given, **case.around)
    names = {"data": data, "neumo": neumo, **VOCABS}
    call = refused_call(Port(case.wanted), {port: data[port] for port in case.given}, names)
    advice = Advice(call, Surroundings(call))
    repaired: dict[str, Any] = dict(call.inputs)
    for mismatch, way in [(found, list(advice.ways(found))) for found in call.mismatches][:1]:
        for each in way:
            if each.chain and each.behind is None:
                code = pasted_chain(advice.around, mismatch.port, mismatch.value, each.chain)
                again = {**repaired, **pasted(code, names, mismatch, each, case.given)}
                compose(Port(case.wanted), again, None, {})


def pasted(
    code: str, names: dict[str, Any], mismatch: Mismatch, way: Way, ports: Iterable[str]
) -> dict[str, Any]:
    """Run the lines of a way out, and give the arguments that they are for."""
    assert code, "a way out without code"
    assert max(map(len, code.splitlines())) <= 89
    space = {**vars(adapters), **names}
    *lines, last = code.splitlines()
    named = [line.partition(" ")[0] for line in code.splitlines() if " = " in line]
    if last.startswith(f"{mismatch.port}="):
        exec("\n".join(lines), space)
        arguments = eval(f"dict({last})", space)
    else:
        exec(code, space)
        arguments = {mismatch.port: space[named[-1]][way.chain[-1].adapter.exit]}
    for applied in way.chain:
        connected = [(value.port, port) for value, port, _ in applied.passed if value.port in ports]
        records = [space[name] for name in ("converted_2", "converted") if name in space]
        arguments |= {name: next(r for r in records if port in r)[port] for name, port in connected}
    return arguments


NEVER = {
    "floor": (Mel(scale="ln", floor=1e-5)[B, F, T], Mel(scale="ln", floor=1e-9)[B, F(8), T]),
    "floor beside a scale": (
        Mel(scale="log10", floor=1e-5)[B, F, T],
        Mel(scale="ln", floor=1e-9)[B, F(8), T],
    ),
    "linear without a floor": (Mel(scale="ln")[B, F, T], Mel(scale="linear", floor=0.0)[B, F(8), T]),
    "bands": (Mel(fmax=8000.0)[B, F, T], Mel(fmax=11025.0)[B, F(8), T]),
    "power of mels": (Mel(power=2.0)[B, F, T], Mel(power=1.0, scale="ln", floor=0.0)[B, F(8), T]),
    "power above a floor": (
        Spectrogram(power=2.0, floor=1e-5)[B, F, T],
        Spectrogram(power=1.0, scale="ln", floor=1e-5)[B, F(8), T],
    ),
    "normalised": (Mel(scale="ln")[B, F, T], Mel(scale="db", power=2.0, norm="per_feature")[B, F(8), T]),
    "other labels": (Ids(AB)[B, U], Ids(Vocab("abd"))[B, U]),
    "what would no longer be said": (Text("bert")[B, F(96), T], Text("bert")[B, F(64), T]),
    "a sample is no spread": (Latent("normal", part="std")[B, F], Latent("normal", part="sample")[B, F(4)]),
    "a voice of length one": (Speaker(norm="none")[B, F], Speaker(norm="l2")[B, F(4)]),
    "softmax twice": (Logits(AB)[SCORES], Probs(AB)[SCORES]),
    "marks that a vocabulary lacks": (Ids(frame="bos..")[B, U], Ids(AB, frame="none")[B, U]),
    "roles that change": (
        Ids(Vocab("abc", bos=0, name="one"))[B, U],
        Ids(Vocab("abc", bos=1, name="two"))[B, U],
    ),
    "mels are no features to be widened": (Mel()[B, F(96), T], Mel()[B, F(64), T]),
    "texts are no tensors": (Strings()[B], Strings()[B.list()]),
    "what promises nothing": (Acoustic()[B, F, T], Any_()[B, F, T]),
    "fields of another kind": (Ids()[B, U], Struct(score=Score()[B])[()]),
    "normalised colours": (
        Image(channels="bgr")[B, C, H, W],
        Image(channels="rgb", norm="imagenet")[B, C(3), H, W],
    ),
    "shifted already": (Ids(shifted=False)[B, U], Ids(pad=0, shifted=True)[B, U]),
    "unknown pad": (Ids(shifted=True)[B, U], Ids(shifted=False)[B, U]),
    "batches": (Mel()[B(4), F, T], Mel()[B(8), F(3), T]),
    "a list of logits as it is": (LogProbs(AB)[B.list(), T, V(AB)], Probs(AB)[B, T, V(AB)].as_optional()),
}


@pytest.mark.parametrize("case", NEVER.values(), ids=NEVER)
def test_what_is_not_exact_is_never_offered(case: tuple[NeuralType, NeuralType]) -> None:
    ((_, ways),) = ways_of(refuse(one(*case, "", beside=Mel()[B, F(32), T], more=Text("bert")[B, F(32), T])))
    assert [way.text for way in ways if way.claim is None] == []


def test_a_fix_never_breaks_another_connection() -> None:
    # Lengths that would fit after another stride do not fit the mask that stands beside them.
    wanted = {"x": Mel()[B, F, T], "n": Lengths(T)[B], "mask": Mask(T, true="keep")[B, T]}
    data = inputs(x=Mel()[B, F(8), T], n=Lengths(T)[B], mask=Mask(T, true="pad")[B, T], late=N.as_optional())
    call = refused_call(Port(wanted), {"x": data.x, "n": data.late, "mask": data.mask}, {"data": data})
    late, mask = call.mismatches
    advice = Advice(call, Surroundings(call))
    assert [fix.text for fix in advice.fixes(late)] == [
        "n=data.n",
        "insert FullLengths() before it, with like=data.mask",
        "insert FullLengths(axis=2) before it, with like=data.x",
    ]
    assert [fix.text for fix in advice.fixes(mask)] == ["insert Invert(mask) before it"]


def test_resampling_takes_the_lengths_along() -> None:
    data = inputs(audio=Audio(rate=22050, peak=1.0)[B, T], audio_len=Lengths(T)[B])
    call = refused_call(MelSpectrogram(), {"audio": data.audio, "audio_len": data.audio_len}, {"data": data})
    ((mismatch, (way, *_)),) = ways_of(call)
    found = apply(call, mismatch, way)
    assert found.mel_len.type.element.of == found.mel.type.axes[2].size


def several(records: dict[str, Record], module: NeuralModule, given: dict[str, Any]) -> list[str]:
    call = refused_call(module, given, records)
    ((mismatch, ways),) = ways_of(call)
    for way in ways:
        apply(call, mismatch, way)
    return [way.text for way in ways]


def test_one_of_many_values_is_converted_alone() -> None:
    data = inputs(a=Loss()[()], b=Loss()[B])
    texts = several({"data": data}, SumLoss(), {"losses": [data.a, data.b]})
    assert texts == ["insert Reduce(mean) before it", "insert Reduce(sum) before it"]


def test_settings_that_are_offered_compose() -> None:
    data = SpeechData(EN, 22050)
    batch = data()
    texts = several({"batch": batch}, MelSpectrogram(), {"audio": batch.audio, "audio_len": batch.audio_len})
    assert texts[-1] == "build SpeechData with rate=16000"


def test_no_adapter_is_offered_where_only_the_rounding_differs() -> None:
    data = inputs(x=Acoustic()[B, F(4), T], n=Lengths(T)[B])
    half = Down()(x=data.x)
    back = Up()(x=half.x)
    wanted = {"y": Acoustic()[B, F, T], "x": Lengths(T)[B]}
    texts = several({"data": data, "back": back}, Port(wanted), {"x": data.n, "y": back.x})
    assert texts == []


def test_each_fix_of_several_builds_on_those_before() -> None:
    labels = EN.with_blank()
    data = inputs(
        logits=Logits(labels)[B, T, V(labels)],
        n=Lengths(T)[B],
        text=Ids(EN_SORTED)[B, U],
        text_len=Lengths(U)[B],
    )
    given: dict[str, Any] = {
        "log_probs": data.logits,
        "log_probs_len": data.n,
        "targets": data.text,
        "targets_len": data.text_len,
    }
    call = refused_call(CTCLoss(EN), given, {"data": data})
    advice = Advice(call, Surroundings(call))
    fixes = [[fix.text for fix in advice.fixes(mismatch)] for mismatch in call.mismatches]
    assert fixes == [["insert LogSoftmax(over=V) before it"], ["insert RemapIds(en-sorted -> en) before it"]]
    probs, ids = LogSoftmax()(logits=data.logits), RemapIds(EN_SORTED, EN)(ids=data.text)
    CTCLoss(EN)(**{**given, "log_probs": probs.log_probs, "targets": ids.ids})


def test_text_features_meet_text() -> None:
    data = inputs(x=Text("bert")[B, T, F(4)])
    assert several({"data": data}, Port({"x": Text("bert")[B, F, T]}), {"x": data.x}) == [
        "insert Transpose(B T F -> B F T) before it"
    ]


FIRST = {
    "optional": (Ids(EN)[B, U], Ids(EN)[B, U].as_optional(), Ids(EN)[B, U]),
    "list": (Mel()[B, F, T], Mel()[B.list(), F(8), T], Mel()[B, F(8), T]),
    "clock": (Features()[B, F, T.at(50)], Features()[B, F(8), T.at(100)], Features()[B, F(8), T.at(50)]),
    "scores": (LogProbs(AB)[SCORES], Logits(AB)[SCORES], LogProbs(AB)[SCORES]),
    "struct": (Ids(AB)[B, U], Struct(ids=Ids(AB)[B, U])[()], Ids(AB)[B, U]),
    "fraction": (N, Lengths(T, unit="fraction")[B], N),
    "mask": (Mask(T, true="keep")[B, T], Lengths(T)[B], Mask(T, true="keep")[B, T]),
    "frame": (
        Ids(frame="bos..")[B, U],
        Ids(PIECES, pad=0, frame="none")[B, U],
        Ids(PIECES, pad=0, frame="bos..")[B, U],
    ),
}


@pytest.mark.parametrize("case", FIRST.values(), ids=FIRST)
def test_a_value_of_the_graph_that_fits_comes_before_any_adapter(case: tuple[NeuralType, ...]) -> None:
    wanted, given, around = case
    call = refuse(one(wanted, given, "", right=around))
    ((mismatch, ways),) = ways_of(call)
    assert ways[0].text == "x=data.right"
    for way in ways:
        apply(call, mismatch, way)


def test_a_list_of_values_gets_the_one_that_fits_in_the_place_of_the_one_that_does_not() -> None:
    data = inputs(a=Loss()[()], b=Loss()[B], c=Loss()[()])
    texts = several({"data": data}, SumLoss(), {"losses": [data.a, data.b]})
    assert texts[0] == "losses=[data.a, data.c]"


def test_nothing_is_offered_where_two_clocks_differ_and_no_value_fits() -> None:
    call = refuse(one(Features()[B, F, T.at(50)], Features()[B, F(8), T.at(100)], ""))
    ((mismatch, ways),) = ways_of(call)
    assert mismatch.comparison.reasons[0].code == "clock"
    assert ways == []


def test_resampled_audio_has_the_clock_of_its_rate() -> None:
    data = inputs(audio=Audio(rate=22050, peak=1.0)[B, T], n=Lengths(T)[B])
    port = Port({"x": Audio(rate=16000)[B, T.at(16000)], "n": Lengths(T)[B]})
    call = refused_call(port, {"x": data.audio, "n": data.n}, {"data": data})
    ((mismatch, ways),) = ways_of(call)
    assert [way.text for way in ways] == [
        "insert Resample(22050 -> 16000) before it; n goes through it too as audio_len"
    ]
    apply(call, mismatch, ways[0])
