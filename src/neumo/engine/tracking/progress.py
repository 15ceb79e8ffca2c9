"""A training on the terminal."""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Any, ClassVar

from neumo.engine.callbacks import Callback

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run


class Progress(Callback):
    """Shows a bar on a terminal, and one plain line for each epoch elsewhere, both on the error stream."""

    order: ClassVar[int] = 95
    only_first: ClassVar[bool] = True

    def __init__(self, stream: IO[str] | None = None, bar: bool | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._wants_bar = self._stream.isatty() if bar is None else bar
        self._bar: Any = None
        self._task: Any = None

    def on_action_start(self, run: Run) -> None:
        """Start the bar."""
        if not self._wants_bar:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(file=self._stream, force_terminal=True),
            transient=True,
        )
        self._task = self._bar.add_task("training", total=run.total_steps or None, completed=run.step)
        self._bar.start()

    def on_step_end(self, run: Run) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(
                self._task, completed=run.step, description=f"epoch {run.epoch + 1}  loss {run.loss:.4g}"
            )

    def on_epoch_end(self, run: Run) -> None:
        """Say how the epoch went."""
        row = run.history[-1]
        figures = [f"loss {row['loss']:.4g}"]
        figures += [
            f"{name} {value:.4g}"
            for name, value in row.items()
            if (name in run.metrics or name.startswith("loss.")) and isinstance(value, float)
        ]
        of = f"/{run.epochs}" if run.epochs is not None else ""
        self.say(f"epoch {run.epoch + 1}{of}  step {run.step}  {'  '.join(figures)}  {run.seconds:.0f} s")

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def say(self, text: str) -> None:
        """Write a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=self._stream, flush=True)
