"""`neumo train`: from a recipe to a model file."""

from __future__ import annotations

import errno
import json as json_text
import os
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neumo.cli.launch import COMMAND
from neumo.types.errors import ConfigError

if TYPE_CHECKING:
    from neumo.data.report import DataReport
    from neumo.engine.callbacks import Callback
    from neumo.engine.factory import NeuralFactory
    from neumo.engine.loop.train import TrainResult
    from neumo.graph.rules import Finding
    from neumo.graph.yaml import Recipe

MODEL = "model.neumo"


def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe file.", show_default=False)],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Override fields: train.epochs=5.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where log, checkpoints and model go; else runs/NAME.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the training in the folder.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all, read the data, make one step; write nothing.")
    ] = False,
    max_time: Annotated[
        str | None,
        typer.Option(
            "--max-time", metavar="TIME", help="Save and stop after 90s, 45m, 1h30m (or 45: minutes)."
        ),
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", metavar="N", help="Processes on this machine, one a GPU.")
    ] = 1,
    nodes: Annotated[
        str, typer.Option("--nodes", metavar="N", help="Machines that run this command; 1:4 for up to four.")
    ] = "1",
    rendezvous: Annotated[
        str | None, typer.Option("--rendezvous", metavar="HOST:PORT", help="Where the machines meet.")
    ] = None,
    rendezvous_here: Annotated[
        bool | None, typer.Option("--rendezvous-here/--no-rendezvous-here", help="HOST is this machine.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="This machine as the others see it, if its name fails.")
    ] = None,
    restarts: Annotated[
        int, typer.Option("--restarts", metavar="N", help="How often dead processes are begun anew.")
    ] = 3,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")] = False,
) -> None:
    """Train the graph of a recipe and save the model.

    First comes the report of the data: what was read, what was left out and why. The folder then holds the
    recipe as it was run, the log (metrics.jsonl), the checkpoints, and at the end model.neumo. A training
    that was interrupted goes on with --resume, as if nothing had happened.

    With --processes the training is divided among processes, and goes on from the last checkpoint when one of
    them dies. With --nodes the same command runs on several machines, which meet at --rendezvous.
    """
    from neumo.cli.launch import minutes_of, run_launched
    from neumo.engine.processes.launch import Launch, check_alone, launched_by_neumo

    how = Launch(
        processes=processes,
        nodes=nodes,
        rendezvous=rendezvous,
        restarts=restarts,
        here=rendezvous_here,
        address=address,
    )
    limit = [f"train.max_minutes={minutes_of(max_time):g}"] if max_time is not None else []
    asked = _Asked(recipe, [*(overrides or []), *limit], folder, resume, json)
    if not (how.several or dry_run):
        check_alone()
    # A machine that comes later finds the training of the others in the folder.
    late = how.several and how.here is False
    checked = _check(asked, looks=not (late or launched_by_neumo()), writes=not dry_run)
    if how.several:
        run_launched(how, json=json)
    elif dry_run:
        _dry_run(checked, json=json)
    else:
        _train(asked, checked)


@dataclass(frozen=True)
class _Asked:
    """What the command line asks for."""

    recipe: str
    overrides: list[str]
    folder: Path | None
    resume: bool
    json: bool

    @property
    def again(self) -> str:
        """The command that goes on with this training."""
        folder = ["--folder", str(self.folder)] if self.folder is not None else []
        launched = shlex.split(os.environ.get(COMMAND, ""))
        words = launched or ["neumo", "train", self.recipe, *self.overrides, *folder]
        return shlex.join([*words, *([] if "--resume" in words else ["--resume"])])


@dataclass(frozen=True)
class _Checked:
    """A recipe that was read and checked, where it is to be run, and what to say on the way."""

    recipe: Recipe
    folder: Path
    resume: str
    findings: Mapping[str, list[Finding]]
    say: Callable[[str], Any]


def _check(asked: _Asked, *, looks: bool, writes: bool) -> _Checked:
    """Refuse what can be known before anything is trained; `looks` into the run folder as well."""
    from neumo.cli.check import check_findings, say_findings
    from neumo.engine.processes.launch import launched_rank, restarted
    from neumo.engine.recipes import read_actions, trained_graph
    from neumo.graph.yaml import load_recipe

    loaded = load_recipe(asked.recipe, asked.overrides)
    actions = read_actions(loaded)
    findings = check_findings(loaded, actions)
    folder = asked.folder or actions.factory.folder or default_folder(asked.recipe)
    resume = "auto" if asked.resume or restarted() else actions.train.resume
    say = _silent if asked.json or launched_rank() else typer.echo
    looks = looks and not restarted()
    if looks and _check_folder(folder, resume=asked.resume, wanted=resume, writes=writes):
        say(f"note: {folder} has no checkpoint yet, so the training starts from its first step again")
    trained = trained_graph(loaded, actions)  # its warnings are notes of the training
    say_findings({name: found for name, found in findings.items() if name != trained}, say)
    return _Checked(loaded, folder, resume, findings, say)


