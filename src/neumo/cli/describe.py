"""`neumo describe`: what modules take and give, and their settings."""

from __future__ import annotations

import dataclasses
import inspect
import json as json_text
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from neumo.graph.draw_sketch import short_type
from neumo.graph.module import NeuralModule, signature_of
from neumo.graph.registry import known_kinds, lookup
from neumo.graph.yaml_fields import field_hints
from neumo.graph.yaml_values import describe_hint
from neumo.types.element import Element
from neumo.types.errors import NeumoError
from neumo.types.vocab import Vocab

_SAMPLES: Final[dict[Any, Any]] = {int: 256, float: 1.0, str: "x", bool: False, Path: Path("data.jsonl")}
_EXAMPLES: Final[dict[str, dict[str, Any]]] = {  # where a sample of the right type makes no sense
    "Resample": {"source": 22050, "target": 16000},
    "Repeak": {"source": 32768.0, "target": 1.0},
    "Repad": {"source": 0, "target": -100},
    "Rescale": {"source": "ln", "target": "log10"},
    "Subsample": {"by": 2},
    "Squeeze": {"at": 1},
    "Unsqueeze": {"at": 1},
    "Transpose": {"source": "B F T", "target": "T B F"},
}
_WIDTH: Final = 100


def describe(
    module: Annotated[
        str | None, typer.Argument(metavar="[MODULE]", help="A kind, such as ConvEncoder.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print as JSON, all modules in full.")] = False,
) -> None:
    """Describe one module in full, or list all of them.

    Modules of your own are listed too once they are imported: neumo --import my_models describe.
    """
    if module is not None:
        found = describe_module(lookup(module))
        typer.echo(json_text.dumps(found, ensure_ascii=False, indent=2) if json else "\n".join(_page(found)))
        return
    everything = [describe_module(cls) for cls in public_kinds()]
    typer.echo(
        json_text.dumps(everything, ensure_ascii=False, indent=2) if json else "\n".join(_table(everything))
    )


def public_kinds() -> list[type[NeuralModule]]:
    """List the module classes that a recipe can use, by collection and name."""
    known_kinds()  # opens our collections
    usable = [cls for cls in dict.fromkeys(_subclasses(NeuralModule)) if _is_public(cls)]
    return sorted(usable, key=lambda cls: (_collection(cls), cls.__name__))


