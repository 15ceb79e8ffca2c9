"""Profiling a few steps of a training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from neumo.engine.callback import Callback
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from neumo.engine.backend import Profiler
    from neumo.engine.loop.run import Run

FOLDER: Final = "profile"  # in the run folder
_SHOWN: Final = 40  # rows of a table


@dataclass(frozen=True)
class Timed:
    """How often something ran in the profiled steps, and how long: in milliseconds on host and device."""

    name: str
    calls: int
    host: float
    device: float

    @property
    def time(self) -> float:
        """Milliseconds where it computed: on the device if it did anything there."""
        return self.device or self.host


class Profile(Callback):
    """Profiles some steps, and writes where their time went into the run folder.

    `Profile(start=10, steps=5)` lets the first 10 steps of this process pass, which make caches and compile,
    and looks at the next 5. Then `profile/step-00000015.json` is a trace for https://ui.perfetto.dev or
    chrome://tracing, and `profile/step-00000015.txt` a table of the slowest modules, with the time of the
    forward pass of each layer and what is inside it, and of the slowest operations, forward and backward.
    Profiled steps take longer; what they compute is the same. A step that began outside ends outside: a
    profile of less steps than asked for is written when the training ends within it.
    """

    order: ClassVar[int] = 96  # behind everything else, so that a step begins and ends with it
    only_first: ClassVar[bool] = True

    def __init__(self, *, start: int = 10, steps: int = 5) -> None:
        if start < 0 or steps < 1:
            raise ConfigError(
                f"Profile: start={start}, steps={steps}: it starts at 0 or later, for a step at least",
                code="profile",
            )
        self.start = start
        self.steps = steps
        self._passed = 0  # steps of this process
        self._profiler: Profiler | None = None
        self._seen = 0
        self._target: Path | None = None

    def on_action_start(self, run: Run) -> None:
        """Look for a place to write to."""
        self._passed = self._seen = 0
        if run.folder is None:
            raise ConfigError(
                "profiles need a folder", code="folder", fixes=["NeuralFactory(folder='runs/first')"]
            )
        self._begin(run)

    def on_step_end(self, run: Run) -> None:
        """Begin or end if it is time."""
        self._passed += 1
        if self._profiler is None:
            self._begin(run)
            return
        self._seen += 1
        self._profiler.step()
        if self._seen == self.steps:
            self._end(run)

    def on_action_end(self, run: Run) -> None:
        """Write what was seen of a profile that is not complete."""
        if self._profiler is not None and self._seen:
            self._end(run)
        elif not self._seen:
            run.note(f"Profile: the training ended before step {self.start + 1} of this process")

    def close(self) -> None:
        """Stop profiling."""
        if self._profiler is not None:
            self._profiler.finish(None)
            self._profiler = None

    def _begin(self, run: Run) -> None:
        if self._passed == self.start and run.stage is not None:
            self._profiler = run.stage.factory.session.profiler(run.stage.plan)

    def _end(self, run: Run) -> None:
        profiler, self._profiler = self._profiler, None
        if profiler is None or run.folder is None:
            return
        folder = run.folder / FOLDER
        folder.mkdir(exist_ok=True)
        stem = f"step-{run.step:08d}"
        modules, operations = profiler.finish(folder / f"{stem}.json")
        parts = [
            _table("module, forward pass", modules, self._seen),
            _table("operation", operations, self._seen),
        ]
        (folder / f"{stem}.txt").write_text("\n".join(parts), encoding="utf-8")
        run.note(f"the profile of {self._seen} steps is in {folder / stem}.txt and .json")


def _table(title: str, rows: Sequence[Timed], steps: int) -> str:
    """The slowest, in milliseconds of one step.

    >>> print(_table("operation", [Timed("add", 4, 3.0, 0.0), Timed("mul", 2, 5.0, 0.0)], 2), end="")
    ms/step  on host  calls/step  operation
      2.500    2.500         1.0  mul
      1.500    1.500         2.0  add
    """
    slowest = sorted(rows, key=lambda row: (-row.time, row.name))[:_SHOWN]
    lines = [f"ms/step  on host  calls/step  {title}"]
    lines += [
        f"{row.time / steps:7.3f}  {row.host / steps:7.3f}  {row.calls / steps:10.1f}  {row.name}"
        for row in slowest
    ]
    return "\n".join(lines) + "\n"
