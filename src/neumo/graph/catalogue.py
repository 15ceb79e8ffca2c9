"""The catalogue: every module class that a recipe can use, as plain values for other programs."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

from neumo.graph.module import DataLayer, NeuralModule, signature_of
from neumo.graph.registry import known_kinds, lookup
from neumo.graph.signature import Signature
from neumo.graph.yaml.fields import field_hints
from neumo.graph.yaml.values import describe_hint
from neumo.types import (
    Audio,
    B,
    Element,
    Environment,
    Lengths,
    NeumoError,
    NeuralType,
    Struct,
    Symbol,
    T,
    Vocab,
)


@dataclass(frozen=True)
class _Sounds(DataLayer):
    """Stands for a data layer where a module needs one."""

    rate: int = 16000

    def signature(self) -> Signature:
        """Give audio and its lengths."""
        return Signature(gives={"audio": Audio(rate=self.rate)[B, T], "audio_len": Lengths(T)[B]})


_SAMPLES: Final[dict[Any, Any]] = {int: 256, float: 1.0, str: "x", bool: False, Path: Path("data.jsonl")}
_LETTERS: Final = Vocab(" abcdefghijklmnopqrstuvwxyz'", name="vocab")
_PIECES: Final = Vocab(["<pad>", "<s>", "</s>", "cat"], name="pieces", pad=0, bos=1, eos=2, unit="word")
_EXAMPLES: Final[dict[str, dict[str, Any]]] = {  # where a sample of the right type makes no sense
    "Resample": {"source": 22050, "target": 16000},
    "Repeak": {"source": 32768.0, "target": 1.0},
    "Repad": {"source": 0, "target": -100},
    "Reframe": {"source": "none", "target": "bos..eos", "vocab": _PIECES},
    "Shift": {"pad": -100},
    "Pick": {"field": "ids"},
    "ScalePixels": {"source": 255.0, "target": 1.0},
    "Spread": {"source": "log_variance", "target": "std"},
    "Rescale": {"source": "ln", "target": "log10"},
    "Repower": {"source": 1, "target": 2, "scale": "linear"},
    "Subsample": {"by": 2},
    "Offset": {"by": 1},
    "Concat": {"axis": 1},
    "Squeeze": {"at": 1},
    "Unsqueeze": {"at": 1},
    "Transpose": {"source": "B F T", "target": "T B F"},
    "Assume": {"type": Audio(rate=16000)[B, T], "reason": "recorded at 16 kHz"},
    "LossSum": {"weights": {"ctc": 0.3, "attention": 0.7}},
    "MultiData": {"layers": (_Sounds(16000), _Sounds(8000))},
}


@dataclass(frozen=True)
class Entry:
    """One module class of the catalogue, with an object of it that stands for all.

    The object has default fields; fields without a default, and vocabularies, get an example. `unknown` says
    why there is no object or why it does not state its ports, which are empty then.
    """

    cls: type[NeuralModule]

    @property
    def kind(self) -> str:
        """The name of the class."""
        return self.cls.__name__

    @cached_property
    def example(self) -> dict[str, Any]:
        """The fields that are given to the object."""
        return _example_fields(self.cls)

    @cached_property
    def _stated(self) -> tuple[NeuralModule | None, Signature, str]:
        try:
            module = self.cls(**self.example)
            return module, signature_of(module), ""
        except Exception as error:  # whatever the class of a user raises for the sample fields
            what = error.what if isinstance(error, NeumoError) else f"{type(error).__name__}: {error}"
            return None, Signature(), f"its ports depend on its fields ({what})"

    @property
    def module(self) -> NeuralModule | None:
        """The object that stands for the class."""
        return self._stated[0]

    @property
    def unknown(self) -> str:
        """Why the ports are not known; empty where they are."""
        return self._stated[2]

    @property
    def signature(self) -> Signature:
        """The ports of the object."""
        return self._stated[1]

    @cached_property
    def _given(self) -> tuple[dict[str, NeuralType], frozenset[Symbol]]:
        env = Environment()
        types = self.signature.scheme.instantiate(self.kind).results(env)
        return types, frozenset[Symbol]().union(*(bound.value.symbols() for bound in env.bindings))

    @property
    def outputs(self) -> dict[str, NeuralType]:
        """The types of the outputs as a graph sees them: their sizes are unknown, but fixed."""
        return self._given[0]

    @property
    def open(self) -> frozenset[Symbol]:
        """The sizes of the outputs that are decided by what the module is connected to."""
        return self._given[1]


def catalogue() -> list[Entry]:
    """List all module classes that a recipe can use, by collection and name.

    >>> [entry.kind for entry in catalogue() if entry.kind == "Resample"]
    ['Resample']
    """
    return [Entry(cls) for cls in public_kinds()]


def public_kinds() -> list[type[NeuralModule]]:
    """List the module classes that a recipe can use, by collection and name."""
    known_kinds()  # opens our collections
    usable = [cls for cls in dict.fromkeys(_subclasses(NeuralModule)) if _is_public(cls)]
    return sorted(usable, key=lambda cls: (collection_of(cls), cls.__name__))


def _subclasses(cls: type[NeuralModule]) -> Iterator[type[NeuralModule]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _is_public(cls: type[NeuralModule]) -> bool:
    """Whether a class is complete, and the newest of its name where a notebook defined it again."""
    if cls.__name__.startswith("_") or "__dataclass_fields__" not in vars(cls):
        return False
    path = f"{cls.__module__}.{cls.__qualname__}"
    return not _is_machinery(cls) and lookup(path) is cls


def _is_machinery(cls: type[NeuralModule]) -> bool:
    """Whether a class serves the graph itself, such as its open inputs."""
    return cls.__module__ == "neumo.graph.inputs"


def describe_module(cls: type[NeuralModule]) -> dict[str, Any]:
    """Give a module class as plain values: its doc, ports, fields and defaults.

    Ports are those of an object with default fields; fields without a default, and vocabularies, get an
    example, named in `example`. `docs/modules.md` describes every key.

    >>> from neumo.graph.adapters import Resample
    >>> describe_module(Resample)["fields"][0]["name"]
    'source'
    """
    entry = Entry(cls)
    doc = _doc(cls)
    return {
        "kind": cls.__name__,
        "collection": collection_of(cls),
        "role": cls.role,
        "trainable": cls.trainable,
        "summary": doc.split("\n\n")[0].replace("\n", " "),
        "doc": doc,
        "fields": [_field(cls, field) for field in _init_fields(cls)],
        "takes": {port: _port(type_) for port, type_ in entry.signature.takes.items()},
        "gives": {port: _port(type_) for port, type_ in entry.signature.gives.items()},
        "example": {name: _plain(value) for name, value in entry.example.items()},
        "ports_unknown": entry.unknown,
        "presets": presets_of(cls),
    }


def vocabs_of(entries: Iterable[Entry]) -> dict[str, Any]:
    """Give the vocabularies that occur in the ports of modules, by the name that types are printed with.

    >>> from neumo.graph.adapters import RemapIds
    >>> list(vocabs_of([Entry(RemapIds)]))
    ['vocab[28]#c4af7923']
    """
    found: dict[str, Any] = {}
    for entry in entries:
        for type_ in (*entry.signature.takes.values(), *entry.signature.gives.values()):
            found |= {str(vocab): vocab.to_data() for vocab in _vocabs_in(type_)}
    return dict(sorted(found.items()))


def _vocabs_in(type_: NeuralType) -> Iterator[Vocab]:
    yield from (axis.vocab for axis in type_.axes if axis.vocab is not None)
    for held in vars(type_.element).values():
        if isinstance(held, Vocab):
            yield held
    if isinstance(type_.element, Struct):
        for field in type_.element.fields.values():
            yield from _vocabs_in(field)


def presets_of(cls: type[NeuralModule]) -> list[str]:
    """List the names that the `preset` of a class takes."""
    return [str(name) for name in getattr(cls, "presets", ())]


def _doc(cls: type[NeuralModule]) -> str:
    written = cls.__doc__ or ""  # a dataclass without one writes its fields there
    return "" if written.startswith(f"{cls.__name__}(") else inspect.cleandoc(written)


def _port(type_: NeuralType) -> dict[str, Any]:
    return {
        "type": str(type_),
        "element": type_.element.label,
        "axes": [str(axis) for axis in type_.axes],
        "optional": type_.optional,
        "many": type_.many,
        "when": type_.when,
    }


def collection_of(cls: type) -> str:
    """Name the room below `neumo` that defines a class, or the user's module."""
    parts = cls.__module__.split(".")
    if parts[0] != "neumo":
        return cls.__module__
    if cls.__module__ == "neumo.graph.multi":
        return "data"
    return "adapters" if cls.__module__.startswith("neumo.graph.adapters") else parts[1]


