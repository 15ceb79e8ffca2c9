"""Single modules as files: settings written and read, with overrides, for a class and its subclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from neumo.graph.adapters import Resample
from neumo.graph.module import NeuralModule, module_fields, name_of
from neumo.graph.signature import Signature
from neumo.graph.yaml import load_module, module_text, save_module
from neumo.types import Acoustic, B, ConfigError, F, GraphError, Mel, NeumoError, NeuralType, T, Vocab

from .specs import EN, ConvEncoder, CTCHead


@dataclass(frozen=True)
class Block:
    width: int
    kernels: tuple[int, ...] = (3,)
    note: str | None = None


@dataclass(frozen=True)
class SettingsNet(NeuralModule):
    trainable: ClassVar[bool] = True

    width: int = 8
    rate: float = 0.5
    word: str = "plain"
    flag: bool = False
    nothing: int | None = 3
    sizes: list[int] = field(default_factory=lambda: [1, 2])
    table: dict[str, Any] = field(default_factory=dict[str, Any])
    blocks: tuple[Block, ...] = ()
    vocab: Vocab | None = None
    mel: Mel | None = None
    type: NeuralType | None = None
    file: Path | None = None
    anything: Any = None

    def signature(self) -> Signature:
        return Signature(gives={"x": Acoustic()[B, F(self.width), T]})


@dataclass(frozen=True)
class WideSettings(SettingsNet):
    width: int = 64


def kind(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def text(fields: str = "", cls: type = SettingsNet) -> str:
    return f"neumo: 1\nmodule: {{kind: {kind(cls)}{', ' if fields else ''}{fields}}}\n"


def wrong(source: str | Path, *overrides: str, **more: Any) -> NeumoError:
    with pytest.raises(NeumoError) as caught:
        load_module(source, overrides, **more)
    return caught.value


FULL = SettingsNet(
    width=16,
    rate=1e-3,
    word="no",
    flag=True,
    nothing=None,
    sizes=[4, 5],
    table={"deep": {"deeper": [1, {"a": None}]}, "list": [[1], []]},
    blocks=(Block(1), Block(2, (5, 7), "two")),
    vocab=EN,
    mel=Mel(n_mels=80, scale="ln"),
    type=Acoustic()[B, F(3), T],
    file=Path("some/list.txt"),
    anything=[1, "a", None, {"b": 2.5}],
).named("net")


def test_plain_settings_and_nested_lists_and_mappings_are_written_and_read() -> None:
    again = load_module(module_text(FULL))
    assert again == FULL
    assert again is not FULL
    assert name_of(again) == "net"
    assert module_fields(again)["table"]["deep"]["deeper"] == [1, {"a": None}]


def test_a_file_names_kind_format_and_settings_and_defaults_on_request(tmp_path: Path) -> None:
    assert module_text(SettingsNet()) == "neumo: 1\n\nmodule:\n  kind: SettingsNet\n"
    whole = module_text(SettingsNet(), defaults=True)
    for line in ("width: 8", "rate: 0.5", "nothing: 3", "sizes: [1, 2]", "vocab: null", "table: {}"):
        assert f"  {line}\n" in whole
    assert load_module(whole) == SettingsNet()
    save_module(FULL, tmp_path / "net.yaml", defaults=True)
    assert load_module(tmp_path / "net.yaml").width == 16


def test_nothing_is_nothing_again() -> None:
    assert load_module(module_text(SettingsNet(nothing=None))).nothing is None
    assert load_module(text("nothing: null")).nothing is None


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (object(), "SettingsNet.anything is a object, which a recipe cannot hold"),
        ([1, {"a": print}], r"SettingsNet.anything\[1\].a is a builtin_function_or_method"),
        ({"deep": [3j]}, r"SettingsNet.anything.deep\[0\] is a complex"),
    ],
)
def test_what_a_file_cannot_hold_is_refused_by_its_name(value: Any, what: str) -> None:
    with pytest.raises(ConfigError, match=what) as caught:
        module_text(SettingsNet(anything=value))
    assert caught.value.code == "recipe-value"


def test_a_base_class_loads_its_subclasses() -> None:
    assert type(load_module(text(cls=WideSettings), kind=NeuralModule)) is WideSettings
    assert type(load_module(text(cls=WideSettings), kind=SettingsNet)) is WideSettings
    assert load_module(text(cls=WideSettings), kind=WideSettings).width == 64


def test_another_class_is_refused() -> None:
    for base, source in (
        (WideSettings, text()),
        (ConvEncoder, text()),
        (SettingsNet, module_text(Resample(1, 2))),
    ):
        error = wrong(source, kind=base)
        assert error.code == "kind"
        assert f"and not a {base.__name__}" in error.what
        assert error.where is not None


def test_a_subclass_sets_the_default_of_its_base() -> None:
    assert (load_module(text()).width, load_module(text(cls=WideSettings)).width) == (8, 64)
    assert (load_module(text("width: 2", WideSettings))).width == 2
    assert "width" not in module_text(WideSettings())
    assert "width: 8" in module_text(WideSettings(width=8))


def test_overrides_change_fields_and_what_is_in_them(tmp_path: Path) -> None:
    path = tmp_path / "net.yaml"
    save_module(FULL, path)
    changed = load_module(
        path, ["width=3", "blocks.1.width=9", "table.deep={a: 1}", "vocab=null", "word=yes"]
    )
    assert (changed.width, changed.blocks[1].width, changed.table["deep"]) == (3, 9, {"a": 1})
    assert (changed.vocab, changed.word) == (None, "yes")


@pytest.mark.parametrize(
    ("override", "code", "what"),
    [
        ("widht=3", "recipe-key", "has no field 'widht'"),
        ("width=x", "recipe-value", "width must be an integer"),
        ("deep.a=3", "override", "module has no 'deep'"),
        ("width", "override", "overrides nothing"),
    ],
)
def test_a_wrong_override_is_refused_at_its_word(override: str, code: str, what: str) -> None:
    error = wrong(text(), override)
    assert error.code == code
    assert what in error.what


def test_a_path_starts_at_the_folder_of_the_file(tmp_path: Path) -> None:
    save_module(SettingsNet(file=tmp_path / "data" / "list.txt"), tmp_path / "net.yaml")
    assert "file: data/list.txt" in (tmp_path / "net.yaml").read_text()
    assert load_module(tmp_path / "net.yaml").file == tmp_path / "data" / "list.txt"


def test_a_vocabulary_is_written_once_and_found_by_its_name() -> None:
    written = module_text(CTCHead(EN))
    assert "vocabs:\n  en: {" in written
    assert "vocab: en" in written
    assert load_module(written) == CTCHead(EN)


def test_a_module_named_in_the_file_has_that_name() -> None:
    assert name_of(load_module(text() + "name: net\n")) == "net"
    assert name_of(load_module(text())) is None
    error = wrong(text() + "name: a-b\n")
    assert error.code == "name"
    assert str(error.where) == "<text>:3:7"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("- a\n", "a module file is a mapping, not a list"),
        ("neumo: 1\n", "the file has no module"),
        ("neumo: 2\nmodule: {kind: Resample}\n", "this neumo reads recipes of format 1, not 2"),
        ("module: {kind: Resample, source: 1, target: 2}\n", "the file does not say its format"),
        ("neumo: 1\nmodul: {kind: Resample}\n", "a module file has no section 'modul'"),
        ("neumo: 1\ngraphs: {}\n", "this is a recipe, and not the file of a single module"),
        ("neumo: 1\nmodule: 3\n", "the module module needs a kind"),
        ("neumo: 1\nmodule: {kind: Nothing}\n", "no module kind is called 'Nothing'"),
        ("neumo: 1\nmodule: {kind: Resample}\n", "module (Resample) needs source and target"),
    ],
)
def test_what_is_no_module_file_is_refused(source: str, what: str) -> None:
    error = wrong(source)
    first = error.also[0] if error.code == "recipe" else error
    assert first.what.startswith(what)


def test_all_mistakes_of_a_file_are_told() -> None:
    error = wrong(text("width: x, sizes: 3, wrod: a"))
    assert [each.code for each in error.also] == ["recipe-value", "recipe-value", "recipe-key"]


def test_a_file_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write"):
        save_module(SettingsNet(), tmp_path / "no" / "net.yaml")


def test_what_is_read_can_be_used() -> None:
    assert str(load_module(text("width: 5"))().x.type) == "Acoustic[B, F=5, T]"
    with pytest.raises(GraphError):
        load_module(text()).named("a b")


def test_what_a_class_says_of_itself_is_no_setting() -> None:
    written = module_text(SettingsNet(), defaults=True)
    assert "trainable" not in written
    assert "role" not in written
    again = load_module(written)
    assert (again.trainable, again.role) == (True, "module")


def test_settings_are_told_as_they_were_given_and_with_their_defaults() -> None:
    assert module_fields(Resample(1, 2)) == {"source": 1, "target": 2}
    assert module_fields(SettingsNet())["sizes"] == [1, 2]
    assert module_fields(WideSettings())["width"] == 64
    given = {**module_fields(SettingsNet()), "width": 1, "word": "a"}
    assert module_fields(WideSettings(width=1, word="a")) == given
