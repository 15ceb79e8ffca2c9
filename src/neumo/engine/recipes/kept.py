"""Keeps in a run folder what was run: the recipe, and those that the training began with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import yaml

from neumo.engine.callbacks import Callback
from neumo.graph.yaml.write import write_file

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run

RECIPE: Final = "recipe.yaml"  # in the run folder: what was run
_SHOWN: Final = 4  # differences that a note names
# What belongs to one command: with it or without it, the same steps are made.
_OF_A_COMMAND: Final = (
    "factory.folder",
    "factory.workers",
    "train.checkpoint",
    "train.max_minutes",
    "train.profile",
    "train.resume",
)


class KeepRecipe(Callback):
    """Writes the recipe into the run folder as soon as a training begins or goes on.

    A training that goes on with another recipe keeps the one before as `recipe-1.yaml`, and says what is
    different; one that is refused, or has nothing left to train, has changed nothing.
    """

    order: ClassVar[int] = 1
    only_first: ClassVar[bool] = True

    def __init__(self, text: str) -> None:
        self.text = text
        self._kept = False

    def on_epoch_start(self, run: Run) -> None:
        """Write it before the first step, and tell of the one before."""
        if run.folder is None or self._kept:
            return
        self._kept = True
        path = run.folder / RECIPE
        before = path.read_text(encoding="utf-8") if path.is_file() else self.text
        if before != self.text and (found := differences(before, self.text)) != []:
            names = (run.folder / f"recipe-{n}.yaml" for n in range(1, 10_000))
            kept = path.rename(next(name for name in names if not name.exists()))
            told = "".join(f"; {each}" for each in found or ())
            run.note(f"the recipe is not the one that this training began with; that one is now {kept}{told}")
        write_file(path, self.text)


def differences(before: str, now: str) -> list[str] | None:
    """Name the first settings in which two recipes differ; None where one of them cannot be read.

    >>> differences("train: {epochs: 100, clip: 1.0}", "train: {epochs: 50, clip: 1.0}")
    ['train.epochs was 100 and is 50']

    What belongs to one command and not to the training makes no difference.

    >>> differences("train: {epochs: 100, max_minutes: 90}", "train: {epochs: 100, resume: never}")
    []
    """
    try:
        old, new = dict(_settings(yaml.safe_load(before))), dict(_settings(yaml.safe_load(now)))
    except yaml.YAMLError:  # somebody has edited it since
        return None
    found = [
        f"{key} was {old.get(key, 'not there')} and is {new.get(key, 'not there')}"
        for key in dict.fromkeys([*old, *new])
        if old.get(key, _ABSENT) != new.get(key, _ABSENT)
    ]
    return [*found[:_SHOWN], *([f"{len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])]


_ABSENT: Final = object()


def _settings(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a recipe by their dotted path, without what belongs to one command; lists are leaves."""
    if path in _OF_A_COMMAND:
        return
    if isinstance(value, Mapping) and value:
        for key, inner in cast("Mapping[Any, Any]", value).items():
            yield from _settings(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value
