"""Writes recipes: graphs, the modules they share and the vocabularies they name, as YAML that people read."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from neumo.graph.collect import check_runnable
from neumo.graph.inputs import is_open
from neumo.graph.module import NeuralModule, is_default, label_of, module_fields, name_of
from neumo.graph.names import FreeNames, step_names
from neumo.graph.registry import kind_of, known_kinds
from neumo.graph.yaml.fields import field_hints, mentions_path
from neumo.graph.yaml.read import add_core_schema
from neumo.graph.yaml.recipe import Recipe
from neumo.types.element import Element
from neumo.types.errors import ConfigError
from neumo.types.size import Symbol
from neumo.types.type import NeuralType
from neumo.types.vocab import AtLeast, Vocab

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.value import Step, Value

_HELD: Final = (
    "fields hold null, true, numbers, texts, paths, lists, mappings, dataclasses, vocabs and elements"
)
_BREAKS: Final = frozenset("\x85\u2028\u2029")  # line breaks to YAML, letters to everybody else
LINE: Final = 100  # columns; a mapping that is longer is written one key a line


def write_recipe(recipe: Recipe, folder: Path | None = None, *, defaults: bool = False) -> str:
    """Write a recipe as YAML; paths become relative to `folder`, fields at their default are left out.

    With `defaults=True` every field is written, so that the text means the same whatever later defaults are.
    Raises `ConfigError` for a field that YAML cannot hold.
    """
    writer = _Writer(recipe, folder, defaults)
    return _emit(writer.document())


def write_module(module: NeuralModule, folder: Path | None = None, *, defaults: bool = False) -> str:
    """Write a single module as YAML, with its name and the vocabularies that its fields mention."""
    writer = _Writer(Recipe(graphs={}), folder, defaults)
    entry = writer.module(label_of(module), module)
    name = name_of(module)
    found: dict[str, Any] = {"neumo": 1, **({} if name is None else {"name": name})}
    found |= {"vocabs": writer.vocab_entries()} if writer.vocabs else {}
    return _emit({**found, "module": entry})


class _Writer:
    def __init__(self, recipe: Recipe, folder: Path | None, defaults: bool) -> None:
        self.recipe = recipe
        self.folder = folder
        self.defaults = defaults
        self.vocabs: dict[str, Vocab] = dict(recipe.vocabs)
        self.names: dict[int, str] = {}
        self.modules: dict[str, NeuralModule] = {}

    def document(self) -> dict[str, Any]:
        for name, module in self._named_modules():
            self._name(module, name)
        modules = {name: self.module(name, module) for name, module in self.modules.items()}
        for graph in self.recipe.graphs.values():
            check_runnable(graph.name, graph.steps, "saved")
        graphs = {name: self._graph(graph) for name, graph in self.recipe.graphs.items()}
        vocabs = self.vocab_entries()
        found: dict[str, Any] = {"neumo": 1}
        found |= {"vocabs": vocabs} if vocabs else {}
        found |= {"modules": modules} if modules else {}
        actions = {
            name: self._plain(value, f"the section {name}", None)
            for name, value in self.recipe.actions.items()
        }
        return {**found, "graphs": graphs, **actions}

    def vocab_entries(self) -> dict[str, Any]:
        return {name: _vocab(name, vocab) for name, vocab in self.vocabs.items()}

    def _named_modules(self) -> Iterator[tuple[str, NeuralModule]]:
        yield from self.recipe.modules.items()
        for graph in self.recipe.graphs.values():
            yield from graph.modules.items()

    def _name(self, module: NeuralModule, name: str) -> None:
        if id(module) in self.names:
            return
        free, count = name, 1
        while free in self.modules:
            count += 1
            free = f"{name}_{count}"
        self.names[id(module)] = free
        self.modules[free] = module

    def module(self, name: str, module: NeuralModule) -> dict[str, Any]:
        _refuse_what_is_an_object(name, module)
        return {"kind": _kind(type(module)), **self._fields(module, module_fields(module), name)}

    def _fields(self, owner: Any, values: Mapping[str, Any], label: str) -> dict[str, Any]:
        hints = field_hints(cast("object", owner).__class__)
        return {
            name: self._plain(value, f"{label}.{name}", hints.get(name))
            for name, value in values.items()
            if self.defaults or not is_default(owner, name, value)
        }

    def _plain(self, value: Any, label: str, hint: Any) -> Any:
        """Turn the value of a field into what YAML holds."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Path) or (isinstance(value, str) and mentions_path(hint)):
            return self._path(str(value))
        if isinstance(value, str):
            return value
        if isinstance(value, Vocab):
            return self._vocab_name(value)
        if isinstance(value, Element | NeuralType):
            self._keep_vocabs(value)
            return str(value)
        if isinstance(value, Mapping):
            items = cast("Mapping[Any, Any]", value)
            return {str(key): self._plain(item, f"{label}.{key}", hint) for key, item in items.items()}
        if isinstance(value, list | tuple | set | frozenset):
            parts = list(cast("Iterable[Any]", value))
            return [self._plain(part, f"{label}[{index}]", hint) for index, part in enumerate(parts)]
        if isinstance(value, NeuralModule):  # a part of another module, such as a layer of MultiData
            return self.module(label, value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value) if field.init]
            return self._fields(value, {name: getattr(value, name) for name in names}, label)
        raise ConfigError(
            f"{label} is a {type(value).__name__}, which a recipe cannot hold",
            code="recipe-value",
            details=[_HELD],
        )

    def _path(self, text: str) -> str:
        """A path as seen from the recipe's folder, if it is relative or lies below."""
        if self.folder is None:
            return text
        full = Path(os.path.abspath(text))
        home = Path(os.path.abspath(self.folder))
        if os.path.isabs(text) and not full.is_relative_to(home):
            return text
        return Path(os.path.relpath(full, home)).as_posix()

    def _vocab_name(self, vocab: Vocab) -> str:
        for name, known in self.vocabs.items():
            if known == vocab and (not vocab.name or known.name == vocab.name):
                return name
        stem = vocab.name or "vocab"
        name, count = stem, 1
        while name in self.vocabs:
            count += 1
            name = f"{stem}_{count}"
        self.vocabs[name] = vocab
        return name

    def _keep_vocabs(self, found: Element | NeuralType) -> None:
        """Define the vocabularies that a notation mentions by their digest."""
        element = found.element if isinstance(found, NeuralType) else found
        held: list[Any] = list(vars(element).values())
        held += [axis.vocab for axis in found.axes] if isinstance(found, NeuralType) else []
        for value in held:
            vocab = value.vocab if isinstance(value, AtLeast) else value
            if isinstance(vocab, Vocab):
                self._vocab_name(vocab)

    def _graph(self, graph: Graph) -> dict[str, Any]:
        ports = self._inputs(graph)
        names = step_names(graph, taken=ports)
        steps = {names[id(step)]: self._call(step, names) for step in graph.steps if not is_open(step)}
        outputs = {name: self._reference(value, names) for name, value in graph.outputs.items()}
        found: dict[str, Any] = {"mode": graph.mode, **_allowed(graph)}
        if ports:
            found["inputs"] = {name: str(type_) for name, type_ in ports.items()}
        return {**found, "steps": steps, "outputs": outputs}

    def _inputs(self, graph: Graph) -> dict[str, NeuralType]:
        """The open inputs; symbols of separate calls of `inputs` stay apart by their names."""
        ports: dict[str, NeuralType] = {}
        free = FreeNames(between="")
        for step in graph.steps:
            if not is_open(step):
                continue
            declared: Mapping[str, NeuralType] = getattr(step.module, "ports")  # noqa: B009
            symbols = {symbol.name: symbol for type_ in declared.values() for symbol in type_.symbols()}
            renamed = {
                symbol: Symbol(new).size
                for name, symbol in symbols.items()
                if (new := free.take(name, re.sub(r"\d+$", "", name), avoid=symbols)) != name
            }
            for name, type_ in declared.items():
                self._keep_vocabs(type_)
                ports[name] = type_.substitute(renamed)
        return ports

    def _call(self, step: Step, names: Mapping[int, str]) -> str:
        arguments = [
            f"{port}=[{', '.join(self._reference(value, names) for value in source)}]"
            if isinstance(source, tuple)
            else f"{port}={self._reference(source, names)}"
            for port, source in step.inputs.items()
        ]
        return f"{self.names[id(step.module)]}({', '.join(arguments)})"

    def _reference(self, value: Value, names: Mapping[int, str]) -> str:
        return value.port if is_open(value.step) else f"{names[id(value.step)]}.{value.port}"


