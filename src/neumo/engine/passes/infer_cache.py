"""Values that an inference has computed, kept on the host for graphs that go on from them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from neumo.engine.backend import Batch
from neumo.engine.checks.preflight import data_step
from neumo.engine.checks.verify import make_guards
from neumo.engine.passes.one_pass import run_program
from neumo.engine.plan import Feed, Key, compile_plan
from neumo.types.errors import ConfigError, GraphError

if TYPE_CHECKING:
    from neumo.engine.factory import NeuralFactory
    from neumo.graph.graph import Graph
    from neumo.graph.module import NeuralModule
    from neumo.graph.value import Value

_LARGE: Final = 0.5  # of the free memory: what a cache may take before it is a warning


@dataclass(frozen=True)
class _Kept:
    """What is kept of one batch: its items, and its values on the host."""

    items: tuple[int, ...]
    values: Sequence[Any]


@dataclass
class InferCache:
    """The values of all steps of an inference, batch by batch, and what they depend on.

    Steps are told apart by identity: a graph that is made of the same values of the same calls finds them.
    """

    values: Sequence[Value]
    modules: Mapping[str, NeuralModule]
    prints: Mapping[str, str]  # what the weights of each module were
    seed: int
    trained: bool  # whether the graph was one for training, whose ports may get other values
    batches: list[_Kept] = field(default_factory=list[_Kept])

    @property
    def places(self) -> dict[Key, int]:
        """Where each value is in what is kept of a batch."""
        return {value.key: place for place, value in enumerate(self.values)}

    def add(self, items: tuple[int, ...], values: Sequence[Any]) -> None:
        """Keep the values of a batch."""
        self.batches.append(_Kept(items, values))

    @property
    def nbytes(self) -> int:
        """How much memory it takes, in bytes."""
        return sum(_size(batch.values) for batch in self.batches)

    def __str__(self) -> str:
        many = f"{len(self.values)} values of {len(self.batches)} batches"
        return f"a cache of {many}, {self.nbytes / 2**20:.1f} MB"


def infer_and_keep(
    factory: NeuralFactory, graph: Graph, inputs: Mapping[str, Any] | None, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Compute the outputs of a graph, and keep the values of all its steps in the cache of the factory."""
    if factory.cache is not None:
        raise _refused(
            f"the factory holds {factory.cache} already",
            "clear_cache() first",
            "use_cache=True goes on from what is there",
        )
    plan = compile_plan(graph, names, training=False)
    inner = {feed.value.key: feed.value for feed in plan.feeds}
    inner |= {value.key: value for call in plan.steps for value in call.step.outputs.values()}
    kept = list(inner.values())
    wanted = {**{name: graph.outputs[name] for name in names}, **{f"/{n}": v for n, v in enumerate(kept)}}
    whole = compile_plan(graph, wanted, training=False)
    session = factory.session
    prints = session.fingerprints(whole.modules)
    cache = InferCache(kept, whole.modules, prints, factory.seed, graph.mode == "train")
    results: list[dict[str, Any]] = []
    program = session.program(whole, make_guards(whole, factory.verify, session.to_numpy))
    with session.inference(whole, factory.seed) as reseed:
        for number, (count, batch) in enumerate(_batches(factory, graph, whole.feeds, inputs)):
            reseed(number)
            values = run_program(program, batch.feeds)
            cache.add(batch.items, [session.to_host(value) for value in values[len(names) :]])
            results.append(_named(factory, names, values))
            if not number:
                _announce(cache, count)
    factory.cache = cache
    return results


