"""Processes that do different things say so, instead of waiting or mixing up numbers."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from neumo.backends.torch.parallel.world import TorchWorld, is_about_others, others_lost
from neumo.engine import SGD, Callback, Checkpoint, NeuralFactory
from neumo.engine.callbacks import Samples, on_epoch_end
from neumo.engine.checkpoints import store
from neumo.engine.loop.length import Length
from neumo.engine.loop.run import Run
from neumo.engine.processes.world import Alone, World, sharing_trouble, together
from neumo.types import BackendError, CheckpointError, ConfigError, DataError

from ..engine.test_samples import dropped_graph
from ..engine.toys import line_graphs
from .launch import run
from .threads import ThreadWorld, in_threads


def factory(folder: str | None = None) -> NeuralFactory:
    return NeuralFactory(device="cpu", precision="fp64", seed=3, progress=False, folder=folder)


def different_things() -> list[Any]:
    world = factory().session.world
    many = [float(world.rank)] * 40  # more than travel with the question
    found: list[Any] = [world.sum([1.0, 2.0]), world.largest(many)[39], together(world, world.rank)]
    asked = [
        lambda: world.sum([1.0], "the loss") if world.rank else world.largest([1.0], "the loss"),
        lambda: world.sum(many, "figures") if world.rank else world.sum(many, "times"),
        lambda: together(world, "x", "notes") if world.rank else world.share(b"y", "the best step"),
        lambda: world.sum([1.0] * (1 + world.rank)),
    ]
    for ask in asked:
        try:
            ask()
        except BackendError as error:
            found.append([error.code, *error.details])
    found.append(together(world, world.rank))  # and they still understand each other
    return found


def test_different_exchanges_are_named_in_all_processes() -> None:
    first, *others = run(different_things, 3)
    assert others == [first] * 2
    assert first == [
        [3.0, 6.0],
        2.0,
        [0, 1, 2],
        ["exchange", "process 0: the largest of the loss (1)", "process 1, 2: the sum of the loss (1)"],
        ["exchange", "process 0: the sum of times (40)", "process 1, 2: the sum of figures (40)"],
        ["exchange", "process 0: the best step of the first", "process 1, 2: notes of all"],
        [
            "exchange",
            "process 0: the sum of numbers (1)",
            "process 1: the sum of numbers (2)",
            "process 2: the sum of numbers (3)",
        ],
        [0, 1, 2],
    ]


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("evaluate", "a graph is evaluated"),
        ("save", "checkpoints are saved"),
        ("hold", "weights are held"),
    ],
)
def test_a_callback_of_the_first_process_cannot_ask_for_what_all_do(what: str, words: str) -> None:
    def one(world: ThreadWorld) -> None:
        train, _ = line_graphs()
        asking = Run(
            seed=0,
            epochs=1,
            length=Length(1),
            folder=None,
            evaluate=lambda graph: None,
            say=print,
            world=world,
        )  # type: ignore[arg-type, return-value]

        @on_epoch_end(only_first=True)
        def ask(run: Run) -> None:
            {"evaluate": lambda: run.evaluate(train), "save": run.save, "hold": lambda: run.hold(ask, [])}[
                what
            ]()

        asking.listen([ask])
        asking.tell("on_epoch_end")

    first, other = in_threads(2, one)
    assert isinstance(first, ConfigError)
    assert f"and {words} by all of them" in first.what
    assert first.code == "together"
    assert other is None


def saving_slowly(folder: str) -> list[str]:
    """Process 1 takes its time for each rename, as on a network disk."""
    maker = factory(folder)
    if maker.session.world.rank:
        rename = store._rename  # type: ignore[attr-defined]

        def slow(source: Path, target: Path) -> None:
            time.sleep(0.2)
            rename(source, target)

        store._rename = slow  # type: ignore[attr-defined]
    keep = Checkpoint(every_steps=1, keep_last=1)
    maker.train(line_graphs()[0], max_steps=4, optimizer=SGD(lr=0.01), checkpoint=keep)
    maker.session.world.wait()
    return sorted(path.name for path in (Path(folder) / "checkpoints").iterdir())


def test_one_process_removes_checkpoints(tmp_path: Path) -> None:
    assert run(saving_slowly, 2, str(tmp_path)) == [["step-00000004"]] * 2


class Unwritable(Callback):
    """Has a state that cannot be told, in one process; the others must not wait for it."""

    def __init__(self, world: World) -> None:
        self.world = world

    def state(self) -> dict[str, Any]:
        if self.world.rank == 0:
            raise ValueError("what this callback knows cannot be told")
        return {}


def saving_what_cannot_be_told(folder: str) -> str:
    maker = factory(folder)
    try:
        maker.train(line_graphs()[0], max_steps=2, callbacks=[Unwritable(maker.session.world)])
    except (ValueError, BackendError) as error:
        return f"{type(error).__name__}: {getattr(error, 'what', error)}"
    return "nothing was raised"


def test_what_goes_wrong_in_the_process_that_writes_is_told_to_the_others(tmp_path: Path) -> None:
    own = "ValueError: what this callback knows cannot be told"
    assert run(saving_what_cannot_be_told, 2, str(tmp_path), timeout=30) == [
        own,
        f"BackendError: process 0 failed: {own}",
    ]


def sampling_what_one_cannot_read(folder: str) -> str:
    maker = factory(folder)
    samples = Samples(dropped_graph(unreadable=2 * maker.session.world.rank), every_steps=1, count=2)
    try:
        maker.train(line_graphs()[0], max_steps=2, callbacks=[samples])
    except (DataError, BackendError) as error:
        return f"{error.code}: {error.what}"
    return "nothing was raised"


def test_a_sample_that_one_process_cannot_read_ends_all(tmp_path: Path) -> None:
    assert run(sampling_what_one_cannot_read, 2, str(tmp_path), timeout=30) == [
        "other-process: process 1 failed: sound-2 cannot be read",
        "toy: sound-2 cannot be read",
    ]


def resuming_what_is_broken(folder: str) -> str:
    try:
        factory(folder).train(line_graphs()[0], max_steps=3)
    except (CheckpointError, BackendError) as error:
        return f"{error.code}: {error.what}"
    return "nothing was raised"


def test_a_checkpoint_that_the_first_process_cannot_read_ends_all(tmp_path: Path) -> None:
    factory(str(tmp_path)).train(line_graphs()[0], max_steps=2)
    (tmp_path / "checkpoints" / "step-00000002" / "state.json").write_text("{}")
    what = f"none of the 1 checkpoints in {tmp_path / 'checkpoints'} is whole"
    found = run(resuming_what_is_broken, 2, str(tmp_path), timeout=30)
    assert found == [f"checkpoint-damaged: {what}", f"other-process: process 0 failed: {what}"]


def test_trouble_of_one_thread_is_that_of_all() -> None:
    def one(world: ThreadWorld) -> None:
        with sharing_trouble(world, "a file"):
            if world.rank == 0:
                raise OSError("no room")

    first, other = in_threads(2, one)
    assert isinstance(first, OSError)
    assert isinstance(other, BackendError)
    assert other.what == "process 0 failed: OSError: no room"


def test_trouble_of_a_process_that_is_alone_is_its_own() -> None:
    with pytest.raises(OSError, match="no room"), sharing_trouble(Alone(), "a file"):
        raise OSError("no room")


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("[/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 3000ms for recv operation", True),
        ("[/gloo/transport/tcp/pair.cc:544] Application timeout caused pair closure", True),
        ("Application timeout caused pair closure", True),
        ("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7) ran for 600 s", True),
        ("[/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:2901", False),
    ],
)
def test_a_time_limit_asks_who_does_not_answer_wherever_it_strikes(
    monkeypatch: pytest.MonkeyPatch, text: str, asked: bool
) -> None:
    monkeypatch.setattr(TorchWorld, "__init__", lambda world: vars(world).update(rank=0, size=3))
    monkeypatch.setattr(TorchWorld, "missing", lambda _: [1])
    assert is_about_others(RuntimeError(text))
    assert ("no answer from process 1" in others_lost(RuntimeError(text), TorchWorld()).details) == asked
