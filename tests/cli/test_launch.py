"""What `neumo train` says and does about several processes before any of them exists."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from neumo.cli.launch import minutes_of, without_launcher
from neumo.engine.processes import launch
from neumo.engine.processes.launch import Launch, failures, give_up, listening
from neumo.types.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90s", 1.5),
        ("45m", 45),
        ("2h", 120),
        ("1h30m", 90),
        ("2d", 2880),
        ("1:30:00", 90),
        ("1-12:00:00", 2160),
    ],
)
def test_lengths_of_time(text: str, minutes: float) -> None:
    assert minutes_of(text) == pytest.approx(minutes)


@pytest.mark.parametrize("text", ["", "0", "soon", "-5m", "5x", "h", "1:2:3:4"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no length of time"):
        minutes_of(text)


def test_the_options_of_the_launcher_do_not_reach_the_processes() -> None:
    words = "train r.yaml train.epochs=2 --processes=2 --nodes 1:4 --rendezvous a:1 --no-rendezvous-here"
    words += " --address 10.0.0.1 --restarts 5 --resume --folder runs/a"
    wanted = "train r.yaml train.epochs=2 --resume --folder runs/a"
    assert without_launcher(words.split()) == wanted.split()


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"processes": 0}, "processes=0"),
        ({"restarts": -1}, "restarts=-1"),
        ({"nodes": "two"}, "nodes='two'"),
        ({"nodes": "3:2"}, "nodes='3:2'"),
        ({"nodes": "2"}, "a place to meet"),
        ({"nodes": "2", "rendezvous": "node1"}, "is not HOST:PORT"),
    ],
)
def test_launches_that_cannot_be_meant_are_refused(wrong: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        Launch(**wrong)  # type: ignore[arg-type]


def test_the_first_process_that_gives_up_decides_and_each_message_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled: list[tuple[int, int]] = []
    monkeypatch.setattr(launch.os, "kill", lambda pid, number: signalled.append((pid, number)))
    monkeypatch.setattr(launch.os, "getppid", os.getpid)
    assert not give_up({}, "nobody listens", 1)
    with listening(tmp_path, RANK="0", WORLD_SIZE="3", MASTER_ADDR="here", MASTER_PORT="1"):
        for rank, what in ((0, "a.wav"), (1, "a.wav"), (2, "b.wav")):
            monkeypatch.setenv("RANK", str(rank))
            assert give_up({"what": what}, f"there is no such file: {what}", 1 + rank)
    found = failures(tmp_path)
    assert [(each.rank, each.code, each.error["what"]) for each in found] == [
        (0, 1, "a.wav"),
        (2, 3, "b.wav"),
    ]
    assert signalled == [(os.getpid(), 15)] * 3
    assert not give_up({}, "the launcher has ended", 1)


def test_what_a_launcher_sets_does_not_stay(tmp_path: Path) -> None:
    before = dict(os.environ)
    with listening(tmp_path, OMP_NUM_THREADS="7", SOMETHING_NEW="1"):
        assert os.environ["SOMETHING_NEW"] == "1"
        assert os.environ["OMP_NUM_THREADS"] == before.get("OMP_NUM_THREADS", "7")
    assert dict(os.environ) == before


def test_a_process_whose_launcher_is_gone_shows_its_error_itself(tmp_path: Path) -> None:
    with listening(tmp_path):  # the launcher is this process, not its parent
        assert not give_up({}, "there is no such file: a.wav", 1)
    assert failures(tmp_path) == []
