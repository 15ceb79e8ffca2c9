"""Equality of graphs: the same modules by fields, wired in the same way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

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
    """Say whether two modules are of one class and have equal fields, whatever their identity.

    Lists and tuples are alike, and so are paths to one file: a recipe knows one of each.
    """
    if type(one) is not type(two):
        return False
    ours, theirs = module_fields(one), module_fields(two)
    return all(
        _same(value, theirs[name], partial(_holds_paths, type(one), name)) for name, value in ours.items()
    )


def _same(one: Any, two: Any, holds_paths: Callable[[], bool]) -> bool:
    if isinstance(one, NeuralModule):
        return isinstance(two, NeuralModule) and same_settings(one, two)
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        ours, theirs = _by_text(one), _by_text(two)  # pyright: ignore[reportUnknownArgumentType]
        return ours.keys() == theirs.keys() and all(
            _same(ours[key], theirs[key], holds_paths) for key in ours
        )
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        pairs = zip(cast("Sequence[Any]", one), cast("Sequence[Any]", two), strict=False)
        return len(one) == len(two) and all(_same(mine, his, holds_paths) for mine, his in pairs)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(one, str | Path) and isinstance(two, str | Path):
        return str(one) == str(two) or (holds_paths() and os.path.abspath(one) == os.path.abspath(two))
    return bool(one == two)


def _by_text(found: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in found.items()}


def _holds_paths(cls: type[NeuralModule], name: str) -> bool:
    from neumo.graph.yaml.fields import field_hints, mentions_path

    return mentions_path(field_hints(cls)[name])
