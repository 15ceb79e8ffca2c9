"""Recipes as files: a graph saved to YAML and loaded again is equal, and nothing in the file can run code.

    neumo: 1
    vocabs:
      letters: {labels: " abcdefghijklmnopqrstuvwxyz'"}
    modules:
      data: {kind: SpeechData, manifest: train.jsonl, vocab: letters}
      mel: {kind: MelSpectrogram, n_mels: 64}
    graphs:
      train:
        mode: train
        steps:
          batch: data()
          feats: mel(audio=batch.audio, audio_len=batch.audio_len)
        outputs: {mel: feats.mel}
    train: {epochs: 5}

Modules are made once and shared by all graphs of the recipe. A step is a call with named arguments; without
`outputs:` a graph gives all that comes out of its last steps. Paths start at the recipe's folder, those of
overrides at the current one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from neumo.graph.yaml.build import Sections, build_recipe
from neumo.graph.yaml.module import load_module as load_module
from neumo.graph.yaml.module import module_text as module_text
from neumo.graph.yaml.module import save_module as save_module
from neumo.graph.yaml.overrides import apply_overrides
from neumo.graph.yaml.read import TEXT, read_text, read_yaml
from neumo.graph.yaml.recipe import Recipe as Recipe
from neumo.graph.yaml.recipe import raise_all as raise_all
from neumo.graph.yaml.write import write_file, write_recipe

if TYPE_CHECKING:
    from neumo.graph.graph import Graph


def load_recipe(
    source: str | Path,
    overrides: Sequence[str] = (),
    *,
    origin: str = "",
    sections: Sections | None = None,
) -> Recipe:
    """Read a recipe from a file or, if `source` holds line breaks, from a text; `overrides` are `key=value`.

    `origin` is what messages call a text, for instance the model file that it was taken from. `sections`
    gives the mistakes in the settings of actions, which whoever runs actions knows; they are told with the
    others.

    >>> recipe = load_recipe('''
    ... neumo: 1
    ... modules:
    ...   down: {kind: Resample, source: 22050, target: 16000}
    ... graphs:
    ...   speech:
    ...     inputs: {audio: "Audio(rate=22050)[B, T]", audio_len: "Lengths(T)[B]"}
    ...     steps: {slow: "down(audio=audio, audio_len=audio_len)"}
    ... ''')
    >>> list(recipe.graph().outputs)
    ['audio', 'audio_len']

    Raises an error that shows all mistakes of the recipe, each with file, line and column: `ConfigError`
    for the text and its fields, `PortError` for wrong connections. Modules of your own are found by their
    class name once the module that defines them has been imported.
    """
    text, name = read_text(source)
    is_text = name == TEXT
    tree = read_yaml(text, origin if is_text and origin else name)
    if overrides:
        apply_overrides(tree, overrides)
    return build_recipe(tree, None if is_text else Path(name), sections)


def save_recipe(recipe: Recipe, path: str | Path, *, defaults: bool = False) -> None:
    """Write a recipe to a file, from which `load_recipe` gives equal graphs with the same sharing."""
    path = Path(path)
    write_file(path, write_recipe(recipe, path.parent, defaults=defaults))


def recipe_text(recipe: Recipe | Graph, *, defaults: bool = False) -> str:
    """Give the YAML text of a recipe or of a single graph; paths stay as they are."""
    return write_recipe(recipe if isinstance(recipe, Recipe) else _alone(recipe), defaults=defaults)


def save_graph(graph: Graph, path: str | Path) -> None:
    """Write one graph as a recipe of its own."""
    save_recipe(_alone(graph), path)


def load_graph(source: str | Path, name: str | None = None) -> Graph:
    """Read a graph of a recipe, by name or the only one."""
    return load_recipe(source).graph(name)


def _alone(graph: Graph) -> Recipe:
    return Recipe(graphs={graph.name: graph})
