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


class KeepRecipe(Callback):
    """Writes the recipe into the run folder as soon as a training begins or goes on.

    A training that goes on with another recipe keeps the one before as `recipe-1.yaml`, and says what is
    different; one that is refused has changed nothing.
    """

    order: ClassVar[int] = 1
    only_first: ClassVar[bool] = True

    def __init__(self, text: str) -> None:
        self.text = text

    def on_action_start(self, run: Run) -> None:
        """Write it, and tell of the one before."""
        if run.folder is None:
            return
        path = run.folder / RECIPE
        before = path.read_text(encoding="utf-8") if path.is_file() else self.text
        if before != self.text:
            names = (run.folder / f"recipe-{n}.yaml" for n in range(1, 10_000))
            kept = path.rename(next(name for name in names if not name.exists()))
            found = "".join(f"; {each}" for each in differences(before, self.text))
            run.note(
                f"the recipe is not the one that this training began with; that one is now {kept}{found}"
            )
        write_file(path, self.text)


def differences(before: str, now: str) -> list[str]:
    """Name the first settings in which two recipes differ.

    >>> differences("train: {epochs: 100, clip: 1.0}", "train: {epochs: 50, clip: 1.0}")
    ['train.epochs was 100 and is 50']
    """
    try:
        old, new = dict(_settings(yaml.safe_load(before))), dict(_settings(yaml.safe_load(now)))
    except yaml.YAMLError:  # somebody has edited it since
        return []
    found = [
        f"{key} was {old.get(key, 'not there')} and is {new.get(key, 'not there')}"
        for key in dict.fromkeys([*old, *new])
        if old.get(key, _ABSENT) != new.get(key, _ABSENT)
    ]
    return [*found[:_SHOWN], *([f"{len(found) - _SHOWN} more"] if len(found) > _SHOWN else [])]


_ABSENT: Final = object()


def _settings(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a recipe by their dotted path; lists are leaves."""
    if isinstance(value, Mapping) and value:
        for key, inner in cast("Mapping[Any, Any]", value).items():
            yield from _settings(inner, f"{path}.{key}" if path else str(key))
    else:
        yield path, value
