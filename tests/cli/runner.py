"""Runs the command in this process (fast) or in a new one (true), and keeps what it printed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from neumo.cli.main import run

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MESSAGES = HERE / "messages"
COMMAND = [sys.executable, "-c", "from neumo.cli.main import run; run()"]


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


def neumo(capsys: pytest.CaptureFixture[str], *words: str) -> Result:
    """Run the command in this process."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        run(words)
    captured = capsys.readouterr()
    return Result(int(caught.value.code or 0), captured.out, captured.err)


def process(*words: str, folder: Path | None = None, text: str = "") -> Result:
    """Run the command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"}
    done = subprocess.run(
        [*COMMAND, *words],
        cwd=folder,
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def expect(name: str, text: str) -> None:
    """Compare a text with tests/cli/messages/NAME.txt; NEUMO_SNAPSHOT=write rewrites it."""
    file = MESSAGES / f"{name}.txt"
    if os.environ.get("NEUMO_SNAPSHOT") == "write":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")
