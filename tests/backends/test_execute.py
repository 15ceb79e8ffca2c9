from dataclasses import dataclass

import pytest
import torch
from torch import nn

from neumo.backends.torch.device import choose_place
from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.registry import build, implements
from neumo.engine import compile_plan, find_backend
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, B, BackendError, T

from ..engine.toys import refused

CPU = choose_place("cpu", "fp32")


@dataclass(frozen=True)
class Mix(NeuralModule):
    forward: str = "swapped"

    def signature(self) -> Signature:
        signal = Acoustic()[B, T]
        return Signature(
            takes={"one": signal, "two": signal.as_optional(), "more": signal.as_optional()},
            gives={"y": signal},
        )


class Swapped(nn.Module):
    def forward(self, two, more, one):
        assert more is None
        return one if two is None else one - two


class ByName(nn.Module):
    def forward(self, **ports):
        assert list(ports) == ["one", "two", "more"]
        return ports["one"] if ports["two"] is None else ports["one"] - ports["two"]


class KeywordOnly(nn.Module):
    def forward(self, one, *, two, more):
        return one if two is None else one - two


class WithDefault(nn.Module):
    def forward(self, one, scale=1.0, two=None, more=None):
        return one * scale if two is None else one * scale - two


class Unread(nn.Module):
    def forward(self, one, too):
        return one


KINDS = {
    "swapped": Swapped,
    "named": ByName,
    "keyword": KeywordOnly,
    "default": WithDefault,
    "unread": Unread,
}


@implements(Mix)
class MixLayer(nn.Module):
    def __new__(cls, spec):
        return KINDS[spec.forward]()


def run(graph, **feeds):
    plan = compile_plan(graph)
    program = TorchProgram(plan, [build(step.module) for step in plan.steps], CPU)
    return program([feeds[feed.port] for feed in plan.feeds])


@pytest.mark.parametrize("forward", ["swapped", "named", "keyword", "default"])
def test_ports_reach_forward_by_name_in_whatever_order_it_has(forward):
    opened = inputs(a=Acoustic()[B, T], b=Acoustic()[B, T])
    mix = Mix(forward)
    feeds = {"a": torch.full((1, 2), 5.0), "b": torch.full((1, 2), 3.0)}
    (y,) = run(Graph(outputs={"y": mix(one=opened.a, two=opened.b).y}), **feeds)
    assert y.tolist() == [[2.0, 2.0]]
    (alone,) = run(Graph(outputs={"y": mix(one=opened.a).y}), a=feeds["a"])
    assert alone.tolist() == [[5.0, 5.0]]


def test_a_forward_that_does_not_fit_is_refused_before_it_runs():
    opened = inputs(a=Acoustic()[B, T])
    with refused(
        BackendError,
        "forward does not fit Mix: port 'two' has no parameter.*'too' has no port.*did you mean 'too'",
    ):
        run(Graph(outputs={"y": Mix("unread")(one=opened.a).y}), a=torch.zeros(1, 2))


@dataclass(frozen=True)
class Sum(NeuralModule):
    def signature(self) -> Signature:
        signal = Acoustic()[B, T]
        return Signature(takes={"parts": signal.as_many(), "scale": signal}, gives={"y": signal})


@implements(Sum)
class SumLayer(nn.Module):
    def __init__(self, spec):
        super().__init__()

    def forward(self, scale, parts):
        assert isinstance(parts, tuple)
        return scale * sum(parts)


def test_a_port_that_takes_many_arrives_as_a_tuple():
    opened = inputs(a=Acoustic()[B, T], b=Acoustic()[B, T])
    graph = Graph(outputs={"y": Sum()(parts=(opened.a, opened.b, opened.a), scale=opened.b).y})
    (y,) = run(graph, a=torch.full((1, 1), 2.0), b=torch.full((1, 1), 3.0))
    assert y.item() == 21.0


def test_values_are_let_go_after_their_last_use():
    import weakref

    opened = inputs(a=Acoustic()[B, T])
    seen = []

    class Look(nn.Module):
        def forward(self, one, two, more):
            seen.append(weakref.ref(one))
            if len(seen) == 3:
                assert seen[0]() is not None  # the caller holds the feed
                assert seen[1]() is None or True
            return one + 1

    KINDS["look"] = Look
    mix = Mix("look")
    y = mix(one=mix(one=mix(one=opened.a).y).y).y
    (result,) = run(Graph(outputs={"y": y}), a=torch.zeros(1, 1))
    assert result.item() == 3
    assert seen[1]() is None


def test_an_unknown_backend_is_refused_with_the_nearest():
    with refused(BackendError, "no backend 'torhc'.*did you mean 'torch'"):
        find_backend("torhc")


def test_the_protocol_is_what_the_session_has():
    from neumo.backends import protocol
    from neumo.backends.torch.session import TorchSession

    wanted = [name for name in vars(protocol.Session) if not name.startswith("_")]
    session = TorchSession(protocol.Setup(device="cpu"))
    assert [name for name in wanted if not hasattr(session, name)] == []
