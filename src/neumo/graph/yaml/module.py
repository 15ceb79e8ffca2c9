"""Single modules as files: the settings of one module, written and read like those of a recipe.

neumo: 1
name: encoder
module: {kind: ConvEncoder, n_mels: 64}
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar, cast

from neumo.graph.module import NeuralModule
from neumo.graph.yaml.build import check_format, read_module, read_section
from neumo.graph.yaml.overrides import apply_overrides
from neumo.graph.yaml.read import TEXT, Node, read_text, read_yaml
from neumo.graph.yaml.recipe import raise_all
from neumo.graph.yaml.scope import Scope
from neumo.graph.yaml.vocabs import read_vocab
from neumo.graph.yaml.write import write_file, write_module
from neumo.types.errors import NeumoError, did_you_mean

Kind = TypeVar("Kind", bound=NeuralModule)

_KEYS: Final = ("neumo", "name", "vocabs", "module")


def module_text(module: NeuralModule, *, defaults: bool = False) -> str:
    """Give the YAML text of a module: its kind, its name, and the fields that are not at their default.

    >>> from neumo.graph.adapters import Resample
    >>> print(module_text(Resample(22050, 16000).named("down")))
    neumo: 1
    name: down
    <BLANKLINE>
    module:
      kind: Resample
      source: 22050
      target: 16000
    <BLANKLINE>

    With `defaults=True` every field is written, so that the text means the same whatever later defaults are.
    Raises `ConfigError` for a field that YAML cannot hold, by its name.
    """
    return write_module(module, defaults=defaults)


def save_module(module: NeuralModule, path: str | Path, *, defaults: bool = False) -> None:
    """Write the settings of a module to a file, from which `load_module` makes an equal one; no weights."""
    path = Path(path)
    write_file(path, write_module(module, path.parent, defaults=defaults))


def load_module(
    source: str | Path, overrides: Sequence[str] = (), *, kind: type[Kind] = NeuralModule
) -> Kind:
    """Make the module that a file describes, or a text of several lines; `overrides` are `field=value`.

    >>> from neumo.graph.adapters import Resample
    >>> load_module(module_text(Resample(22050, 16000)), ["target=8000"])
    Resample(source=22050, target=8000)

    It must be a `kind`, or of a subclass of that. Classes are looked up by name among those that are defined;
    nothing in the file is executed. Raises `ConfigError` with all mistakes, each at its place.
    """
    text, name = read_text(source)
    path = None if name == TEXT else Path(name)
    tree = read_yaml(text, name)
    scope = Scope(None if path is None else path.parent)
    readable = _check_keys(tree, scope)
    raise_all([] if readable else scope.problems, name)
    apply_overrides(tree, overrides, within="module")
    scope.vocabs = {key: read_vocab(key, node, scope) for key, node in read_section(tree, "vocabs", scope)}
    module = read_module(path.stem if path is not None else "module", tree.data["module"], scope, kind)
    named = tree.data.get("name")
    if module is not None and named is not None:
        try:
            module = module.named(named.data)
        except NeumoError as error:
            scope.note(error, named.place)
    raise_all(scope.problems, name)
    return cast("Kind", module)


def _check_keys(tree: Node, scope: Scope) -> bool:
    """Note what is wrong with the sections; say whether there is a module to read."""
    if not tree.is_map:
        what = f"a module file is a mapping, not {tree.describe()}"
        scope.refuse(what, tree.place, fixes=["begin with `neumo: 1`"])
        return False
    if "graphs" in tree.data:
        scope.refuse(
            "this is a recipe, and not the file of a single module",
            tree.data["graphs"].key,
            code="recipe-key",
            fixes=["load_recipe(path).modules has its modules by name"],
        )
        return False
    for key, node in tree.data.items():
        if key not in _KEYS:
            scope.refuse(
                f"a module file has no section {key!r}",
                node.key,
                code="recipe-key",
                details=[f"its sections are {', '.join(_KEYS)}"],
                fixes=did_you_mean(key, _KEYS),
            )
    readable = check_format(tree, scope)
    if "module" not in tree.data:
        fixes = ["add `module: {kind: ...}`"]
        scope.refuse("the file has no module", tree.place, code="recipe-key", fixes=fixes)
    return readable and "module" in tree.data
