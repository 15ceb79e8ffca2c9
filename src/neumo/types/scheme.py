"""Polymorphic signatures: each call gets fresh symbols, flexible in inputs, rigid in outputs only."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from neumo.types.element import Var
from neumo.types.environment import Environment
from neumo.types.size import Size, Symbol
from neumo.types.type import NeuralType

Ports = Mapping[str, NeuralType]


class Scheme:
    """The types of a signature, prepared once so that each call can get its own copy quickly.

    >>> from neumo.types.axis import B, T
    >>> from neumo.types.compare import compare
    >>> from neumo.types.element import Audio, Lengths
    >>> scheme = Scheme({"audio": Audio()[B, T]}, {"speed": Audio()[B, T("T2")]})
    >>> call = scheme.instantiate("SpeedPerturb")
    >>> env = Environment()
    >>> compare(call.takes["audio"], Audio()[B(8), T(100)], env).ok
    True
    >>> call.results(env)["speed"]
    Audio[B=8, T2]
    """

    # `known` symbols are sizes of the graph that the outputs may mention: they stay what they are.
    __slots__ = ("_output_only", "_output_only_vars", "gives", "takes")

    def __init__(self, takes: Ports, gives: Ports, known: Collection[Symbol] = ()) -> None:
        self.takes = dict(takes)
        self.gives = dict(gives)
        inputs = frozenset[Symbol]().union(*(t.symbols() for t in self.takes.values()))
        outputs = frozenset[Symbol]().union(*(t.symbols() for t in self.gives.values()))
        self._output_only = tuple(sorted(outputs - inputs - frozenset(known), key=_key))
        input_vars = {v for t in self.takes.values() for v in t.variables()}
        output_vars = dict.fromkeys(v for t in self.gives.values() for v in t.variables())
        self._output_only_vars = tuple(v for v in output_vars if v not in input_vars)

    def instantiate(self, owner: str = "") -> Instance:
        """Open one call; `owner` is the module's name, shown in messages (`B@SpeechData`).

        The symbols of the inputs are not copied: they mean something in the call's own `Environment` only,
        and what comes out of a call holds rigid copies alone, so that two calls cannot meet in one symbol.
        """
        sizes = {s: s.fresh(rigid=True, owner=owner).size for s in self._output_only}
        facets: dict[Var, Any] = {v: v.fresh(rigid=True, owner=owner) for v in self._output_only_vars}
        return Instance(self, owner, sizes, facets)


class Instance:
    """One call of a signature: `takes` to compare with what is given, `results` for what comes out."""

    __slots__ = ("_facets", "_scheme", "_sizes", "owner")

    def __init__(self, scheme: Scheme, owner: str, sizes: dict[Symbol, Size], facets: dict[Var, Any]) -> None:
        self._scheme = scheme
        self._sizes = sizes
        self._facets = facets
        self.owner = owner

    @property
    def takes(self) -> dict[str, NeuralType]:
        """The wanted types, to be compared in the environment of this call."""
        return self._scheme.takes

    @property
    def gives(self) -> dict[str, NeuralType]:
        """The output types before anything is solved."""
        return self._scheme.gives

    def results(self, env: Environment) -> dict[str, NeuralType]:
        """Give the output types after all connections: symbols nobody solved are rigid, variables unknown.

        Unsolved symbols come from optional ports that were left out, or from sizes known at run time only;
        their rigid copies are kept in `env`, so that everything that is printed later agrees on them.
        """
        for t in self._scheme.gives.values():
            for symbol in t.symbols():
                if not symbol.rigid and symbol not in env.sizes and symbol not in self._sizes:
                    env.bind_size(symbol, symbol.fresh(rigid=True, owner=self.owner).size)
            for var in t.variables():
                if not var.rigid and var not in env.facets and var not in self._facets:
                    self._facets[var] = None
        sizes = {**env.sizes, **self._sizes} if self._sizes else env.sizes
        facets = {**env.facets, **self._facets}
        return {
            name: t.substitute(sizes, facets, env.axes, env.clocks) for name, t in self._scheme.gives.items()
        }


def rigid_scope(types: Ports, owner: str = "") -> dict[str, NeuralType]:
    """Make types that share one scope of rigid symbols: open inputs of a graph, outputs of a data layer.

    >>> from neumo.types.axis import B, T
    >>> from neumo.types.element import Audio, Lengths
    >>> types = rigid_scope({"audio": Audio()[B, T], "audio_len": Lengths(T)[B]}, "inputs")
    >>> types["audio"].axes[1].size == types["audio_len"].element.of
    True
    """
    return Scheme({}, types).instantiate(owner).results(Environment())


def solve_order(t: NeuralType) -> int:
    """Sort key of ports: those whose sizes are bare symbols or numbers first, since they decide the others.

    >>> from neumo.types.axis import B, T
    >>> from neumo.types.element import Audio
    >>> solve_order(Audio()[B, T]), solve_order(Audio()[B, T // 2])
    (0, 1)
    """
    return int(any(size.terms and size.symbol is None for size in t.sizes()))


def _key(symbol: Symbol) -> tuple[Any, ...]:
    return symbol.key