def _init_fields(cls: type) -> list[dataclasses.Field[Any]]:
    # Whoever is described is a dataclass; the type of classes in a registry cannot say so.
    return [field for field in dataclasses.fields(cls) if field.init]  # type: ignore[arg-type]


def _field(cls: type, field: dataclasses.Field[Any]) -> dict[str, Any]:
    has_factory = field.default_factory is not dataclasses.MISSING
    required = field.default is dataclasses.MISSING and not has_factory
    # `has_factory` holds the check of MISSING that a type checker wants to see right here.
    default = None if required else field.default_factory() if has_factory else field.default  # type: ignore[misc]
    hint = field_hints(cls)[field.name]
    return {
        "name": field.name,
        "type": field.type
        if isinstance(field.type, str)
        else getattr(field.type, "__name__", str(field.type)),
        "words": describe_hint(hint),
        "required": required,
        "default": _plain(default),
    }


def _plain(value: Any) -> Any:
    """A default as JSON holds it; anything larger as its text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Vocab | Element | NeuralType | Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in cast("list[Any] | tuple[Any, ...]", value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def _example_fields(cls: type) -> dict[str, Any]:
    known = _EXAMPLES.get(cls.__name__, {}) if cls.__module__.startswith("neumo.") else {}
    hints = field_hints(cls)
    needed = [
        field.name
        for field in _init_fields(cls)
        if _field(cls, field)["required"] or _is_open_vocab(hints[field.name], field)
    ]
    return {name: known[name] if name in known else _sample(hints[name]) for name in needed}


def _is_open_vocab(hint: Any, field: dataclasses.Field[Any]) -> bool:
    """Whether a module has further ports (or types) once it is told a vocabulary."""
    return field.default is None and Vocab in getattr(hint, "__args__", ())


def _sample(hint: Any) -> Any:
    """Something that fits an annotation."""
    parts = getattr(hint, "__args__", ())
    if hint is Vocab:
        return _LETTERS
    if hint in _SAMPLES:
        return _SAMPLES[hint]
    if isinstance(hint, type) and issubclass(hint, Element):
        return hint()
    if parts:
        return _sample(parts[0]) if not isinstance(parts[0], str) else parts[0]
    return None
