"""Runs plans: a list of (module, source slots, target slots, slots to free), walked once a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from torch import nn

from neumo.backends.torch.call import Convention, convention, wrong_outputs
from neumo.backends.torch.compile import Compiler, Joined, unfit
from neumo.backends.torch.device import Place
from neumo.backends.torch.precision import Precisions, cannot_compute, cast_floats, computes_in_full
from neumo.backends.torch.training.observe import observing
from neumo.engine.checks.verify import Guards, is_held
from neumo.engine.plan import ABSENT, Plan, PlanStep
from neumo.graph.module import signature_of
from neumo.types.errors import BackendError, NeumoError

Function: TypeAlias = Callable[..., Any]
Call: TypeAlias = tuple[Function, tuple[int, ...], "int | tuple[int, ...]", tuple[int, ...]]


class TorchProgram:
    """A plan as calls of torch modules: give it the feeds, it returns the wanted values.

    As long as its guards ask to, each value is checked against its type as soon as it exists; the first run
    sees at least how many values each module returns. Then the program goes on without, and a call costs no
    more than in a hand-written loop. With a compiler, values that are checked are computed by the plan as it
    is, beside the compiled one and without a trace: every result is one of compiled code, from the first run.
    """

    def __init__(
        self,
        plan: Plan,
        modules: Sequence[nn.Module],
        place: Place,
        guards: Guards | None = None,
        precisions: Precisions | None = None,
        compiler: Compiler | None = None,
    ) -> None:
        self.plan = plan
        self._place = place
        self.modules = list({id(module): module for module in modules}.values())
        self._precisions = precisions if precisions is not None else Precisions(place)
        self._every = list(modules)  # of each call, in order
        self._calls = [
            _call(step, module, self._precisions) for step, module in zip(plan.steps, modules, strict=True)
        ]
        self._compiler = compiler
        self._joined = (
            compiler.join(plan, modules, self._calls)
            if compiler is not None
            else Joined(tuple(self._calls), tuple(range(len(self._calls))))
        )
        self._fast = self._joined.calls
        self._feeds = tuple(feed.slot for feed in plan.feeds)
        self._wanted = tuple(plan.wanted.values())
        self._slots = plan.slots
        self._at = 0  # which call runs, for the message if it fails
        self._failed: tuple[Any, ...] | None = None  # what that call was given
        self._failed_feeds: Sequence[Any] | None = None  # what the plan was given when compiled code failed
        self._guards = guards
        self._ran = False
        self._fastest = self._bare if compiler is None else self._compiled
        self._run: Callable[[Sequence[Any]], list[Any]] = self._guarded

    @property
    def records(self) -> bool:
        """Whether a GPU repeats recorded work (CUDA graphs) in memory that is used again."""
        return self._compiler is not None and self._compiler.records

    def __call__(self, feeds: Sequence[Any]) -> list[Any]:
        """Run the plan once."""
        return self._run(feeds)

    def _bare(self, feeds: Sequence[Any]) -> list[Any]:
        slots: list[Any] = [None] * self._slots
        for slot, value in zip(self._feeds, feeds, strict=True):
            slots[slot] = value
        at = 0
        try:
            for function, sources, targets, freed in self._fast:
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
            self._at = self._joined.starts[at]
            self._failed = tuple(slots[source] for source in self._fast[at][1])
            raise
        return [slots[slot] for slot in self._wanted]

    def _compiled(self, feeds: Sequence[Any]) -> list[Any]:
        assert self._compiler is not None  # chosen for programs that have one
        self._compiler.begin()
        try:
            return self._compiler.kept(self._bare(feeds))
        except Exception:
            self._failed_feeds = feeds
            raise

    def _guarded(self, feeds: Sequence[Any]) -> list[Any]:
        guards = self._guards if self._guards is not None and self._guards.begin() else None
        if guards is None:
            self._run = self._fastest
            if self._ran:
                return self._fastest(feeds)
        self._ran = True
        if self._compiler is None:
            return self._checked(feeds, guards)
        with observing(self.modules, (), self._place.device):
            self._checked(feeds, guards)
        return self._compiled(feeds)

    def _checked(self, feeds: Sequence[Any], guards: Guards | None) -> list[Any]:
        slots: list[Any] = [None] * self._slots
        for slot, value in zip(self._feeds, feeds, strict=True):
            slots[slot] = value
            if guards is not None:
                guards.made(slot, value)
        for at, (function, sources, targets, freed) in enumerate(self._calls):
            self._at = at
            if guards is not None:
                guards.read(at, slots)
            self._failed = tuple(slots[source] for source in sources)
            given = function(*self._failed)
            self._failed = None
            for target, value in zip(*_paired(self.plan.steps[at], targets, given), strict=True):
                slots[target] = value
                if guards is not None:
                    guards.made(target, value)
            for slot in freed:
                slots[slot] = None
        for module in self.modules:
            self._precisions.say_unused(module)
        return [slots[slot] for slot in self._wanted]

    def explain(self, error: Exception) -> Exception:
        """Say which module failed, and on what; errors of neumo already do."""
        given, self._failed = self._failed, None
        feeds, self._failed_feeds = self._failed_feeds, None
        if isinstance(error, NeumoError):
            return error
        if feeds is not None:
            return self._explain_compiled(error, feeds)
        if self._compiler is not None and self._compiler.is_at_fault(error):  # in a backward pass
            return self._compiler.refuse(error, [self.plan.steps[at].name for at in self._joined_steps()], ())
        step = self.plan.steps[self._at]
        if given is not None and (lowered := self._explain_precision(error, given)) is not None:
            return lowered
        takes = signature_of(step.module).takes
        ports = [f"{port}: {takes[port]}" for port in step.sources if port in takes]
        location = step.step.location
        return BackendError(
            f"{step.name} failed: {type(error).__name__}: {error}",
            code="module-failed",
            where=None if location is None else lambda: location.place(None),
            details=[f"it takes {line}" for line in ports],
            fixes=self._closer_look(error),
        )

    def _explain_precision(self, error: Exception, given: Sequence[Any]) -> BackendError | None:
        """Say that a module cannot compute in its precision, if it can do the same in fp32."""
        step, module = self.plan.steps[self._at], self._every[self._at]
        regime = self._precisions.of(step.module, module)
        if not regime.mixed or not computes_in_full(_plain(step, module)[1], module, regime, given):
            return None
        return cannot_compute(step.name, regime, error)

    def _explain_compiled(self, error: Exception, feeds: Sequence[Any]) -> Exception:
        """Run the plan as it is: either a module fails in it, too, or compiling is to blame."""
        assert self._compiler is not None  # only compiled code leaves its feeds
        names = [self.plan.steps[at].name for at in self._joined_steps()]
        try:
            with observing(self.modules, (), self._place.device):
                culprits = self._unfit(feeds)
        except Exception as plain:
            return self.explain(plain)
        return self._compiler.refuse(error, names, culprits)

    def _joined_steps(self) -> list[int]:
        starts = (*self._joined.starts, len(self._calls))
        regions = zip(starts, starts[1:], self._fast, strict=False)
        return [
            at for first, end, call in regions if call is not self._calls[first] for at in range(first, end)
        ]

    def _unfit(self, feeds: Sequence[Any]) -> list[str]:
        """Name the modules to be compiled that torch.compile cannot follow."""
        found: list[str] = []
        compiled = set(self._joined_steps())
        slots: dict[int, Any] = dict.fromkeys(range(self._slots))
        slots.update(zip(self._feeds, feeds, strict=True))
        for at, (function, sources, targets, _) in enumerate(self._calls):
            self._at = at
            values = [slots[source] for source in sources]
            given = function(*values)
            slots.update(zip(*_paired(self.plan.steps[at], targets, given), strict=True))
            if at in compiled and unfit(function, values):
                found.append(self.plan.steps[at].name)
        return list(dict.fromkeys(found))

    def _closer_look(self, error: Exception) -> list[str]:
        """Name the guards that would have found a wrong value before the module did, if they are not on."""
        level = "off" if self._guards is None else self._guards.level
        if level == "values" or (level == "always" and not isinstance(error, IndexError)):
            return []
        if isinstance(error, IndexError):  # an index is a number: only these guards look at numbers
            return [
                "verify='values' looks at the numbers, too, and names the first id or length that is wrong"
            ]
        return ["verify='always' checks every value against its type and names the first that is wrong"]


def _paired(
    step: PlanStep, targets: int | tuple[int, ...], given: Any
) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    if isinstance(targets, int):
        (output,) = step.step.outputs.values()
        if isinstance(given, tuple | list | Mapping) and not is_held(output.type):
            raise wrong_outputs(step.name, cast("Any", given), [output.port])
        return (targets,), (given,)
    if not isinstance(given, tuple | list) or len(given) != len(targets):
        raise wrong_outputs(step.name, given, list(step.step.outputs))
    return targets, tuple(given)


def _call(step: PlanStep, module: nn.Module, precisions: Precisions) -> Call:
    flat, function = _plain(step, module)
    targets = step.targets[0] if len(step.targets) == 1 else step.targets
    return _in_precision(function, module, step, precisions), flat, targets, step.release


def _plain(step: PlanStep, module: nn.Module) -> tuple[tuple[int, ...], Function]:
    """The slots that a call reads, and the function of their values."""
    rule = convention(step.module, module, step.sources)
    sources = [step.sources.get(port, ABSENT) for port in rule.order]
    return _flatten(sources, _as_function(rule, module))


def _as_function(rule: Convention, module: nn.Module) -> Function:
    """Make a function of positional arguments out of a module and the way in which it is called."""
    order, read = rule.order, rule.read
    if read is None and not rule.named:
        return module

    def called(*values: Any) -> Any:
        given = module(**dict(zip(order, values, strict=True))) if rule.named else module(*values)
        return given if read is None else read(given)

    return called


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


def _in_precision(function: Function, module: nn.Module, step: PlanStep, precisions: Precisions) -> Function:
    """Run trainable modules in the lower precision, and losses, front-ends and decoders in full precision,
    but for modules that have one of their own.
    """
    if precisions.are_uniform():
        return function
    regime = precisions.of(step.module, module)
    if not regime.mixed:
        return lambda *values: function(*[cast_floats(value, regime.entering) for value in values])
    autocast = regime.autocast()
    if regime.precision == precisions.place.precision != "pure-bf16" and not precisions.overrides:

        def lowered(*values: Any) -> Any:
            with autocast:
                return function(*values)

        return lowered
    return lambda *values: regime.run(function, values, {})