def _refuse_what_is_an_object(name: str, module: NeuralModule) -> None:
    """A module that holds code instead of settings, such as one made by `wrap`, says so in an attribute."""
    reason: str | None = getattr(module, "not_in_recipes", None)
    if reason is not None:
        raise ConfigError(
            f"{name} cannot be written as a recipe: {reason}",
            code="wrapped",
            details=[f"it is {module!r}"],
            fixes=[
                "write it as a class: class Encoder(neumo.TorchModule), which a recipe knows by its name",
                "factory.save(graph, 'weights.safetensors') writes the weights alone",
            ],
        )


def _allowed(graph: Graph) -> dict[str, Any]:
    """What the graph is let do, and why: facets that differ, and rules that it silences."""
    reasons: dict[str, list[str]] = {}
    for facet, reason in sorted({item for step in graph.steps for item in step.relaxed.items()}):
        reasons.setdefault(reason, []).append(facet)
    entries = [{"facets": facets, "reason": reason} for reason, facets in reasons.items()]
    found: dict[str, Any] = {"relax": entries[0] if len(entries) == 1 else entries} if entries else {}
    return found | ({"silence": dict(graph.silence)} if graph.silence else {})


def _kind(cls: type[NeuralModule]) -> str:
    """Name a class so that the recipe means the same whatever is imported where it is read."""
    known_kinds()  # opens our collections: a user's class that is called as one of ours needs its path
    return kind_of(cls)


