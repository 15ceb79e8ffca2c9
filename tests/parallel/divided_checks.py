"""Evaluation and inference over processes, run by `launch`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch.distributed as dist

from neumo.engine import NeuralFactory
from neumo.types import BackendError

from .divided_toys import HeardData, heard_graph
from .launch import run_checks


def _factory() -> NeuralFactory:
    return NeuralFactory(device="cpu", seed=3, progress=False, verify="always")


def _alone(folder: Path, name: str) -> Any:
    return json.loads((folder / f"{name}.json").read_text())


def check_figures_are_those_of_one_process(folder: Path) -> None:
    found = _factory().evaluate(heard_graph(), per_utterance=True)
    assert dict(found) == _alone(folder, "figures")
    assert (found.count, found.utterances) == (7, _alone(folder, "rows"))


def check_inference_is_that_of_one_process(folder: Path) -> None:
    found = _factory().infer(heard_graph())
    if dist.get_rank():
        assert found == []
    else:
        np.testing.assert_array_equal(np.concatenate([one["y"] for one in found]), _alone(folder, "y"))


def check_one_that_fails_stops_all(folder: Path) -> None:
    rank = dist.get_rank()
    broken = heard_graph(fails_at=float(np.float32(np.sin(2.0))))  # the second utterance
    try:
        _factory().evaluate(broken)
    except BackendError as error:
        assert ("this one cannot be computed" in error.what) and error.code == (
            "module-failed" if rank == 1 else "other-process"
        )
        assert rank == 1 or error.what.startswith("process 1 failed: noisy failed: ValueError")
    else:
        raise AssertionError("nothing was raised")


def check_all_go_on_after_a_failure(folder: Path) -> None:
    assert _factory().evaluate(heard_graph(HeardData(utterances=1))).count == 1


if __name__ == "__main__":
    run_checks(globals())
