"""What can go where in the catalogue: which outputs feed which inputs, as they are or through an adapter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from neumo.graph.adapters.chains import single_chains
from neumo.graph.catalogue import Entry, catalogue
from neumo.graph.module import NeuralModule, signature_of
from neumo.graph.settings import changed_settings
from neumo.types import (
    Comparison,
    Environment,
    GraphError,
    NeuralType,
    Outcome,
    Size,
    Symbol,
    compare,
    did_you_mean,
)

_ORDER = ("same", "subtype", "bound", "assumed", "adapter", "settings")


@dataclass(frozen=True)
class Connection:
    """Says that one output of the catalogue can feed one input, and how.

    `outcome` is that of the comparison ("same", "subtype", "bound", "assumed"), or "adapter" where the one
    named in `through` has to stand between, or "settings" where the modules have to be built as `through`
    says. `assumes` lists what would be checked only when the graph runs.
    """

    giver: str
    taker: str
    outcome: str
    through: str = ""
    assumes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Give the connection as plain values."""
        return {
            "from": self.giver,
            "to": self.taker,
            "outcome": self.outcome,
            "through": self.through or None,
            "assumes": list(self.assumes),
        }

    @property
    def order(self) -> tuple[int, int]:
        """What connections are sorted by, the surest first."""
        return _ORDER.index(self.outcome), len(self.assumes)


@dataclass(frozen=True)
class _End:
    """One port of the catalogue (or of a graph), with the module that may be built otherwise."""

    name: str
    type: NeuralType
    module: NeuralModule | None = None
    open: frozenset[Symbol] = frozenset()  # sizes that the inputs of the module decide


def connections(entries: Iterable[Entry] | None = None) -> list[Connection]:
    """List every connection between two modules of the catalogue, adapters aside, in a fixed order.

    >>> from neumo.graph.catalogue import Entry
    >>> from neumo.metrics import WordErrorRate
    >>> connections([Entry(WordErrorRate)])
    []
    """
    found = [entry for entry in (catalogue() if entries is None else entries) if entry.cls.role != "adapter"]
    givers = [end for entry in found for end in _outputs(entry)]
    takers = [end for entry in found for end in _inputs(entry)]
    pairs = (_connect(giver, taker) for giver in givers for taker in takers)
    return [connection for connection in pairs if connection is not None]


def fits_modules(wanted: NeuralType) -> list[Connection]:
    """List the outputs of the whole catalogue that can feed a port of this type, the surest first.

    >>> from neumo.types import B, Lengths, T
    >>> fits_modules(Lengths(T)[B])[0].outcome
    'bound'
    """
    taker = _End("", wanted)
    found = (_connect(giver, taker) for entry in _modules() for giver in _outputs(entry))
    return sorted((each for each in found if each is not None), key=lambda each: each.order)


def feeds_modules(given: NeuralType) -> list[Connection]:
    """List the ports of the whole catalogue that a value of this type can feed, the surest first."""
    giver = _End("", given)
    found = (_connect(giver, taker) for entry in _modules() for taker in _inputs(entry))
    return sorted((each for each in found if each is not None), key=lambda each: each.order)


def fits_port(name: str) -> tuple[list[Connection], list[Connection]]:
    """List what can feed the input `Kind.port`, and what the output of that name can feed.

    One of the two is empty unless a module takes and gives a port of that name. Raises `GraphError` for an
    unknown kind or port, with the nearest match.
    """
    kind, _, port = name.partition(".")
    entries = {entry.kind: entry for entry in catalogue()}
    if kind not in entries:
        raise GraphError(f"no module kind is called {kind!r}", code="kind", fixes=did_you_mean(kind, entries))
    entry = entries[kind]
    takes = [end for end in _inputs(entry) if end.name == name]
    gives = [end for end in _outputs(entry) if end.name == name]
    if not takes and not gives:
        ports = [*entry.signature.takes, *entry.signature.gives]
        raise GraphError(
            f"{kind} has no port {port!r}",
            code="unknown-port",
            details=[f"its ports are {', '.join(ports)}"] if ports else [entry.unknown or "it has no ports"],
            fixes=did_you_mean(port, ports),
        )
    into = (_connect(giver, taker) for each in _modules() for giver in _outputs(each) for taker in takes)
    out_of = (_connect(giver, taker) for each in _modules() for taker in _inputs(each) for giver in gives)
    both = [[each for each in found if each is not None] for found in (into, out_of)]
    return sorted(both[0], key=lambda each: each.order), sorted(both[1], key=lambda each: each.order)


def _modules() -> list[Entry]:
    return [entry for entry in catalogue() if entry.cls.role != "adapter"]


def _outputs(entry: Entry) -> Iterator[_End]:
    for port, type_ in entry.outputs.items():
        yield _End(f"{entry.kind}.{port}", type_, entry.module, entry.open)


def _inputs(entry: Entry) -> Iterator[_End]:
    for port, type_ in entry.signature.takes.items():
        yield _End(f"{entry.kind}.{port}", type_.as_single(), entry.module)


def _connect(giver: _End, taker: _End) -> Connection | None:
    """Compare two ports of the catalogue; None where nothing makes them fit."""
    found = compare(taker.type, giver.type, Environment())
    if found.ok:
        assumes = tuple(map(str, found.obligations))
        return Connection(giver.name, taker.name, found.outcome.name.lower(), assumes=assumes)
    return _opened(giver, taker, found) or _adapted(giver, taker) or _rebuilt(giver, taker, found)


def _opened(giver: _End, taker: _End, found: Comparison) -> Connection | None:
    """Assume the sizes that the giver passes on from its inputs: an augmentation of any number of mels."""
    sizes: dict[Symbol, Size] = {}
    for reason in found.reasons:
        symbol = reason.gap.given.symbol if reason.gap is not None else None
        if reason.gap is None or symbol is None or symbol not in giver.open:
            return None
        sizes[symbol] = reason.gap.wanted
    again = compare(taker.type, giver.type.substitute(sizes), Environment())
    if not again.ok:
        return None
    assumes = [f"{symbol.name} = {size}" for symbol, size in sizes.items()]
    return Connection(giver.name, taker.name, "assumed", assumes=(*assumes, *map(str, again.obligations)))


def _adapted(giver: _End, taker: _End) -> Connection | None:
    for (applied,) in single_chains(taker.type, giver.type):
        found = compare(taker.type, applied.result, Environment())
        if found.outcome not in (Outcome.ASSUMED, Outcome.MISMATCH):
            return Connection(giver.name, taker.name, "adapter", applied.adapter.notation())
    return None


def _rebuilt(giver: _End, taker: _End, found: Comparison) -> Connection | None:
    """Try other settings of the module that gives, then of the one that takes."""
    if any(reason.part not in ("facet", "size") for reason in found.reasons):
        return None
    for end, giving in ((giver, True), (taker, False)):
        port = end.name.rpartition(".")[2]
        for module, words in changed_settings(end.module, found.reasons, giving=giving) if end.module else ():
            signature = signature_of(module)
            if giving:
                changed = signature.scheme.instantiate().results(Environment()).get(port)
                again = compare(taker.type, changed, Environment()) if changed is not None else None
            else:
                wanted = signature.takes.get(port)
                again = compare(wanted.as_single(), giver.type, Environment()) if wanted is not None else None
            if again is not None and again.ok:
                assumes = tuple(map(str, again.obligations))
                return Connection(giver.name, taker.name, "settings", words, assumes)
    return None
