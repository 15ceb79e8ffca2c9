"""What the optimizers of a training work towards: losses of one graph, each with its plan and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from neumo.engine.checks.preflight import find_loss, infeasible_flags, loss_count
from neumo.engine.loop.phases import Phase
from neumo.engine.plan import Plan, compile_plan, needed_steps
from neumo.engine.updates.weight_names import select
from neumo.types.errors import ConfigError, GraphError

if TYPE_CHECKING:
    from neumo.engine.backend import Session
    from neumo.graph.graph import Graph
    from neumo.graph.value import Value

COUNT: Final = "count"  # among the wanted values: how many things the loss is the mean over


@dataclass(frozen=True)
class Aim:
    """One loss, the plan that computes it, and the weights that are changed for it.

    `trains` has them as `module.name`; None stands for all that the plan has.
    """

    loss: str
    value: Value
    plan: Plan
    flags: int  # how many of the wanted values, behind the loss, flag utterances that a loss left out
    counts: bool  # whether the loss says how many things it is the mean over
    phase: Phase | None = None
    trains: frozenset[str] | None = None

    @property
    def name(self) -> str:
        """What logs call it; "" for the only one."""
        return self.phase.label if self.phase is not None else ""


def find_aims(graph: Graph, loss: str | Value | None, phases: Sequence[Phase]) -> list[Aim]:
    """Find the loss of a training, or those of its phases, and compile what computes each of them."""
    if not phases:
        return [_aim(graph, *find_loss(graph, loss))]
    if loss is not None:
        raise ConfigError(
            "train got a loss, and phases that have losses of their own",
            code="phases",
            fixes=["leave loss out", "leave phases out"],
        )
    return [replace(_aim(graph, *_named(graph, phase)), phase=phase) for phase in phases]


def whole_plan(graph: Graph, aims: Sequence[Aim]) -> Plan:
    """Compile what all aims need together: the data that is read for them, and the modules that they have."""
    if len(aims) == 1:
        return aims[0].plan
    return compile_plan(graph, {aim.name: aim.value for aim in aims} | _counts(aims))


def feed_places(whole: Plan, part: Plan) -> list[int]:
    """Where the feeds of a plan are among those of a plan that holds it."""
    known = {feed.value.key: place for place, feed in enumerate(whole.feeds)}
    return [known[feed.value.key] for feed in part.feeds]


def divide_weights(session: Session, aims: Sequence[Aim], whole: Plan, owner: str) -> list[Aim]:
    """Say of each phase which weights it trains.

    Raises `GraphError` for a name that means nothing, with the nearest match, and for a module that the loss
    of its phase does not depend on.
    """
    names = {name: list(session.weight_names(module)) for name, module in whole.modules.items()}
    named = {
        aim.name: _chosen(names, aim, owner) for aim in aims if aim.phase is not None and aim.phase.trains
    }
    taken = frozenset[str]().union(*named.values())
    return [
        replace(aim, trains=named[aim.name] if aim.name in named else _all(names, aim) - taken)
        for aim in aims
    ]


def _aim(graph: Graph, name: str, loss: Value) -> Aim:
    flags = infeasible_flags(needed_steps(graph, [loss]))
    count = loss_count(loss)
    wanted = {name: loss, **{f"infeasible-{n}": flag for n, flag in enumerate(flags)}}
    plan = compile_plan(graph, wanted if count is None else {**wanted, COUNT: count})
    return Aim(name, loss, plan, len(flags), count is not None)


def _named(graph: Graph, phase: Phase) -> tuple[str, Value]:
    name, value = find_loss(graph, phase.loss)
    return name, value


def _counts(aims: Sequence[Aim]) -> dict[str, Value]:
    counted = {f"{aim.name}/{COUNT}": loss_count(aim.value) for aim in aims}
    return {name: value for name, value in counted.items() if value is not None}


def _all(names: Mapping[str, Sequence[str]], aim: Aim) -> frozenset[str]:
    return frozenset(f"{module}.{name}" for module in aim.plan.modules for name in names[module])


def _chosen(names: Mapping[str, Sequence[str]], aim: Aim, owner: str) -> frozenset[str]:
    phase = aim.phase
    assert phase is not None  # only phases name weights
    chosen = select(names, phase.trains, f"phase {phase.label!r}: {owner}")
    strange = [module for module in chosen if module not in aim.plan.modules]
    if strange:
        computed = [module for module in aim.plan.modules if names[module]]
        raise GraphError(
            f"phase {phase.label!r} trains {strange[0]!r}, and its loss {phase.loss!r} does not depend on it",
            code="phases",
            details=[f"the loss depends on {', '.join(computed) or 'no module that has weights'}"],
            fixes=[f"trains={tuple(computed)!r}", "another loss"],
        )
    return frozenset(
        f"{module}.{name}"
        for module, some in chosen.items()
        for name in (names[module] if some is None else some)
    )
