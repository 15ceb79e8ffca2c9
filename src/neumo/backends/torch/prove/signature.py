"""Proves signatures: the sizes that a module's code gives are those that its signature declares.

A module is exported with symbolic sizes; the sizes of its outputs come back as expressions, are brought into
canonical form and compared with the declared ones: for all sizes of 2 and more at once. What a trace of one
example cannot show is run: the other sides of branches on sizes, computed lengths, the numbers themselves.
Where tracing is not possible (sizes that depend on values, training mode) the module is only run.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from neumo.backends.torch.call import Convention, convention
from neumo.backends.torch.prove.cases import SizeCase, guard_cases, size_cases, told_guards, within
from neumo.backends.torch.prove.compare import Comparison, kind_of
from neumo.backends.torch.prove.lengths import length_cases
from neumo.backends.torch.prove.report import Found, PortProof, Proof, Verdict, joined
from neumo.backends.torch.prove.sizes import Sizes, bind_outputs, compare_sizes, solve
from neumo.backends.torch.prove.trace import NotTraceable, TracedTensor, reason_of, trace
from neumo.backends.torch.reading.loader import to_tensor
from neumo.backends.torch.registry import build
from neumo.backends.torch.symbolic import Untranslatable
from neumo.data.generate import example_batch, free_sizes
from neumo.graph.module import label_of, signature_of
from neumo.graph.signature import Signature
from neumo.types import Kind, NeuralType, kind_of_name
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.graph.module import NeuralModule

__all__ = ["PortProof", "Proof", "prove"]


def prove(module: NeuralModule, *, train: bool = False, seed: int = 0) -> Proof:
    """Prove the signature of a module against its torch code, or refute it.

    >>> from neumo.graph.adapters import Subsample
    >>> print(prove(Subsample(by=2)))
    Subsample: proved
      lengths: Lengths(ceil(T/2))[B], traced (B) int, proved

    The code is built anew and called with small example batches made from its types. Sizes, dtype classes and
    numbers of axes are compared for each output, in a trace and in runs with many sizes: neighbours, sizes on
    the other side of every branch of the trace, a batch of one. In the runs the numbers are looked at as
    `verify="values"` does, fields and lists are compared, and computed lengths and masks are compared with
    the declared expression around every length at which it rounds. Code that changes its inputs in place is
    refuted, since others read the same values. Optional ports are tried given and left out; ports `when
    train` are left out, and given in runs in training mode. With `train=True` only the training mode is run.
    `proof.require()` raises if the signature is refuted.
    """
    start = time.perf_counter()
    signature = signature_of(module)
    found = [_Case(module, signature, seed, *each).prove() for each in _variants(signature, train)]
    return joined(label_of(module), found, time.perf_counter() - start)


def _variants(signature: Signature, train: bool) -> Iterator[tuple[bool, frozenset[str]]]:
    """Training mode or not, and the ports that are left out."""
    aims = signature.train_only
    optional = frozenset(port for port, type in signature.takes.items() if type.optional)
    out = frozenset[str]() if train else aims
    yield train, out
    if optional - out:
        yield train, optional | out
    if aims and not train:
        yield True, frozenset()


@dataclass
class _Case:
    """One module with some of its ports, ready to be built: in a trace, some keep what they computed."""

    module: NeuralModule
    signature: Signature
    seed: int
    train: bool
    absent: frozenset[str] = frozenset()
    limits: list[str] = field(default_factory=list[str])

    @cached_property
    def takes(self) -> dict[str, NeuralType]:
        """The ports that are given."""
        return {port: t for port, t in self.signature.takes.items() if port not in self.absent}

    @cached_property
    def comparison(self) -> Comparison:
        return Comparison(self.takes, self.signature.gives, train=self.train)

    @cached_property
    def ready(self) -> nn.Module:
        """The code for all runs."""
        return self.build()

    def build(self) -> nn.Module:
        """The code anew, called as a plan calls it where these ports are connected."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            made = copy.deepcopy(build(self.module))
        rule = convention(self.module, made, self.takes)
        return Called(made, rule, tuple(self.signature.takes)).train(self.train)

    def batch(self, sizes: Mapping[str, int] | None = None, **more: Any) -> dict[str, Any]:
        """Tensors for each port, None for those that are left out."""
        also = [axis.size - 1 for t in self.takes.values() for axis in t.axes if axis.size is not None]
        wanted = () if sizes else tuple(size for size in also if size.terms)
        arrays = example_batch(self.takes, sizes, self.seed, also=wanted, **more)
        made = {name: pytree.tree_map(_tensor, value) for name, value in arrays.items()}
        return {name: made.get(name) for name in self.signature.takes}

    def run(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs by port.

        Raises what the module raises, and `_Wrong` for another number of them or a changed input.
        """
        before = pytree.tree_map(_copied, dict(batch))
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(self.seed)
            given: Any = self.ready(*batch.values())
        changed = next((port for port in batch if not _equal(batch[port], before[port])), None)
        if changed is not None:
            raise _Wrong(f"it changes its input {changed} in place, which others may read as well")
        gives = self.signature.gives
        values = (given,) if len(gives) == 1 or not isinstance(given, tuple | list) else tuple(given)
        if len(values) != len(gives):
            raise _Wrong(f"it returned {len(values)} values, and the signature gives {len(gives)}")
        return dict(zip(gives, values, strict=True))

    def prove(self) -> Found:
        try:
            if self.train:
                return self._sample("the training mode is run, not traced")
            try:
                return self._trace()
            except NotTraceable as error:
                return self._sample(str(error))
        except _Wrong as error:
            return self._failed(str(error))

    def _trace(self) -> Found:
        batch = self.batch()
        first = self._compared(SizeCase(free_sizes(self.takes)), batch)
        ports = [*self.takes.values(), *self.signature.gives.values()]
        if any(t.element.nested or any(axis.listed for axis in t.axes) for t in ports):
            raise NotTraceable("lists and structs are run, not traced")
        axes = [_dynamic(self.takes[port]) if port in self.takes else None for port in batch]
        traced = trace(self.build(), list(batch.values()), axes)
        sizes = solve(self.takes, batch, traced)
        if len(traced.outputs) != len(self.signature.gives):
            raise NotTraceable("its outputs are not plain tensors")
        branches = told_guards(sizes, free_sizes(self.takes))
        found = Found(limits=[*sizes.limits, *branches])
        bind_outputs(self.signature.gives, traced.outputs, sizes)
        try:
            for (port, declared), made in zip(self.signature.gives.items(), traced.outputs, strict=True):
                found.ports.append(_compare(port, declared, made, sizes, branched=bool(branches)))
        except Untranslatable as why:
            raise NotTraceable(f"a size cannot be compared: {why}") from why
        if any(port.verdict == "sampled" for port in found.ports):
            found.reason = "the code branches on its sizes, and the trace took one way"
        found = found.merged(Found(_refuted(first)))
        if _refuted(found.ports):
            return found
        found = found.merged(self._runs(sizes))
        if sizes.fixed:
            return found.weaker(f"the trace holds for one size only: {'; '.join(sizes.fixed)}")
        return found.merged(Found(limits=list(self.comparison.never_full())))

    def _sample(self, reason: str) -> Found:
        """Run only: the usual sizes, and all others."""
        usual = SizeCase(free_sizes(self.takes))
        found = Found(self._compared(usual, self.batch(usual.sizes)), reason)
        return found.merged(self._runs(None))

    def _runs(self, sizes: Sizes | None) -> Found:
        """Look at real outputs: many sizes, and lengths around those at which sizes round."""
        free = free_sizes(self.takes)
        found = Found(limits=self.limits)
        cases = [SizeCase(dict.fromkeys(free, 1), strict=False)]
        cases += size_cases(self.signature.gives, free, far=sizes is None or bool(sizes.fixed))
        if sizes is not None:
            cases += guard_cases(sizes, free)
        done: set[tuple[int, ...]] = set()
        ranges = sizes.ranges if sizes is not None else {}
        for case in cases:
            if tuple(case.sizes.values()) not in done:
                done.add(tuple(case.sizes.values()))
                found.ports += _refuted(self._compared(within(case, ranges), None))
        if not self.train:
            for numbers, lengths in length_cases(Signature(self.takes, self.signature.gives)):
                case = SizeCase(numbers)
                found.ports += _refuted(self._compared(case, self.batch(numbers, lengths=lengths)))
        return found

    def _compared(self, case: SizeCase, batch: Mapping[str, Any] | None) -> list[PortProof]:
        """Run once and compare; a failure is a limit where it may be one, and `_Wrong` where not."""
        try:
            batch = batch or self.batch(case.sizes)
        except ConfigError:  # sizes that leave an axis of an input less than nothing
            return []
        told = f"with {_told(case.sizes)}"
        _ = self.ready  # what is wrong with building it is told as it is
        try:
            outputs = self.run(batch)
        except _Wrong:
            raise
        except Exception as error:  # whatever it raises
            if not case.strict:
                self.limits += [f"fails {told}: {reason_of(error)}"] * (not case.told)
                return []
            raise _Wrong(f"it fails on a valid batch {told}: {reason_of(error)}") from error
        return self.comparison(batch, outputs, case.sizes, numbers=case.strict or _usual(case, self.takes))

    def _failed(self, reason: str) -> Found:
        gives = self.signature.gives.items()
        return Found([PortProof(p, t, "nothing", "refuted", reason) for p, t in gives], reason, self.limits)


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


class _Wrong(Exception):
    """Says what a module did that no signature allows."""


def _compare(
    port: str, declared: NeuralType, made: Any, sizes: Sizes, *, branched: bool = False
) -> PortProof:
    """Compare a traced output; behind a branch on sizes another expression may be the same number."""
    if made is None:
        absent = declared.optional or declared.when is not None
        verdict: Verdict = "proved" if absent else "refuted"
        return PortProof(port, declared, "None", verdict, "" if absent else "it is not optional")
    if not isinstance(made, TracedTensor):
        return PortProof(port, declared, type(made).__name__, "refuted", "it is not a tensor")
    shown = f"{sizes.text(made.dims)} {kind_of(made.dtype)}"
    wrong = _wrong_class(declared, made.dtype, len(made.dims))
    if wrong:
        return PortProof(port, declared, shown, "refuted", wrong)
    differs = compare_sizes(declared, made.dims, sizes)
    if differs and branched:
        return PortProof(port, declared, shown, "sampled")
    return PortProof(port, declared, shown, "refuted" if differs else "proved", differs)


def _wrong_class(declared: NeuralType, dtype: torch.dtype, rank: int) -> str:
    if rank != declared.rank:
        return f"it has {rank} axes, and {declared.rank} are declared"
    wanted, kind = declared.element.dtype, kind_of(dtype)
    return "" if wanted in ("any", kind) else f"it holds {kind} numbers, and {wanted} is declared"


def _refuted(ports: list[PortProof]) -> list[PortProof]:
    return [port for port in ports if port.verdict == "refuted"]


def _usual(case: SizeCase, takes: Mapping[str, NeuralType]) -> bool:
    """Whether only the batch is smaller than usual: with a single frame, numbers may not be defined."""
    usual = free_sizes(takes)
    return all(n >= usual[name] for name, n in case.sizes.items() if kind_of_name(name) is not Kind.BATCH)


def _dynamic(type: NeuralType) -> Any:
    axes = tuple(n for n, axis in enumerate(type.axes) if axis.size is None or axis.size.terms)
    return (axes, axes) if type.many else axes


def _tensor(array: Any) -> Any:
    return to_tensor(array, torch.float32) if getattr(array, "dtype", None) is not None else array


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def _equal(one: Any, other: Any) -> bool:
    mine, yours = pytree.tree_leaves(one), pytree.tree_leaves(other)
    pairs = zip(mine, yours, strict=False)
    return len(mine) == len(yours) and all(
        torch.equal(a, b) if isinstance(a, Tensor) else a == b for a, b in pairs
    )


def _told(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={number}" for name, number in sizes.items())
