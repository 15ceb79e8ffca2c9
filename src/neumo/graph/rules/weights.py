"""Rules about training: the loss reaches weights, and all weights that are there to be trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from neumo.graph.rules.finding import Finding
from neumo.graph.rules.view import View, carries_gradient
from neumo.graph.value import Step, Value
from neumo.types import Fix

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

_CUT = "{} holds indices or flags, and no gradient flows back through them."


def find_idle_losses(view: View) -> Iterator[Finding]:
    """Find that no loss of a training reaches a weight: none stands before it, or integers stand between."""
    if not view.training or not view.losses or _trained(view):
        return
    loss = view.losses[0]
    steps = [step for step in view.steps if id(step) in view.behind and step.module.role != "data"]
    cut = [step for step in steps if view.has_weights(step.module) and id(step) not in view.reached]
    fixes = ["connect a module that has weights, such as an encoder"]
    why = ["A module has weights if its class says so: trainable: ClassVar[bool] = True."]
    if cut:
        stop = _stops(cut[-1], view)
        why = [_CUT.format(view.name(stop))]
        fixes = [f"compute the loss from scores, before {view.label(stop.step)}"]
    elif any(view.is_frozen(step.module) for step in steps):
        why, fixes = [], ["unfreeze a module"]
    yield Finding(
        "loss-reaches-weights",
        f"there is nothing to train: no weight can change {view.name(loss)}",
        view.name(loss),
        loss.step,
        rows=lambda: tuple({f"{view.label(step)}: {_state(step, view)}": None for step in steps}),
        why=tuple(why),
        ways=lambda: tuple(Fix(text) for text in fixes),
    )


def find_untrained_modules(view: View) -> Iterator[Finding]:
    """Find the modules of a training whose weights no loss reaches."""
    if not view.training or not view.losses or not _trained(view):
        return
    reached = {id(step.module) for step in view.steps if id(step) in view.reached}
    seen: set[int] = set()
    for step in view.steps:
        module = step.module
        if id(module) in reached or id(module) in seen or not view.has_weights(module):
            continue
        seen.add(id(module))
        if not view.is_frozen(module):
            yield _untrained(step, view)


def find_never_trained(
    graphs: Mapping[str, Graph], views: Mapping[str, View]
) -> Iterator[tuple[str, Finding]]:
    """Find the modules with weights that no graph trains, although a graph that predicts uses them."""
    training = {name: view for name, view in views.items() if view.training and view.losses}
    if not training:
        return
    known = {id(module) for name in training for module in graphs[name].modules.values()}
    told: set[int] = set()
    for name, view in views.items():
        for step in view.steps if name not in training else ():
            module = step.module
            if id(module) in known or id(module) in told or view.is_frozen(module):
                continue
            if view.has_weights(module):
                told.add(id(module))
                yield name, _never(step, view, list(training))


def _trained(view: View) -> list[Step]:
    return [
        step
        for step in view.steps
        if id(step) in view.reached and view.has_weights(step.module) and not view.is_frozen(step.module)
    ]


def _state(step: Step, view: View) -> str:
    if not view.has_weights(step.module):
        return "no weights"
    if id(step) not in view.reached:
        return "no gradient"
    return "frozen"


def _untrained(step: Step, view: View) -> Finding:
    label = view.label(step)
    if id(step) in view.behind:
        why = _CUT.format(view.name(_stops(step, view)))
    else:
        made = view.serves[id(step)]
        why = f"It is there for {' and '.join(made)}, on which no loss depends."
    return Finding(
        "untrained-module",
        f"the loss does not reach {label}: its weights stay as they are",
        label,
        step,
        why=(why,),
        ways=lambda: (
            Fix(f"let a loss depend on {label}"),
            Fix(f"freeze {label}, if it is to stay as it is"),
        ),
    )


def _stops(step: Step, view: View) -> Value:
    """Find the value behind a step at which gradients of the loss stop: there is one on each way to it."""
    pending, seen = [step], {id(step)}
    while True:
        for user, value in view.users.get(id(pending.pop()), []):
            if id(user) not in view.behind or id(user) in seen:
                continue
            if not carries_gradient(value):
                return value
            seen.add(id(user))
            pending.append(user)


def _never(step: Step, view: View, training: list[str]) -> Finding:
    label = view.label(step)
    return Finding(
        "never-trained",
        f"{label} has weights that no graph trains: graph {view.graph.name!r} would predict at random",
        label,
        step,
        why=(f"Graph {' and '.join(map(repr, training))} trains other modules than this one.",),
        ways=lambda: (
            Fix(f"use the module of {' or '.join(map(repr, training))}: one object is one set of weights"),
            Fix("train.weights=FILE, if they are trained already"),
        ),
    )
