"""Proves signatures: the sizes that a module's code gives are those that its signature declares.

A module is exported with symbolic sizes; the sizes of its outputs come back as expressions, are brought into
canonical form and compared with the declared ones: for all sizes of 2 and more at once. Where tracing is not
possible (sizes that depend on values, training mode) three sets of sizes are run instead.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from neumo.backends.torch.call import Convention, convention
from neumo.backends.torch.loader import to_tensor
from neumo.backends.torch.prove_lengths import length_cases, wrong_lengths
from neumo.backends.torch.prove_sizes import Sizes, compare_sizes, solve
from neumo.backends.torch.prove_trace import NotTraceable, TracedTensor, reason_of, trace
from neumo.backends.torch.registry import build
from neumo.backends.torch.symbolic import Untranslatable
from neumo.data.generate import example_batch, free_sizes
from neumo.engine.verify import dtype_class
from neumo.graph.module import label_of, signature_of
from neumo.types import NeuralType, Symbol
from neumo.types.errors import BackendError, Row

if TYPE_CHECKING:
    from neumo.graph.module import NeuralModule
    from neumo.graph.signature import Signature

Verdict = Literal["proved", "sampled", "refuted"]
_SHIFTS: Final = (0, 1, 6)  # what is added to the usual sizes in the three runs: both parities


@dataclass(frozen=True)
class PortProof:
    """What was found about one output: the declared type, what came, and the verdict."""

    port: str
    declared: NeuralType
    traced: str
    verdict: Verdict
    reason: str = ""

    def __str__(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        return f"{self.port}: {self.declared}, traced {self.traced}, {self.verdict}{because}"


@dataclass(frozen=True)
class Proof:
    """Says whether the code of a module does what its signature declares.

    `verdict` is "proved" (for all sizes of 2 and more), "sampled" (three sets of sizes agree, `reason` says
    why there is no proof) or "refuted". `limits` lists what the code asks of its sizes beyond the signature.
    """

    module: str
    verdict: Verdict
    ports: tuple[PortProof, ...]
    reason: str = ""
    limits: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether nothing speaks against the signature."""
        return self.verdict != "refuted"

    @property
    def refuted(self) -> list[PortProof]:
        """The outputs that are not as declared."""
        return [port for port in self.ports if port.verdict == "refuted"]

    def require(self) -> Proof:
        """Raise `BackendError` if the signature is refuted; else return the proof."""
        if self.holds:
            return self
        rows: list[Row | str] = []
        for port in self.refuted:
            rows += [Row("port", port.port, port.reason), Row("declared", str(port.declared))]
            rows.append(Row("traced", port.traced))
        raise BackendError(
            f"{self.module} does not do what its signature says" + (f": {self.reason}" * bool(self.reason)),
            code="proof",
            details=rows,
            fixes=["declare what the code gives", "change the code to give what is declared"],
        )

    def __str__(self) -> str:
        because = f": {self.reason}" if self.reason else ""
        lines = [f"{self.module}: {self.verdict}{because}", *(f"  {port}" for port in self.ports)]
        return "\n".join([*lines, *(f"  limit: {limit}" for limit in self.limits)])


def prove(module: NeuralModule, *, train: bool = False, seed: int = 0) -> Proof:
    """Prove the signature of a module against its torch code, or refute it.

    >>> from neumo.graph.adapters import Subsample
    >>> print(prove(Subsample(by=2)))
    Subsample: proved
      lengths: Lengths(ceil(T/2))[B], traced (B) int, proved

    The code is built anew with small example batches made from its types. Sizes, dtype classes and numbers of
    axes are compared for each output; computed lengths and masks are compared with the declared expression on
    real numbers, around every length at which it rounds. Optional ports are tried given and left out. With
    `train=True` the training mode is sampled. `proof.require()` raises if the signature is refuted.
    """
    start = time.perf_counter()
    case = _Case(module, signature_of(module), seed, train)
    found = [case.prove(optional) for optional in case.variants()]
    return _joined(label_of(module), found, time.perf_counter() - start)


