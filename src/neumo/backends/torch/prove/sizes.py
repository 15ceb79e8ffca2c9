"""Compares declared sizes with traced ones: which symbol of the trace is which symbol of the signature."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from neumo.backends.torch.prove.trace import Dims, Traced
from neumo.backends.torch.symbolic import LEAST, Untranslatable, read_size
from neumo.types import NeuralType, Size, Symbol, same_size


@dataclass
class Sizes:
    """What the symbols of a trace stand for (`known`), and those of the signature (`bound`).

    `taken` are the symbols that occur in inputs, `ranges` tells by name from where to where the trace holds.

    `limits` says for which sizes of the inputs the trace holds, `fixed` which of them have one number only,
    `guards` what else the trace took for granted.
    """

    known: dict[Any, Size] = field(default_factory=dict[Any, Size])
    bound: dict[Symbol, Size] = field(default_factory=dict[Symbol, Size])
    taken: frozenset[Symbol] = frozenset()
    limits: list[str] = field(default_factory=list[str])
    fixed: list[str] = field(default_factory=list[str])
    guards: tuple[Any, ...] = ()
    ranges: dict[str, tuple[int, int | None]] = field(default_factory=dict[str, tuple[int, int | None]])

    def read(self, dim: Any) -> Size:
        """Translate a traced size; raises `Untranslatable`."""
        for symbol in getattr(dim, "free_symbols", ()):
            self.known.setdefault(symbol, Symbol(str(symbol)).size)
        return read_size(dim, self.known)

    def declared(self, size: Size) -> Size:
        """Write a declared size in the symbols of the trace."""
        return size.substitute(self.bound)

    def text(self, dims: Dims) -> str:
        """Print traced sizes as a shape."""
        return f"({', '.join(self._shown(dim) for dim in dims)})"

    def _shown(self, dim: Any) -> str:
        try:
            return str(self.read(dim))
        except Untranslatable:
            return str(dim)


def solve(takes: Mapping[str, NeuralType], batch: Mapping[str, Any], traced: Traced) -> Sizes:
    """Match the sizes of the traced inputs with the declared ones.

    A bare symbol of the signature takes what the trace has in its place; so a trace that found `T` to be a
    multiple of 2, or equal to `U`, is compared as that, and the limit is told.
    """
    taken = frozenset[Symbol]().union(*(type.symbols() for type in takes.values()))
    sizes = Sizes(taken=taken, guards=traced.guards)
    axes = list(_axes(takes, batch, traced))
    for bare in (True, False):
        for _, declared, dim in axes:
            if (
                declared is not None
                and bare is (declared.symbol is not None)
                and getattr(dim, "is_Symbol", False)
            ):
                sizes.known.setdefault(dim, declared)
    for place, declared, dim in axes:
        if declared is not None and declared.terms:
            _match(sizes, place, declared, sizes.read(dim))
    for symbol, (lower, upper) in traced.ranges.items():
        name = sizes.known.get(symbol)
        sizes.ranges[str(name)] = (lower, upper)
        if name is not None and lower > LEAST:
            sizes.limits.append(f"proved for {name} >= {lower}")
        if name is not None and upper is not None:
            sizes.limits.append(f"proved for {name} <= {upper}")
    return sizes


def bind_outputs(gives: Mapping[str, NeuralType], outputs: Iterable[Any], sizes: Sizes) -> None:
    """Let the symbols that only outputs have be what the trace has in their place, the first of them."""
    for type, made in zip(gives.values(), outputs, strict=True):
        for axis, dim in zip(type.axes, getattr(made, "dims", ()), strict=False):
            if axis.symbol is not None and axis.symbol not in sizes.taken:
                with suppress(Untranslatable):
                    sizes.bound.setdefault(axis.symbol, sizes.read(dim))


def compare_sizes(declared: NeuralType, dims: Dims, sizes: Sizes) -> str:
    """Say in words where the sizes of an output differ from the declared ones; "" where they do not.

    A symbol that occurs in outputs only is whatever the trace has in its place, the same one everywhere.
    Raises `Untranslatable` for a traced size that has no canonical form.
    """
    for number, (axis, dim) in enumerate(zip(declared.axes, dims, strict=True)):
        if axis.size is None:
            continue
        found = sizes.read(dim)
        if axis.size.symbols() - sizes.taken - sizes.bound.keys():
            continue  # of a port that is left out, or of nothing that has an axis: whatever comes
        if not same_size(found, sizes.declared(axis.size)):
            return f"axis {number} is {found}, and {axis} is declared"
    return ""


def _axes(
    takes: Mapping[str, NeuralType], batch: Mapping[str, Any], traced: Traced
) -> Iterator[tuple[str, Size | None, Any]]:
    tensors = iter(traced.inputs)
    for port, type in takes.items():
        for _ in batch[port] if isinstance(batch[port], tuple) else (None,):
            for number, (axis, dim) in enumerate(zip(type.axes, next(tensors).dims, strict=True)):
                yield f"{port}, axis {number}", axis.size, dim


def _match(sizes: Sizes, place: str, declared: Size, found: Size) -> None:
    if declared.symbol is not None:
        sizes.bound.setdefault(declared.symbol, found)
    if found.constant is not None:
        sizes.fixed.append(f"{declared} = {found} ({place})")
    elif not same_size(found, declared) and not same_size(found, sizes.declared(declared)):
        sizes.limits.append(f"proved for {declared} = {found} ({place})")
