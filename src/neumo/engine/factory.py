"""The factory: builds modules once, and trains, evaluates and runs the graphs that share them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from neumo.engine.backend import Session, Setup, find_backend
from neumo.engine.callbacks import Callback, Checkpoint, Evaluate
from neumo.engine.checkpoint import STATE, CheckpointStore
from neumo.engine.evaluate import Evaluation, Evaluator
from neumo.engine.infer import infer
from neumo.engine.optimizers import EMA, Optimizer
from neumo.engine.options import NonFinite, TrainOptions
from neumo.engine.preflight import data_step, open_source
from neumo.engine.prepare import train
from neumo.engine.schedules import ScheduleLike
from neumo.engine.train import TrainResult
from neumo.engine.verify import Verify, check_level
from neumo.types.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.graph.graph import Graph
    from neumo.graph.module import NeuralModule
    from neumo.graph.value import Value

Precision = Literal["fp32", "bf16", "fp16", "fp64"]


class NeuralFactory:
    """Builds the modules of graphs with a backend and runs actions: `train`, `evaluate`, `infer`.

    >>> factory = NeuralFactory(device="cpu", precision="fp32", seed=1, progress=False)
    >>> factory.device
    'cpu'

    A module is built once, by identity: all graphs that use the same object share its weights. What the
    weights start from depends on `seed` and the module's name only. `device` is "auto", "cpu", "cuda" or
    "cuda:1"; `precision` is "fp32", "bf16", "fp16" (loss scaling; refused on CPUs unless `allow` has
    "fp16-on-cpu") or "fp64". `folder` is where a training writes its log and checkpoints; without one it
    writes nothing. `verify` says how closely values are checked at run time (see `neumo.engine.verify`);
    `workers` is the number of processes that read data. `progress` shows a bar on a terminal and one line
    per epoch elsewhere; True always shows the bar, False nothing.

    Raises `BackendError` if the device does not exist or cannot compute in this precision: nothing falls
    back.
    """

    def __init__(
        self,
        *,
        backend: str = "torch",
        device: str = "auto",
        precision: Precision = "fp32",
        seed: int = 0,
        folder: str | Path | None = None,
        verify: Verify = "boundary",
        workers: int = 0,
        progress: bool | None = None,
        allow: Collection[str] = (),
    ) -> None:
        if workers < 0:
            raise ConfigError(f"workers={workers} is below 0", code="workers")
        if seed < 0:
            raise ConfigError(f"seed={seed} is below 0", code="seed")
        check_level(verify)
        self.seed = seed
        self.folder = Path(folder) if folder is not None else None
        self.verify: Verify = verify
        self.workers = workers
        self.progress = progress
        setup = Setup(device=device, precision=precision, seed=seed, allow=frozenset(allow))
        self.session: Session = find_backend(backend).open_session(setup)
        self._sources: dict[int, tuple[NeuralModule, DataSource]] = {}
        self._frozen: dict[int, NeuralModule] = {}

    @property
    def device(self) -> str:
        """The device that computes, such as "cpu" or "cuda:0"."""
        return self.session.device

    @property
    def frozen(self) -> list[NeuralModule]:
        """The modules whose weights do not change."""
        return list(self._frozen.values())

    def describe(self) -> str:
        """Say on what, and how, this factory computes."""
        return "; ".join(self.session.notes)

    def train(
        self,
        graph: Graph | Value,
        *,
        loss: str | Value | None = None,
        optimizer: Optimizer | None = None,
        schedule: ScheduleLike | None = None,
        epochs: int | None = None,
        max_steps: int | None = None,
        max_minutes: float | None = None,
        clip: float | None = None,
        ema: EMA | float | None = None,
        evaluate: Iterable[Graph | Evaluate] | Graph | Evaluate = (),
        checkpoint: Checkpoint | bool | None = None,
        resume: str | Path = "auto",
        nonfinite: NonFinite = "skip",
        bad_limit: int = 10,
        callbacks: Sequence[Callback] = (),
    ) -> TrainResult:
        """Train the weights that a loss depends on, and return what came of it.

        `graph` is a graph with a loss among its outputs (`loss` names it if there are several), or the loss
        itself. `optimizer` is `AdamW()` if not given; `schedule` scales its rate step by step; `clip`
        bounds the norm of the gradient; `ema` averages the weights, and the average is what is evaluated
        and left in the modules.

        `evaluate` takes graphs that share modules with this one, evaluated after each epoch, or
        `Evaluate(...)` with another rhythm. With a run folder, checkpoints are written after each epoch or
        as `checkpoint` says, and `resume="auto"` goes on from the newest whole one; "never" starts anew,
        and a path goes on from there.

        A step whose loss or gradient is not finite changes nothing: `nonfinite="raise"` stops there, "skip"
        leaves it out, counts and names its utterances, and stops after `bad_limit` of them in a row.

        Raises `GraphError` if nothing can be trained, `DataError`, `BackendError` and `CheckpointError`.
        """
        options = TrainOptions(
            loss=loss,
            optimizer=optimizer,
            schedule=schedule,
            epochs=epochs,
            max_steps=max_steps,
            max_minutes=max_minutes,
            clip=clip,
            ema=ema,
            evaluate=evaluate,
            checkpoint=checkpoint,
            resume=resume,
            nonfinite=nonfinite,
            bad_limit=bad_limit,
            callbacks=callbacks,
        )
        return train(self, as_graph(graph), options)

    def evaluate(self, graph: Graph, *, per_utterance: bool = False) -> Evaluation:
        """Compute the metrics of a graph over all its data, and the mean of its losses.

        Returns a dict of figures such as `{"wer": 0.021, ...}`; with `per_utterance=True` its `utterances`
        has one row for each. The result does not depend on what ran before.
        """
        evaluator = self.evaluator(graph)
        try:
            return evaluator.run(per_utterance=per_utterance)
        finally:
            evaluator.close()

    def infer(
        self, graph: Graph, inputs: Mapping[str, Any] | None = None, *, outputs: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """Compute the outputs of a graph as numpy arrays: one dict for each batch of its data, in order.

        A graph with open inputs takes `inputs`, arrays by name, and gives one dict. `outputs` picks some by
        name.
        """
        return infer(self, graph, inputs, outputs)

    def evaluator(self, graph: Graph) -> Evaluator:
        """Prepare to evaluate a graph, as often as wanted; close it afterwards."""
        data = data_step(graph, graph.steps)
        return Evaluator(
            self.session,
            graph,
            self.source(data.module),
            seed=self.seed,
            verify=self.verify,
            workers=self.workers,
        )

    def source(self, layer: NeuralModule) -> DataSource:
        """Open the data of a data layer, once for all graphs that use it."""
        if id(layer) not in self._sources:
            self._sources[id(layer)] = (layer, open_source(layer, self.seed))
        return self._sources[id(layer)][1]

    def count_parameters(self, what: NeuralModule | Graph, *, trainable_only: bool = False) -> int:
        """Count the weights of a module, or of all modules of a graph."""
        # By what it has, not by its class: the class of graphs is not loaded for this.
        modules = list(what.modules.values()) if hasattr(what, "modules") else [what]  # type: ignore[union-attr]
        computing = [module for module in modules if module.role not in ("data", "metric")]  # type: ignore[union-attr]
        return sum(self.session.count_parameters(module, trainable_only) for module in computing)  # type: ignore[arg-type]

    def freeze(self, *modules: NeuralModule) -> None:
        """Keep the weights and statistics of modules as they are in the trainings to come."""
        for module in modules:
            self.session.freeze(module, True)
            self._frozen[id(module)] = module

    def unfreeze(self, *modules: NeuralModule) -> None:
        """Let the weights of modules change again."""
        for module in modules:
            self.session.freeze(module, False)
            self._frozen.pop(id(module), None)

    def weights(self, graph: Graph) -> dict[str, Any]:
        """Return the weights of a graph as numpy arrays by `module.name`."""
        return self.session.weights(graph.modules)

    def load_weights(self, graph: Graph, arrays: Mapping[str, Any], *, partial: bool = False) -> list[str]:
        """Put arrays into the modules of a graph by `module.name`.

        Raises `CheckpointError` with a table of what differs; `partial=True` loads what fits and returns
        the rest.
        """
        return self.session.load_weights(graph.modules, arrays, partial=partial)

    def save(self, graph: Graph, path: str | Path) -> None:
        """Write the weights of a graph to a safetensors file."""
        self.session.save(graph.modules, Path(path))

    def load(self, graph: Graph, path: str | Path, *, partial: bool = False) -> list[str]:
        """Read the weights of a graph from a safetensors file, a checkpoint or a run folder (its newest
        checkpoint).

        Of a checkpoint the averaged weights are taken if it has them. Raises `CheckpointError` with a table
        of what differs; `partial=True` loads what fits and returns the rest.
        """
        return self.session.load(graph.modules, _weights_file(Path(path)), partial=partial)


def as_graph(graph: Graph | Value) -> Graph:
    """Make a graph of a loss alone; a graph is returned as it is."""
    from neumo.graph.graph import Graph
    from neumo.graph.value import Value

    return Graph("train", "train", {"loss": graph}) if isinstance(graph, Value) else graph


def _weights_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    if (path / STATE).is_file():
        state = CheckpointStore(path.parent).read(path).state
        return path / next(
            name for name in ("average.safetensors", "weights.safetensors") if name in state["files"]
        )
    saved, _ = CheckpointStore(path / "checkpoints").newest()
    if saved is None:
        raise CheckpointError(f"{path} has no checkpoint", code="checkpoint-missing")
    return _weights_file(saved.path)
