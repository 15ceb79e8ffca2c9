"""What `neumo train` says and does about several processes before any of them exists."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from neumo.cli.launch import minutes_of, without_launcher
from neumo.engine import launch
from neumo.engine.launch import Launch, gave_up, give_up, telling
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


def test_the_first_process_that_gives_up_leaves_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signalled: list[tuple[int, int]] = []
    monkeypatch.setattr(launch.os, "kill", lambda pid, number: signalled.append((pid, number)))
    monkeypatch.setattr(launch.os, "environ", {**os.environ, **telling(tmp_path)})
    assert gave_up(tmp_path) is None
    assert give_up("there is no such file: a.wav", 1)
    assert gave_up(tmp_path) == 1
    assert not give_up("there is no such file: a.wav", 1)  # the same, once more: nothing to add
    assert give_up("there is no such file: b.wav", 1)
    assert signalled == [(os.getppid(), 15)]
    assert json.loads((tmp_path / launch.FAILED).read_text())["message"] == "there is no such file: a.wav"
