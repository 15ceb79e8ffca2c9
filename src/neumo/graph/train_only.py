"""Ports that are there in training only: a graph for training connects them, one for inference must not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from neumo.graph.module import label_of, signature_of
from neumo.graph.value import Step
from neumo.types import GraphError, Row

if TYPE_CHECKING:
    from neumo.graph.graph import Graph


def train_only_ports(step: Step) -> frozenset[str]:
    """Name the connected ports of a step that are there in training only."""
    ports = signature_of(step.module).train_only
    return ports & step.inputs.keys() if ports else ports


def check_modes(graph: Graph) -> None:
    """Raise `GraphError` for ports `when="train"`: left out of a training, or connected in an inference.

    A graph for "both" may connect them: an inference leaves them, and what only feeds them, out. So it does
    where such a graph is nested in one for inference.
    """
    if graph.mode == "train":
        check_trained(graph, graph.steps)
    elif graph.mode == "infer":
        ours = [step for step in graph.steps if all(call.graph.mode == "infer" for call in step.within)]
        _refuse(graph, [(step, port) for step in ours for port in train_only_ports(step)], _connected)


def check_trained(graph: Graph, steps: Iterable[Step]) -> None:
    """Raise `GraphError` if steps that are trained leave a port out that is there for training."""
    lacking: list[tuple[Step, str]] = []
    for step in steps:
        signature = signature_of(step.module)
        needed = (port for port in signature.train_only if not signature.takes[port].optional)
        lacking += [(step, port) for port in needed if port not in step.inputs]
    _refuse(graph, lacking, _left_out)


def _refuse(
    graph: Graph, wrong: list[tuple[Step, str]], error: Callable[[Graph, Step, str], GraphError]
) -> None:
    """Raise one error of all ports, in the order of the graph."""
    errors = [
        error(graph, step, port) for step, port in sorted(wrong, key=lambda one: (one[0].serial, one[1]))
    ]
    if errors:
        errors[0].also = tuple(errors[1:])
        raise errors[0]


def _connected(graph: Graph, step: Step, port: str) -> GraphError:
    return GraphError(
        f"graph {graph.name!r} is for inference, and {label_of(step.module)}.{port} is for training only",
        code="when",
        where=partial(step.place, port),
        why="What a training aims at, such as a target, is not there when the model is used.",
        fixes=[f"leave {port} out", "make the graph with mode 'both': an inference then leaves the port out"],
    )


def _left_out(graph: Graph, step: Step, port: str) -> GraphError:
    return GraphError(
        f"graph {graph.name!r} is trained, and leaves out {label_of(step.module)}.{port}, "
        "which training needs",
        code="when",
        where=step.place,
        details=[Row("wanted", f"{port}: {signature_of(step.module).takes[port]}")],
        fixes=[f"connect {port}"],
    )