def infer_from_cache(
    factory: NeuralFactory, graph: Graph, inputs: Mapping[str, Any] | None, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Compute the outputs of a graph from what the factory has kept: only what is new is computed."""
    cache = factory.cache
    if cache is None:
        raise _refused("use_cache goes on from a cache, and the factory has none", "infer(graph, cache=True)")
    _check_fresh(factory, cache, graph)
    places, session = cache.places, factory.session
    plan = compile_plan(graph, names, training=False, known=places)
    known = [feed for feed in plan.feeds if feed.value.key in places]
    fresh = [feed for feed in plan.feeds if feed.value.key not in places]
    if not known:
        raise _refused(
            f"graph {graph.name!r} shares no value with the cache, so nothing of it would be used",
            "make the graph of values of the graph that was inferred: the same calls, not the same again",
            "clear_cache()",
        )
    program = session.program(plan, make_guards(plan, factory.verify, session.to_numpy))
    results: list[dict[str, Any]] = []
    with session.inference(plan, factory.seed) as reseed:
        for number, (batch, read) in enumerate(_beside(factory, graph, cache, fresh, inputs)):
            reseed(number)
            found = {
                feed.value.key: session.to_device(batch.values[places[feed.value.key]]) for feed in known
            }
            found |= dict(zip((feed.value.key for feed in fresh), read, strict=True))
            values = run_program(program, [found[feed.value.key] for feed in plan.feeds])
            results.append(_named(factory, names, values))
    return results


def check_flags(factory: NeuralFactory, *, cache: bool, use_cache: bool) -> None:
    """Raise `ConfigError` for a use of caches that cannot be meant."""
    if cache and use_cache:
        raise _refused("infer cannot fill a cache and go on from one at the same time", "one after the other")
    size = factory.session.world.size
    if (cache or use_cache) and size > 1:
        raise _refused(
            f"infer keeps no values in {size} processes: each of them has computed some batches",
            "infer without cache and use_cache",
            "one process",
        )


def _batches(
    factory: NeuralFactory, graph: Graph, feeds: Sequence[Feed], inputs: Mapping[str, Any] | None
) -> Iterator[tuple[int, Batch]]:
    """Read what a graph is fed with: how many batches there are, and each of them."""
    if inputs is not None or graph.inputs:
        yield 1, Batch(factory.session.feed([(inputs or {}).get(feed.port) for feed in feeds]), ())
        return
    source = factory.source(data_step(graph, _steps(feeds)).module)
    reader = factory.session.reader(source, [feed.port for feed in feeds], factory.workers)
    batches = source.batches(0)
    try:
        yield from ((len(batches), batch) for batch in reader.read(batches, 0) if batch.items)
    finally:
        reader.close()


def _beside(
    factory: NeuralFactory,
    graph: Graph,
    cache: InferCache,
    fresh: Sequence[Feed],
    inputs: Mapping[str, Any] | None,
) -> Iterator[tuple[_Kept, Sequence[Any]]]:
    """Give each batch of the cache what a graph needs beside it."""
    _check_inputs(graph, fresh, inputs)
    if not fresh:
        yield from ((batch, ()) for batch in cache.batches)
        return
    read = (batch for _, batch in _batches(factory, graph, fresh, inputs))
    for kept in cache.batches:
        batch = next(read, None)
        if batch is None or kept.items != batch.items:
            raise _refused("the data has other batches than when the cache was filled", "clear_cache()")
        yield kept, batch.feeds


def _check_inputs(graph: Graph, fresh: Sequence[Feed], inputs: Mapping[str, Any] | None) -> None:
    given = inputs or {}
    needed = [feed.port for feed in fresh if feed.port in graph.inputs]
    missing = [port for port in needed if port not in given]
    spare = [port for port in given if port not in needed]
    if missing or spare:
        word = f"is not given {missing[0]!r}" if missing else f"has {spare[0]!r} in the cache, or needs none"
        raise GraphError(f"graph {graph.name!r} {word}", code="inputs")


def _check_fresh(factory: NeuralFactory, cache: InferCache, graph: Graph) -> None:
    """Raise `ConfigError` for a cache whose values would not be computed again."""
    now = factory.session.fingerprints(cache.modules)
    changed = [name for name, text in cache.prints.items() if now[name] != text]
    reason = ""
    if changed:
        reason = f"the weights of {', '.join(changed)} have changed since"
    elif cache.seed != factory.seed:
        reason = f"it was filled with seed {cache.seed}, and the factory has seed {factory.seed} now"
    elif cache.trained != (graph.mode == "train"):
        reason = "one of the two graphs is for training, in which modules may get other values"
    if reason:
        raise _refused(
            f"the cache is out of date: {reason}", "clear_cache(), and infer with cache=True again"
        )


def _announce(cache: InferCache, count: int) -> None:
    """Say what the cache will take, and warn where that is much."""
    size = cache.nbytes * count
    logger = logging.getLogger("neumo")
    level = logging.WARNING if size > _LARGE * _free_memory() else logging.INFO
    kept = f"{len(cache.values)} values of {count} batches"
    logger.log(level, "the cache keeps %s: about %.0f MB of memory", kept, size / 2**20)


def _free_memory() -> float:
    """In bytes; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return float("inf")


def _size(values: Sequence[Any]) -> int:
    return sum(int(getattr(value, "nbytes", 0)) for value in values)


def _steps(feeds: Sequence[Feed]) -> list[Any]:
    return list({id(feed.value.step): feed.value.step for feed in feeds}.values())


def _named(factory: NeuralFactory, names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    return {name: factory.session.to_numpy(value) for name, value in zip(names, values, strict=False)}


def _refused(what: str, *fixes: str) -> ConfigError:
    return ConfigError(what, code="cache", fixes=fixes)
