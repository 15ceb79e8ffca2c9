"""What `check` and `show` read: a recipe, or the recipe inside a model file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from neumo.graph.yaml import load_recipe

if TYPE_CHECKING:
    from neumo.graph.recipe import Recipe


def read_recipe(path: str, overrides: Sequence[str]) -> Recipe:
    """Read a recipe from a YAML file or from a model file, which needs no framework."""
    if not path.endswith(".neumo"):
        return load_recipe(path, overrides)
    from neumo.hub.archive import RECIPE, Archive

    # The line break makes it a text whatever it holds: a single line would be read as the path of a file.
    return load_recipe(Archive(path).text(RECIPE) + "\n", overrides, origin=f"{path}/{RECIPE}")
