"""Trainings in TensorBoard."""

from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from neumo.engine.tracking.tracker import Row, Tracker, settings_of

if TYPE_CHECKING:
    from neumo.engine.callbacks import Sample
    from neumo.engine.loop.run import Run

FOLDER = "tensorboard"  # in the run folder


def _module(name: str) -> Any:
    return importlib.import_module(f"tensorboard.{name}")


class TensorBoard(Tracker):
    """Writes figures, pictures, sounds and texts for TensorBoard into `tensorboard/` of the run folder.

    `tensorboard --logdir runs` then shows all runs beside each other. Needs `pip install
    'neumo[tensorboard]'`.
    """

    packages: ClassVar[tuple[str, ...]] = ("tensorboard",)
    extra: ClassVar[str] = "tensorboard"

    def open(self, run: Run, folder: Path, known: str) -> str:
        """Open a file of events, and say from which step on earlier files no longer count."""
        self._events = _module("compat.proto.event_pb2")
        self._summaries = _module("compat.proto.summary_pb2")
        writers = _module("summary.writer.event_file_writer")
        self._writer: Any = writers.EventFileWriter(str(folder / FOLDER))
        if not known:
            started = self._events.SessionLog(status="START")
            self._add(0, time.time(), session_log=started)
            settings = "\n".join(f"- {key}: {value}" for key, value in settings_of(run).items())
            self._add(0, time.time(), summary=self._summary(self._text("run", settings)))
        return str(folder / FOLDER)

    def send(self, rows: list[Row]) -> None:
        """Write figures."""
        value = self._summaries.Summary.Value
        for row in rows:
            values = [value(tag=name, simple_value=figure) for name, figure in row.figures.items()]
            self._add(row.step, row.time, summary=self._summary(*values))
        self._writer.flush()

    def send_sample(self, sample: Sample) -> None:
        """Write a sample, in the bytes of its file."""
        data = sample.path.read_bytes()
        kinds, value = self._summaries.Summary, self._summaries.Summary.Value
        if sample.form == "picture":
            columns, rows = (int.from_bytes(data[at : at + 4]) for at in (16, 20))  # of the header of a PNG
            image = kinds.Image(width=columns, height=rows, colorspace=3, encoded_image_string=data)
            shown = value(tag=f"samples/{sample.name}", image=image)
        elif sample.form == "sound":
            audio = kinds.Audio(
                sample_rate=sample.rate,
                num_channels=int.from_bytes(data[22:24], "little"),  # of the header of a WAV
                encoded_audio_string=data,
                content_type="audio/wav",
            )
            shown = value(tag=f"samples/{sample.name}", audio=audio)
        else:
            lines = data.decode().splitlines()
            shown = self._text(f"samples/{sample.name}", "\n".join(f"- {line}" for line in lines))
        self._add(sample.step, time.time(), summary=self._summary(shown))
        self._writer.flush()

    def finish(self, ended: bool) -> None:
        """Close the file."""
        self._writer.close()

    def _add(self, step: int, when: float, **content: Any) -> None:
        self._writer.add_event(self._events.Event(step=step, wall_time=when, **content))

    def _summary(self, *values: Any) -> Any:
        return self._summaries.Summary(value=values)

    def _text(self, name: str, markdown: str) -> Any:
        plugin = self._summaries.SummaryMetadata.PluginData(plugin_name="text")
        text = _module("compat.proto.tensor_pb2").TensorProto(
            dtype="DT_STRING", string_val=[markdown.encode()]
        )
        text.tensor_shape.dim.add(size=1)
        metadata = self._summaries.SummaryMetadata(plugin_data=plugin)
        return self._summaries.Summary.Value(tag=name, metadata=metadata, tensor=text)
