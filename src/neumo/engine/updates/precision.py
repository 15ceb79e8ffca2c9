"""Precisions by name, modules that have one of their own, and how the loss of an fp16 training is scaled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, TypeAlias, cast

from neumo.engine.checks.arguments import check_fields, check_kind
from neumo.graph.module import NeuralModule, label_of
from neumo.types.errors import BackendError, ConfigError, GraphError, did_you_mean, nearest

Precision = Literal[
    "fp32", "tf32", "bf16", "fp16", "fp64", "pure-bf16",
    "O0", "O1", "O2", "O3", "mxprO0", "mxprO1", "mxprO2", "mxprO3",
]  # fmt: skip

WORDS: Final[Mapping[str, str]] = {
    "fp32": "fp32",
    "tf32": "tf32 products (10 bits of mantissa), fp32 weights and losses",
    "bf16": "bf16 products, fp32 weights and losses",
    "fp16": "fp16 products with dynamic loss scaling, fp32 weights and losses",
    "fp64": "fp64",
    "pure-bf16": "bf16 weights, optimizer state and products; fp32 norms, statistics and losses",
}

# The optimization levels of apex and of the toolkit of 2019, and what was meant by them.
LEVELS: Final[Mapping[str, tuple[str, str]]] = {
    "O0": ("fp32", "O0 is fp32"),
    "O1": ("fp16", "O1 is fp16: products in fp16, weights and losses in fp32, dynamic loss scaling"),
    "O2": (
        "fp16",
        "O2 is computed as O1: the fp32 weights are its master weights, of which fp16 copies are made",
    ),
    "O3": (
        "pure-bf16",
        "O3 was all of fp16, where gradients below 6e-8 vanish and values above 65504 overflow; "
        "here it is all of bf16, which has the range of fp32 and needs no loss scaling",
    ),
}

Precisions: TypeAlias = (
    Mapping[NeuralModule | str, Precision]
    | Mapping[str, Precision]
    | Mapping[NeuralModule, Precision]
    | Sequence[tuple[NeuralModule | str, Precision]]
)


def read_precision(name: str) -> tuple[str, str]:
    """Return the precision that a name means, and what must be said if it is the name of a level.

    >>> read_precision("bf16")
    ('bf16', '')
    >>> read_precision("mxprO1")[0]
    'fp16'

    Raises `BackendError` with the nearest match for another name.
    """
    if name in WORDS:
        return name, ""
    level = name.removeprefix("mxpr") if isinstance(cast("Any", name), str) else name
    if level in LEVELS:
        return LEVELS[level]
    raise BackendError(
        f"there is no precision {name!r}",
        code="precision",
        details=[f"precisions: {', '.join(WORDS)}; {', '.join(LEVELS)} are other names of some of them"],
        fixes=did_you_mean(str(name), [*WORDS, *LEVELS]),
    )


@dataclass(frozen=True, eq=False)
class Override:
    """A precision for some modules: `key` is a module, or the name or pattern of modules and of layers in
    them.
    """

    key: NeuralModule | str
    precision: str

    @property
    def label(self) -> str:
        """What messages call it."""
        return self.key if isinstance(self.key, str) else label_of(self.key)

    def is_of(self, module: NeuralModule, name: str) -> bool:
        """Say whether it is about the whole of a module, which a graph calls `name`."""
        return fnmatchcase(name, self.key) if isinstance(self.key, str) else self.key is module


def read_overrides(given: Precisions) -> tuple[Override, ...]:
    """Read `precisions={...}`; raises `ConfigError` and `BackendError` for what cannot be meant.

    >>> [(each.key, each.precision) for each in read_overrides({"decoder": "fp32", "encoder.0*": "O1"})]
    [('decoder', 'fp32'), ('encoder.0*', 'fp16')]
    """
    pairs = given.items() if isinstance(given, Mapping) else given
    found: list[Override] = []
    for key, name in cast("Iterable[tuple[Any, Any]]", pairs):
        if not isinstance(key, str | NeuralModule) or not key:
            raise ConfigError(
                f"precisions: {key!r} is neither a module nor the name of one",
                code="precision",
                fixes=["precisions={'decoder': 'fp32'}, or {decoder: 'fp32'} with the object"],
            )
        precision, _ = read_precision(name)
        if precision == "tf32":
            raise ConfigError(
                "precisions: tf32 is for the whole factory",
                code="precision",
                why="It is a switch of the process, which the backward pass of one module cannot have alone.",
                fixes=["NeuralFactory(precision='tf32')"],
            )
        found.append(Override(key, precision))
    return tuple(found)


def check_overrides(
    overrides: Iterable[Override], modules: Mapping[str, NeuralModule], owner: str
) -> list[Override]:
    """Return the overrides that mean a module of `modules`; raises `GraphError` for a name that means none.

    A module that is an object may be absent. Of a path only the module is looked up; its layers are there
    once it is built.
    """
    met: list[Override] = []
    for override in overrides:
        key = override.key
        if isinstance(key, str):
            if not _heads(key, modules):
                raise _unknown(key, list(modules), owner)
            met.append(override)
            continue
        twins = [name for name, module in modules.items() if module is not key and module == key]
        if twins:  # a mapping keeps one of two equal keys, so which one was meant is not known
            raise ConfigError(
                f"precisions: {override.label} and {twins[0]} of {owner} are equal, and could be mixed up",
                code="precision",
                fixes=[f"use names: precisions={{{twins[0]!r}: {override.precision!r}}}"],
            )
        if any(module is key for module in modules.values()):
            met.append(override)
    return met


def _heads(pattern: str, modules: Iterable[str]) -> list[str]:
    """The modules that a pattern, or what stands before its first dot, means."""
    head = pattern.partition(".")[0]
    return [name for name in modules if fnmatchcase(name, head) or fnmatchcase(name, pattern)]


def _unknown(pattern: str, modules: Sequence[str], owner: str) -> GraphError:
    head, dot, rest = pattern.partition(".")
    near = nearest(head, modules)
    return GraphError(
        f"precisions: no module of {owner} is called {head!r}",
        code="precision",
        details=[f"its modules are {', '.join(modules) or 'none'}"],
        fixes=[f"did you mean {near + dot + rest!r}?"] if near is not None else [],
    )


@dataclass(frozen=True, kw_only=True)
class LossScale:
    """How the loss of an fp16 training is scaled, so that small gradients do not vanish (Micikevicius et al.
    2018, arXiv:1710.03740).

    >>> LossScale(largest=2.0**20).bounded(2.0**21)
    1048576.0

    The scale starts at `initial`. A step whose gradient overflows is left out, and the scale is multiplied by
    `backoff`; after `growth_interval` steps in a row without an overflow it is multiplied by `growth`. It
    stays within `smallest` and `largest`: an overflow at the smallest scale is not the fault of the scale,
    and counts as a step that is not finite. `growth_interval=None` keeps the scale as it is.

    Raises `ConfigError` for numbers that cannot be meant.
    """

    initial: float = 2.0**16
    growth: float = 2.0
    backoff: float = 0.5
    growth_interval: int | None = 2000
    smallest: float = 1.0
    largest: float = 2.0**24

    def __post_init__(self) -> None:
        check_fields(self, code="loss-scale")
        if not 0 < self.smallest <= self.largest < float("inf"):
            raise _refused(f"smallest={self.smallest} and largest={self.largest} are no bounds")
        if not self.smallest <= self.initial <= self.largest:
            raise _refused(f"initial={self.initial} is not within {self.smallest} and {self.largest}")
        if not 1 < self.growth < float("inf"):
            raise _refused(f"growth={self.growth} is not above 1")
        if not 0 < self.backoff < 1:
            raise _refused(f"backoff={self.backoff} is not between 0 and 1")
        if self.growth_interval is not None and self.growth_interval < 1:
            raise _refused(f"growth_interval={self.growth_interval} is below 1")

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest scale that there can be; one number if it stays as it is."""
        static = self.growth_interval is None
        return (self.initial, self.initial) if static else (self.smallest, self.largest)

    def bounded(self, scale: float) -> float:
        """Return the scale that is allowed and nearest to one."""
        least, most = self.bounds
        return min(max(scale, least), most)


def read_loss_scale(given: LossScale | float | None) -> LossScale | None:
    """Read `loss_scale=`: a number is a scale that stays as it is.

    >>> read_loss_scale(128.0).bounds
    (128.0, 128.0)
    """
    if given is None or isinstance(given, LossScale):
        return given
    check_kind("train", "loss_scale", given, float, code="loss-scale")
    scale = float(given)
    if not 0 < scale < float("inf"):
        raise _refused(f"loss_scale={given} is not above 0")
    return LossScale(initial=scale, growth_interval=None, smallest=scale, largest=scale)


def _refused(what: str) -> ConfigError:
    return ConfigError(f"LossScale: {what}", code="loss-scale")
