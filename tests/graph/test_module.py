"""Modules: settings, names, signatures, and finding a class by name."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from neumo.graph import registry
from neumo.graph.inputs import inputs
from neumo.graph.module import (
    DataLayer,
    Metric,
    NeuralModule,
    label_of,
    module_fields,
    name_of,
    signature_of,
)
from neumo.graph.registry import kind_of, lookup
from neumo.graph.same import same_settings
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, F, GraphError, Loss, T

from .specs import EN, ConvEncoder, Down, SpeechData


def test_a_module_prints_what_is_not_at_its_default() -> None:
    assert repr(ConvEncoder()) == "ConvEncoder()"
    assert repr(ConvEncoder(n_mels=80, stride=4)) == "ConvEncoder(n_mels=80, stride=4)"
    assert repr(SpeechData(EN)).startswith("SpeechData(vocab=Vocab(en[28]#")


def test_settings_are_listed_in_their_order() -> None:
    assert module_fields(ConvEncoder(width=8)) == {"n_mels": 64, "width": 8, "stride": 2}


def test_equal_settings_are_two_modules() -> None:
    one, two = ConvEncoder(), ConvEncoder()
    assert one is not two
    assert same_settings(one, two)
    assert not same_settings(one, ConvEncoder(width=9))
    assert not same_settings(one, Down())


def test_lists_and_tuples_and_paths_and_texts_are_equal_settings() -> None:
    @dataclass(frozen=True)
    class Files(NeuralModule):
        paths: object = ()
        options: dict = field(default_factory=dict)

        def signature(self) -> Signature:
            return Signature()

    assert same_settings(Files([Path("a"), 1], {"b": (1, 2)}), Files(("a", 1), {"b": [1, 2]}))
    assert not same_settings(Files(["a"]), Files(["b"]))


def test_a_name_is_given_once() -> None:
    encoder = ConvEncoder().named("encoder")
    assert (name_of(encoder), label_of(encoder)) == ("encoder", "encoder")
    assert encoder.named("encoder") is encoder
    with pytest.raises(GraphError, match="is named 'encoder'; 'other' would rename its weights"):
        encoder.named("other")
    with pytest.raises(GraphError, match="cannot name a module"):
        ConvEncoder().named("my encoder")
    assert name_of(ConvEncoder()) is None
    assert name_of(dataclasses.replace(encoder, width=3)) is None


def test_a_signature_is_asked_for_once() -> None:
    calls = []

    @dataclass(frozen=True)
    class Counting(NeuralModule):
        def signature(self) -> Signature:
            calls.append(1)
            return Signature(gives={"loss": Loss()[()]})

    module = Counting()
    for _ in range(3):
        module()
    assert len(calls) == 1


def test_a_module_that_can_change_does_so_until_it_is_part_of_a_graph() -> None:
    @dataclass
    class Mutable(NeuralModule):
        width: int = 4

        def signature(self) -> Signature:
            return Signature(gives={"x": Acoustic()[B, F(self.width), T]})

    module = Mutable()
    assert str(signature_of(module).gives["x"]) == "Acoustic[B, F=4, T]"
    module.width = 5
    assert str(module().x.type) == "Acoustic[B, F=5, T]"
    with pytest.raises(GraphError, match=r"Mutable\.width cannot become 6") as caught:
        module.width = 6
    assert caught.value.code == "immutable"
    assert caught.value.fixes[0].text == "make another one: Mutable(width=6, ...)"
    module.__dict__["memory"] = {}
    copied = copy.copy(module)
    copied.width = 6
    assert str(copied().x.type) == "Acoustic[B, F=6, T]"


def test_a_module_with_slots_and_fields_called_name_and_label_composes() -> None:
    @dataclass(frozen=True, slots=True)
    class Slotted(NeuralModule):
        name: str
        label: str = "here"

        def signature(self) -> Signature:
            return Signature(gives={"x": Acoustic()[B, F(2), T]})

    module = Slotted("field").named("mine")
    assert str(module().x) == "mine.x: Acoustic[B, F=2, T]"
    assert module_fields(module) == {"name": "field", "label": "here"}


def test_a_class_that_is_no_dataclass_says_so_when_it_gets_settings() -> None:
    class Plain(NeuralModule):
        def signature(self) -> Signature:
            return Signature(gives={"x": Loss()[()]})

    assert repr(Plain()) == "Plain()"
    assert Plain()().x.port == "x"
    with pytest.raises(GraphError, match=r"decorate class Plain with @dataclass\(frozen=True\)"):
        Plain(width=3)


def test_a_module_without_a_signature_says_so() -> None:
    @dataclass(frozen=True)
    class Silent(NeuralModule):
        pass

    with pytest.raises(GraphError, match="does not state its ports"):
        Silent()()

    @dataclass(frozen=True)
    class Wrong(NeuralModule):
        def signature(self) -> Signature:
            return {"x": 1}  # type: ignore[return-value]

    with pytest.raises(GraphError, match=r"signature\(\) of Wrong returned dict"):
        Wrong()()

    @dataclass(frozen=True)
    class Forgetful(NeuralModule):
        def signature(self) -> Signature:
            return Signature()

        def signature_for(self, given: object) -> Signature:
            return None  # type: ignore[return-value]

    with pytest.raises(GraphError, match=r"signature_for\(\) of Forgetful returned NoneType"):
        Forgetful()()


def test_data_layers_and_metrics_say_what_they_lack() -> None:
    @dataclass(frozen=True)
    class Bare(DataLayer):
        pass

    @dataclass(frozen=True)
    class Count(Metric):
        pass

    with pytest.raises(GraphError, match="how its data is read"):
        Bare().open(1)
    with pytest.raises(GraphError, match="how it counts"):
        Count().start()
    assert (Bare.role, Count.role) == ("data", "metric")


@pytest.mark.parametrize("name", ["a b", "class", "_x", "", "1x"])
def test_ports_need_names_that_can_be_written(name: str) -> None:
    with pytest.raises(GraphError) as caught:
        Signature(takes={name: Loss()[()]})
    assert caught.value.code == "signature"


def test_ports_need_types() -> None:
    with pytest.raises(GraphError, match="not a neural type"):
        Signature(gives={"x": Loss()})  # type: ignore[dict-item]
    assert str(Signature({"x": Loss()[()]}, {"y": Loss()[B]})) == "(x: Loss[]) -> (y: Loss[B])"


def test_a_port_may_be_called_self() -> None:
    @dataclass(frozen=True)
    class Odd(NeuralModule):
        def signature(self) -> Signature:
            return Signature(takes={"self": Loss()[()], "values": Loss()[()]}, gives={"x": Loss()[()]})

    @dataclass(frozen=True)
    class Source(NeuralModule):
        def signature(self) -> Signature:
            return Signature(gives={"x": Loss()[()]})

    one = Source()()
    assert Odd()(self=one.x, values=one.x).x.port == "x"


def test_classes_are_found_by_name() -> None:
    assert lookup("Resample").__module__.startswith("neumo.graph")
    assert lookup("Down") is Down
    with pytest.raises(GraphError, match=r"did you mean Resample\?"):
        lookup("Resampel")
    with pytest.raises(GraphError, match=r"import os\.path before the file is loaded"):
        lookup("os.path.Join")


def test_a_file_cannot_make_the_registry_import(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = []
    monkeypatch.setattr(registry.importlib, "import_module", imported.append)
    with pytest.raises(GraphError):
        lookup("some_package.evil.Thing")
    assert set(imported) <= set(registry.COLLECTIONS)


def test_ours_win_over_a_users_class_of_the_same_name() -> None:
    ours = lookup("Resample")

    class Resample(NeuralModule):
        pass

    assert lookup("Resample") is ours
    assert kind_of(ours) == "Resample"
    path = kind_of(Resample)
    assert path.endswith("Resample")
    assert "." in path
    assert lookup(path) is Resample


def test_a_class_that_is_defined_again_replaces_the_first() -> None:
    def define() -> type[NeuralModule]:
        class AgainAndAgain(NeuralModule):
            pass

        return AgainAndAgain

    define()
    latest = define()
    assert lookup("AgainAndAgain") is latest


def test_two_classes_of_one_name_from_two_files_are_told_apart() -> None:
    for home in ("first_home", "second_home"):
        type("Namesake", (NeuralModule,), {"__module__": home})
    with pytest.raises(GraphError, match="2 classes are called Namesake") as caught:
        lookup("Namesake")
    assert [fix.text for fix in caught.value.fixes] == [
        "write first_home.Namesake",
        "write second_home.Namesake",
    ]
    assert lookup("second_home.Namesake").__module__ == "second_home"


def test_defaults_made_by_a_function_are_not_printed() -> None:
    @dataclass(frozen=True)
    class Options(NeuralModule):
        table: dict = field(default_factory=dict)

    assert repr(Options()) == "Options()"
    assert repr(Options({"a": 1})) == "Options(table={'a': 1})"


@pytest.mark.parametrize("name", ["class", "lambda", "None", None, 5])
def test_a_word_of_python_names_no_module(name: Any) -> None:
    with pytest.raises(GraphError, match="cannot name a module"):
        Down().named(name)


@pytest.mark.parametrize("ports", [None, ["x"], Acoustic()[B, F, T]])
def test_a_side_of_a_signature_is_a_dict(ports: Any) -> None:
    with pytest.raises(GraphError, match="not a dict of ports") as caught:
        Signature(takes=ports)
    assert caught.value.code == "signature"


def test_a_signature_that_fails_says_whose_it_is() -> None:
    @dataclass(frozen=True)
    class Halves(NeuralModule):
        by: int = 0

        def signature(self) -> Signature:
            return Signature(takes={"x": Acoustic()[B, F(64 // self.by), T]})

    with pytest.raises(GraphError, match=r"signature\(\) of halves failed: ZeroDivisionError") as caught:
        Halves().named("halves")(x=inputs(x=Acoustic()[B, F(64), T]).x)
    assert caught.value.code == "module"
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("name", ["kind", "preset"])
def test_a_field_that_recipes_could_not_set_is_refused(name):
    with pytest.raises(GraphError, match=f"has a field '{name}', which recipes could not set"):
        type("Mistaken", (NeuralModule,), {"__annotations__": {name: "str"}, name: "a"})
    type("Fine", (NeuralModule,), {"__annotations__": {name: "ClassVar[str]"}, name: "a"})