def _subclasses(cls: type[NeuralModule]) -> Iterator[type[NeuralModule]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _is_public(cls: type[NeuralModule]) -> bool:
    """Whether a class is complete, and the newest of its name where a notebook defined it again."""
    if cls.__name__.startswith("_") or "__dataclass_fields__" not in vars(cls):
        return False
    path = f"{cls.__module__}.{cls.__qualname__}"
    return cls.__module__ != "neumo.graph.inputs" and lookup_or_none(path) is cls


def lookup_or_none(kind: str) -> type[NeuralModule] | None:
    """Find a class by its path, or say that a later one has taken its place."""
    try:
        return lookup(kind)
    except NeumoError:
        return None


def describe_module(cls: type[NeuralModule]) -> dict[str, Any]:
    """Give a module class as plain values: its doc, ports, fields and defaults.

    Ports are those of an object with default fields; fields without a default get an example, named in
    `example`.

    >>> from neumo.graph.adapters import Resample
    >>> describe_module(Resample)["fields"][0]["name"]
    'source'
    """
    written = cls.__doc__ or ""
    doc = (
        "" if written.startswith(f"{cls.__name__}(") else inspect.cleandoc(written)
    )  # dataclass writes one itself
    example = _example_fields(cls)
    takes, gives, reason = _ports(cls, example)
    return {
        "kind": cls.__name__,
        "collection": _collection(cls),
        "role": cls.role,
        "trainable": cls.trainable,
        "summary": doc.split("\n\n")[0].replace("\n", " "),
        "doc": doc,
        "fields": [_field(cls, field) for field in _init_fields(cls)],
        "takes": takes,
        "gives": gives,
        "example": {name: _plain(value) for name, value in example.items()},
        "ports_unknown": reason,
        "presets": _presets(cls),
        "preset_names": list(getattr(cls, "presets", ())),
    }


def _collection(cls: type) -> str:
    """The room below `neumo` that defines a class, or the user's module."""
    parts = cls.__module__.split(".")
    if parts[0] != "neumo":
        return cls.__module__
    return "adapters" if cls.__module__.startswith("neumo.graph.adapter") else parts[1]


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
    if isinstance(value, Vocab | Element | Path):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def _example_fields(cls: type) -> dict[str, Any]:
    known = _EXAMPLES.get(cls.__name__, {}) if cls.__module__.startswith("neumo.") else {}
    hints = field_hints(cls)
    required = [field.name for field in _init_fields(cls) if _field(cls, field)["required"]]
    return {name: known[name] if name in known else _sample(hints[name]) for name in required}


def _sample(hint: Any) -> Any:
    """Something that fits an annotation."""
    parts = getattr(hint, "__args__", ())
    if hint is Vocab:
        return Vocab(" abcdefghijklmnopqrstuvwxyz'", name="vocab")
    if hint in _SAMPLES:
        return _SAMPLES[hint]
    if isinstance(hint, type) and issubclass(hint, Element):
        return hint()
    if parts:
        return _sample(parts[0]) if not isinstance(parts[0], str) else parts[0]
    return None


def _ports(cls: type[NeuralModule], fields: dict[str, Any]) -> tuple[dict[str, str], dict[str, str], str]:
    try:
        signature = signature_of(cls(**fields))
    except Exception as error:  # whatever the class of a user raises for the sample fields
        what = error.what if isinstance(error, NeumoError) else f"{type(error).__name__}: {error}"
        return {}, {}, f"its ports depend on its fields ({what})"
    takes = {port: short_type(str(type_)) for port, type_ in signature.takes.items()}
    return takes, {port: short_type(str(type_)) for port, type_ in signature.gives.items()}, ""


def _presets(cls: type) -> bool:
    return callable(getattr(cls, "preset", None))


def _table(modules: list[dict[str, Any]]) -> list[str]:
    width = max((len(found["kind"]) for found in modules), default=0)
    lines: list[str] = []
    for number, found in enumerate(modules):
        if not number or modules[number - 1]["collection"] != found["collection"]:
            lines += [""] * bool(number) + [found["collection"]]
        lines.append(_cut(f"  {found['kind']:<{width}}  {found['summary']}"))
    return [*lines, "", "neumo describe MODULE shows ports and settings."]


def _page(found: dict[str, Any]) -> list[str]:
    about = f"{found['collection']}, {found['role']}" + (", has weights" if found["trainable"] else "")
    lines = [f"{found['kind']} ({about})", "", *(f"  {line}".rstrip() for line in found["doc"].split("\n"))]
    ports = [*found["takes"], *found["gives"]]
    width = max(map(len, ports + [field["name"] for field in found["fields"]]), default=0)
    example = ", ".join(f"{name}={value}" for name, value in found["example"].items())
    shown = f"  with {short_type(example)}" if example else ""
    for side in ("takes", "gives"):
        if found[side]:
            lines += [
                "",
                f"{side}{shown}",
                *(f"  {port:<{width}}  {text}" for port, text in found[side].items()),
            ]
    if found["ports_unknown"]:
        lines += ["", f"ports: {found['ports_unknown']}"]
    if found["fields"]:
        lines += ["", "fields", *(_field_line(field, width) for field in found["fields"])]
    if found["presets"]:
        lines += ["", f"presets: {{kind: {found['kind']}, preset: NAME, ...}} in a recipe"]
        lines += [f"  {name}" for name in found["preset_names"]]
    return lines


def _field_line(field: dict[str, Any], width: int) -> str:
    default = "" if field["required"] else f" = {_default(field['default'])}"
    return _cut(
        f"  {field['name']:<{width}}  {field['words']}{default}{' (required)' if field['required'] else ''}"
    )


def _default(value: Any) -> str:
    text = (
        {None: "null", True: "true", False: "false"}.get(value)
        if value is None or isinstance(value, bool)
        else None
    )
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return f"[{len(value)} of them]"
    return text or str(value)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
