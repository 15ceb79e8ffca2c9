"""Equality of graphs: the same modules by fields, wired in the same way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neumo.graph.inputs import GraphInputs
from neumo.graph.module import NeuralModule, module_fields
from neumo.graph.value import Step, Value

if TYPE_CHECKING:
    from neumo.graph.graph import Graph


def same_structure(one: Graph, two: Graph) -> bool:
    """Say whether two graphs give the same outputs through equal modules, shared alike."""
    if sorted(one.outputs) != sorted(two.outputs) or len(one.steps) != len(two.steps):
        return False
    steps: dict[int, Step] = {}  # id of a step here -> its partner there
    modules: dict[int, NeuralModule] = {}
    pending = [(one.outputs[name], two.outputs[name]) for name in one.outputs]
    while pending:
        left, right = pending.pop()
        known = steps.get(id(left.step))
        if left.port != right.port or known not in (None, right.step):
            return False
        if isinstance(left.step.module, GraphInputs) and not _same_input(left, right):
            return False
        if known is None:
            steps[id(left.step)] = right.step
            if not _same_module(left.step.module, right.step.module, modules):
                return False
            edges, others = _sorted_edges(left.step), _sorted_edges(right.step)
            if [port for port, _ in edges] != [port for port, _ in others]:
                return False
            pending.extend((mine, theirs) for (_, mine), (_, theirs) in zip(edges, others, strict=True))
    return _is_injective(steps.values()) and _is_injective(modules.values())


def _same_input(left: Value, right: Value) -> bool:
    one, two = left.step.module, right.step.module
    if not (isinstance(one, GraphInputs) and isinstance(two, GraphInputs)):
        return False
    return str(one.ports[left.port]) == str(two.ports[right.port])


def _same_module(one: NeuralModule, two: NeuralModule, modules: dict[int, NeuralModule]) -> bool:
    if isinstance(one, GraphInputs):
        return isinstance(two, GraphInputs)  # their ports are compared one by one, as far as they are used
    if id(one) in modules:
        return modules[id(one)] is two  # and their fields were compared at the first call
    modules[id(one)] = two
    return same_settings(one, two)


def _sorted_edges(step: Step) -> list[tuple[str, Value]]:
    return sorted(step.edges(), key=lambda edge: edge[0])


def _is_injective(partners: Iterable[object]) -> bool:
    found = [id(partner) for partner in partners]
    return len(set(found)) == len(found)


def same_settings(one: NeuralModule, two: NeuralModule) -> bool:
    """Say whether two modules are of one class and have equal fields, whatever their identity."""
    return type(one) is type(two) and _plain(module_fields(one)) == _plain(module_fields(two))


def _plain(value: Any) -> Any:
    """Make lists and tuples, and paths and their text, compare equal: YAML knows one of each."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    return str(value) if isinstance(value, Path) else value
