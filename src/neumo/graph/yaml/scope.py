"""What a recipe refers to while it is read, and the mistakes found so far."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from neumo.graph.yaml.read import YamlPlace
from neumo.types.errors import ConfigError, Fix, NeumoError, Row
from neumo.types.vocab import Vocab


class Spoilt(Exception):
    """A value depends on a mistake that is already noted; what needs it is left out in silence."""


@dataclass(slots=True)
class Scope:
    """Holds the folder that paths start from, the vocabularies by name, and the mistakes in order.

    `told` holds the ids of modules whose own mistake is noted: what each of their steps would say again.
    """

    folder: Path | None = None
    vocabs: dict[str, Vocab | None] = field(default_factory=dict[str, Vocab | None])  # None: wrong, and noted
    problems: list[NeumoError] = field(default_factory=list[NeumoError])
    told: set[int] = field(default_factory=set[int])

    def refuse(
        self,
        what: str,
        where: YamlPlace,
        *,
        code: str = "recipe-value",
        details: Iterable[Row | str] = (),
        fixes: Iterable[Fix | str] = (),
    ) -> None:
        """Note a mistake; reading goes on."""
        error = ConfigError(what, code=code, where=where, details=details, fixes=fixes)
        self.problems.append(error)

    def note(self, error: NeumoError, where: YamlPlace) -> None:
        """Note an error of a module or a type, which gets its place in the recipe if it has none."""
        self.problems.append(located(error, where))

    def path(self, text: str) -> Path:
        """Take a path of the recipe from the recipe's own folder.

        >>> Scope(Path("runs")).path("train.jsonl").as_posix()
        'runs/train.jsonl'
        """
        path = Path(text).expanduser()
        if self.folder is None or path.is_absolute():
            return path
        return Path(os.path.normpath(self.folder / path)) if ".." in path.parts else self.folder / path


def located(error: NeumoError, where: YamlPlace) -> NeumoError:
    """Give the same error with a place in the recipe, unless it knows a place."""
    if error.where is not None:
        return error
    return type(error)(
        error.what,
        code=error.code,
        where=where,
        details=error.details,
        why=error.why,
        path=error.path,
        fixes=error.fixes,
        also=error.also,
        data=error.data,
    )


def known_names(names: Mapping[str, object]) -> str:
    """List names for a message.

    >>> known_names({"mel": 1, "encoder": 2})
    'mel, encoder'
    """
    return ", ".join(names) or "none"
