"""Compares what a module really gave with its signature: sizes, dtypes, fields, lists and the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor

from neumo.backends.torch.prove.lengths import counted, used_of, wrong_lengths
from neumo.backends.torch.prove.numbers import impossible
from neumo.backends.torch.prove.report import PortProof
from neumo.engine.checks.value_checks import Numbers, dtype_class, numbers_check
from neumo.engine.checks.verify import Bound, is_held, type_guard
from neumo.types import Lengths, Mask, NeuralType, Struct

Ports = Mapping[str, NeuralType]


class Comparison:
    """Compares the outputs of runs with the types that a signature gives, by the guards of a training.

    The guards know lists, structs and texts. A symbol that only outputs have is whatever comes, the same
    number everywhere in one run.
    """

    def __init__(self, takes: Ports, gives: Ports, *, train: bool = False) -> None:
        self.takes = takes
        self.gives = gives
        self._train = train
        self._inputs = {port: type_guard(type.as_single(), port) for port, type in takes.items()}
        self._outputs = {port: type_guard(type, port) for port, type in gives.items()}
        self._taken = {symbol for type in takes.values() for symbol in type.symbols()}
        self._full: dict[str, bool] = {}

    def __call__(
        self,
        batch: Mapping[str, Any],
        outputs: Mapping[str, Any],
        sizes: Mapping[str, int],
        *,
        numbers: bool = True,
    ) -> list[PortProof]:
        """Say of each output what came; with `numbers` the numbers themselves are looked at as well."""
        bound = self._bound(batch, sizes)
        for port, guard in self._outputs.items():
            guard(outputs[port], bound)  # binds the symbols that only outputs have
        wrong = {port: self._wrong(port, value, bound) for port, value in outputs.items()}
        if numbers:
            for port, why in self._wrong_numbers(batch, outputs, bound):
                wrong[port] = wrong[port] or why
        told = f" (with {_told(sizes)})"
        return [
            PortProof(
                port,
                self.gives[port],
                describe(outputs[port]),
                "refuted" if why else "sampled",
                f"{why}{told}" if why else "",
            )
            for port, why in wrong.items()
        ]

    def never_full(self) -> Iterator[str]:
        """Tell which outputs of lengths never reached the size that they count, which only outputs have."""
        for place, full in self._full.items():
            if not full:
                yield f"in no run does a row of {place} have as much as there is: the rest is padding in all"

    def _bound(self, batch: Mapping[str, Any], sizes: Mapping[str, int]) -> Bound:
        bound: Bound = {}
        for port, guard in self._inputs.items():
            value = batch[port]
            for each in value if self.takes[port].many else (value,):
                guard(each, bound)
        for symbol in self._taken - bound.keys():
            if symbol.name in sizes:
                bound[symbol] = (sizes[symbol.name], "the example")
        return bound

    def _wrong(self, port: str, value: Any, bound: Bound) -> str:
        declared = self.gives[port]
        if value is None:
            absent = declared.optional or (declared.when is not None and not self._train)
            return "" if absent else "it is None, and it is not optional"
        known = {symbol: number for symbol, (number, _) in bound.items()}
        axes = [axis.size for axis in declared.axes if axis.size is not None]
        if any(size.symbols() <= known.keys() and size.evaluate(known) < 0 for size in axes):
            return ""  # that example is out of the range of the declared size
        if isinstance(value, Tensor) and value.dim() != declared.rank and not is_held(declared):
            return f"it has {value.dim()} axes, and {declared.rank} are declared"
        return self._outputs[port](value, bound) or ""

    def _wrong_numbers(
        self, batch: Mapping[str, Any], outputs: Mapping[str, Any], bound: Bound
    ) -> Iterator[tuple[str, str]]:
        sizes = {symbol: number for symbol, (number, _) in bound.items()}
        given, made = list(leaves(self.takes, batch)), list(leaves(self.gives, outputs))
        made = [leaf for leaf in made if leaf[2].dim() == leaf[1].rank]
        for place, why in wrong_lengths(given, made):
            yield _port(place), f"{why}{_field(place)}"
        read = Numbers(_to_numpy)
        for _, type, value in given:
            if isinstance(type.element, Lengths):
                numbers_check(type)(value, read, sizes)  # remembers them for the masks
        made.sort(key=lambda leaf: not isinstance(leaf[1].element, Lengths))
        for place, type, value in made:
            if isinstance(type.element, Mask) and counted(type) is None:
                continue  # its rows are not those of the batch
            why = numbers_check(type)(value, read, sizes) or impossible(type, read(value), sizes)
            if why:
                yield _port(place), f"{why}{_field(place)}"
            self._note_full(place, type, value, sizes)

    def _note_full(self, place: str, type: NeuralType, value: Tensor, sizes: Mapping[Any, int]) -> None:
        size = counted(type)
        if size is None or size.symbol is None or size.symbol in self._taken or "[" in place:
            return
        longest = sizes.get(size.symbol)
        if longest is not None and value.numel():
            full = int(used_of(type, _to_numpy(value), longest).max()) == longest
            self._full[place] = full or self._full.get(place, False)


def leaves(types: Ports, values: Mapping[str, Any]) -> list[tuple[str, NeuralType, Tensor]]:
    """The tensors of some ports with their types: fields of structs as `port.field`, items as `port[0]`.

    >>> from neumo.types import B, Loss
    >>> [place for place, _, _ in leaves({"x": Loss()[B.list()]}, {"x": [torch.zeros(()), torch.ones(())]})]
    ['x[0]', 'x[1]']
    """
    return [
        leaf for name, type in types.items() if name in values for leaf in _leaves(name, type, values[name])
    ]


def _leaves(name: str, type: NeuralType, value: Any) -> Iterator[tuple[str, NeuralType, Tensor]]:
    if isinstance(value, Tensor):
        if not is_held(type):
            yield name, type, value
    elif isinstance(value, list | tuple):
        parts = cast("list[Any]", list(value))  # pyright: ignore[reportUnknownArgumentType]
        single = type.as_single() if type.many else type.with_axes(*type.axes[1:])
        for number, part in enumerate(parts):
            yield from _leaves(f"{name}[{number}]", single, part)
    elif isinstance(value, Mapping) and isinstance(type.element, Struct):
        for field, declared in type.element.fields.items():
            yield from _leaves(f"{name}.{field}", declared, value.get(field))  # pyright: ignore


def describe(value: Any) -> str:
    """Say what came: the shape and class of a tensor, what is in a list or a mapping.

    >>> describe({"ids": torch.zeros(2, 3), "texts": ["a", "b"]})
    '{ids: (2, 3) float, texts: [2 times str]}'
    """
    if isinstance(value, Tensor):
        return f"{tuple(value.shape)} {kind_of(value.dtype)}"
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value)
        return "{" + ", ".join(f"{name}: {describe(part)}" for name, part in items.items()) + "}"
    if isinstance(value, list):
        kinds = list(dict.fromkeys(describe(part) for part in cast("list[Any]", value)))
        return f"[{len(cast('list[Any]', value))} times {' or '.join(kinds[:3])}]" if kinds else "[]"
    return type(value).__name__


def kind_of(dtype: torch.dtype) -> str:
    """The class of a dtype: float, int, bool."""
    return dtype_class(torch.empty(0, dtype=dtype))


def _to_numpy(value: Tensor) -> Any:
    value = value.detach().cpu()
    return (value.float() if value.dtype is torch.bfloat16 else value).numpy()


def _port(place: str) -> str:
    return place.partition(".")[0].partition("[")[0]


def _field(place: str) -> str:
    return "" if place == _port(place) else f", in {place}"


def _told(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={number}" for name, number in sizes.items())