def _vocab(name: str, vocab: Vocab) -> dict[str, Any]:
    data = vocab.to_data()
    if all(len(label) == 1 for label in vocab.labels):
        data["labels"] = "".join(vocab.labels)
    if data.get("name") == name:
        del data["name"]
    return data


def _emit(document: dict[str, Any]) -> str:
    import yaml

    text: str = cast("Any", yaml).serialize(
        _tree(document, 0, 0), Dumper=_dumper(), width=10_000, allow_unicode=True, indent=2
    )
    return re.sub(r"\n(?=(?:vocabs|modules?|graphs|factory|train|evaluate|infer|export):)", "\n\n", text)


@lru_cache(maxsize=1)
def _dumper() -> Any:
    from yaml import SafeDumper

    class RecipeDumper(SafeDumper):
        """Quotes what either YAML 1.1 or 1.2 takes for something else than a text."""

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            return super().increase_indent(flow, False)

    add_core_schema(RecipeDumper)
    return RecipeDumper


def _tree(value: Any, column: int, depth: int) -> Any:
    """Make the nodes of a value: on one line where that fits, else (and for sections) one entry a line."""
    from yaml import MappingNode, SequenceNode

    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        flow = depth >= 2 and _length(items) + column <= LINE and not _is_steps(items)
        pairs = [
            (_scalar(key), _tree(child, column + 2 if not flow else 0, depth + 1 if not flow else 99))
            for key, child in items.items()
        ]
        return MappingNode("tag:yaml.org,2002:map", pairs, flow_style=flow or not items)
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        flow = _length(parts) + column <= LINE
        return SequenceNode(
            "tag:yaml.org,2002:seq", [_tree(part, column + 2, depth + 1) for part in parts], flow_style=flow
        )
    return _scalar(value)


def _is_steps(items: dict[str, Any]) -> bool:
    return any(isinstance(value, str) and ("(" in value or "[" in value) for value in items.values())


def _length(value: Any) -> int:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        return 2 + sum(len(str(key)) + 4 + _length(child) for key, child in items.items())
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        return 2 + sum(2 + _length(part) for part in parts)
    return len(str(value)) + (2 if isinstance(value, str) else 0)


def _scalar(value: Any) -> Any:
    from yaml import ScalarNode

    if isinstance(value, str):
        quoted = ("'" in value and '"' not in value) or not _BREAKS.isdisjoint(value)
        return ScalarNode("tag:yaml.org,2002:str", value, style='"' if quoted else None)
    return _dumper()("").represent_data(value)


def write_file(path: Path, text: str) -> None:
    """Write a text; raises `ConfigError` if the disk refuses."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}", code="recipe-file") from None
