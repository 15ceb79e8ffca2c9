"""Signatures: the typed ports that a neural module takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from keyword import iskeyword

from neumo.types import GraphError, NeuralType, Obligation, Scheme, Symbol
from neumo.types.clocks import check_clocks
from neumo.types.coherence import implied_symbols, substituted


def _no_ports() -> Mapping[str, NeuralType]:
    return {}


@dataclass(frozen=True)
class Signature:
    """States what a module takes and what it gives, port by port, in order.

    >>> from neumo.types import Audio, B, Lengths, T
    >>> mono = Signature(takes={"audio": Audio(rate=16000)[B, T]}, gives={"audio_len": Lengths(T)[B]})
    >>> list(mono.takes), list(mono.gives)
    (['audio'], ['audio_len'])

    Symbols that occur in `takes` are solved anew at each call; symbols that occur in `gives` only are new at
    each call and equal to nothing else, except those of `known`, which are sizes of the graph. `assumes`
    lists what a call takes on trust, as (port, obligation). Raises `GraphError` for a port that is no Python
    name or not typed.
    """

    takes: Mapping[str, NeuralType] = field(default_factory=_no_ports)
    gives: Mapping[str, NeuralType] = field(default_factory=_no_ports)
    known: frozenset[Symbol] = field(default=frozenset(), repr=False, kw_only=True)
    assumes: tuple[tuple[str, Obligation], ...] = field(default=(), repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for side in ("takes", "gives"):
            ports: Mapping[str, object] = getattr(self, side)
            if not isinstance(ports, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise GraphError(
                    f"`{side}` of a signature is {ports!r}, not a dict of ports",
                    code="signature",
                    fixes=[f'{side}={{"name": type, ...}}, or leave {side} out where there is no port'],
                )
            for name, port in ports.items():
                _check_port(side, name, port)
        known = implied_symbols([*self.takes.values(), *self.gives.values()])
        for side in ("takes", "gives") if known else ():
            ports = {name: substituted(port, known) for name, port in getattr(self, side).items()}
            object.__setattr__(self, side, ports)
        check_clocks(self.takes)

    @cached_property
    def scheme(self) -> Scheme:
        """The ports prepared for many calls."""
        return Scheme(self.takes, self.gives, self.known)

    @cached_property
    def train_only(self) -> frozenset[str]:
        """The ports that are there in training only."""
        return frozenset(name for name, port in self.takes.items() if port.when == "train")

    def __str__(self) -> str:
        return f"({_ports(self.takes)}) -> ({_ports(self.gives)})"


def _check_port(side: str, name: object, port: object) -> None:
    if not isinstance(name, str) or not name.isidentifier() or iskeyword(name) or name.startswith("_"):
        raise GraphError(
            f"a port of `{side}` is called {name!r}, which is not a name that can be written in a call",
            code="signature",
            fixes=["use a Python name that does not start with an underscore, such as 'mel_len'"],
        )
    if not isinstance(port, NeuralType):
        raise GraphError(
            f"port {name!r} of `{side}` is {port!r}, which is not a neural type",
            code="signature",
            fixes=["write the element with its axes, such as Audio(rate=16000)[B, T] or Loss()[()]"],
        )


def _ports(ports: Mapping[str, NeuralType]) -> str:
    return ", ".join(f"{name}: {port}" for name, port in ports.items())
