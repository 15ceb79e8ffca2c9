"""Proposes a signature for any torch module from an example call, for its author to confirm."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from neumo.backends.torch.propose.guess import Guess
from neumo.backends.torch.propose.probe import free_axes, probe, sizes_that_meet, widen
from neumo.backends.torch.prove.trace import ByName, NotTraceable, TracedTensor, reason_of, trace
from neumo.backends.torch.symbolic import Untranslatable, read_size
from neumo.graph.signature import Signature
from neumo.graph.type_source import names_in, signature_source
from neumo.types import Size, Symbol
from neumo.types.errors import BackendError, did_you_mean


@dataclass(frozen=True)
class InferredSignature:
    """A proposed signature, as an object and as Python source, and what in it was guessed.

    `guesses` says by port what neither the trace nor the calls could tell; an output that is called like an
    input is there as `name (given)`. `how` is "traced" (the sizes hold
    for all sizes that the module takes) or "probed" (they were fitted to calls with other sizes).
    """

    signature: Signature
    source: str
    guesses: Mapping[str, str]
    how: str

    def __str__(self) -> str:
        return self.source


def infer_signature(
    module: nn.Module, example: Any, *, names: Sequence[str] | Mapping[str, str] | None = None
) -> InferredSignature:
    """Propose the signature of a module from an example call, for its author to read and to confirm.

    >>> conv = nn.Conv1d(80, 256, 5, stride=2, padding=2)
    >>> print(infer_signature(conv, torch.randn(2, 80, 37), names=["encoded"]))
    # Proposed by neumo.infer_signature from one call (traced): confirm what is marked as a guess.
    from neumo import B, F, Features, Signature, T
    <BLANKLINE>
    Signature(
        takes={
            "input": Features()[B, F(80), T],  # guess: features, axis 0 is the batch, axis 2 is time
        },
        gives={
            "encoded": Features()[B, F(256), T.ceildiv(2)],  # guess: features
        },
    )

    `example` is a tensor, a tuple of arguments, or a dict of them by name. `names` are those of the outputs,
    in order, or new names for those that they have. Arguments that are not tensors keep their value. The
    module is called in evaluation mode, several times. Raises `BackendError` if it fails on the example.
    """
    call = _Call(module, example)
    made = _named_outputs(call.outputs, names)
    values, how = widen(call.run, call.tensors), "traced"
    try:
        inputs, outputs, operations = _traced(call, values)
    except (NotTraceable, Untranslatable):
        found = probe(call.run, values)
        inputs, outputs, operations, how = found.inputs, found.outputs, [], "probed"
    named = dict(zip(made, outputs, strict=True))
    guess = Guess(module, values, inputs, named, made, operations, call.run)
    signature = guess.signature()
    notes, given = guess.comments(), guess.comments(made=True)
    source = _source(signature, notes, given, how, call.fixed)
    both = {f"{port} (given)" if port in notes else port: told for port, told in given.items()}
    return InferredSignature(signature, source, notes | both, how)


class _Call(nn.Module):
    """An example call: the tensors by name of the argument, and what else is given."""

    def __init__(self, module: nn.Module, example: Any) -> None:
        super().__init__()
        self.module = copy.deepcopy(module).eval()  # tracing may leave traces in what a module keeps
        arguments = _arguments(module, example)
        self.tensors = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
        self.fixed = {name: value for name, value in arguments.items() if name not in self.tensors}
        try:
            self.outputs = self._call(self.tensors)
        except Exception as error:
            raise BackendError(
                f"{type(module).__name__} fails on the example: {reason_of(error)}", code="example"
            ) from error

    def forward(self, **values: Any) -> Any:
        """What the module gives, with the fixed arguments."""
        return self.module(**values, **self.fixed)

    def run(self, values: Mapping[str, Tensor]) -> list[Tensor]:
        """The tensors that the module gives."""
        return [value for value in pytree.tree_leaves(self._call(values)) if isinstance(value, Tensor)]

    def _call(self, values: Mapping[str, Tensor]) -> Any:
        with torch.no_grad():
            return self(**values)


def _arguments(module: nn.Module, example: Any) -> dict[str, Any]:
    """The arguments of the call by name, as `forward` calls them."""
    forward = inspect.signature(module.forward)
    positional = (
        () if isinstance(example, Mapping) else (example,) if isinstance(example, Tensor) else example
    )
    try:
        bound = forward.bind(*positional, **(example if isinstance(example, Mapping) else {}))
    except TypeError as error:
        raise BackendError(
            f"{type(module).__name__}.forward does not take the example: {error}",
            code="example",
            details=[f"it takes {forward}"],
        ) from error
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = forward.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            raise BackendError(
                f"{type(module).__name__}.forward takes *{name}, and ports need names",
                code="example",
                fixes=["give the arguments names, in a module that calls this one"],
            )
        found.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    return found


def _traced(
    call: _Call, values: Mapping[str, Tensor]
) -> tuple[dict[str, list[Size]], list[list[Size | None]], list[str]]:
    """The sizes by tracing; raises `NotTraceable` where the module takes more sizes than the trace."""
    every = [tuple(range(value.dim())) for value in values.values()]
    found = trace(ByName(call, list(values)), list(values.values()), every)
    made = [output for output in found.outputs if isinstance(output, TracedTensor)]
    inputs = {
        name: [read_size(dim, _symbols(dim)) for dim in tensor.dims]
        for name, tensor in zip(values, found.inputs, strict=True)
    }
    fixed = [(name, n) for name, sizes in inputs.items() for n, size in enumerate(sizes) if not size.terms]
    if free_axes(call.run, values, fixed):
        raise NotTraceable("a size that may change is fixed in the trace")
    same = sizes_that_meet(call.run, values, inputs)
    inputs = {name: [size.substitute(same) for size in sizes] for name, sizes in inputs.items()}
    read = [[_read(dim) for dim in tensor.dims] for tensor in made]
    outputs = [[None if size is None else size.substitute(same) for size in sizes] for sizes in read]
    kept = zip(found.outputs, found.operations, strict=True)
    return inputs, outputs, [operation for output, operation in kept if isinstance(output, TracedTensor)]


def _symbols(dim: Any) -> dict[Any, Size]:
    return {symbol: Symbol(str(symbol)).size for symbol in getattr(dim, "free_symbols", ())}


def _read(dim: Any) -> Size | None:
    try:
        return read_size(dim, _symbols(dim))
    except Untranslatable:
        return None


def _named_outputs(outputs: Any, names: Sequence[str] | Mapping[str, str] | None) -> dict[str, torch.dtype]:
    """The outputs by name: as they are called in a named tuple or a dict, else numbered."""
    leaves = pytree.tree_flatten_with_path(outputs)[0]
    tensors = [(path, value) for path, value in leaves if isinstance(value, Tensor)]
    found = ["_".join(_key(part) for part in path) for path, _ in tensors]
    found = [name if name.isidentifier() else f"output{f'_{name}' if name else ''}" for name in found]
    if isinstance(names, Mapping):
        unknown = next((name for name in names if name not in found), None)
        if unknown is not None:
            raise _unknown_output(f"it gives no {unknown!r}", found, did_you_mean(unknown, found))
        found = [names.get(name, name) for name in found]
    elif names is not None:
        if len(names) != len(found):
            raise _unknown_output(f"it gives {len(found)} tensors, and {len(names)} are named", found, ())
        found = list(names)
    return {name: value.dtype for name, (_, value) in zip(found, tensors, strict=True)}


def _unknown_output(what: str, found: list[str], fixes: Any) -> BackendError:
    return BackendError(
        f"the outputs cannot be named so: {what}",
        code="outputs",
        details=[f"it gives {', '.join(found)}"],
        fixes=fixes,
    )


def _key(part: Any) -> str:
    for name in ("name", "key", "idx"):
        if hasattr(part, name):
            return str(getattr(part, name))
    return str(part)


def _source(
    signature: Signature,
    notes: Mapping[str, str],
    given: Mapping[str, str],
    how: str,
    fixed: Mapping[str, Any],
) -> str:
    kept = [f"# Arguments that keep the value of the example: {', '.join(fixed)}."] if fixed else []
    takes = signature_source(Signature(takes=signature.takes), notes)
    gives = signature_source(Signature(gives=signature.gives), given)
    return "\n".join(
        [
            f"# Proposed by neumo.infer_signature from one call ({how}): confirm what is marked as a guess.",
            *kept,
            f"from neumo import {', '.join(names_in(signature))}",
            "",
            takes.removesuffix(")") + gives.removeprefix("Signature(\n"),
        ]
    )
