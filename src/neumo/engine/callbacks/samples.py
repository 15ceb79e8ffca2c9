"""Samples of what a graph computes, written while it is trained: sounds, pictures and texts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from neumo.engine.backend import Batch
from neumo.engine.callback import Callback
from neumo.engine.callbacks.pictures import montage, to_png, to_wav
from neumo.engine.callbacks.rhythm import one_rhythm
from neumo.engine.callbacks.stage import Asked, find_value, port_names
from neumo.engine.checkpoints.writing import surviving
from neumo.engine.checks.preflight import data_step
from neumo.engine.plan import Plan, compile_plan
from neumo.engine.processes.world import sharing_trouble, together
from neumo.types import (
    Alignment,
    Audio,
    Element,
    Features,
    Ids,
    Image,
    Latent,
    Lengths,
    Scores,
    Spectrogram,
    Strings,
    Vocab,
)
from neumo.types.axis import Kind
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.engine.callbacks.stage import Stage
    from neumo.engine.loop.run import Run
    from neumo.graph.graph import Graph
    from neumo.graph.value import Value

FOLDER = "samples"  # in the run folder

Form = Literal["sound", "picture", "text"]
_PICTURES: tuple[type[Element], ...] = (Spectrogram, Alignment, Scores, Features, Latent, Image)


@dataclass(frozen=True)
class Sample:
    """A file that shows one value: of one utterance, or for texts of all of them, a line for each."""

    step: int
    name: str  # the value and, but for texts, the number of the utterance: "mel-0"
    form: Form
    path: Path
    item: str = ""  # the utterance
    rate: int = 0  # of a sound, in Hz


@dataclass(frozen=True)
class Shown:
    """A value that is dumped, by name, with its form and where its length along time is."""

    name: str
    value: Value
    form: Form
    lengths: Mapping[int, str] = field(default_factory=dict[int, str])  # axis -> name among the wanted values


class Samples(Callback):
    """Writes what a graph makes of a few fixed utterances into the run folder, as it learns.

    `Samples(graph, every_epochs=5, count=4)` computes the first 4 utterances of the graph's data after
    every fifth epoch, with the averaged weights if there are any, and writes `samples/step-00000120/`. The
    type of a value says what is written: sound as WAV; spectrograms, alignments, posteriors and features as
    PNG (time to the right); ids of a vocabulary and texts as text, one line for each utterance; what is
    behind the length of an utterance is cut off. `index.json` says which file is what. `outputs` names
    values, by the graph's outputs or by a step and a port such as `encoder.features`; without it all
    outputs are written that can be, and what goes into metrics. Trackers get the samples as well.

    Utterances that the data leave out are passed over. The training goes on as if nothing had been
    computed. Raises `ConfigError` for values that cannot be
    shown.
    """

    order: ClassVar[int] = 60  # only_first is False: weights may be spread over the processes

    def __init__(
        self,
        graph: Graph,
        *,
        every_epochs: int | None = None,
        every_steps: int | None = None,
        count: int = 4,
        outputs: Sequence[Asked] | None = None,
    ) -> None:
        self.every_epochs, self.every_steps = one_rhythm("Samples", every_epochs, every_steps)
        if count < 1:
            raise ConfigError(f"Samples: count={count} is below 1", code="samples")
        self.graph = graph
        self.count = count
        self.shown = list(_shown(graph, outputs))
        self._compute: Callable[[], tuple[list[str], dict[str, Any]]] | None = None
        self._last = -1

    def on_action_start(self, run: Run) -> None:
        """Prepare to compute the utterances."""
        if run.folder is None:
            raise ConfigError(
                "samples need a folder", code="folder", fixes=["NeuralFactory(folder='runs/first')"]
            )
        if run.stage is not None:
            self._compute = _prepared(run.stage, self.graph, self.shown, self.count)

    def on_step_end(self, run: Run) -> None:
        """Write samples if the step asks for it."""
        if self.every_steps and run.step % self.every_steps == 0:
            self._write(run)

    def on_epoch_end(self, run: Run) -> None:
        """Write samples if the epoch asks for it."""
        if self.every_epochs and (run.epoch + 1) % self.every_epochs == 0:
            self._write(run)

    def on_action_end(self, run: Run) -> None:
        """Write samples of the last weights, unless that was just done."""
        if run.moved:
            self._write(run)

    def state(self) -> dict[str, Any]:
        """Remember the last step of which there are samples."""
        return {"last": self._last}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._last = state["last"]

    def _write(self, run: Run) -> None:
        if self._last == run.step or self._compute is None:
            return
        self._last = run.step
        names, arrays = self._compute()
        with sharing_trouble(run.world, "samples"):
            if run.first and run.folder is not None:
                with surviving(run, FOLDER):
                    self._write_files(run, run.folder / FOLDER / f"step-{run.step:08d}", names, arrays)

    def _write_files(self, run: Run, folder: Path, names: Sequence[str], arrays: Mapping[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        index: list[dict[str, str]] = []
        for shown in self.shown:
            for sample in _files(shown, folder, run.step, names, arrays):
                index.append({"file": sample.path.name, "value": shown.name, "item": sample.item})
                run.show(sample)
        text = json.dumps(index, ensure_ascii=False, indent=1) + "\n"
        (folder / f"index-{_safe(self.graph.name)}.json").write_text(text, encoding="utf-8")


def _prepared(
    stage: Stage, graph: Graph, shown: Sequence[Shown], count: int
) -> Callable[[], tuple[list[str], dict[str, Any]]]:
    """Make what computes the utterances: their names, and the values by name."""
    factory, trainer = stage.factory, stage.trainer
    factory.check(graph)
    session = factory.session
    plan = _plan(graph, shown)
    source = factory.source(data_step(graph, plan.sources).module)
    kept = sorted(item for batch in source.batches(0) for item in batch)  # of those that are not left out
    items, world = kept[:count], session.world
    program = session.program(plan)

    def compute() -> tuple[list[str], dict[str, Any]]:
        batch = Batch((), ())
        with sharing_trouble(world, "reading samples"):
            if items:
                with closing(session.reader(source, [feed.port for feed in plan.feeds], 0)) as reader:
                    batch = next(iter(reader.read([items], 0)))
        if not all(together(world, len(batch.items), "how many samples can be read")):
            return [], {}
        with trainer.averaged(), session.inference(plan, factory.seed) as reseed:
            reseed(0)
            values = [session.to_numpy(value) for value in program(batch.feeds)]
        return [source.name(item) for item in batch.items], dict(zip(plan.wanted, values, strict=True))

    return compute


def _plan(graph: Graph, shown: Sequence[Shown]) -> Plan:
    names = port_names(graph)
    lengths = {name for each in shown for name in each.lengths.values()}
    wanted = {names[value.key]: value for value in graph.values() if names[value.key] in lengths}
    wanted.update({each.name: each.value for each in shown})
    return compile_plan(graph, wanted, training=False)


def _shown(graph: Graph, outputs: Sequence[Asked] | None) -> Iterator[Shown]:
    """Find the values that are shown, and how."""
    names = port_names(graph)
    if outputs is None:
        found = [(name, value) for name, value in _usual(graph).items() if _form(value) is not None]
    else:
        values = [find_value(graph, asked) for asked in outputs]
        given = [asked if isinstance(asked, str) else "" for asked in outputs]
        found = [(name or names[value.key], value) for name, value in zip(given, values, strict=True)]
    for name, value in found:
        form = _form(value)
        if form is None:
            raise ConfigError(
                f"{name} is {value.type}, which cannot be shown as a sample",
                code="samples",
                details=[
                    "sounds, spectrograms, alignments, scores, features, ids with a vocabulary and texts can"
                ],
            )
        yield Shown(name, value, form, _lengths(graph, value, names))
    if not found:
        raise ConfigError(
            f"graph {graph.name!r} has no output that can be shown as a sample",
            code="samples",
            details=[f"{name}: {value.type}" for name, value in graph.outputs.items()],
            fixes=["outputs=['encoder.features'] names values inside the graph"],
        )


def _usual(graph: Graph) -> dict[str, Value]:
    """The outputs of a graph; of a metric what goes into it."""
    names = port_names(graph)
    found: dict[str, Value] = {}
    for name, value in graph.outputs.items():
        if value.step.module.role == "metric":
            found.update({names[each.key]: each for _, each in value.step.edges()})
        else:
            found[name] = value
    return found


def _form(value: Value) -> Form | None:
    element, axes = value.type.element, value.type.axes
    if isinstance(element, Audio):
        return "sound" if isinstance(element.rate, int) else None
    if isinstance(element, Ids):
        return "text" if len(axes) >= 2 and isinstance(element.vocab, Vocab) else None
    if isinstance(element, Strings):
        return "text" if len(axes) == 1 else None
    return "picture" if isinstance(element, _PICTURES) and len(axes) >= 3 else None


def _lengths(graph: Graph, value: Value, names: Mapping[tuple[int, str], str]) -> dict[int, str]:
    """Find the lengths that go with the axes of a value."""
    known = [
        each
        for each in graph.values()
        if isinstance(each.type.element, Lengths) and each.type.element.unit == "count"
    ]
    found: dict[int, str] = {}
    for place, axis in enumerate(value.type.axes):
        fitting = [each for each in known if axis.size is not None and _of(each) == axis.size]
        if fitting and place:
            near = [each for each in fitting if each.step is value.step] or fitting
            found[place] = names[near[0].key]
    return found


def _of(value: Value) -> Any:
    return getattr(value.type.element, "of", None)


def _files(
    shown: Shown, folder: Path, step: int, names: Sequence[str], arrays: Mapping[str, Any]
) -> Iterator[Sample]:
    """Write the files of one value."""
    rows = [_row(shown, arrays, number) for number in range(len(names))]
    stem = _safe(shown.name)
    element = shown.value.type.element
    if shown.form == "text":
        path = folder / f"{stem}.txt"
        lines = [f"{name}\t{_text(element, row)}" for name, row in zip(names, rows, strict=True)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield Sample(step, shown.name, "text", path)
        return
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        path = folder / f"{stem}-{number}.{'wav' if shown.form == 'sound' else 'png'}"
        rate = 0
        if isinstance(element, Audio) and isinstance(element.rate, int):
            rate = element.rate
            path.write_bytes(to_wav(row, rate, element.peak if isinstance(element.peak, float) else 1.0))
        else:
            path.write_bytes(to_png(_upright(shown.value, row)))
        yield Sample(step, f"{shown.name}-{number}", shown.form, path, name, rate)


def _row(shown: Shown, arrays: Mapping[str, Any], number: int) -> Any:
    """Take one utterance out of a batch, and cut off what is behind its end."""
    row = arrays[shown.name][number]
    cuts = {axis - 1: int(arrays[name][number]) for axis, name in shown.lengths.items()}
    places = range(getattr(row, "ndim", 0))
    return row[tuple(slice(cuts.get(place)) for place in places)] if cuts else row


def _upright(value: Value, row: Any) -> Any:
    """Turn a picture so that time goes to the right, and what is not time upwards."""
    kinds = [axis.kind for axis in value.type.axes][-2:]
    if kinds[0] is Kind.TIME and kinds[1] in (Kind.FEATURE, Kind.VOCAB):
        row = row.swapaxes(-1, -2)
    return montage(row) if row.ndim > 2 else row


def _text(element: Element, row: Any) -> str:
    if isinstance(element, Ids) and isinstance(element.vocab, Vocab):
        if not row.size:
            return ""
        best = row.reshape(-1, row.shape[-1])[0]  # of several hypotheses the first is the best
        return element.vocab.decode(int(each) for each in best if 0 <= int(each) < len(element.vocab))
    return str(row)


def _safe(name: str) -> str:
    """A name as a file has it on any system."""
    return re.sub(r"[^\w.-]+", "_", name)
