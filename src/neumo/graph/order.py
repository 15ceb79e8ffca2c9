"""The order of steps: what has to be made before what, and cycles, which have no order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from neumo.graph.module import label_of
from neumo.graph.value import Step, Value
from neumo.types import GraphError, Source


def order_steps(targets: Iterable[Step]) -> list[Step]:
    """List the steps that the targets need, each behind those that feed it, in the order of composition.

    Raises `GraphError` for a cycle, with the steps on it.
    """
    done: dict[int, Step] = {}
    active: dict[int, Step] = {}
    stack: list[tuple[Step, Iterator[tuple[str, Value]]]] = []

    def enter(step: Step) -> None:
        if id(step) in active:
            path = list(active.values())
            path = [*path[path.index(step) :], step]
            raise cycle_error([label_of(each.module) for each in path])
        if id(step) not in done:
            active[id(step)] = step
            stack.append((step, step.edges()))

    for target in targets:
        enter(target)
        while stack:
            step, edges = stack[-1]
            for _, value in edges:
                if id(value.step) not in done:
                    enter(value.step)
                    break
            else:
                stack.pop()
                done[id(step)] = active.pop(id(step))
    ordered = sorted(done.values(), key=lambda step: step.serial)
    return ordered if _is_ordered(ordered) else list(done.values())


def find_cycle(uses: Mapping[str, Iterable[str]]) -> list[str] | None:
    """Find a cycle among named steps, given the steps that each uses; its first name comes again at the end.

    >>> find_cycle({"a": ["b"], "b": ["c"], "c": ["b"]})
    ['b', 'c', 'b']
    >>> find_cycle({"a": ["b"], "b": []}) is None
    True
    """
    done: set[str] = set()
    for start in uses:
        path: dict[str, None] = {}  # in order, and quick to ask
        stack: list[Iterator[str]] = [iter([start])]
        while stack:
            name = next(stack[-1], None)
            if name is None:
                stack.pop()
                if path:
                    done.add(path.popitem()[0])
            elif name in path:
                names = list(path)
                return [*names[names.index(name) :], name]
            elif name not in done:
                path[name] = None
                stack.append(iter(uses.get(name, ())))
    return None


def cycle_error(path: list[str], where: str | Source | None = None) -> GraphError:
    """Make the error for steps that feed one another in a circle."""
    return GraphError(
        f"{path[0]} needs its own output: the graph has a cycle",
        code="cycle",
        where=where,
        details=[f"path     {' -> '.join(path)}"],
        fixes=["a graph runs once from its data to its outputs: take one of these connections out"],
    )


def _is_ordered(steps: list[Step]) -> bool:
    position = {id(step): index for index, step in enumerate(steps)}
    return all(
        position[id(value.step)] < index for index, step in enumerate(steps) for _, value in step.edges()
    )
