"""Names of weights: patterns, new names, and changes before loading."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from neumo.engine.checkpoints.renaming import renamed, transformed
from neumo.engine.updates.weight_names import check_modules, select
from neumo.types import CheckpointError, GraphError

from .toys import refused

NAMES = {
    "encoder": ["blocks.0.norm.weight", "blocks.0.norm.bias", "blocks.1.norm.weight", "out.weight"],
    "head": ["weight", "bias"],
    "loss": [],
}


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        (["head"], {"head": None}),
        (["encoder.blocks.0"], {"encoder": ("blocks.0.norm.weight", "blocks.0.norm.bias")}),
        (["encoder.*.norm.weight"], {"encoder": ("blocks.0.norm.weight", "blocks.1.norm.weight")}),
        (["*.bias"], {"encoder": ("blocks.0.norm.bias",), "head": ("bias",)}),
        (["head.*"], {"head": None}),
        (["head.weight", "head.bias"], {"head": None}),
        (["h[ae]ad"], {"head": None}),
        (["*"], {"encoder": None, "head": None}),
        (["encoder.out", "head"], {"encoder": ("out.weight",), "head": None}),
    ],
)
def test_patterns_mean_modules_layers_and_weights(patterns, wanted):
    assert select(NAMES, patterns, "the graph") == wanted


def test_case_matters_and_part_of_a_name_is_not_enough():
    for pattern in ("Head", "encoder.block", "hea"):
        with pytest.raises(GraphError):
            select(NAMES, [pattern], "the graph")


def test_names_of_modules_are_checked():
    check_modules(["a", "b"], ["b"], "graph 'g'")
    with refused(GraphError, "graph 'g' has no module 'c' its modules are a, b"):
        check_modules(["a", "b"], ["b", "c"], "graph 'g'")
    with refused(GraphError, "its modules are none"):
        check_modules([], ["c"], "graph 'g'")


def test_the_longest_start_wins():
    found = renamed({"a.b.w": 1, "a.w": 2, "ab.w": 3}, {"a": "x", "a.b": "y"})
    assert found == {"y.w": 1, "x.w": 2, "ab.w": 3}


def test_without_a_rename_names_stay():
    arrays = {"a.w": 1}
    assert renamed(arrays, None) == arrays
    assert renamed(arrays, None) is not arrays


def test_a_rename_that_renames_nothing_is_refused():
    with refused(CheckpointError, "rename: no array is called 'encodr'.*did you mean 'encoder'"):
        renamed({"encoder.w": 1, "head.w": 2}, {"encodr": "x"})
    with refused(CheckpointError, r"'w' there are encoder\.w"):
        renamed({"encoder.w": 1}, {"w": "x"})


def test_two_arrays_of_one_name_are_refused():
    with refused(CheckpointError, r"two arrays would be called 'x\.w': a\.w and b\.w"):
        renamed({"a.w": 1, "b.w": 2}, {"a": "x", "b": "x"})


def test_a_function_renames_and_leaves_out():
    assert renamed({"a": 1, "b": 2}, {"a": "c"}.get) == {"c": 1}


@pytest.mark.parametrize("kind", [np, torch])
def test_arrays_are_turned_or_changed_by_name(kind):
    arrays = {"a.w": kind.zeros((2, 3, 4)), "b.w": kind.ones((2, 3)), "c.w": kind.ones((5,))}
    found = transformed(arrays, {"[ab].w": "transpose", "c.w": lambda array: array * 2})
    assert [tuple(found[name].shape) for name in arrays] == [(4, 3, 2), (3, 2), (5,)]
    assert float(found["c.w"].sum()) == 10
    assert tuple(arrays["b.w"].shape) == (2, 3)


def test_a_change_of_nothing_or_by_nothing_is_refused():
    arrays = {"head.weight": np.zeros((2, 2))}
    assert transformed(arrays, None) == arrays
    with refused(CheckpointError, r"no array is called 'head\.wieght'.*did you mean 'head\.weight'"):
        transformed(arrays, {"head.wieght": "transpose"})
    with refused(CheckpointError, r"'turn' is neither 'transpose' nor a function.*'head\.\*': 'transpose'"):
        transformed(arrays, {"head.*": "turn"})
