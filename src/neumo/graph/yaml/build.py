"""Builds the vocabularies, modules and graphs of a recipe from its tree, and collects its mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

from neumo.graph.graph import Graph
from neumo.graph.module import NeuralModule
from neumo.graph.registry import known_kinds, lookup
from neumo.graph.yaml.fields import make, read_fields, read_object
from neumo.graph.yaml.graphs import GraphReader
from neumo.graph.yaml.read import Node
from neumo.graph.yaml.recipe import ACTIONS, Recipe, raise_all
from neumo.graph.yaml.scope import Scope, Spoilt
from neumo.graph.yaml.values import Unfit
from neumo.graph.yaml.vocabs import read_vocab
from neumo.types.errors import NeumoError, did_you_mean, nearest

FORMAT: Final = 1
_BUILT: Final = ("vocabs", "modules", "graphs")  # nothing can be said about graphs without these
_SECTIONS: Final = ("neumo", *_BUILT, *ACTIONS)

Sections = Callable[[Recipe], Sequence[NeumoError]]


def build_recipe(tree: Node, path: Path | None, sections: Sections | None = None) -> Recipe:
    """Build everything that a recipe describes; raises one error that shows all mistakes.

    `sections` tells the mistakes in the settings of actions, of a recipe whose graphs may be wrong as well.
    """
    file = str(path) if path is not None else tree.place.file
    scope = Scope(None if path is None else path.parent)
    if not _check_sections(tree, scope):
        raise_all(scope.problems, file)
    scope.vocabs = {name: read_vocab(name, node, scope) for name, node in read_section(tree, "vocabs", scope)}
    modules = {name: _read_module(name, node, scope) for name, node in read_section(tree, "modules", scope)}
    graphs: dict[str, Graph | None] = {}
    notes: list[str] = []
    used: set[str] = set()
    for name, node in read_section(tree, "graphs", scope):
        reader = GraphReader(name, node, modules, graphs, scope)
        graphs[name] = reader.read()
        notes += reader.notes
        used |= reader.used
    notes += [f"no graph uses the module {name}" for name in modules if name not in used]
    actions = {name: node.plain() for name, node in tree.data.items() if name in ACTIONS}
    recipe = Recipe(
        graphs=_whole(graphs),
        modules=_whole(modules),
        vocabs=_whole(scope.vocabs),
        actions=actions,
        path=path,
        notes=tuple(notes),
        tree=tree,
    )
    if sections is not None:
        scope.problems += sections(recipe)
    raise_all(scope.problems, file)
    return recipe


def _whole(found: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what could not be built."""
    return {name: value for name, value in found.items() if value is not None}


def _check_sections(tree: Node, scope: Scope) -> bool:
    """Note what is wrong with the sections; say whether the rest can be read, wrong as it may be."""
    if tree.data is None:
        scope.refuse("the recipe is empty", tree.place, code="recipe-key", fixes=["begin with `neumo: 1`"])
        return False
    if not tree.is_map:
        what = f"a recipe is a mapping of sections, not {tree.describe()}"
        scope.refuse(what, tree.place, fixes=["begin with `neumo: 1`"])
        return False
    readable = "graphs" in tree.data
    for name, node in tree.data.items():
        if name not in _SECTIONS:
            readable = readable and nearest(name, _SECTIONS) not in _BUILT
            scope.refuse(
                f"a recipe has no section {name!r}",
                node.key,
                code="recipe-key",
                details=[f"its sections are {', '.join(_SECTIONS)}"],
                fixes=did_you_mean(name, _SECTIONS),
            )
    readable = check_format(tree, scope) and readable
    if "graphs" not in tree.data:
        scope.refuse(
            "the recipe has no graphs", tree.place, code="recipe-key", fixes=["add a section `graphs:`"]
        )
    return readable


def check_format(tree: Node, scope: Scope) -> bool:
    """Note where a file does not say its format, or another one; say whether it can be read all the same."""
    version = tree.data.get("neumo")
    if version is None:
        scope.refuse(
            "the file does not say its format",
            tree.place,
            code="recipe-key",
            fixes=["begin with `neumo: 1`"],
        )
    elif version.plain() != FORMAT or version.data is True:
        newer = isinstance(version.data, int) and version.data > FORMAT
        fixes = ["install a newer neumo"] if newer else ["write `neumo: 1`"]
        scope.refuse(
            f"this neumo reads recipes of format {FORMAT}, not {version.data!r}", version.place, fixes=fixes
        )
        return not newer
    return True


