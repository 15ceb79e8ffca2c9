"""Fields of a recipe are checked against the annotations of their dataclass, all of them at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NewType, Optional

import pytest

from neumo.graph.yaml.fields import field_hints, read_object
from neumo.graph.yaml.read import read_yaml
from neumo.graph.yaml.scope import Scope, Spoilt
from neumo.graph.yaml.values import describe_hint
from neumo.types import Audio, ConfigError, Element, Mel, NeuralType, Vocab

if TYPE_CHECKING:
    from decimal import Decimal

Hertz = NewType("Hertz", int)


@dataclass(frozen=True)
class Block:
    width: int
    kernel: int = 3
    activation: Literal["relu", "gelu"] = "relu"


@dataclass(frozen=True)
class Everything:
    flag: bool = False
    count: int = 0
    ratio: float = 0.0
    word: str = ""
    path: Path = Path()
    paths: str | Path | tuple[str | Path, ...] = ""
    maybe: int | None = None
    older: Optional[float] = None  # noqa: UP045
    rate: Hertz = Hertz(16000)
    note: Annotated[int, "samples"] = 0
    last: Final[int] = 0
    choice: Literal["a", "b", 3] = "a"
    policy: Literal["mix", "first"] | int = "mix"
    numbers: list[float] = field(default_factory=list)
    pair: tuple[int, str] = (0, "")
    many: tuple[int, ...] = ()
    names: Sequence[str] = ()
    some: frozenset[str] = frozenset()
    table: dict[str, int] = field(default_factory=dict)
    free: Mapping[str, Any] = field(default_factory=dict)
    bare: list = field(default_factory=list)  # type: ignore[type-arg]
    block: Block = Block(1)
    blocks: tuple[Block, ...] = ()
    either: Block | None = None
    vocab: Vocab | None = None
    mel: Mel = Mel()  # noqa: RUF009 - an element is frozen
    element: Element = Audio()  # noqa: RUF009
    type_: NeuralType | None = None
    hidden: Decimal | None = None
    thing: Any = None
    object_: object = None
    inner: int = field(default=0, init=False)


def read(text: str, **vocabs: Vocab) -> tuple[Any, Scope]:
    scope = Scope(Path("runs"), dict(vocabs))
    return read_object(Everything, read_yaml(f"{{{text}}}", "r.yaml"), scope), scope


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("flag: true", "flag", True),
        ("count: 3", "count", 3),
        ("count: 1e6", "count", 1_000_000),
        ("ratio: 1", "ratio", 1.0),
        ("ratio: 1e-3", "ratio", 0.001),
        ("word: 'yes'", "word", "yes"),
        ("word: yes", "word", "yes"),
        ("path: a/b.txt", "path", Path("runs/a/b.txt")),
        ("path: /a/b.txt", "path", Path("/a/b.txt")),
        ("paths: a.txt", "paths", "runs/a.txt"),
        ("paths: [a.txt, /b.txt]", "paths", ("runs/a.txt", "/b.txt")),
        ("maybe: null", "maybe", None),
        ("maybe: 4", "maybe", 4),
        ("older: 4", "older", 4.0),
        ("rate: 8000", "rate", 8000),
        ("note: 5", "note", 5),
        ("last: 6", "last", 6),
        ("choice: b", "choice", "b"),
        ("choice: 3", "choice", 3),
        ("policy: first", "policy", "first"),
        ("policy: 1", "policy", 1),
        ("numbers: [1, .5]", "numbers", [1.0, 0.5]),
        ("pair: [1, a]", "pair", (1, "a")),
        ("many: [1, 2]", "many", (1, 2)),
        ("many: []", "many", ()),
        ("names: [a]", "names", ("a",)),
        ("some: [a, a]", "some", frozenset({"a"})),
        ("table: {a: 1}", "table", {"a": 1}),
        ("free: {a: [1, {b: null}]}", "free", {"a": [1, {"b": None}]}),
        ("bare: [1, a]", "bare", [1, "a"]),
        ("block: {width: 5}", "block", Block(5)),
        ("blocks: [{width: 5}, {width: 6, kernel: 1}]", "blocks", (Block(5), Block(6, 1))),
        ("either: {width: 5}", "either", Block(5)),
        ("either: null", "either", None),
        ("vocab: letters", "vocab", Vocab("ab")),
        ("vocab: {labels: cd}", "vocab", Vocab("cd")),
        ("vocab: [c, d]", "vocab", Vocab("cd")),
        ("mel: 'Mel(n_mels=80)'", "mel", Mel(n_mels=80)),
        ("element: 'Audio(rate=8000)'", "element", Audio(rate=8000)),
        ("hidden: [whatever]", "hidden", ["whatever"]),
        ("thing: {a: 1}", "thing", {"a": 1}),
        ("object_: 3", "object_", 3),
    ],
)
def test_a_value_that_fits_is_read(text: str, name: str, value: object) -> None:
    made, scope = read(text, letters=Vocab("ab"))
    assert getattr(made, name) == value
    assert type(getattr(made, name)) is type(value)
    assert scope.problems == []


def test_a_type_is_read_in_its_notation() -> None:
    made, _ = read("type_: 'Ids(letters)[B, U]'", letters=Vocab("ab"))
    assert str(made.type_).startswith("Ids(vocab[2]#")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flag: 1", "Everything.flag must be true or false, not 1"),
        ("flag: yes", "Everything.flag must be true or false, not the text 'yes'"),
        ("count: true", "Everything.count must be an integer, not True"),
        ("count: 1.5", "Everything.count must be an integer, not 1.5"),
        ("count: many", "Everything.count must be an integer, not the text 'many'"),
        ("ratio: true", "Everything.ratio must be a number, not True"),
        ("word: 5", "Everything.word must be a text, not 5"),
        ("word: [a]", "Everything.word must be a text, not a list"),
        ("path: 5", "Everything.path must be a path, not 5"),
        ("path: ''", "Everything.path must be a path, not the text ''"),
        ("paths: 5", "Everything.paths must be a text or a path or a list, not 5"),
        ("paths: [5]", "a value in Everything.paths must be a text or a path, not 5"),
        ("maybe: x", "Everything.maybe must be an integer or null, not the text 'x'"),
        ("choice: c", "Everything.choice must be 'a' or 'b' or 3, not the text 'c'"),
        ("policy: 1.5", "Everything.policy must be 'mix' or 'first' or an integer, not 1.5"),
        ("choice: true", "Everything.choice must be 'a' or 'b' or 3, not True"),
        ("numbers: 5", "Everything.numbers must be a list of numbers, not 5"),
        ("numbers: [a]", "a value in Everything.numbers must be a number, not the text 'a'"),
        ("pair: [1]", "Everything.pair must be a list of 2, not a list"),
        ("table: [1]", "Everything.table must be a mapping, not a list"),
        ("table: {a: x}", "a value in Everything.table must be an integer, not the text 'x'"),
        ("block: 5", "Everything.block must be the settings of Block, not 5"),
        ("blocks: [5]", "a value in Everything.blocks must be the settings of Block, not 5"),
        ("block: {width: x}", "Everything.block.width must be an integer, not the text 'x'"),
        ("block: {}", "Everything.block needs width"),
        ("block: {width: 1, kernal: 5}", "Everything.block has no field 'kernal'"),
        ("either: 5", "Everything.either must be the settings of Block or null, not 5"),
        ("either: {width: x}", "Everything.either.width must be an integer, not the text 'x'"),
        ("vocab: leters", "Everything.vocab must be a vocabulary or null, not the text 'leters'"),
        ("mel: 5", "Everything.mel must be an element such as 'Mel(rate=16000, n_mels=64)', not 5"),
        ("mel: Audio", "Everything.mel must be an element such as 'Mel(rate=16000, n_mels=64)', not the"),
        ("mel: 'Mel(n_mel=80)'", "cannot read 'Mel(n_mel=80)': Mel has no facet 'n_mel'"),
        ("type_: 'Audio[B, T'", "cannot read 'Audio[B, T': expected"),
        ("type_: 5", "Everything.type_ must be a type such as 'Audio(rate=16000)[B, T]' or null, not 5"),
        ("counts: 5", "Everything has no field 'counts'"),
        ("inner: 5", "Everything has no field 'inner'"),
    ],
)
def test_a_value_of_another_type_is_refused(text: str, message: str) -> None:
    scope = Scope(None, {"letters": Vocab("ab")})
    with pytest.raises(Spoilt):
        read_object(Everything, read_yaml(f"{{{text}}}", "r.yaml"), scope)
    (error,) = scope.problems
    assert error.what.startswith(message)
    assert str(error.where).startswith("r.yaml:1:")


def test_all_wrong_fields_are_reported_at_their_places() -> None:
    scope = Scope()
    with pytest.raises(Spoilt):
        read_object(Everything, read_yaml("flag: 3\ncounts: 4\nword: 5\n", "r.yaml"), scope)
    assert [str(error.where) for error in scope.problems] == ["r.yaml:1:7", "r.yaml:2:1", "r.yaml:3:7"]
    assert [error.code for error in scope.problems] == ["recipe-value", "recipe-key", "recipe-value"]


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("counts: 5", "did you mean 'count'?"),
        ("flag: yes", "write true"),
        ("flag: off", "write false"),
        ("word: 5", 'write it in quotes: "5"'),
        ("block: {width: 1, activation: rleu}", "did you mean 'relu'?"),
    ],
)
def test_a_way_out_is_offered(text: str, fix: str) -> None:
    scope = Scope()
    with pytest.raises(Spoilt):
        read_object(Everything, read_yaml(f"{{{text}}}", "r.yaml"), scope)
    assert scope.problems[0].fixes[0].text == fix


def test_what_a_class_refuses_itself_gets_its_place() -> None:
    @dataclass(frozen=True)
    class Picky:
        size: int = 1

        def __post_init__(self) -> None:
            if self.size == 0:
                raise ConfigError("size is 0", code="field")
            if self.size < 0:
                raise ValueError("below zero")

    for text, what, column in [
        ("{size: 0}", "size is 0", 8),
        ("{size: -1}", "p refuses its settings: below zero", 1),
    ]:
        scope = Scope()
        with pytest.raises(Spoilt):
            read_object(Picky, read_yaml(text, "r.yaml"), scope, "p")
        assert [problem.what for problem in scope.problems] == [what]
        assert str(scope.problems[0].where) == f"r.yaml:1:{column}"


def test_all_fields_that_a_class_refuses_are_told_each_at_its_value() -> None:
    @dataclass(frozen=True)
    class Picky:
        size: int
        rate: float = 1.0
        name: str = "a"

        def __post_init__(self) -> None:
            if self.rate < 0:
                raise ConfigError(f"Picky: rate={self.rate} is below 0", code="field")
            if self.name == "":
                raise ValueError("name is empty")
            if self.size < 0:
                raise ConfigError(f"Picky: size={self.size} is below 0", code="field")

    def problems(text: str) -> list[tuple[str, str]]:
        scope = Scope()
        with pytest.raises(Spoilt):
            read_object(Picky, read_yaml(text, "r.yaml"), scope, "p")
        return [(problem.what, str(problem.where)) for problem in scope.problems]

    assert problems("{size: -1, rate: -2, name: ''}") == [
        ("Picky: rate=-2.0 is below 0", "r.yaml:1:18"),
        ("p refuses its settings: name is empty", "r.yaml:1:28"),
        ("Picky: size=-1 is below 0", "r.yaml:1:8"),
    ]
    assert problems("{size: 1, rate: -2}") == [("Picky: rate=-2.0 is below 0", "r.yaml:1:17")]


def test_a_class_without_fields_has_none() -> None:
    assert field_hints(int) == {}
    scope = Scope()
    with pytest.raises(Spoilt):
        read_object(object, read_yaml("{a: 1}", "r.yaml"), scope)
    assert scope.problems[0].what == "object has no field 'a'"


def test_settings_must_be_a_mapping() -> None:
    scope = Scope()
    with pytest.raises(Spoilt):
        read_object(Block, read_yaml("[1]", "r.yaml"), scope)
    assert scope.problems[0].what == "Block needs a mapping of its settings, not a list"


def test_an_annotation_that_no_recipe_can_hold_is_refused() -> None:
    @dataclass(frozen=True)
    class Odd:
        number: complex = 0j

    scope = Scope()
    with pytest.raises(Spoilt):
        read_object(Odd, read_yaml("{number: 1}", "r.yaml"), scope)
    assert "a complex, which a recipe cannot hold" in scope.problems[0].what


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (list[int], "a list of integers"),
        (tuple[Block, ...], "a list"),
        (dict, "a mapping"),
        (Any, "a value"),
        (object, "a value"),
        (Mel, "an element such as 'Mel(rate=16000, n_mels=64)'"),
        (complex, "a complex"),
    ],
)
def test_annotations_are_described_in_words(hint: object, words: str) -> None:
    assert describe_hint(hint) == words


@dataclass(frozen=True)
class TrackSettings:
    kind: str = ""


@dataclass(frozen=True)
class Tracked:
    track: tuple[TrackSettings | Literal["tensorboard", "wandb"], ...] = ()


def test_a_word_that_is_misspelt_beside_settings_is_refused_with_the_nearest() -> None:
    scope = Scope(None, {})
    with pytest.raises(Spoilt):
        read_object(Tracked, read_yaml("{track: [tensorbord]}", "r.yaml"), scope)
    (problem,) = scope.problems
    assert problem.what == (
        "a value in Tracked.track must be a mapping of settings or 'tensorboard' or 'wandb', "
        "not the text 'tensorbord'"
    )
    assert [fix.text for fix in problem.fixes] == ["did you mean 'tensorboard'?"]
