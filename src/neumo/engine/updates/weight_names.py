"""Which weights are meant: patterns over `module.weight`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TypeAlias

from neumo.types.errors import GraphError, did_you_mean

Names: TypeAlias = Mapping[str, Sequence[str]]  # the names of the weights and statistics of each module
Chosen: TypeAlias = dict[str, "tuple[str, ...] | None"]  # by module: some of its names, or None for all

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
                details=[f"its modules are {listed_names(modules)}"],
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
            details=[f"its modules are {listed_names(modules)}"],
            fixes=[f"did you mean {near[0] + dot + rest!r}?"] if near else [],
        )
    here = {module: weights for module, weights in names.items() if not module or fnmatchcase(module, head)}
    if not any(here.values()):
        return GraphError(
            f"{' and '.join(here) or owner} of {owner} has no weights"
            if modules
            else f"{owner} has no weights",
            code="weight-name",
            details=[f"its modules are {listed_names(modules)}"] if modules else [],
        )
    full = [f"{module}.{name}" if module else name for module, weights in here.items() for name in weights]
    layers = {name.rpartition(".")[0] for name in full} - set(here)
    near = get_close_matches(pattern, [*full, *sorted(layers)], n=2, cutoff=0.5)
    return GraphError(
        f"{owner} has no weight {pattern!r}",
        code="weight-name",
        details=[f"there are {listed_names(full)}"],
        fixes=[f"did you mean {name!r}?" for name in near],
    )


def listed_names(names: Sequence[str]) -> str:
    """Name the first few of these, and how many more there are."""
    hidden = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {hidden} more" if hidden > 0 else "") if names else "none"