def read_section(tree: Node, name: str, scope: Scope) -> Iterable[tuple[str, Node]]:
    """Give the entries of a section that is a mapping by name; nothing where it is missing or wrong."""
    node = tree.data.get(name)
    if node is None or node.data is None:
        return ()
    if not node.is_map:
        scope.refuse(f"{name} must be a mapping by name, not {node.describe()}", node.place)
        return ()
    return node.data.items()


def _read_module(name: str, node: Node, scope: Scope) -> NeuralModule | None:
    """Read one module; None once its mistakes are noted."""
    if not name.isidentifier() or iskeyword(name):
        fixes = ["use letters, digits and underscores"]
        scope.refuse(f"{name!r} cannot name a module", node.key, code="recipe-name", fixes=fixes)
        return None
    made = read_module(name, node, scope)
    return None if made is None else made.named(name)


def read_module(
    name: str, node: Node, scope: Scope, base: type[NeuralModule] = NeuralModule
) -> NeuralModule | None:
    """Read a module of a kind that is `base` or one of its subclasses; None once its mistakes are noted."""
    kind = node.data.get("kind") if node.is_map else None
    if kind is None or not isinstance(kind.data, str):
        got = "no kind" if node.is_map else node.describe()
        scope.refuse(
            f"the module {name} needs a kind, and has {got}",
            node.key,
            code="recipe-key",
            fixes=[f"write {name}: {{kind: ConvEncoder, ...}}"],
        )
        return None
    try:
        cls = _find_kind(kind.data)
    except NeumoError as error:
        scope.note(error, kind.place)
        return None
    if not issubclass(cls, base):
        what = f"{name} is a {cls.__name__}, and not a {base.__name__}"
        scope.refuse(what, kind.place, code="kind", fixes=[f"load it as a {cls.__name__}"])
        return None
    try:
        return _make_module(name, cls, node, scope)
    except Spoilt:
        return None


def read_part(base: type[NeuralModule], node: Node, scope: Scope, label: str) -> NeuralModule:
    """Read a module that is a field of another one, such as a layer of `MultiData`; it has no name.

    Raises `Unfit` where it has no kind, and `Spoilt` once its mistakes are noted.
    """
    kind = node.data.get("kind") if node.is_map else None
    if kind is None or not isinstance(kind.data, str):
        raise Unfit(f"a {base.__name__} such as {{kind: ..., ...}}", node)
    try:
        cls = _find_kind(kind.data)
    except NeumoError as error:
        scope.note(error, kind.place)
        raise Spoilt from None
    if not issubclass(cls, base):
        scope.refuse(f"{label} must be a {base.__name__}, and {cls.__name__} is none", kind.place)
        raise Spoilt
    return _make_module(label, cls, node, scope)


def _find_kind(kind: str) -> type[NeuralModule]:
    """Find a class so that a recipe means the same whatever was imported before: ours come first."""
    cls = lookup(kind)
    if not cls.__module__.startswith("neumo."):
        known_kinds()  # opens our collections, which may have a class of that name
        cls = lookup(kind)
    return cls


def _make_module(name: str, cls: type[NeuralModule], node: Node, scope: Scope) -> NeuralModule:
    preset: Node | None = node.data.get("preset")
    label = f"{name} ({cls.__name__})"
    if preset is None:
        rest = Node({key: child for key, child in node.data.items() if key != "kind"}, node.place, node.key)
        return read_object(cls, rest, scope, label)
    build = getattr(cls, "preset", None)
    if build is None or not isinstance(preset.data, str):
        what = (
            f"{cls.__name__} has no presets"
            if build is None
            else f"a preset is a name, not {preset.describe()}"
        )
        scope.refuse(what, preset.key if build is None else preset.place)
        raise Spoilt
    values = read_fields(cls, node, scope, label, skip=("kind", "preset"), preset=build)
    made = make(partial(build, preset.data), values, preset, scope, label)
    if not isinstance(made, cls):
        scope.refuse(f"the preset {preset.data!r} makes no {cls.__name__}", preset.place)
        raise Spoilt
    return made
