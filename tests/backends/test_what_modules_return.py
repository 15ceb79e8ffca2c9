"""What a module of one's own returns, holds and is set to has to be what a graph can rely on."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import neumo
from neumo.backends.torch.registry import build, check_registered
from neumo.engine import NeuralFactory
from neumo.engine.checks.verify import Verify
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.signature import Signature
from neumo.types import B, BackendError, ConfigError, F, Features, GraphError, Ids, Mask, PortError, T

from ..engine.toys import Line, refused

FRAMES = Features()[B, T, F(4)]


@dataclass
class Own(neumo.TorchModule):
    """Returns what it is told to."""

    returned: str = "value"
    width: int = 4

    def signature(self) -> Signature:
        return Signature(takes={"x": FRAMES}, gives={"y": Features()[B, T, F(self.width)]})

    def forward(self, x: Tensor) -> Any:
        if self.returned == "index":
            return x[:, [1000]]
        if self.returned == "fail":
            raise ValueError("not today")
        made = {"value": x, "one": (x,), "two": [x, x], "mapping": {"y": x}, "nothing": {}}
        return made[self.returned]


def graph_of(module: Any, **ports: Any) -> Graph:
    opened = inputs(**(ports or {"x": FRAMES}))
    return Graph("own", outputs={"y": module(**{value.port: value for value in opened}).y})


def run(module: Any, verify: Verify = "boundary") -> Any:
    factory = NeuralFactory(device="cpu", verify=verify, progress=False)
    return factory.infer(graph_of(module), {"x": np.zeros((2, 3, 4), np.float32)})


@pytest.mark.parametrize("verify", ["off", "boundary", "always"])
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ("one", r"Own returned a tuple of 1 value, not the value itself.*return y, not \(y,\)"),
        ("two", "Own returned a list of 2 values, not the value itself.*name all of them in gives"),
        ("mapping", r"Own returned a dict with 'y', not the value itself.*return found\['y'\]"),
        ("nothing", "Own returned a dict with nothing, not the value itself"),
    ],
)
def test_the_only_value_comes_as_itself(returned: str, words: str, verify: Verify) -> None:
    with refused(BackendError, words):
        run(Own(returned), verify)


def test_a_program_goes_on_without_guards_after_its_first_run() -> None:
    assert run(Own(), "off")[0]["y"].shape == (2, 3, 4)


@pytest.mark.parametrize(
    ("returned", "verify", "offered"),
    [
        ("fail", "boundary", "verify='always'"),
        ("fail", "always", ""),
        ("index", "off", "verify='values' looks at the numbers"),
        ("index", "always", "verify='values' looks at the numbers"),
        ("index", "values", ""),
    ],
)
def test_a_failure_offers_the_guards_that_are_not_on(returned: str, verify: Verify, offered: str) -> None:
    with pytest.raises(BackendError) as caught:
        run(Own(returned), verify)
    assert caught.value.code == "module-failed"
    assert " ".join(fix.text for fix in caught.value.fixes).startswith(offered)
    assert bool(caught.value.fixes) == bool(offered)
    assert "^" in caught.value.render()


@dataclass
class Layers(neumo.TorchModule):
    """Holds layers in a list, a dict or a tuple of torch, of Python, or under a name with an underscore."""

    held: str = "list"

    def signature(self) -> Signature:
        return Signature(takes={"x": FRAMES}, gives={"y": FRAMES})

    def setup(self) -> None:
        one, two = nn.Linear(4, 4), nn.Linear(4, 4)
        if self.held == "list":
            self.layers = [one, two]
        elif self.held == "dict":
            self.layers = {"one": one}
        elif self.held == "parameters":
            self.layers = (nn.Parameter(torch.zeros(2)),)
        elif self.held == "proper":
            self.layers = nn.ModuleList([one, two])
            self.order = [one, two]
        elif self.held == "hidden":
            self._teacher = [one]

    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("list", r"Layers holds weights in layers, a plain list.*self.layers = nn.ModuleList\(...\)"),
        ("dict", r"a plain dict.*nn.ModuleDict\(...\)"),
        ("parameters", r"a plain tuple.*nn.ParameterList\(...\)"),
    ],
)
def test_layers_that_torch_does_not_see_are_refused(kind: str, words: str) -> None:
    with refused(BackendError, words) as error:
        Layers(held=kind).to_torch()
    assert error.value.code == "layers"


def test_registered_and_hidden_layers_are_taken() -> None:
    assert len(list(Layers("proper").to_torch().parameters())) == 4
    assert not list(Layers("hidden").to_torch().parameters())
    check_registered(build(Line()))


def test_the_list_of_an_inner_layer_is_named() -> None:
    outer = nn.Sequential(nn.Identity())
    outer[0].tails = [nn.Linear(2, 2)]  # pyright: ignore[reportAttributeAccessIssue]
    with refused(BackendError, "Sequential holds weights in 0.tails"):
        check_registered(outer)


def test_settings_stay_as_the_graph_knows_them() -> None:
    own = Own()
    own.width = 4
    graph = graph_of(own)
    with refused(GraphError, "Own.width cannot become 5: Own is part of a graph.*make another one") as error:
        own.width = 5
    assert error.value.code == "immutable"
    own.note = "no setting"  # pyright: ignore[reportAttributeAccessIssue]
    other = copy.copy(own)
    other.width = 4
    assert str(graph.outputs["y"].type) == "Features[B, T, F=4]"


@dataclass
class Masked(neumo.TorchModule):
    """Takes the mask of a tokenizer; `broken` ones return numbers for flags."""

    returns_flags: bool = True

    def signature(self) -> Signature:
        mask = Mask(T, true="keep")[B, T]
        return Signature(takes={"ids": Ids()[B, T], "attention_mask": mask}, gives={"y": mask})

    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        return attention_mask if self.returns_flags else attention_mask.long()


@pytest.mark.parametrize(
    ("mask", "returns_flags", "words"),
    [
        ([[1, 1, 0]], True, r"it holds int numbers.*give attention_mask.astype\(bool\), if 1 means true"),
        ([[1, 2, 0]], True, "it holds int numbers.*compare first, as in attention_mask > 0"),
        ([[True, True, False]], False, r"it holds int numbers.*return y.bool\(\), if 1 means true"),
        ([[0.5, 1.0, 0.0]], True, "it holds float numbers"),
    ],
)
def test_whole_numbers_for_flags_are_refused_with_the_conversion(
    mask: Any, returns_flags: bool, words: str
) -> None:
    ports = {"ids": Ids()[B, T], "attention_mask": Mask(T, true="keep")[B, T]}
    factory = NeuralFactory(device="cpu", verify="always", progress=False)
    given = {"ids": np.zeros((1, 3), np.int64), "attention_mask": np.array(mask)}
    with refused(PortError, words):
        factory.infer(graph_of(Masked(returns_flags), **ports), given)


def test_what_holds_no_arrays_by_name_is_refused() -> None:
    factory = NeuralFactory(device="cpu", progress=False)
    graph, batch = graph_of(Own()), {"x": np.zeros((2, 3, 4), np.float32)}
    with refused(ConfigError, "infer takes arrays by name, not a list.*for batch in batches"):
        factory.infer(graph, [batch, batch])  # pyright: ignore[reportArgumentType]
    with refused(ConfigError, "load_weights takes arrays by name, not a list.*reads them from a file"):
        factory.load_weights(graph, [1])  # pyright: ignore[reportArgumentType]


def test_weights_that_are_no_numbers_are_told(caplog: pytest.LogCaptureFixture) -> None:
    factory, line = NeuralFactory(device="cpu", progress=False), Line()
    weights = factory.weights(line)
    broken = {name: np.full_like(value, np.nan) for name, value in weights.items()}
    with caplog.at_level(logging.WARNING, "neumo"):
        factory.load_weights(line, broken)
    assert "weights hold NaN: linear.weight, linear.bias" in caplog.text
    caplog.clear()
    factory.load_weights(line, weights | {f"more.{n}": np.float32([np.nan]) for n in range(5)}, partial=True)
    assert "more.2 and 2 more" in caplog.text
