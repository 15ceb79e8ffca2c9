"""Callbacks of several processes: all compute, one writes, and the training is that of one process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neumo.engine import AdamW, Callback, Checkpoint, Evaluate, NeuralFactory, read_log, read_starts
from neumo.engine.callbacks import Keep, Profile, Ramp, Samples, ScheduleValue, Unfreeze, on_batch_start
from neumo.engine.loop.length import Length
from neumo.engine.loop.run import Current, Run
from neumo.engine.tracking import CSV
from neumo.types import ConfigError

from ..engine.test_samples import sound_graph
from ..engine.test_unfreeze import two_lines
from ..engine.toys import line_graphs, refused
from .launch import run


def train(folder: str, *, watched: bool, steps: int = 8) -> dict[str, Any]:
    """Two batches a step; with everything that happens beside a training, or only what changes it."""
    graph = two_lines()
    factory = NeuralFactory(device="cpu", precision="fp64", seed=3, progress=False, folder=folder)
    seen: list[list[float]] = []

    @on_batch_start
    def look(run: Run) -> None:
        seen.append(run.value("first.y")[:, 0].tolist())

    callbacks: list[Callback] = [
        Unfreeze({"first": 1, "first.linear.bias": 2}),
        ScheduleValue("first", "drop.p", Ramp(0.0, 0.4, until=4), Keep(0.0)),
    ]
    if watched:
        callbacks += [look, Samples(sound_graph(), every_steps=4, count=2), Profile(start=1, steps=2)]
    result = factory.train(
        graph,
        optimizer=AdamW(lr=0.02),
        max_steps=steps,
        batches_per_step=2,
        evaluate=Evaluate(line_graphs()[1], every_steps=4),
        checkpoint=Checkpoint(every_steps=4, keep_last=3),
        callbacks=callbacks,
    )
    weights = {name: value.tolist() for name, value in factory.weights(graph).items()}
    return {"losses": result.losses, "weights": weights, "seen": len(seen)}


def watched(folder: str) -> dict[str, Any]:
    return train(folder, watched=True)


def unwatched(folder: str) -> dict[str, Any]:
    return train(folder, watched=False)


def in_parts(folder: str) -> dict[str, Any]:
    first = train(folder, watched=True, steps=4)
    rest = train(folder, watched=True)
    return {**rest, "losses": first["losses"] + rest["losses"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("together")


@pytest.fixture(scope="module")
def two(folder: Path) -> list[dict[str, Any]]:
    return run(watched, 2, str(folder / "two"))


def test_callbacks_change_nothing_in_two_processes(two: list[dict[str, Any]], folder: Path) -> None:
    plain = run(unwatched, 2, str(folder / "plain"))
    assert two[0]["losses"] == two[1]["losses"] == plain[0]["losses"]
    assert two[0]["weights"] == two[1]["weights"] == plain[0]["weights"]
    assert [each["seen"] for each in two] == [8, 8]


def test_two_processes_do_what_one_does(two: list[dict[str, Any]], folder: Path) -> None:
    """But for statistics: each process has those of its own batches, and they are averaged."""
    alone = train(str(folder / "one"), watched=True)
    assert alone["losses"] == pytest.approx(two[0]["losses"], rel=1e-9)
    trained = {
        name: each
        for name, each in alone["weights"].items()
        if ".norm." not in name or name.endswith(("weight", "bias"))
    }
    for name, value in trained.items():
        np.testing.assert_allclose(two[0]["weights"][name], value, rtol=1e-7, atol=1e-9, err_msg=name)
    assert (
        alone["seen"] == 14
    )  # steps of 2, 2 and 1 batches; in two processes a turn without one is computed, too


def test_one_process_writes(two: list[dict[str, Any]], folder: Path) -> None:
    assert two
    place = folder / "two"
    (start,) = read_starts(place)
    assert (start["processes"], start["end"]["step"]) == (2, 8)
    assert [row["step"] for row in read_log(place / "metrics.jsonl") if "norm" in row] == list(range(1, 9))
    names = sorted(path.name for path in (place / "samples").iterdir())
    assert names == ["step-00000004", "step-00000008"]
    assert (place / "samples" / names[0] / "text.txt").read_text() == "sound-0\tbcd\nsound-1\tdc\n"
    assert len(list((place / "profile").iterdir())) == 2


def test_two_processes_go_on_exactly(two: list[dict[str, Any]], folder: Path) -> None:
    for found in run(in_parts, 2, str(folder / "parts")):
        assert found["losses"] == two[0]["losses"]
        assert found["weights"] == two[0]["weights"]
    assert len(read_starts(folder / "parts")) == 2
    samples = [json.loads(path.read_text()) for path in (folder / "parts" / "samples").rglob("*.json")]
    assert len(samples) == 2


class Two:
    """A world of two, as far as a run looks at it."""

    rank, size = 0, 2


def test_a_callback_of_the_first_process_alone_gets_no_values() -> None:
    """The others would not take part, and the first would wait for them in its exchanges."""
    lone = Run(
        seed=0,
        epochs=1,
        length=Length(1),
        folder=None,
        evaluate=lambda graph: None,  # type: ignore[arg-type, return-value]
        say=print,
        world=Two(),  # type: ignore[arg-type]
    )

    class Look(CSV):
        def on_step_end(self, run: Run) -> None:
            run.current = Current((), (), 0)
            run.stage = object()  # type: ignore[assignment]
            run.value("loss")

    lone.listen([Look()])
    with refused(ConfigError, "Look runs in the first process only.*only_first = False"):
        lone.tell("on_step_end")
