"""Arrays that get other names, axes or values before they are loaded as weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, TypeVar

from neumo.engine.updates.weight_names import listed_names
from neumo.types.errors import CheckpointError, did_you_mean

Rename: TypeAlias = Mapping[str, str] | Callable[[str], "str | None"]
Change: TypeAlias = Literal["transpose"] | Callable[[Any], Any]

Entry = TypeVar("Entry")

_WENT_NOWHERE = re.compile(r"(?:left over|shape|numbers) +(\S+)")


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
                details=[f"there are {listed_names(list(arrays))}"],
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


def _by_start(rename: Mapping[str, str], arrays: Mapping[str, Any]) -> Callable[[str], str]:
    starts = sorted(rename, key=len, reverse=True)
    unused = [old for old in starts if not any(name == old or name.startswith(f"{old}.") for name in arrays)]
    if unused:
        tops = {name[: at if at >= 0 else None] for name in arrays for at in (name.find("."),)}
        raise CheckpointError(
            f"rename: no array is called {unused[0]!r}",
            code="weights",
            details=[f"there are {listed_names(list(arrays))}"],
            fixes=did_you_mean(unused[0], [*arrays, *tops]),
        )

    def change(name: str) -> str:
        for old in starts:
            if name == old or name.startswith(f"{old}."):
                return rename[old] + name[len(old) :]
        return name

    return change
