"""What `check` and `show` read: a recipe, or the recipe inside a model file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from neumo.graph.yaml import load_recipe

if TYPE_CHECKING:
    from neumo.graph.yaml import Recipe
    from neumo.types.errors import NeumoError


def read_recipe(path: str, overrides: Sequence[str], *, whole: bool = False) -> Recipe:
    """Read a recipe from a YAML file or from a model file, which needs no framework.

    With `whole`, mistakes in the sections of actions are told together with those of the graphs.
    """
    if not path.endswith(".neumo"):
        return load_recipe(path, overrides, sections=_section_mistakes if whole else None)
    from neumo.hub.archive import RECIPE, Archive

    # The line break makes it a text whatever it holds: a single line would be read as the path of a file.
    return load_recipe(Archive(path).text(RECIPE) + "\n", overrides, origin=f"{path}/{RECIPE}")


def _section_mistakes(recipe: Recipe) -> Sequence[NeumoError]:
    if not recipe.actions:
        return ()
    from neumo.engine.recipes import section_mistakes

    return section_mistakes(recipe)
