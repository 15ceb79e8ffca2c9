"""Which weights are meant: patterns over `module.weight`, and arrays renamed or changed before loading."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, TypeVar

from neumo.types.errors import CheckpointError, GraphError, did_you_mean

Names: TypeAlias = Mapping[str, Sequence[str]]  # the names of the weights and statistics of each module
Chosen: TypeAlias = dict[str, "tuple[str, ...] | None"]  # by module: some of its names, or None for all
Rename: TypeAlias = Mapping[str, str] | Callable[[str], "str | None"]
Change: TypeAlias = Literal["transpose"] | Callable[[Any], Any]

Entry = TypeVar("Entry")

_WENT_NOWHERE = re.compile(r"(?:left over|shape|numbers) +(\S+)")
_SHOWN = 6  # names listed in a message


def select(names: Names, patterns: Iterable[str], owner: str) -> Chosen:
    r"""Find the modules and weights that patterns mean.

    >>> names = {"encoder": ["norm.weight", "norm.bias", "out.weight"], "head": ["weight"]}
    >>> select(names, ["head", "encoder.norm"], "the graph")
    {'head': None, 'encoder': ('norm.weight', 'norm.bias')}
    >>> select(names, ["*.weight"], "the graph")
    {'encoder': ('norm.weight', 'out.weight'), 'head': None}

    A pattern is a module, a module and the path of a weight or a layer in it, or either with `*`, `?` and
    `[...]` (a `*` goes across dots). The name of a module may be empty: then the path stands alone. Raises
    `GraphError` for a pattern that means nothing in `owner`.
    """
    found: dict[str, set[str]] = {}
    whole: set[str] = set()
    for pattern in patterns:
        hits = list(_hits(names, pattern))
        if not hits:
            raise _unknown(names, pattern, owner)
        for module, weight in hits:
            found.setdefault(module, set()).add(weight)
        whole.update(module for module in names if module and fnmatchcase(module, pattern))
    return {
        module: None
        if module in whole or len(weights) == len(names[module])
        else tuple(name for name in names[module] if name in weights)
        for module, weights in found.items()
    }


def check_weights(names: Names, owner: str) -> None:
    """Raise `GraphError` where nothing has weights, which could be kept as they are or let free."""
    if not any(names.values()):
        raise GraphError(f"{owner} has no weights", code="weight-name")


def check_modules(known: Iterable[str], wanted: Iterable[str], owner: str) -> None:
    """Raise `GraphError` with the nearest match if a name is not that of a module."""
    modules = list(known)
    for name in wanted:
        if name not in modules:
            raise GraphError(
                f"{owner} has no module {name!r}",
                code="weight-name",
                details=[f"its modules are {_listed(modules)}"],
                fixes=did_you_mean(name, modules),
            )


def check_heads(known: Iterable[str], patterns: Iterable[str], owner: str) -> None:
    """Check the modules of patterns before any weight exists: raises `GraphError` where there is none.

    >>> check_heads(["encoder", "head"], ["encoder.*.norm.*", "he*"], "the recipe")
    >>> check_heads(["encoder", "head"], ["encodr.norm.bias"], "train.freeze: the recipe")
    Traceback (most recent call last):
        ...
    neumo.types.errors.GraphError: GraphError[weight-name]: train.freeze: the recipe has no module 'encodr'
    <BLANKLINE>
      its modules are encoder, head
    <BLANKLINE>
      fix      did you mean 'encoder'?
    """
    modules = list(known)
    for pattern in patterns:
        head = pattern.partition(".")[0]
        if not any(fnmatchcase(module, head) for module in modules):
            check_modules(modules, [head], owner)


def renamed(arrays: Mapping[str, Any], rename: Rename | None) -> dict[str, Any]:
    """Give arrays other names before they are loaded.

    >>> renamed({"enc.w": 1, "enc.b": 2, "w": 3}, {"enc": "encoder", "w": "head.w"})
    {'encoder.w': 1, 'encoder.b': 2, 'head.w': 3}
    >>> renamed({"model.w": 1, "step": 2}, lambda old: old[6:] if old.startswith("model.") else None)
    {'w': 1}

    A mapping renames whole names, or what stands before a dot (the longest that fits); a function gets each
    name and returns the new one, or None to leave the array out. Raises `CheckpointError` if a key of the
    mapping occurs nowhere, or two arrays get one name.
    """
    if rename is None:
        return dict(arrays)
    change = rename if callable(rename) else _by_start(rename, arrays)
    found: dict[str, Any] = {}
    before: dict[str, str] = {}
    for old, array in arrays.items():
        new = change(old)
        if new is None:
            continue
        if new in found:
            raise CheckpointError(
                f"two arrays would be called {new!r}: {before[new]} and {old}",
                code="weights",
                fixes=["rename one of them to something else, or leave it out"],
            )
        found[new], before[new] = array, old
    return found


def owned(
    entries: Mapping[str, Entry],
    arrays: Iterable[str],
    rename: Rename | None,
    modules: Collection[str],
    *,
    unused: Collection[str] = (),
) -> dict[str, Entry]:
    """Give what a file says of its modules to the modules that get their weights.

    >>> owned({"enc": 1, "dec": 2}, ["enc.w", "dec.w"], {"enc": "first"}, ["first", "second"])
    {'first': 1}
    >>> owned({"": 1}, ["w"], lambda name: f"head.{name}", ["head"], unused=["head.w"])
    {}

    `arrays` are the names in the file, `unused` those of arrays, as they were renamed, that went nowhere. A
    module that gets the weights of several modules, or a part of one that was divided, gets nothing.
    """
    names = list(arrays)
    change = rename if callable(rename) else _by_start(rename or {}, dict.fromkeys(names))
    found: dict[str, list[Entry]] = {}
    for module, entry in entries.items():
        changed = [change(name) for name in names if not module or name.startswith(f"{module}.")]
        kept = [name for name in changed if name is not None and name not in unused]
        heads = {"" if "" in modules else name.partition(".")[0] for name in kept}
        if len(heads) == 1:
            found.setdefault(heads.pop(), []).append(entry)
    return {head: one[0] for head, one in found.items() if head in modules and len(one) == 1}


def unused_names(left: Iterable[str]) -> set[str]:
    """Read in what a partial load left out the names of the arrays that went nowhere.

    >>> sorted(unused_names(["left over  enc.v 3", "shape      enc.w is 3 in the file, 4 in the model"]))
    ['enc.v', 'enc.w']
    """
    return {hit[1] for row in left if (hit := _WENT_NOWHERE.match(row))}


def transformed(arrays: Mapping[str, Any], transform: Mapping[str, Change] | None) -> dict[str, Any]:
    """Change some arrays before they are loaded, by the names that they have in the model.

    >>> import numpy
    >>> transformed({"head.w": numpy.zeros((2, 3))}, {"head.*": "transpose"})["head.w"].shape
    (3, 2)

    Keys are names or patterns; a change is "transpose", which reverses the axes, or a function of the array.
    Raises `CheckpointError` for a pattern that no name fits.
    """
    found = dict(arrays)
    for pattern, change in (transform or {}).items():
        names = [name for name in arrays if fnmatchcase(name, pattern)]
        if not names:
            raise CheckpointError(
                f"transform: no array is called {pattern!r}",
                code="weights",
                details=[f"there are {_listed(list(arrays))}"],
                fixes=did_you_mean(pattern, arrays),
            )
        if change != "transpose" and not callable(change):
            raise CheckpointError(
                f"transform: {change!r} is neither 'transpose' nor a function",
                code="weights",
                fixes=[f"transform={{{pattern!r}: 'transpose'}}"],
            )
        for name in names:
            found[name] = _reversed(found[name]) if change == "transpose" else change(found[name])
    return found


def _reversed(array: Any) -> Any:
    """Reverse the axes; arrays of numpy and tensors of torch have different words for it."""
    axes = range(array.ndim - 1, -1, -1)
    return array.permute(*axes) if hasattr(array, "permute") else array.transpose(*axes)


def _hits(names: Names, pattern: str) -> Iterator[tuple[str, str]]:
    """The weights that a pattern means, as (module, weight); those of a whole module if it names one."""
    below = f"{pattern}.*"
    for module, weights in names.items():
        for weight in weights:
            full = f"{module}.{weight}" if module else weight
            if fnmatchcase(full, pattern) or fnmatchcase(full, below):
                yield module, weight


def _unknown(names: Names, pattern: str, owner: str) -> GraphError:
    head, dot, rest = pattern.partition(".")
    modules = [module for module in names if module]
    if modules and not any(fnmatchcase(module, head) for module in modules):
        near = get_close_matches(head, modules, n=1, cutoff=0.5)
        return GraphError(
            f"{owner} has no module {head!r}",
            code="weight-name",
            details=[f"its modules are {_listed(modules)}"],
            fixes=[f"did you mean {near[0] + dot + rest!r}?"] if near else [],
        )
    here = {module: weights for module, weights in names.items() if not module or fnmatchcase(module, head)}
    if not any(here.values()):
        return GraphError(
            f"{' and '.join(here) or owner} of {owner} has no weights"
            if modules
            else f"{owner} has no weights",
            code="weight-name",
            details=[f"its modules are {_listed(modules)}"] if modules else [],
        )
    full = [f"{module}.{name}" if module else name for module, weights in here.items() for name in weights]
    layers = {name.rpartition(".")[0] for name in full} - set(here)
    near = get_close_matches(pattern, [*full, *sorted(layers)], n=2, cutoff=0.5)
    return GraphError(
        f"{owner} has no weight {pattern!r}",
        code="weight-name",
        details=[f"there are {_listed(full)}"],
        fixes=[f"did you mean {name!r}?" for name in near],
    )


def _by_start(rename: Mapping[str, str], arrays: Mapping[str, Any]) -> Callable[[str], str]:
    starts = sorted(rename, key=len, reverse=True)
    unused = [old for old in starts if not any(name == old or name.startswith(f"{old}.") for name in arrays)]
    if unused:
        tops = {name[: at if at >= 0 else None] for name in arrays for at in (name.find("."),)}
        raise CheckpointError(
            f"rename: no array is called {unused[0]!r}",
            code="weights",
            details=[f"there are {_listed(list(arrays))}"],
            fixes=did_you_mean(unused[0], [*arrays, *tops]),
        )

    def change(name: str) -> str:
        for old in starts:
            if name == old or name.startswith(f"{old}."):
                return rename[old] + name[len(old) :]
        return name

    return change


def _listed(names: Sequence[str]) -> str:
    hidden = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {hidden} more" if hidden > 0 else "") if names else "none"