def _train(asked: _Asked, checked: _Checked) -> None:
    from neumo.engine.processes.launch import end_all, launched_rank
    from neumo.engine.processes.signals import ended_early

    recipe, folder, say = checked.recipe, checked.folder, checked.say
    first = launched_rank() == 0
    try:
        outcome = train_recipe(
            recipe,
            folder,
            name=folder.name,
            say=say,
            progress=False if asked.json or not first else None,
            resume=checked.resume,
        )
    except (KeyboardInterrupt, SystemExit) as error:  # by a signal, behind a whole step
        if first:
            typer.echo(f"to go on from the last checkpoint: {asked.again}", err=True)
        if isinstance(error, SystemExit) and isinstance(error.code, int) and error.code > 128:
            end_all(error.code - 128)
        raise
    if first and ended_early(outcome.result.stopped) and any((folder / "checkpoints").glob("step-*")):
        typer.echo(f"to go on from the last checkpoint: {asked.again}", err=True)
    if asked.json and first:
        found = {name: [finding.to_json() for finding in each] for name, each in checked.findings.items()}
        typer.echo(json_text.dumps({**outcome.to_json(), "findings": found}, ensure_ascii=False, indent=2))


def _dry_run(checked: _Checked, *, json: bool) -> None:
    """Read the data, make one step on a batch made from the types, and tell what the training would be."""
    from neumo.cli.check import run_once
    from neumo.engine.loop.prepare import foresee
    from neumo.engine.processes.launch import launched_rank
    from neumo.engine.recipes import graph_to_train, make_factory, read_actions, training_options

    recipe, say = checked.recipe, checked.say
    first = launched_rank() == 0
    actions = read_actions(recipe)
    factory = make_factory(recipe, folder=None, progress=False)
    reports = data_reports(recipe, factory)
    for report in reports.values():
        say(report.text())
    runs = run_once(recipe, actions, as_trained=True)
    graph = graph_to_train(recipe, factory)
    going_on = checked.folder if checked.resume == "auto" else None
    foresight = foresee(factory, graph, training_options(recipe, actions), going_on)
    for line in [*(f"ran {each}" for each in runs), *foresight.lines(), "nothing was written"]:
        say(line)
    if json and first:
        data = {name: report.to_json() for name, report in reports.items()}
        typer.echo(json_text.dumps({**asdict(foresight), "data": data}, ensure_ascii=False, indent=2))


def _check_folder(folder: Path, *, resume: bool, wanted: str, writes: bool) -> bool:
    """Refuse to mix trainings, to go on with none, and to learn only afterwards that nothing can be kept.

    Says whether a training that is to go on has reached no checkpoint, so that it starts again.
    """
    from neumo.engine.checkpoints.store import CheckpointStore
    from neumo.engine.tracking import LOG

    try:
        found = bool(CheckpointStore(folder / "checkpoints").paths())
        if resume and not found and not (folder / LOG).exists():
            near = sorted(str(path.parent) for path in folder.parent.glob("*/checkpoints"))[:3]
            raise ConfigError(
                f"there is no training in {folder} to go on with",
                code="run-folder",
                fixes=[*(f"--folder {name}" for name in near), "without --resume it starts anew"],
            )
        if found and not resume and wanted == "auto":
            raise ConfigError(
                f"{folder} holds a training already",
                code="run-folder",
                fixes=["--resume goes on with it", "--folder ANOTHER starts anew"],
            )
        if not found and (resume or wanted == "auto") and (done := _left_behind(folder)):
            raise ConfigError(
                f"{folder} holds a training and none of its checkpoints, so it cannot go on",
                code="run-folder",
                details=[f"a new one would write over {done}"],
                fixes=[
                    "--folder ANOTHER starts anew",
                    "train.resume=never, without --resume, puts the old one aside and starts anew",
                ],
            )
        if writes:
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        file = next((path for path in (folder, *folder.parents) if path.is_file()), None)
        reason = f"{file} is a file" if file is not None else error.strerror or error
        raise ConfigError(
            f"cannot write to the run folder {folder}: {reason}",
            code="run-folder",
            fixes=["--folder ANOTHER", *([f"give {file} another name"] if file is not None else [])],
        ) from error
    return resume and not found


