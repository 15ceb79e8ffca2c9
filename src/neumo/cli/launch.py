"""The options of verbs that run in several processes, and how such a verb starts itself in them."""

from __future__ import annotations

import json as json_text
import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import NoReturn

from neumo.engine.processes.launch import Launch, launched
from neumo.types.errors import ConfigError

COMMAND = "NEUMO_COMMAND"  # what launched processes find there: the command that was given
_OF_THE_LAUNCHER = {  # option: whether a value follows it
    "--processes": True,
    "--nodes": True,
    "--rendezvous": True,
    "--rendezvous-here": False,
    "--no-rendezvous-here": False,
    "--address": True,
    "--restarts": True,
}
_TIME = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_CLOCK = re.compile(
    r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?"
)  # as SLURM writes it: [days-]hours:minutes[:seconds]


def run_launched(how: Launch, *, json: bool) -> NoReturn:
    """Start the present command again in several processes, without the options of the launcher, and exit.

    What they have failed by is shown once: on stderr, or as JSON on stdout.
    """
    from neumo.backends.torch.parallel.launch import launch

    if launched():
        raise ConfigError(
            "this process is one of several already, so it cannot launch more",
            code="launch",
            fixes=["neumo train --processes N, without torchrun around it", "torchrun, without --processes"],
        )
    os.environ[COMMAND] = shlex.join(["neumo", *sys.argv[1:]])
    code, failures = launch(without_launcher(sys.argv[1:]), how)
    if json and failures:
        print(json_text.dumps(failures[0].error, ensure_ascii=False, indent=2))
    for number, failure in enumerate(failures if not json else ()):
        print(f"process {failure.rank}: {failure.message}" if number else failure.message, file=sys.stderr)
    sys.exit(code)


def without_launcher(words: Sequence[str]) -> list[str]:
    """Take the options that are the launcher's out of a command line.

    >>> without_launcher(["train", "recipe.yaml", "--processes", "2", "--nodes=2", "--json"])
    ['train', 'recipe.yaml', '--json']
    """
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        option, _, value = word.partition("=")
        if option not in _OF_THE_LAUNCHER:
            kept.append(word)
        elif _OF_THE_LAUNCHER[option] and not value:
            next(rest, None)
    return kept


def minutes_of(text: str) -> float:
    """Read a duration: 90s, 45m, 1h30m, 2d, or 1:30:00 and 1-12:00:00 as SLURM writes it.

    >>> minutes_of("1h30m"), minutes_of("90s"), minutes_of("1:30:00"), minutes_of("45")
    (90.0, 1.5, 90.0, 45.0)

    A number alone is minutes. Raises `ConfigError` for anything else, and for no time at all.
    """
    minutes = float(text) if text.replace(".", "", 1).isdigit() else 0.0
    if text and (found := _CLOCK.fullmatch(text) or _TIME.fullmatch(text)):
        days, hours, mins, seconds = (float(part or 0) for part in found.groups())
        minutes = 60 * (24 * days + hours) + mins + seconds / 60
    if not minutes > 0:
        raise ConfigError(
            f"{text!r} is no length of time", code="max-time", fixes=["--max-time 90s, 45m, 2h or 1h30m"]
        )
    return minutes
