"""Runs plans: a list of (module, source slots, target slots, slots to free), walked once a step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from neumo.backends.torch.device import Place
from neumo.engine.plan import ABSENT, Plan, PlanStep
from neumo.engine.verify import Guards
from neumo.graph.module import signature_of
from neumo.types.errors import BackendError, NeumoError, did_you_mean

Function: TypeAlias = Callable[..., Any]
Call: TypeAlias = tuple[Function, tuple[int, ...], "int | tuple[int, ...]", tuple[int, ...]]


class TorchProgram:
    """A plan as calls of torch modules: give it the feeds, it returns the wanted values.

    As long as its guards ask to, each value is checked against its type as soon as it exists; then the
    program goes on without them, and a call costs no more than in a hand-written loop.
    """

    def __init__(
        self, plan: Plan, modules: Sequence[nn.Module], place: Place, guards: Guards | None = None
    ) -> None:
        self.plan = plan
        self.modules = list({id(module): module for module in modules}.values())
        self._calls = [_call(step, module, place) for step, module in zip(plan.steps, modules, strict=True)]
        self._feeds = tuple(feed.slot for feed in plan.feeds)
        self._wanted = tuple(plan.wanted.values())
        self._slots = plan.slots
        self._at = 0  # which call runs, for the message if it fails
        self._guards = guards
        self._run: Callable[[Sequence[Any]], list[Any]] = self._bare if guards is None else self._guarded

    def __call__(self, feeds: Sequence[Any]) -> list[Any]:
        """Run the plan once."""
        return self._run(feeds)

    def _bare(self, feeds: Sequence[Any]) -> list[Any]:
        slots: list[Any] = [None] * self._slots
        for slot, value in zip(self._feeds, feeds, strict=True):
            slots[slot] = value
        at = 0
        try:
            for function, sources, targets, freed in self._calls:
                given = function(*[slots[source] for source in sources])
                if targets.__class__ is int:
                    slots[targets] = given  # pyright: ignore[reportCallIssue, reportArgumentType]
                else:
                    for target, value in zip(targets, given, strict=True):  # pyright: ignore[reportArgumentType]
                        slots[target] = value
                for slot in freed:
                    slots[slot] = None
                at += 1
        except Exception:
            self._at = at
            raise
        return [slots[slot] for slot in self._wanted]

    def _guarded(self, feeds: Sequence[Any]) -> list[Any]:
        guards = self._guards
        if guards is None or not guards.begin():
            self._run = self._bare
            return self._bare(feeds)
        slots: list[Any] = [None] * self._slots
        for slot, value in zip(self._feeds, feeds, strict=True):
            slots[slot] = value
            guards.made(slot, value)
        for at, (function, sources, targets, freed) in enumerate(self._calls):
            self._at = at
            guards.read(at, slots)
            given = function(*[slots[source] for source in sources])
            for target, value in zip(*_paired(self.plan.steps[at], targets, given), strict=True):
                slots[target] = value
                guards.made(target, value)
            for slot in freed:
                slots[slot] = None
        return [slots[slot] for slot in self._wanted]

    def explain(self, error: Exception) -> Exception:
        """Say which module failed, and on what; errors of neumo already do."""
        if isinstance(error, NeumoError):
            return error
        step = self.plan.steps[self._at]
        takes = signature_of(step.module).takes
        ports = [f"{port}: {takes[port]}" for port in step.sources if port in takes]
        return BackendError(
            f"{step.name} failed: {type(error).__name__}: {error}",
            code="module-failed",
            where=str(step.step.location) if step.step.location is not None else None,
            details=[f"it takes {line}" for line in ports],
            fixes=["verify='always' checks every value against its type and names the first that is wrong"],
        )


def _paired(
    step: PlanStep, targets: int | tuple[int, ...], given: Any
) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    if isinstance(targets, int):
        return (targets,), (given,)
    if not isinstance(given, tuple | list) or len(given) != len(targets):
        kind = f"{len(given)} values" if isinstance(given, tuple | list) else f"a {type(given).__name__}"
        raise BackendError(
            f"{step.name} returned {kind}; its signature gives {len(targets)}",
            code="outputs",
            details=[f"it gives {', '.join(step.step.outputs)}"],
            fixes=["return a tuple in the order of the signature"],
        )
    return targets, tuple(given)


def _call(step: PlanStep, module: nn.Module, place: Place) -> Call:
    function, order = _positional(step, module)
    flat, function = _flatten([step.sources.get(port, ABSENT) for port in order], function)
    targets = step.targets[0] if len(step.targets) == 1 else step.targets
    return _in_precision(function, module, step, place), flat, targets, step.release


def _positional(step: PlanStep, module: nn.Module) -> tuple[Function, list[str]]:
    """Find the order in which `forward` takes the ports, and a function that takes them in this order."""
    takes = list(signature_of(step.module).takes)
    parameters = inspect.signature(module.forward).parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    if inspect.Parameter.VAR_KEYWORD in kinds or inspect.Parameter.KEYWORD_ONLY in kinds:
        _check_ports(step, module, takes, parameters)

        def by_name(*values: Any) -> Any:
            return module(**dict(zip(takes, values, strict=True)))

        return by_name, takes
    _check_ports(step, module, takes, parameters)
    order = [name for name in parameters if name in takes]
    if order == list(parameters)[: len(order)]:
        return module, order

    def with_gaps(*values: Any) -> Any:
        return module(**dict(zip(order, values, strict=True)))

    return with_gaps, order


def _check_ports(
    step: PlanStep, module: nn.Module, takes: list[str], parameters: Mapping[str, inspect.Parameter]
) -> None:
    named = {
        name
        for name, parameter in parameters.items()
        if parameter.kind not in (_VAR_KEYWORD, _VAR_POSITIONAL)
    }
    takes_any = any(parameter.kind is _VAR_KEYWORD for parameter in parameters.values())
    unread = [] if takes_any else [port for port in takes if port not in named]
    unknown = [n for n in named if n not in takes and parameters[n].default is inspect.Parameter.empty]
    if unread or unknown:
        words = [f"port {port!r} has no parameter" for port in unread]
        words += [f"parameter {name!r} has no port" for name in unknown]
        raise BackendError(
            f"{type(module).__name__}.forward does not fit {type(step.module).__name__}: {words[0]}",
            code="forward",
            details=words[1:],
            fixes=[fix for name in unread for fix in did_you_mean(name, named)]
            or ["name the parameters of forward as the ports of takes"],
        )


_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD
_VAR_POSITIONAL = inspect.Parameter.VAR_POSITIONAL


def _flatten(sources: list[Any], function: Function) -> tuple[tuple[int, ...], Function]:
    """Lay ports that take many values out as single slots, and gather them again before the call."""
    if all(isinstance(source, int) for source in sources):
        return tuple(sources), function
    counts = [None if isinstance(source, int) else len(source) for source in sources]
    flat = tuple(slot for source in sources for slot in ((source,) if isinstance(source, int) else source))

    def gathered(*values: Any) -> Any:
        rest = iter(values)
        return function(*[next(rest) if n is None else tuple(next(rest) for _ in range(n)) for n in counts])

    return flat, gathered


def _in_precision(function: Function, module: nn.Module, step: PlanStep, place: Place) -> Function:
    """Run trainable modules in the lower precision, and losses, front-ends and decoders in full precision."""
    if not place.mixed:
        return function
    if step.module.role != "loss" and next(module.parameters(), None) is not None:
        autocast = torch.autocast(place.device.type, place.compute)

        def lowered(*values: Any) -> Any:
            with autocast:
                return function(*values)

        return lowered

    full = place.weights

    def raised(*values: Any) -> Any:
        return function(*[_raise(value, full) for value in values])

    return raised


def _raise(value: Any, full: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(full) if value.is_floating_point() and value.dtype != full else value
    if isinstance(value, tuple):
        return tuple(_raise(part, full) for part in value)
    return value
