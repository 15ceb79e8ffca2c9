"""One pass over the data of a graph, without gradients: what evaluation and inference have in common."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neumo.engine.backend import Program, Reader, Session
from neumo.engine.checks.verify import Verify, make_guards
from neumo.engine.passes.shared_pass import Computed, own_turns, use_in_order
from neumo.engine.plan import Plan
from neumo.engine.processes.workers import Workers

if TYPE_CHECKING:
    from neumo.data.source import DataSource


@dataclass
class Pass:
    """Computes a plan for every batch of a data source, divided among the processes, as often as wanted."""

    session: Session
    plan: Plan
    source: DataSource
    program: Program
    reader: Reader
    seed: int

    @classmethod
    def prepare(
        cls,
        session: Session,
        plan: Plan,
        source: DataSource,
        *,
        seed: int,
        verify: Verify,
        workers: int | Workers,
    ) -> Pass:
        """Make the program of a plan, and what reads its data."""
        program = session.program(plan, make_guards(plan, verify, session.to_numpy))
        reader = session.reader(source, [feed.port for feed in plan.feeds], workers)
        return cls(session, plan, source, program, reader, seed)

    def run(self, use: Callable[[Computed], None]) -> None:
        """Compute all batches; the first process uses the results, as numpy arrays, in their order.

        The random numbers of a batch depend on its place among all, not on the process that computes it.
        """
        batches = self.source.batches(0)
        world = self.session.world
        with self.session.inference(self.plan, self.seed) as reseed:
            computed = self._computed(batches, own_turns(world, batches), reseed)
            with closing(computed):
                use_in_order(world, len(batches), computed, use, list(self.plan.wanted))

    def close(self) -> None:
        """End the workers."""
        self.reader.close()

    def _computed(
        self, batches: Sequence[Sequence[int]], own: range, reseed: Callable[[int], None]
    ) -> Generator[Computed, None, None]:
        read = self.reader.read([batches[number] for number in own], 0)
        for number, batch in zip(own, read, strict=True):
            if not batch.items:  # every item of it was left out
                yield Computed((), [])
                continue
            reseed(number)
            values = run_program(self.program, batch.feeds)
            yield Computed(batch.items, [self.session.to_numpy(value) for value in values])


def run_program(program: Program, feeds: Sequence[Any]) -> list[Any]:
    """Run a program, and say which module it was if one fails."""
    try:
        return program(feeds)
    except Exception as error:
        explained = program.explain(error)
        if explained is error:
            raise
        raise explained from error
