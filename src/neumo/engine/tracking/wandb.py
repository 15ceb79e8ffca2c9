"""Trainings in Weights & Biases."""

from __future__ import annotations

import importlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from neumo.engine.tracking.tracker import Row, Tracker, settings_of
from neumo.types.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from neumo.engine.callbacks import Sample
    from neumo.engine.loop.run import Run

Mode = Literal["offline", "online", "disabled"]


class WandB(Tracker):
    """Writes figures and samples for Weights & Biases; offline, unless `mode="online"` says otherwise.

    `WandB(project="digits")` writes to `wandb/` of the run folder, and nothing leaves the machine before
    `wandb sync RUN/wandb/offline-run-*` is called; the parts of a resumed training become one run then.
    `name` is that of the run folder if none is given. Needs `pip install 'neumo[wandb]'`.
    """

    packages: ClassVar[tuple[str, ...]] = ("wandb",)
    extra: ClassVar[str] = "wandb"

    def __init__(
        self, project: str = "neumo", *, name: str = "", mode: Mode = "offline", every_steps: int = 1
    ) -> None:
        super().__init__(every_steps=every_steps)
        if mode not in get_args(Mode):
            raise ConfigError(
                f"WandB: mode={mode!r} is none of {', '.join(get_args(Mode))}",
                code="tracking",
                fixes=did_you_mean(str(mode), get_args(Mode)),
            )
        self.project = project
        self.name = name
        self.mode: Mode = mode

    def open(self, run: Run, folder: Path, known: str) -> str:
        """Begin a run, or go on with it."""
        if self.mode != "online":
            os.environ.setdefault("WANDB_ERROR_REPORTING", "false")  # which would use the network
        self._wandb: Any = importlib.import_module("wandb")
        name = known or secrets.token_hex(4)
        self._run: Any = self._wandb.init(
            project=self.project,
            name=self.name or folder.resolve().name,
            id=name,
            dir=str(folder),
            mode=self.mode,
            resume="allow",
            config=settings_of(run),
            settings=self._wandb.Settings(console="off", silent=True, save_code=False),
        )
        return name

    def send(self, rows: list[Row]) -> None:
        """Write figures."""
        for row in rows:
            self._run.log(dict(row.figures), step=row.step)

    def send_sample(self, sample: Sample) -> None:
        """Write a sample."""
        path, name = str(sample.path), f"samples/{sample.name}"
        if sample.form == "picture":
            shown = self._wandb.Image(path, caption=sample.item)
        elif sample.form == "sound":
            shown = self._wandb.Audio(path, sample_rate=sample.rate, caption=sample.item)
        else:
            lines = sample.path.read_text(encoding="utf-8").splitlines()
            shown = self._wandb.Table(["utterance", "text"], [line.split("\t", 1) for line in lines])
        self._run.log({name: shown}, step=sample.step)

    def finish(self, ended: bool) -> None:
        """End the run."""
        self._run.finish(exit_code=0 if ended else 1)
