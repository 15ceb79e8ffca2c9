"""Ways out of wrong connections are run: what adapters that are offered give is what the port wanted."""

from __future__ import annotations

import pytest
import torch

from neumo.backends.torch.device import choose_place
from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.registry import build, implements
from neumo.data.generate import example_batch
from neumo.engine import compile_plan
from neumo.engine.checks.verify import make_guards
from neumo.graph.graph import Graph
from neumo.graph.inputs import GraphInputs
from neumo.types import Strings, Struct

from ..graph.apply_fixes import apply, ways_of
from ..graph.test_fixes_apply import WRONG, Port, Wrong, refuse

CPU = choose_place("cpu", "fp32")


@implements(Port)
class Sink(torch.nn.Module):
    def __init__(self, spec: Port) -> None:
        super().__init__()

    def forward(self, **ports: torch.Tensor) -> torch.Tensor:
        return torch.zeros(())


def is_tensors(case: Wrong) -> bool:
    """Lists, texts and structs are no tensors that a guard could look at."""
    for found in (*case.wanted.values(), *case.given.values()):
        if isinstance(found.element, Strings | Struct) or any(axis.listed for axis in found.axes):
            return False
    return True


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", [name for name, case in WRONG.items() if is_tensors(case)])
def test_what_is_offered_runs_and_gives_what_is_wanted(name: str, seed: int) -> None:
    call = refuse(WRONG[name])
    ((mismatch, ways),) = ways_of(call)
    for way in ways:
        record = apply(call, mismatch, way)
        step = record.out.step
        graph = Graph(mode="train", outputs={"out": record.out, **dict(step.edges())})
        plan = compile_plan(graph)
        guards = make_guards(plan, "values", lambda tensor: tensor.detach().numpy())
        program = TorchProgram(plan, [build(each.module) for each in plan.steps], CPU, guards)
        opened = next(each.module for each in graph.steps if isinstance(each.module, GraphInputs))
        batch = example_batch(opened.ports, seed=seed)
        program([torch.as_tensor(batch[feed.port]) for feed in plan.feeds])
