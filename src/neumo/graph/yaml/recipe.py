"""Recipes: the graphs of an experiment, the modules they share, and the settings of its actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from neumo.types.errors import ConfigError, NeumoError, did_you_mean

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.module import NeuralModule
    from neumo.graph.yaml.read import Node
    from neumo.types.vocab import Vocab

Settings = TypeVar("Settings")

ACTIONS: Final = ("factory", "train", "evaluate", "infer", "export")
"""Sections of a recipe beside vocabularies, modules and graphs; who runs an action says what it may hold."""


def _nothing() -> Mapping[str, Any]:
    return {}


@dataclass(frozen=True, eq=False)
class Recipe:
    """Holds named graphs with the modules they share, vocabularies by name, and settings of actions.

    `graphs["train"]` and `graphs["infer"]` share weights where they share modules. `actions` holds the
    remaining sections as plain values; `section` reads one into a dataclass. `notes` says what the recipe
    defines in vain.

    >>> recipe = Recipe(graphs={}, actions={"train": {"epochs": 3}})
    >>> recipe.actions["train"]["epochs"]
    3
    """

    graphs: Mapping[str, Graph]
    modules: Mapping[str, NeuralModule] = field(default_factory=_nothing)
    vocabs: Mapping[str, Vocab] = field(default_factory=_nothing)
    actions: Mapping[str, Any] = field(default_factory=_nothing)
    path: Path | None = None
    notes: tuple[str, ...] = ()
    tree: Node | None = field(default=None, repr=False)

    @property
    def folder(self) -> Path | None:
        """The folder that relative paths of the recipe start from; None for a recipe that is no file."""
        return None if self.path is None else self.path.parent

    def graph(self, name: str | None = None) -> Graph:
        """Give a graph by name, or the only one.

        Raises `ConfigError` with the nearest match for an unknown name, and where several graphs leave a
        choice.
        """
        if name is None and len(self.graphs) == 1:
            return next(iter(self.graphs.values()))
        if name is not None and name in self.graphs:
            return self.graphs[name]
        known = ", ".join(self.graphs) or "none"
        what = "the recipe has several graphs" if name is None else f"the recipe has no graph {name!r}"
        fixes = did_you_mean(name, self.graphs) if name else [f"name one of {known}"]
        raise ConfigError(
            what, code="recipe-name", where=self._file, details=[f"its graphs are {known}"], fixes=fixes
        )

    def section(self, name: str, settings: type[Settings]) -> Settings:
        """Read the section of an action into a dataclass, checked against the annotations of its fields.

        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Training:
        ...     epochs: int = 1
        >>> Recipe(graphs={}, actions={"train": {"epochs": 3}}).section("train", Training)
        Training(epochs=3)

        A section that is absent gives the defaults. Raises `ConfigError` for unknown keys, with the nearest
        match, and for values of another type, each at its place in the file.
        """
        from neumo.graph.yaml.fields import read_object
        from neumo.graph.yaml.read import node_of
        from neumo.graph.yaml.scope import Scope, Spoilt

        scope = Scope(self.folder, dict(self.vocabs))
        written = None if self.tree is None else self.tree.data.get(name)
        node = written or node_of(self.actions.get(name) or {}, self._file or "the recipe")
        try:
            made = read_object(settings, node if node.data is not None else node_of({}, ""), scope, name)
        except Spoilt:
            made = None
        raise_all(scope.problems, self._file or "the recipe")
        if made is None:  # pragma: no cover - a spoilt value has noted its mistake
            raise ConfigError(f"the section {name} cannot be read", code="recipe-value")
        return made

    @property
    def _file(self) -> str | None:
        return None if self.path is None else str(self.path)


def raise_all(problems: list[NeumoError], file: str) -> None:
    """Raise what was found wrong: the mistake itself if there is one, or an error that shows them all.

    >>> raise_all([], "recipe.yaml")
    """
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ConfigError(f"{len(problems)} mistakes in {file}", code="recipe", also=problems)