def _left_behind(folder: Path) -> str:
    """Name what a training has left that was not killed and did not fail; "" if there is none."""
    from neumo.engine.tracking.provenance import FAILED, read_starts

    if (folder / MODEL).exists():
        return str(folder / MODEL)
    ends = [start["end"] for start in read_starts(folder) if isinstance(start.get("end"), dict)]
    if not ends or not ends[-1].get("step") or FAILED in str(ends[-1].get("stopped", FAILED)):
        return ""  # it was killed or failed
    return f"the log of {ends[-1]['step']:,} steps"


def default_folder(recipe: str) -> Path:
    """Say where a recipe is run if no folder is given.

    >>> default_folder("examples/asr_an4/recipe.yaml").as_posix()
    'runs/asr_an4'
    """
    path = Path(recipe)
    return Path("runs") / (path.resolve().parent.name if path.stem == "recipe" else path.stem)


@dataclass(frozen=True)
class Outcome:
    """What a training left behind: its result, the reports of its data by graph, and the model file."""

    folder: Path
    result: TrainResult
    reports: dict[str, DataReport]
    factory: NeuralFactory
    model: Path | None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dictionary."""
        its = self.result
        return {
            "folder": str(self.folder),
            "model": None if self.model is None else str(self.model),
            "steps": its.steps,
            "seconds": round(its.seconds, 2),
            "stopped": its.stopped,
            "metrics": dict(its.metrics),
            "best": None if its.best is None else {"metric": its.best.metric, "value": its.best.value},
            "history": list(its.history),
            "skipped_steps": len(its.skipped),
            "infeasible": dict(its.infeasible),
            "data": {name: report.to_json() for name, report in self.reports.items()},
            "notes": list(its.notes),
        }


def train_recipe(
    recipe: Recipe,
    folder: Path,
    *,
    name: str,
    say: Callable[[str], Any],
    progress: bool | None = None,
    resume: str = "auto",
    callbacks: Sequence[Callback] = (),
) -> Outcome:
    """Report the data of a recipe, train it in a run folder, and save the model that comes of it."""
    from neumo.engine.processes.launch import launched_rank
    from neumo.engine.processes.signals import ended_by, ended_early
    from neumo.engine.recipes import make_factory, read_actions, run_train, trained_weights
    from neumo.hub.bundle import save_model, usable_graphs

    actions = read_actions(recipe)
    factory = make_factory(recipe, folder=folder, progress=progress)
    reports = data_reports(recipe, factory)
    for report in reports.values():
        say(report.text())
    usable = usable_graphs(recipe)
    if not usable:
        say("note: no graph of the recipe has open inputs, so there will be checkpoints but no model file")
    result = run_train(recipe, factory=factory, resume=resume, callbacks=callbacks)
    if (ended := ended_by(result.stopped)) == "SIGUSR1":  # a job script queues it again; it is not over
        raise SystemExit(128 + getattr(signal, ended))
    if actions.evaluate.checkpoint == "best" and result.best is not None:
        factory.load(recipe.graph(actions.train.graph or "train"), trained_weights(folder, "best"))
    reports = data_reports(recipe, factory)  # with what was left out in the meantime
    model = None
    if usable and not launched_rank():
        model = save_model(folder / MODEL, recipe, factory, card=_card(name, result, reports))
    say(str(result))
    say(f"saved {model} ({model.stat().st_size / 1e6:.1f} MB)" if model else f"checkpoints in {folder}")
    if model and ended_early(result.stopped):
        say("the training is not over: this model is as far as it has come")
    return Outcome(folder, result, reports, factory, model)


def data_reports(recipe: Recipe, factory: NeuralFactory) -> dict[str, DataReport]:
    """Open the data of every graph that reads some, and return what each source says about itself.

    Raises `DataError` that shows all that is wrong, before anything is trained.
    """
    layers = {
        id(module): (name, module)
        for graph in recipe.graphs.values()
        for name, module in graph.modules.items()
        if module.role == "data"
    }
    return {name: factory.source(module).report() for name, module in layers.values()}


def _card(name: str, result: TrainResult, reports: dict[str, DataReport]) -> Any:
    from neumo.hub.card import Card

    data = {
        layer: f"{_names(report.manifests)} ({report.kept} utterances, {report.hours_kept:.2f} h)"
        for layer, report in reports.items()
    }
    metrics = {key: value for key, value in result.metrics.items() if isinstance(value, float)}
    return Card(name=name, data=data, metrics=metrics)


def _names(manifests: Sequence[str]) -> str:
    """Name manifests for strangers: file and folder, without the way to them on this machine."""
    return ", ".join("/".join(Path(manifest).parts[-2:]) for manifest in manifests)


def _silent(_text: str) -> None:
    """Print nothing: the result comes as JSON."""
