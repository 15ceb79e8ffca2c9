"""The registry: finds the class that a recipe or a model file names, without importing what the file says."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING

from neumo.types import GraphError
from neumo.types.errors import matches

if TYPE_CHECKING:
    from neumo.graph.module import NeuralModule

# Our own rooms that define modules; a name that is not known yet makes the registry look into these only.
COLLECTIONS = (
    "neumo.graph.adapters",
    "neumo.graph.assume",
    "neumo.graph.inputs",
    "neumo.graph.multi",
    "neumo.metrics",
    "neumo.asr.modules",
)

_kinds: dict[str, dict[str, type[NeuralModule]]] = {}  # class name -> {module.qualname: class}, oldest first


def register(cls: type[NeuralModule]) -> type[NeuralModule]:
    """Make a class known to recipes by its name; defining a subclass of `NeuralModule` does this itself."""
    homonyms = _kinds.setdefault(cls.__name__, {})
    homonyms.pop(_path(cls), None)  # a notebook cell that is run again replaces its class
    homonyms[_path(cls)] = cls
    return cls


def lookup(kind: str) -> type[NeuralModule]:
    """Find a module class by name: `ConvEncoder`, or `my_models.ConvEncoder` where two have that name.

    >>> lookup("Resample").__name__
    'Resample'

    Raises `GraphError` with the nearest match if no class that has been defined so far is called so. Nothing
    is imported because a file says it: import the module that defines your classes before loading the file.
    """
    if not _is_ours(kind):  # a class of ours may have that name too, whatever has been imported so far
        _open_collections()
    found = _found(kind)
    if not found:
        raise _unknown(kind)
    if len(found) > 1:
        raise GraphError(
            f"{len(found)} classes are called {kind}",
            code="kind",
            why="Which of them is meant would depend on what was imported first.",
            fixes=[f"write {path}" for path in found],
        )
    return next(iter(found.values()))


def kind_of(cls: type[NeuralModule]) -> str:
    """Give the shortest name under which `lookup` finds this very class."""
    found = list(_found(cls.__name__).values())
    return cls.__name__ if len(found) == 1 and found[0] is cls else _path(cls)


def known_kinds() -> list[str]:
    """List the names of all classes that recipes can use now, sorted."""
    _open_collections()
    return sorted(_kinds)


def _path(cls: type[NeuralModule]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _is_ours(kind: str) -> bool:
    return any(path.startswith("neumo.") for path in _kinds.get(kind, {}))


def _found(kind: str) -> dict[str, type[NeuralModule]]:
    """Give the classes of that name or path; ours win, so that a recipe means the same whatever is imported.

    A class that was defined again under the same path, as in a notebook, is one class: the newest.
    """
    name = kind.rpartition(".")[2]
    homonyms = _kinds.get(name, {})
    if name != kind:
        return {kind: homonyms[kind]} if kind in homonyms else {}
    ours = {path: cls for path, cls in homonyms.items() if path.startswith("neumo.")}
    return ours or homonyms


def _open_collections() -> None:
    for name in COLLECTIONS:
        if name not in sys.modules and _exists(name):
            importlib.import_module(name)


def _exists(name: str) -> bool:
    """Say whether this installation has that room; `find_spec` imports our own parent package at most."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _unknown(kind: str) -> GraphError:
    near, far = (matches(kind.rpartition(".")[2], _kinds, 3, cutoff) for cutoff in (0.85, 0.6))
    home = kind.rpartition(".")[0]
    imports = [f"import {home} before the file is loaded, if it defines this class"] if home else []
    return GraphError(
        f"no module kind is called {kind!r}",
        code="kind",
        fixes=[f"did you mean {name}?" for name in near or _alike(kind) or far]
        + ["list the kinds: neumo describe"]
        + imports
        + ["import your own module that defines the class first: a file never makes neumo import code"],
    )


def _alike(kind: str) -> list[str]:
    """List kinds of which the name or the role says the same: `WER`, or `CTCDecoder` for a decoder of CTC."""
    asked = _words(kind)
    shared: dict[str, int] = {}
    for name, homonyms in _kinds.items():
        cls, words = next(iter(homonyms.values())), _words(name)
        if kind.lower() == "".join(word[0] for word in words):
            return [name]
        shared[name] = len(set(asked) & {*words, cls.role}) if cls.role != "adapter" else 0
    most = max(shared.values(), default=0)
    best = [name for name, count in shared.items() if count == most]
    return sorted(best) if most > 0 and len(best) <= 3 else []


def _words(name: str) -> list[str]:
    """Take a name apart: `GreedyCTC` is greedy and ctc."""
    import re

    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z0-9]*|[a-z0-9]+", name)]
