"""The catalogue: which modules there are, and what can go where, as they are or through an adapter."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from neumo.graph.catalogue import Entry, catalogue, describe_module, vocabs_of
from neumo.graph.catalogue_fits import Connection, connections, feeds_modules, fits_modules, fits_port
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Audio,
    B,
    Element,
    F,
    GraphError,
    Ids,
    Lengths,
    Logits,
    Loss,
    Mel,
    NeuralType,
    Score,
    Struct,
    T,
    U,
    V,
    Vocab,
)

LETTERS, WORDS = Vocab("abc", name="letters"), Vocab(["yes", "no"], name="words", unit="word")


@dataclass(frozen=True)
class FrontEnd(NeuralModule):
    """Makes mels."""

    rate: int = 16000
    scale: str = "ln"

    def signature(self) -> Signature:
        mel = Mel(rate=self.rate, scale=self.scale, n_mels=8)
        return Signature(
            takes={"audio": Audio(rate=self.rate)[B, T]}, gives={"mel": mel[B, F(8), T // 160 + 1]}
        )


@dataclass(frozen=True)
class EncodeMels(NeuralModule):
    """Encodes."""

    n_mels: int = 8
    width: int = 32

    def signature(self) -> Signature:
        return Signature(
            takes={"mel": Mel(scale="log10", n_mels=self.n_mels)[B, F(self.n_mels), T]},
            gives={"encoded": Acoustic()[B, F(self.width), T]},
        )


@dataclass(frozen=True)
class LossHead(NeuralModule):
    """Needs another width."""

    width: int = 64
    fixed: bool = False

    def signature(self) -> Signature:
        return Signature(
            takes={"encoded": Acoustic()[B, F(64 if self.fixed else self.width), T]},
            gives={"loss": Loss()[()]},
        )


@dataclass(frozen=True)
class BlurFrames(NeuralModule):
    """Passes frames of any number through."""

    def signature(self) -> Signature:
        return Signature(takes={"x": Acoustic()[B, F, T]}, gives={"x": Acoustic()[B, F, T]})


@dataclass(frozen=True)
class AddUp(NeuralModule):
    """Adds losses up."""

    def signature(self) -> Signature:
        return Signature(takes={"losses": Loss().many()[()]}, gives={"n": Lengths(T)[B]})


@dataclass(frozen=True)
class ManySettings(NeuralModule):
    """Needs settings of many kinds."""

    vocab: Vocab
    element: Element
    size: int
    name: str
    rate: float | None
    more: object
    spare: Vocab | None = None

    def signature(self) -> Signature:
        return Signature(takes={"ids": Ids(self.vocab)[B, U]}, gives={"ids": Ids(self.spare)[B, U]})


@dataclass(frozen=True)
class NeverStated(NeuralModule):
    """Fails."""

    def signature(self) -> Signature:
        raise ZeroDivisionError("nothing")


def entries(*kinds: type[NeuralModule]) -> list[Entry]:
    return [Entry(kind) for kind in kinds]


def shown(found: list[Connection]) -> list[tuple[str, ...]]:
    return [(each.giver, each.taker, each.outcome, each.through, *each.assumes) for each in found]


def test_connections_tell_how_two_ports_fit() -> None:
    assert shown(connections(entries(FrontEnd, EncodeMels, LossHead, BlurFrames, AddUp))) == [
        ("FrontEnd.mel", "EncodeMels.mel", "adapter", "Rescale(ln -> log10)"),
        ("EncodeMels.encoded", "LossHead.encoded", "settings", "build EncodeMels with width=64"),
        ("EncodeMels.encoded", "BlurFrames.x", "bound", ""),
        ("LossHead.loss", "AddUp.losses", "same", ""),
        ("BlurFrames.x", "LossHead.encoded", "assumed", "", "F = 64"),
        ("BlurFrames.x", "BlurFrames.x", "bound", ""),
    ]


def test_the_module_that_takes_is_built_otherwise_where_the_giver_cannot_be() -> None:
    @dataclass(frozen=True)
    class Rigid(NeuralModule):
        def signature(self) -> Signature:
            return Signature(gives={"encoded": Acoustic()[B, F(48), T]})

    assert shown(connections(entries(Rigid, LossHead))) == [
        ("Rigid.encoded", "LossHead.encoded", "settings", "build LossHead with width=48")
    ]


def test_settings_that_lead_nowhere_connect_nothing() -> None:
    @dataclass(frozen=True)
    class Renamed(NeuralModule):
        width: int = 48

        def signature(self) -> Signature:
            return Signature(gives={f"x{self.width}": Acoustic()[B, F(self.width), T]})

    @dataclass(frozen=True)
    class Taker(NeuralModule):
        width: int = 64

        def signature(self) -> Signature:
            return Signature(
                takes={f"x{self.width}": Acoustic()[B, F(self.width), T]}, gives={"n": Lengths(T)[B]}
            )

    assert connections(entries(Renamed, Taker)) == []


def test_a_size_that_is_passed_on_may_still_not_fit() -> None:
    @dataclass(frozen=True)
    class SquareOut(NeuralModule):
        def signature(self) -> Signature:
            return Signature(takes={"x": Mel()[B, F("D"), T]}, gives={"y": Mel()[B, F("D"), T("D")]})

    @dataclass(frozen=True)
    class Oblong(NeuralModule):
        def signature(self) -> Signature:
            return Signature(takes={"z": Mel()[B, F(8), T(4)]})

    assert shown(connections(entries(SquareOut, Oblong))) == [("SquareOut.y", "SquareOut.x", "bound", "")]


def test_modules_without_ports_connect_to_nothing() -> None:
    assert connections(entries(NeverStated, AddUp)) == []
    entry = Entry(NeverStated)
    assert entry.unknown == "its ports depend on its fields (ZeroDivisionError: nothing)"
    assert (entry.outputs, entry.module) == ({}, None)


def test_the_object_that_stands_for_a_class_has_an_example_of_each_setting() -> None:
    entry = Entry(ManySettings)
    assert list(entry.example) == ["vocab", "element", "size", "name", "rate", "more", "spare"]
    assert entry.example["rate"] == 1.0
    assert entry.example["more"] is None
    assert entry.unknown == ""
    found = describe_module(ManySettings)
    assert found["example"]["element"] == "Element"
    assert found["takes"]["ids"]["element"] == "Ids"
    assert found["summary"] == "Needs settings of many kinds."


def test_a_class_of_a_function_or_of_the_machinery_is_not_listed() -> None:
    kinds = [entry.kind for entry in catalogue()]
    assert "Resample" in kinds
    assert "_ScoresAdapter" not in kinds
    assert "GraphInputs" not in kinds


def test_a_type_finds_the_modules_that_give_it_and_that_take_it() -> None:
    assert ("SpeechData.audio", "", "bound", "") in shown(fits_modules(Audio(rate=16000, peak=1.0)[B, T]))
    found = shown(feeds_modules(Mel(scale="ln", n_mels=64, norm="per_feature")[B, F(64), T]))
    assert ("", "ConvEncoder.mel", "same", "") in found
    assert ("", "SpecAugment.mel", "bound", "") in found
    outcomes = [each.outcome for each in fits_modules(Audio(rate=44100, peak=1.0)[B, T])]
    assert outcomes == sorted(outcomes, key=["bound", "assumed", "adapter", "settings"].index)
    assert "adapter" in outcomes


def test_a_port_of_the_catalogue_is_looked_up_by_name() -> None:
    into, out_of = fits_port("CTCLoss.targets")
    assert ("SpeechData.text", "CTCLoss.targets", "bound", "") in shown(into)
    assert out_of == []
    into, out_of = fits_port("SpecAugment.mel")
    assert ("MelSpectrogram.mel", "SpecAugment.mel", "bound", "") in shown(into)
    assert ("SpecAugment.mel", "SpecCutout.mel", "bound", "") in shown(out_of)


@pytest.mark.parametrize(
    ("name", "what", "fix"),
    [
        ("CTCLos.targets", "no module kind is called 'CTCLos'", "did you mean 'CTCLoss'?"),
        ("CTCLoss.target", "CTCLoss has no port 'target'", "did you mean 'targets'?"),
        ("CTCLoss", "CTCLoss has no port ''", ""),
    ],
)
def test_an_unknown_port_is_refused(name: str, what: str, fix: str) -> None:
    with pytest.raises(GraphError) as caught:
        fits_port(name)
    assert caught.value.what == what
    assert [each.text for each in caught.value.fixes] == ([fix] if fix else [])


def test_the_whole_catalogue_is_compared_quickly_and_always_the_same() -> None:
    start = time.process_time()
    ours = [entry for entry in catalogue() if entry.cls.__module__.startswith("neumo.")]
    first = [each.to_json() for each in connections(ours)]
    assert time.process_time() - start < 1.5
    assert first == [each.to_json() for each in connections(ours)]
    assert set(first[0]) == {"from", "to", "outcome", "through", "assumes"}


def test_every_connection_of_the_catalogue_is_what_comparing_says() -> None:
    types: dict[str, NeuralType] = {}
    for entry in catalogue():
        types |= {f"{entry.kind}.{port}": found for port, found in entry.outputs.items()}
    for each in connections():
        assert each.giver in types
        assert (each.through != "") == (each.outcome in ("adapter", "settings"))
        assert (each.assumes != ()) == (each.outcome == "assumed") or each.outcome == "settings"


def test_the_vocabularies_of_all_types_are_listed_once() -> None:
    @dataclass(frozen=True)
    class BestOf(NeuralModule):
        """Gives structs."""

        def signature(self) -> Signature:
            found = Struct(ids=Ids(LETTERS)[B, U], score=Score()[B])
            return Signature(takes={"scores": Logits(WORDS)[B, T, V(WORDS)]}, gives={"best": found[()]})

    found = vocabs_of(entries(BestOf, LossHead))
    assert found == {str(LETTERS): LETTERS.to_data(), str(WORDS): WORDS.to_data()}
