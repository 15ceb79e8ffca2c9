"""Inference: a graph's outputs as numpy arrays, for the data of its data layer or for arrays from outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from neumo.engine.checks.preflight import data_step
from neumo.engine.checks.verify import make_guards
from neumo.engine.passes.infer_cache import check_flags, infer_and_keep, infer_from_cache
from neumo.engine.passes.one_pass import Pass, run_program
from neumo.engine.passes.shared_pass import Computed
from neumo.engine.plan import Plan, compile_plan
from neumo.types.errors import ConfigError, GraphError, did_you_mean

if TYPE_CHECKING:
    from neumo.engine.factory import NeuralFactory
    from neumo.graph.graph import Graph


def infer(
    factory: NeuralFactory,
    graph: Graph,
    inputs: Mapping[str, Any] | None,
    outputs: Sequence[str] | None,
    *,
    cache: bool = False,
    use_cache: bool = False,
) -> list[dict[str, Any]]:
    """Compute the outputs of a graph: one dict of arrays per batch of the data, or one for the given
    inputs.
    """
    check_flags(factory, cache=cache, use_cache=use_cache)
    check_mapping(inputs, "infer", "inputs", "[infer(graph, batch) for batch in batches]")
    factory.check(graph)
    names = outputs if outputs is not None else _computable(graph)
    if use_cache:
        return infer_from_cache(factory, graph, inputs, names)
    plan = compile_plan(graph, names, training=False)
    if cache:
        if inputs is not None or graph.inputs:
            _check_inputs(graph, plan, inputs or {})
        return infer_and_keep(factory, graph, inputs, names)
    if inputs is not None or graph.inputs:
        return [_once(factory, graph, plan, inputs or {})]
    data = data_step(graph, plan.sources)
    every = Pass.prepare(
        factory.session,
        plan,
        factory.source(data.module),
        seed=factory.seed,
        verify=factory.verify,
        workers=factory.workers,
    )
    results: list[dict[str, Any]] = []

    def use(batch: Computed) -> None:
        if batch.items:
            results.append(dict(zip(plan.wanted, batch.arrays, strict=True)))

    try:
        every.run(use)
    finally:
        every.close()
    return results


def check_mapping(given: object, action: str, code: str, fix: str) -> None:
    """Raise `ConfigError` for what should hold arrays by name, and does not."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(
            f"{action} takes arrays by name, not a {type(given).__name__}",
            code=code,
            fixes=[f"{action}(graph, {{'name': array, ...}})", fix],
        )


def _once(factory: NeuralFactory, graph: Graph, plan: Plan, inputs: Mapping[str, Any]) -> dict[str, Any]:
    session = factory.session
    _check_inputs(graph, plan, inputs)
    program = session.program(plan, make_guards(plan, factory.verify, session.to_numpy))
    feeds = session.feed([inputs.get(feed.port) for feed in plan.feeds])
    with session.inference(plan, factory.seed) as reseed:
        reseed(0)
        return _named(factory, plan, run_program(program, feeds))


def _named(factory: NeuralFactory, plan: Plan, values: list[Any]) -> dict[str, Any]:
    return {name: factory.session.to_numpy(value) for name, value in zip(plan.wanted, values, strict=True)}


def _computable(graph: Graph) -> list[str]:
    """The outputs that are values of a batch; metrics are figures of a whole evaluation."""
    names = [name for name, value in graph.outputs.items() if value.step.module.role != "metric"]
    if not names:
        raise GraphError(
            f"graph {graph.name!r} has only metrics, and nothing to infer",
            code="infer",
            fixes=["evaluate(graph)"],
        )
    return names


def _check_inputs(graph: Graph, plan: Plan, inputs: Mapping[str, Any]) -> None:
    wanted = {feed.port: feed.value.type for feed in plan.feeds}
    layers = [step for step in plan.sources if hasattr(step.module, "open")]
    if layers:
        raise GraphError(
            f"graph {graph.name!r} reads from a data layer, so it takes no inputs",
            code="inputs",
            fixes=[
                "infer(graph) without inputs",
                "compose the graph from inputs(...) in the place of the data layer",
            ],
        )
    missing = [port for port, kind in wanted.items() if port not in inputs and not kind.optional]
    unknown = [port for port in inputs if port not in graph.inputs]
    if missing or unknown:
        word = f"is not given {missing[0]!r}" if missing else f"takes no input {unknown[0]!r}"
        raise GraphError(
            f"graph {graph.name!r} {word}",
            code="inputs",
            details=[f"{port}: {type}" for port, type in wanted.items()],
            fixes=[fix for name in unknown for fix in did_you_mean(name, wanted)],
        )