@dataclass
class _Found:
    ports: list[PortProof] = field(default_factory=list[PortProof])
    reason: str = ""
    limits: list[str] = field(default_factory=list[str])


@dataclass
class _Case:
    """One module, ready to be built again and again: some keep what they computed in a trace."""

    module: NeuralModule
    signature: Signature
    seed: int
    train: bool

    def variants(self) -> list[bool]:
        """With the optional ports, and without them if there are any."""
        return [True, False] if any(t.optional for t in self.signature.takes.values()) else [True]

    def build(self, connected: Collection[str]) -> nn.Module:
        """The code anew, called as a plan calls it where these ports are connected."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            made = copy.deepcopy(build(self.module))
        rule = convention(self.module, made, connected)
        return Called(made, rule, tuple(self.signature.takes)).train(self.train)

    def batch(self, optional: bool, sizes: Mapping[str, int] | None = None, **more: Any) -> dict[str, Any]:
        takes = self.signature.takes
        also = [axis.size - 1 for t in takes.values() for axis in t.axes if axis.size is not None]
        wanted = () if sizes else tuple(size for size in also if size.terms)
        arrays = example_batch(takes, sizes, self.seed, optional=optional, also=wanted, **more)
        made = {name: pytree.tree_map(_tensor, value) for name, value in arrays.items()}
        return {name: made.get(name) for name in takes}  # an optional port that is left out is None

    def run(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by port; raises what the module raises, and `_Wrong` for another number of them."""
        with torch.no_grad():
            given: Any = self.build(_connected(batch))(*batch.values())
        gives = self.signature.gives
        values = (given,) if len(gives) == 1 or not isinstance(given, tuple | list) else tuple(given)
        if len(values) != len(gives):
            raise _Wrong(f"it returned {len(values)} values, and the signature gives {len(gives)}")
        return dict(zip(gives, values, strict=True))

    def prove(self, optional: bool) -> _Found:
        try:
            if self.train:
                return self._sample(optional, "the training mode is run, not traced")
            try:
                return self._trace(optional)
            except NotTraceable as error:
                return self._sample(optional, str(error))
        except _Wrong as error:
            return self._failed(str(error))

    def _trace(self, optional: bool) -> _Found:
        batch = self.batch(optional)
        self._run(batch, "")
        ports = [*self.signature.takes.values(), *self.signature.gives.values()]
        if any(t.element.nested or any(axis.listed for axis in t.axes) for t in ports):
            raise NotTraceable("lists and structs are run, not traced")
        takes = {port: t for port, t in self.signature.takes.items() if batch[port] is not None}
        axes = [_dynamic(takes[port]) if port in takes else None for port in batch]
        traced = trace(self.build(takes), list(batch.values()), axes)
        sizes = solve(takes, batch, traced)
        found = _Found(limits=list(sizes.limits))
        if len(traced.outputs) != len(self.signature.gives):
            raise NotTraceable("its outputs are not plain tensors")
        try:
            for (port, declared), made in zip(self.signature.gives.items(), traced.outputs, strict=True):
                found.ports.append(_compare(port, declared, made, sizes))
        except Untranslatable as why:
            raise NotTraceable(f"a size cannot be compared: {why}") from why
        if sizes.fixed:
            found.ports = [_weaker(port) for port in found.ports]
            found.reason = f"the trace holds for one size only: {'; '.join(sizes.fixed)}"
            found = _merge(found, self._sample(optional, found.reason))
        return _merge(found, self._real(optional))

    def _real(self, optional: bool) -> _Found:
        """Look at real numbers: lengths and masks around the lengths at which sizes round, and sizes of 1."""
        found = self._smallest(optional)
        for sizes, lengths in length_cases(self.signature):
            batch = self.batch(optional, sizes, lengths=lengths)
            outputs = self._run(batch, f" with {_told(sizes)}")
            for port, why in wrong_lengths(self.signature, batch, outputs):
                found.ports.append(_refuted(port, self.signature.gives[port], outputs[port], why))
        return found

    def _smallest(self, optional: bool) -> _Found:
        """Run with every free size at 1, which a trace does not cover; not all code can."""
        sizes = dict.fromkeys(free_sizes(self.signature.takes), 1)
        try:
            batch = self.batch(optional, sizes)
            outputs = self.run(batch)
        except Exception as error:  # whatever it raises, a larger batch has already passed
            return _Found(limits=[f"fails with {_told(sizes)}: {reason_of(error)}"])
        return _Found([port for port in self._compared(batch, outputs, sizes) if port.verdict == "refuted"])

    def _compared(
        self, batch: Mapping[str, Any], outputs: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> list[PortProof]:
        numbers = _numbers(self.signature, batch, sizes)
        return [_run_proof(p, self.signature.gives[p], value, numbers) for p, value in outputs.items()]

    def _sample(self, optional: bool, reason: str) -> _Found:
        found = _Found(reason=reason)
        seen: dict[str, PortProof] = {}
        for shift in _SHIFTS:
            sizes = {name: n + shift for name, n in free_sizes(self.signature.takes).items()}
            batch = self.batch(optional, sizes)
            for proof in self._compared(batch, self._run(batch, f" with {_told(sizes)}"), sizes):
                if proof.port not in seen or proof.verdict == "refuted":
                    seen[proof.port] = proof
        found.ports = list(seen.values())
        return _merge(found, self._real(optional)) if not self.train else found

    def _run(self, batch: Mapping[str, Any], where: str) -> dict[str, Any]:
        try:
            return self.run(batch)
        except _Wrong:
            raise
        except Exception as error:
            raise _Wrong(f"it fails on a valid batch{where}: {reason_of(error)}") from error

    def _failed(self, reason: str) -> _Found:
        ports = [PortProof(p, t, "nothing", "refuted", reason) for p, t in self.signature.gives.items()]
        return _Found(ports, reason)


class Called(nn.Module):
    """Calls a module with the values of its ports in order, None for those that are left out."""

    def __init__(self, module: nn.Module, rule: Convention, ports: tuple[str, ...]) -> None:
        super().__init__()
        self.module = module
        self.rule = rule
        self.ports = ports

    def forward(self, *values: Any) -> Any:
        """One value, or a tuple in the order of the signature."""
        given = dict(zip(self.ports, values, strict=True))
        arguments = {port: given.get(port) for port in self.rule.order}
        made = self.module(**arguments) if self.rule.named else self.module(*arguments.values())
        return made if self.rule.read is None else self.rule.read(made)


def _connected(batch: Mapping[str, Any]) -> list[str]:
    return [port for port, value in batch.items() if value is not None]


class _Wrong(Exception):
    """Says what a module did that no signature allows."""


def _compare(port: str, declared: NeuralType, made: Any, sizes: Sizes) -> PortProof:
    if made is None:
        verdict: Verdict = "proved" if declared.optional else "refuted"
        return PortProof(port, declared, "None", verdict, "" if declared.optional else "it is not optional")
    if not isinstance(made, TracedTensor):
        return PortProof(port, declared, type(made).__name__, "refuted", "it is not a tensor")
    shown = f"{sizes.text(made.dims)} {_kind(made.dtype)}"
    wrong = _wrong_class(declared, made.dtype, len(made.dims)) or compare_sizes(declared, made.dims, sizes)
    return PortProof(port, declared, shown, "refuted" if wrong else "proved", wrong)


def _wrong_class(declared: NeuralType, dtype: torch.dtype, rank: int) -> str:
    if rank != declared.rank:
        return f"it has {rank} axes, and {declared.rank} are declared"
    wanted, kind = declared.element.dtype, _kind(dtype)
    return "" if wanted in ("any", kind) else f"it holds {kind} numbers, and {wanted} is declared"


def _run_proof(port: str, declared: NeuralType, value: Any, numbers: Mapping[Any, int]) -> PortProof:
    """Compare an output that was really computed; symbols that only outputs have are taken as they come."""
    if value is None:
        return _compare(port, declared, None, Sizes())
    found = shape_of(value, declared)
    if isinstance(found, str):
        kept: Verdict = "sampled" if declared.element.nested and isinstance(value, Mapping) else "refuted"
        return PortProof(port, declared, found, kept, f"it is {found}" * (kept == "refuted"))
    shape, dtype = found
    wrong = _wrong_class(declared, dtype, len(shape))
    known = dict(numbers)
    for axis, number in zip(declared.axes, shape, strict=False):
        if wrong or axis.size is None:
            continue
        if axis.symbol is not None:
            known.setdefault(axis.symbol, number)
        wanted = axis.size.evaluate(known) if axis.size.symbols() <= known.keys() else number
        if wanted != number and wanted >= 0:  # below 0 is no size: that example is out of range
            wrong = f"{axis} is {wanted}, and {number} came"
    return PortProof(port, declared, f"{shape} {_kind(dtype)}", "refuted" if wrong else "sampled", wrong)


def shape_of(value: Any, type: NeuralType) -> tuple[tuple[int, ...], torch.dtype] | str:
    """The shape of a value with its list axes in front, and its dtype; or in words what it is instead."""
    if isinstance(value, list):
        parts = [shape_of(part, type) for part in value]
        shapes = [part for part in parts if not isinstance(part, str)]
        if len(set(shapes)) == len(shapes[:1]) == len(parts[:1]):
            return ((len(value), *shapes[0][0]), shapes[0][1]) if shapes else "an empty list"
        return "a list of values that differ"
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype
    return f"a {value.__class__.__name__}"


def _refuted(port: str, declared: NeuralType, value: Any, why: str) -> PortProof:
    return PortProof(port, declared, f"{tuple(value.shape)} {_kind(value.dtype)}", "refuted", why)


def _numbers(signature: Signature, batch: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[Symbol, int]:
    """The number behind each symbol of the inputs."""
    symbols = {symbol for port in batch for symbol in signature.takes[port].symbols()}
    found = {symbol: sizes[symbol.name] for symbol in symbols if symbol.name in sizes}
    for port, value in batch.items():
        for each in value if isinstance(value, tuple) else (value,):
            known = shape_of(each, signature.takes[port])
            for axis, number in zip(signature.takes[port].axes, known[0], strict=False):
                if axis.symbol is not None and isinstance(number, int):
                    found.setdefault(axis.symbol, number)
    return found


def _dynamic(type: NeuralType) -> Any:
    axes = tuple(n for n, axis in enumerate(type.axes) if axis.size is None or axis.size.terms)
    return (axes, axes) if type.many else axes


def _weaker(port: PortProof) -> PortProof:
    verdict: Verdict = "sampled" if port.verdict == "proved" else port.verdict
    return PortProof(port.port, port.declared, port.traced, verdict, port.reason)


_ORDER: Final = {"proved": 0, "sampled": 1, "refuted": 2}


def _merge(one: _Found, other: _Found) -> _Found:
    """Join what two looks at the same outputs found: the worse verdict of each."""
    ports = {port.port: port for port in one.ports}
    for port in other.ports:
        known = ports.get(port.port)
        if known is None or _ORDER[port.verdict] > _ORDER[known.verdict]:
            ports[port.port] = port
    return _Found(list(ports.values()), one.reason or other.reason, [*one.limits, *other.limits])


def _joined(name: str, found: list[_Found], seconds: float) -> Proof:
    whole = found[0]
    for other in found[1:]:
        whole = _merge(whole, other)
    verdict: Verdict = "proved"
    for port in whole.ports:
        verdict = port.verdict if _ORDER[port.verdict] > _ORDER[verdict] else verdict
    return Proof(name, verdict, tuple(whole.ports), whole.reason, tuple(dict.fromkeys(whole.limits)), seconds)


def _tensor(array: Any) -> Any:
    return to_tensor(array, torch.float32) if getattr(array, "dtype", None) is not None else array


def _kind(dtype: torch.dtype) -> str:
    return dtype_class(torch.empty(0, dtype=dtype))


def _told(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={number}" for name, number in sizes.items())
