"""Rules about what stands at the ends: targets in graphs that predict, and outputs that nobody uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from neumo.graph.inputs import GraphInputs, is_source
from neumo.graph.module import NeuralModule, signature_of
from neumo.graph.multi import MultiData
from neumo.graph.rules.finding import Finding
from neumo.graph.rules.padding import measures_rows
from neumo.graph.rules.view import View, carries_gradient, declared_ports
from neumo.graph.value import Step, Value
from neumo.types import (
    Alignment,
    Axis,
    Durations,
    Fix,
    Flags,
    Item,
    Kind,
    Lengths,
    Loss,
    Mask,
    Pitch,
    Row,
    Score,
    Scores,
    Values,
)

_Key = tuple[int, str]  # a value, as (id of its step, port)
_ACCOMPANY = (Lengths, Mask, Item, Flags)  # these say something about other values
_ABOUT_TARGETS = (Loss, Score, Alignment, Durations)  # how good or where a given target is, not what it is
_PREDICTIONS = (Scores, Pitch, Durations, Values)  # given by weights in order to be compared with a target


def find_leaked_targets(view: View) -> Iterator[Finding]:
    """Find the predictions of an inference graph that depend on what they ought to predict."""
    targets = _targets(view) if view.inferring else set[_Key]()
    if not targets:
        return
    leaks = _first_needed(view, lambda value: value.key in targets)
    others = _first_needed(view, lambda value: value.key not in targets and not accompanies(value))
    for name, value in view.graph.outputs.items():
        if value.step.module.role in ("loss", "metric") or is_source(value.step):
            continue
        leak = leaks.get(id(value.step))
        if leak is not None and id(value.step) in others and not _is_about(value, leak):
            yield _leak_finding(name, value, leak, view)


def _targets(view: View) -> set[_Key]:
    """Collect the values that sources give as targets: declared, or else fed to a loss as they are."""
    declared = {id(step): _declared(step) for step in view.steps if is_source(step)}
    found = {(key, port) for key, ports in declared.items() for port in ports or ()}
    silent = {key for key, ports in declared.items() if ports is None}
    for step in view.steps:
        for _, value in step.edges():
            if step.module.role == "loss" and id(value.step) in silent and not accompanies(value):
                found.add(value.key)
    return found


def _declared(step: Step) -> tuple[str, ...] | None:
    return _targets_of(step.module)


def _targets_of(layer: NeuralModule) -> tuple[str, ...] | None:
    """Give the ports that a data layer declares as targets; several layers in one declare each their own."""
    if not isinstance(layer, MultiData):
        return declared_ports(layer, "targets", signature_of(layer).gives)
    named = list(zip(map(_targets_of, layer.layers), layer.ports, strict=True))
    if all(targets is None for targets, _ in named):
        return None
    return tuple(name for targets, ports in named for port, name in ports if port in (targets or ()))


def _is_about(value: Value, target: Value) -> bool:
    """Say whether a value tells about a target: a forced alignment needs the text that it aligns."""
    element = value.type.element
    return isinstance(element, _ABOUT_TARGETS) and not isinstance(target.type.element, type(element))


def accompanies(value: Value) -> bool:
    """Say whether a value tells something about others: lengths, a mask, flags, the index of an utterance."""
    return isinstance(value.type.element, _ACCOMPANY)


def _first_needed(view: View, chosen: Callable[[Value], bool]) -> dict[int, Value]:
    """Map each step (by id) to the first chosen value of a source that it depends on."""
    found: dict[int, Value] = {}
    for step in view.steps:
        for _, value in step.edges():
            if is_source(value.step):
                needed = value if chosen(value) else None
            else:
                needed = found.get(id(value.step))
            if needed is not None:
                found.setdefault(id(step), needed)
    return found


def _leak_finding(name: str, value: Value, leak: Value, view: View) -> Finding:
    back = view.way(value, leak)  # from the target to the prediction
    reader, port = back[1]
    return Finding(
        "target-in-inference",
        f"output {name!r} depends on {view.name(leak)}, the target that it should predict",
        name,
        reader,
        port,
        rows=lambda: (Row("target", f"{view.name(leak)}: {leak.type}", f"made by {view.made(leak.step)}"),),
        why=(
            f"Graph {view.graph.name!r} is for inference, where nobody knows the target; and figures of a "
            "model that sees it are too good.",
        ),
        trail=lambda: " -> ".join([view.name(leak), *(view.label(step) for step, _ in back[1:]), name]),
        ways=lambda: (
            Fix(f"leave {view.label(reader)}.{port} open, if it is there for training only"),
            Fix(f"compute {name!r} by a module that decodes step by step"),
            Fix("mode train, if this graph is for training"),
        ),
    )


def find_unused_outputs(view: View) -> Iterator[Finding]:
    """Find what is given in vain, where that hints at a mistake.

    That is: lengths or a mask declared as an open input beside the value whose padding they tell; and, in a
    training, all targets of a data layer, scores of a module with weights, and the loss of a loss.
    """
    for step in view.steps:
        if isinstance(step.module, GraphInputs):
            yield from _idle_meters(step, view)
        elif not view.training:
            continue
        elif step.module.role == "data":
            yield from _idle_targets(step, view)
        elif step.module.role == "loss" or view.has_weights(step.module):
            yield from _idle_results(step, view)


def _idle_meters(step: Step, view: View) -> Iterator[Finding]:
    meters = [value for value in step.outputs.values() if measures_rows(value.type)]
    known = {size for value in meters if view.is_used(value) for size in value.type.element.sizes()}
    for value in meters:
        for size in set(value.type.element.sizes()) - known:
            measured = [
                other
                for other in step.outputs.values()
                if view.is_used(other) and any(axis.size == size for axis in _time_axes(other))
            ]
            if measured:
                name = view.name(measured[0])
                yield _unused(
                    value,
                    view,
                    f"They say how much of each row of {name} is real, and {name} is used without them.",
                    f"connect {value.port} where {name} is used, or do not declare it",
                )


def _time_axes(value: Value) -> list[Axis]:
    return [axis for axis in value.type.axes if axis.kind is Kind.TIME]


def _idle_targets(step: Step, view: View) -> Iterator[Finding]:
    targets = [step.outputs[port] for port in _declared(step) or () if port in step.outputs]
    if targets and not any(view.is_used(value) for value in targets):
        yield _unused(
            targets[0],
            view,
            f"{view.label(step)} reads targets, and the training does without any of them.",
            f"feed {view.name(targets[0])} to the loss, or read data without targets",
        )


def _idle_results(step: Step, view: View) -> Iterator[Finding]:
    """Find scores that nothing trains, and losses of which only the by-products are used."""
    is_loss = step.module.role == "loss"
    wanted = (Loss,) if is_loss else _PREDICTIONS
    results = [value for value in step.outputs.values() if isinstance(value.type.element, wanted)]
    if is_loss and any(view.is_used(value) for value in results):
        return
    by_product = f"Only by-products of {view.label(step)} are used."
    untrained = "No loss depends on it, so the weights behind it are not trained."
    for value in results:
        if not view.is_used(value) and carries_gradient(value):
            way = "make it an output of the graph" if is_loss else f"add a loss of {view.name(value)}"
            yield _unused(value, view, by_product if is_loss else untrained, way)


def _unused(value: Value, view: View, why: str, fix: str) -> Finding:
    name = view.name(value)
    return Finding(
        "unused-output",
        f"{name} is used by nothing",
        name,
        value.step,
        value.port,
        rows=lambda: (Row("given", str(value.type), f"made by {view.made(value.step)}"),),
        why=(why,),
        ways=lambda: (Fix(fix),),
    )
