"""One data layer made of several: pairs of items, or all combinations of them, in one batch."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from neumo.graph.module import DataLayer, label_of, signature_of
from neumo.graph.names import FreeNames
from neumo.graph.signature import Signature
from neumo.types import ConfigError, Item, Kind, NeuralType, Size, Symbol
from neumo.types.errors import did_you_mean

if TYPE_CHECKING:
    from neumo.data.source import DataSource

WAYS: Final = ("zip", "cross")
_ENDS: Final = "'0123456789"  # what numbers one symbol from another
Ports = tuple[tuple[str, str], ...]  # (port of a layer, its name here)


def _no_names() -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class MultiData(DataLayer):
    """Reads from several data layers at once, so that their values share a batch and may meet.

    >>> from neumo.types import Acoustic, Audio, B, F, Lengths, T
    >>> @dataclass(frozen=True)
    ... class Frames(DataLayer):
    ...     width: int = 64
    ...     def signature(self) -> Signature:
    ...         frames = Acoustic()[B, F(self.width), T]
    ...         return Signature(gives={"frames": frames, "frames_len": Lengths(T)[B]})
    >>> both = MultiData(layers=(Frames(64), Frames(80)), names={"frames_1": "wide"})
    >>> for port, given in both.signature().gives.items():
    ...     print(port, given)
    frames Acoustic[B, F=64, T]
    frames_len Lengths(T)[B]
    wide Acoustic[B, F=80, T2]
    frames_len_1 Lengths(T2)[B]

    `how="zip"` puts items of the same index together: all layers must have the same items, and the batches
    are those of the first layer, with its order and its limits. `how="cross"` puts every item together with
    every other one, so there are as many as the product; `batch_size` (16) and `shuffle` (True) are its own.

    Ports of later layers that an earlier one has, too, are numbered: `audio`, `audio_1`, `audio_2`. `names`
    gives ports other names, from the numbered one to yours. All outputs have one batch axis; their other
    sizes are those of their own layer. The indices of the layers' items become one port `item`.

    Raises `ConfigError` for an unknown way, for less than two layers and for names that do not fit.
    """

    layers: tuple[DataLayer, ...]
    how: Literal["zip", "cross"] = "zip"
    names: Mapping[str, str] = field(default_factory=_no_names)
    batch_size: int | None = None
    shuffle: bool | None = None

    def __post_init__(self) -> None:
        if self.how not in WAYS:
            raise ConfigError(
                f"data layers cannot be put together by {self.how!r}",
                code="field",
                fixes=[*did_you_mean(str(self.how), WAYS), 'how is "zip" or "cross"'],
            )
        several = isinstance(self.layers, tuple | list)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not several or len(self.layers) < 2:
            got = f"{len(self.layers)} layers" if several else f"{self.layers!r} as its layers"
            raise ConfigError(f"MultiData has {got}, expected 2 data layers or more", code="field")
        for layer in self.layers:
            if not isinstance(layer, DataLayer):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ConfigError(f"MultiData.layers has {layer!r}, which is no data layer", code="field")
        if self.how == "zip" and (self.batch_size is not None or self.shuffle is not None):
            raise ConfigError(
                "the batches of a zip are those of its first layer",
                code="field",
                fixes=[f"set batch_size and shuffle of {label_of(self.layers[0])}, the first layer"],
            )
        if self.batch_size is not None and self.batch_size < 1:
            raise ConfigError(f"batch_size is {self.batch_size}, expected 1 or more", code="field")
        self._check_names()

    def _check_names(self) -> None:
        known = [name for ports in _numbered(self.layers) for _, name in ports]
        for name in self.names:
            if name not in known:
                raise ConfigError(
                    f"no port of these layers is called {name!r}",
                    code="field",
                    details=[f"they are {', '.join(known)}"],
                    fixes=did_you_mean(name, known),
                )
        chosen = [self.names.get(name, name) for name in known]
        for name in chosen:
            if chosen.count(name) > 1 or (name == "item" and _has_items(self.layers)):
                raise ConfigError(f"two ports of MultiData would be called {name!r}", code="field")

    @cached_property
    def ports(self) -> tuple[Ports, ...]:
        """The ports of each layer and what they are called here, without those that hold indices."""
        numbered = _numbered(self.layers)
        return tuple(tuple((port, self.names.get(name, name)) for port, name in ports) for ports in numbered)

    def signature(self) -> Signature:
        """All outputs of all layers, over one batch axis, and the index of each item if a layer tells it."""
        batch = Symbol("B").size
        taken: set[str] = {"B"}
        gives: dict[str, NeuralType] = {}
        for layer, ports in zip(self.layers, self.ports, strict=True):
            given = signature_of(layer).gives
            apart = _apart([given[port] for port, _ in ports], batch, taken)
            gives |= {name: given[port].substitute(apart) for port, name in ports}
        if _has_items(self.layers):
            gives["item"] = _item_type(self.layers).substitute(
                _apart([_item_type(self.layers)], batch, set())
            )
        return Signature(gives=gives)

    def open(self, seed: int) -> DataSource:
        """Open all layers; raises `DataError` if a zip has layers of other items."""
        room = importlib.import_module("neumo.data.multi")  # by name: the data is read above this room
        opened = [layer.open(seed) for layer in self.layers]
        if self.how == "zip":
            return room.zip_sources(opened, self.ports)
        size = 16 if self.batch_size is None else self.batch_size
        return room.CrossSource(
            opened, self.ports, batch_size=size, shuffle=self.shuffle is not False, seed=seed
        )


def _numbered(layers: tuple[DataLayer, ...]) -> list[Ports]:
    """Name the ports of each layer: a port that an earlier layer has, too, is numbered from 1."""
    free = FreeNames(first=1)
    found: list[Ports] = []
    for layer in layers:
        names: list[tuple[str, str]] = []
        for port, given in signature_of(layer).gives.items():
            if not isinstance(given.element, Item):
                names.append((port, free.take(port)))
        found.append(tuple(names))
    return found


def _has_items(layers: tuple[DataLayer, ...]) -> bool:
    return any(
        isinstance(given.element, Item) for layer in layers for given in signature_of(layer).gives.values()
    )


def _item_type(layers: tuple[DataLayer, ...]) -> NeuralType:
    every = [given for layer in layers for given in signature_of(layer).gives.values()]
    return next(given for given in every if isinstance(given.element, Item))


def _apart(types: list[NeuralType], batch: Size, taken: set[str]) -> dict[Symbol, Size]:
    """Give the sizes of one layer names of their own, and its batch axis the size that all layers share."""
    rows = [axis.symbol for given in types for axis in given.axes if axis.kind is Kind.BATCH]
    found: dict[Symbol, Size] = {symbol: batch for symbol in rows if symbol is not None}
    symbols = {symbol for given in types for symbol in given.symbols()} - found.keys()
    for symbol in sorted(symbols, key=lambda each: each.name):
        name, number = symbol.name, 1
        while name in taken:
            number += 1
            name = f"{symbol.name.rstrip(_ENDS)}{number}"
        taken.add(name)
        found[symbol] = Symbol(name).size
    return found
