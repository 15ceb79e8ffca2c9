"""What the engine asks of a framework, and the one place where a framework is looked up by name.

A backend is a room `neumo.backends.<name>` with a function `open_session(setup) -> Session`. Tensors are
opaque to the engine (`Any`): it counts, schedules, records and decides; a session holds the weights and
computes.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from neumo.types.errors import BackendError, did_you_mean

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.engine.callbacks.profile import Timed
    from neumo.engine.checkpoints.store import Writer
    from neumo.engine.checks.verify import Guards
    from neumo.engine.plan import Plan
    from neumo.engine.processes.strategies import Strategy
    from neumo.engine.processes.workers import Workers
    from neumo.engine.processes.world import World
    from neumo.engine.updates.compile import Compile
    from neumo.engine.updates.optimizers import EMA, LARC, Optimizer
    from neumo.engine.updates.precision import LossScale, Override
    from neumo.graph.module import NeuralModule


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What a factory asks a backend for: a device, a precision, a seed, and what it may do although it is
    slow.
    """

    device: str = "auto"
    precision: str = "fp32"
    precisions: Sequence[Override] = ()
    seed: int = 0
    allow: Collection[str] = ()
    strategy: Strategy | None = None
    compile: Compile | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """What one batch brings: `feeds` in the order of the plan, on the device, and the utterances that it
    holds.
    """

    feeds: tuple[Any, ...]
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """What one training step did: its loss and the norm of its gradient before clipping, over all batches of
    all processes.

    `skipped` is "" if the weights were updated; else "loss" or "gradient" names what was not finite,
    "overflow" an fp16 step whose loss scale was too large, and "empty" a step in which no process had a
    batch. Weights and statistics are untouched then. `losses` are those of the batches of this process;
    `signals` are the sums over all processes of what was sent along. Of a step whose loss or gradient is not
    finite, `gradients` has the norm for each module, and `broke_at` names the weight, as `module.name`, at
    which the backward pass met the first number that is not finite.
    """

    loss: float
    norm: float
    skipped: str
    losses: Sequence[float]
    signals: Sequence[float] = ()
    gradients: Mapping[str, float] = field(default_factory=dict[str, float])
    broke_at: str = ""


@dataclass(frozen=True, kw_only=True)
class TrainingSetup:
    """How a trainer updates the weights: optimizer, clipping by global norm, averaging.

    `loss` and `count` name wanted values of the plan: the loss, and how many things it is the mean over.
    `trains` names the weights that are updated, as `module.name`: all that the plan has, if it is None.
    """

    loss: str
    count: str | None = None
    optimizer: Optimizer
    clip: float | None = None
    larc: LARC | None = None
    ema: EMA | None = None
    loss_scale: LossScale | None = None
    trains: Collection[str] | None = None


class Reader(Protocol):
    """Reads the batches of one data source, ahead of time where there are workers, onto the device."""

    def read(self, batches: Sequence[Sequence[int]], epoch: int) -> Iterator[Batch]:
        """Read these batches; one of which every item was skipped comes without feeds."""
        ...

    def close(self) -> None:
        """End the workers."""
        ...


class Program(Protocol):
    """A plan turned into calls of the framework: tensors in the order of the feeds, to tensors as wanted."""

    def __call__(self, feeds: Sequence[Any]) -> list[Any]:
        """Run the plan once."""
        ...

    def explain(self, error: Exception) -> Exception:
        """Turn an error of the framework into one that says which module failed, if that is known."""
        ...


class TrainedState(Protocol):
    """What a training changes, the weights and all beside them: saved, loaded and left behind as a whole."""

    def hold(self, names: Collection[str]) -> None:
        """Keep weights, by `module.name`, as they are until this is called again without them."""
        ...

    def writers(self, folder: Path) -> dict[str, Writer]:
        """Return what writes each array file of a checkpoint in this folder, by file name.

        All processes call it; the files are for the first one to write.
        """
        ...

    def scalars(self) -> dict[str, Any]:
        """Return what is not an array, ready for JSON."""
        ...

    def load(self, folder: Path, scalars: Mapping[str, Any]) -> None:
        """Go on from the files of a checkpoint."""
        ...

    def averaged(self) -> AbstractContextManager[None]:
        """Put the averaged weights in the place of the trained ones for a while; nothing happens without
        EMA.
        """
        ...

    def finish(self) -> None:
        """Leave the averaged weights, if there are any, in the modules for good."""
        ...


class Trainer(TrainedState, Protocol):
    """Updates the weights of one program, and saves and loads all that a training needs to go on."""

    @property
    def program(self) -> Program:
        """The program that computes the loss."""
        ...

    @property
    def ready(self) -> float:
        """When it had computed, in this step, what it can without the others: `time.perf_counter()`."""
        ...

    def accumulate(
        self, feeds: Sequence[Any], *, seed: int, weight: float, reference: float, last: bool
    ) -> Sequence[Any]:
        """Add the gradient of one batch to that of the step; returns the wanted values of the plan.

        All random numbers come from the seed. `weight` is how many utterances the loss is the mean over,
        unless the loss counts by itself; 0 for a batch that is computed for the sake of the others only.
        `reference` is the weight that a step has on average, `last` says that this is the last batch of it.
        """
        ...

    def apply(self, factor: float, signals: Sequence[float] = ()) -> Update:
        """Update the weights by what was accumulated, at `factor` of the learning rates.

        Every process calls it; `signals` are numbers to be added up over all of them.
        """
        ...

    def explain(self, error: Exception) -> Exception:
        """Turn an error of a step into one that says what failed: a module, or another process."""
        ...


class PhasedTrainer(TrainedState, Protocol):
    """Several trainers over the modules of one training, by the names of their phases."""

    @property
    def trainers(self) -> Mapping[str, Trainer]:
        """The trainers, each for its own loss and weights."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """Say which weights several of them train."""
        ...


class Profiler(Protocol):
    """Profiles the steps between its making and `finish`."""

    def step(self) -> None:
        """Say that a step has ended."""
        ...

    def finish(self, trace: Path | None) -> tuple[list[Timed], list[Timed]]:
        """Write the trace, and return the times of modules and of operations; without a trace just stop."""
        ...


class Session(Protocol):
    """The weights of all modules that a factory has built, on one device, and what can be done with them."""

    @property
    def notes(self) -> Sequence[str]:
        """Say in plain words on what, and how, the session computes."""
        ...

    @property
    def device(self) -> str:
        """Name the device, such as "cpu" or "cuda:0"."""
        ...

    @property
    def precision(self) -> str:
        """Name the precision, and those of modules that have one of their own."""
        ...

    @property
    def advice(self) -> Sequence[str]:
        """Say what may help against numbers that are not finite, beside what helps everywhere."""
        ...

    @property
    def supported(self) -> Mapping[str, str]:
        """Say of each precision why the device has not got it, "" if it has."""
        ...

    @property
    def versions(self) -> Mapping[str, str]:
        """Return the version of the framework, for checkpoints."""
        ...

    @property
    def built(self) -> Sequence[NeuralModule]:
        """The modules that have been built."""
        ...

    @property
    def world(self) -> World:
        """The processes that compute together; `Alone` if there is one."""
        ...

    def build(self, modules: Mapping[str, NeuralModule]) -> None:
        """Build the modules that have no weights yet; each starts from a seed made of its name."""
        ...

    def implementation(self, module: NeuralModule) -> Any:
        """Return what the framework made of a module."""
        ...

    def program(self, plan: Plan, guards: Guards | None = None) -> Program:
        """Turn a plan into calls; the guards run between the calls as long as they ask to."""
        ...

    def trainer(self, program: Program, plan: Plan, setup: TrainingSetup) -> Trainer:
        """Prepare to train the weights that the plan calls."""
        ...

    def phased(
        self, programs: Mapping[str, Program], plan: Plan, setups: Mapping[str, TrainingSetup]
    ) -> PhasedTrainer:
        """Prepare to train with several optimizers, by name; `plan` has the modules of all programs."""
        ...

    def set_modes(self, plan: Plan, held: Collection[str] = ()) -> None:
        """Put modules in the modes of training; what is frozen, or held, computes as in evaluation."""
        ...

    def observing(self, plan: Plan, trained: Plan, seed: int) -> AbstractContextManager[None]:
        """Compute a plan beside a training step, in its modes and without gradients, and leave no trace."""
        ...

    def profiler(self, plan: Plan) -> Profiler:
        """Profile what the modules of a plan compute from now on."""
        ...

    def inference(self, plan: Plan, seed: int) -> AbstractContextManager[Callable[[int], None]]:
        """Compute without gradients, in evaluation mode; call what it yields with each batch's number."""
        ...

    def reader(
        self,
        source: DataSource,
        ports: Sequence[str],
        workers: int | Workers,
        tell: Callable[[str], None] | None = None,
    ) -> Reader:
        """Prepare to read a data source for the feeds of a plan, in this order of ports."""
        ...

    def feed(self, arrays: Iterable[Any]) -> tuple[Any, ...]:
        """Bring numpy arrays to the device; None is an input that is absent."""
        ...

    def to_numpy(self, value: Any) -> Any:
        """Bring a tensor back as a numpy array; half precision becomes float32."""
        ...

    def to_host(self, value: Any) -> Any:
        """Copy a value to the memory of the host as it is, for later."""
        ...

    def to_device(self, value: Any) -> Any:
        """Bring a value back that `to_host` has kept."""
        ...

    def fingerprints(self, modules: Mapping[str, NeuralModule]) -> dict[str, str]:
        """Tell the weights and statistics of modules by a short text each, which changes when they do."""
        ...

    def count_parameters(self, *modules: NeuralModule, trainable_only: bool = False) -> int:
        """Count the weights of modules, each weight once, or those that training would change."""
        ...

    def weight_names(self, module: NeuralModule) -> Sequence[str]:
        """List the names of the weights and statistics of a module."""
        ...

    def freeze(self, module: NeuralModule, frozen: bool, names: Sequence[str] | None = None) -> None:
        """Keep weights and statistics of a module as they are, or let them change again; all, or some."""
        ...

    def numbers(self, module: NeuralModule, pattern: str) -> Mapping[str, float]:
        """Find numbers that are attributes of the built module or its layers: `dropout`, `*.drop.p`."""
        ...

    def set_numbers(self, module: NeuralModule, values: Mapping[str, float]) -> None:
        """Change numbers that `numbers` has found; whole ones stay whole."""
        ...

    def is_frozen(self, module: NeuralModule) -> bool:
        """Say whether a module has weights, and none that training would change."""
        ...

    def changed(self, module: NeuralModule) -> bool:
        """Say whether anything has trained weights of a module since they were drawn or loaded."""
        ...

    def kept(self, module: NeuralModule) -> tuple[bool, frozenset[str]]:
        """Say whether a module was frozen as a whole, and which of its weights and statistics are kept."""
        ...

    def tie(
        self, target: tuple[NeuralModule, str], source: tuple[NeuralModule, str], *, transpose: bool
    ) -> None:
        """Make a weight of one module another name of a weight; raises `GraphError` if they do not fit."""
        ...

    def untie(self, module: NeuralModule, name: str) -> None:
        """Give a tied weight values of its own again; raises `GraphError` if it is not tied."""
        ...

    def weights(self, modules: Mapping[str, NeuralModule]) -> dict[str, Any]:
        """Return the weights of some modules as numpy arrays by `module.name`."""
        ...

    def load_weights(
        self, modules: Mapping[str, NeuralModule], arrays: Mapping[str, Any], *, partial: bool
    ) -> list[str]:
        """Put arrays into some modules; returns what a partial load left out. Raises `CheckpointError`."""
        ...

    def save(self, modules: Mapping[str, NeuralModule], path: Path, *, notes: Mapping[str, str]) -> None:
        """Write the weights of some modules to a safetensors file, with texts as its metadata."""
        ...

    def read(self, path: Path) -> Mapping[str, Any]:
        """Read the arrays of a safetensors file, as arrays of the framework; raises `CheckpointError`."""
        ...

    def average(self, files: Sequence[Path], path: Path, *, notes: Mapping[str, str]) -> None:
        """Write the mean of the weights in safetensors files to another one; raises `CheckpointError`."""
        ...

    def load(self, modules: Mapping[str, NeuralModule], path: Path, *, partial: bool) -> list[str]:
        """Read the weights of some modules from a safetensors file; as `load_weights`."""
        ...


class Backend(Protocol):
    """The room of one framework: a module with this function."""

    def open_session(self, setup: Setup) -> Session:
        """Make a session, or raise `BackendError` with the reason why the device cannot do what is asked."""
        ...


_EXTRAS = {"torch": "torch"}  # backend -> the extra of neumo that installs its framework
_NEEDS = {"torch": ("torch", "numpy", "safetensors")}  # backend -> the packages of that extra


def find_backend(name: str) -> Backend:
    """Find the room of a framework by name and import it.

    >>> find_backend("troch")
    Traceback (most recent call last):
        ...
    neumo.types.errors.BackendError: BackendError[backend]: there is no backend 'troch'
    <BLANKLINE>
      fix      did you mean 'torch'?

    Raises `BackendError` if there is no such room, or if the framework is not installed.
    """
    room = f"neumo.backends.{name}"
    if not name.isidentifier() or _missing(room):
        raise BackendError(f"there is no backend {name!r}", code="backend", fixes=did_you_mean(name, _EXTRAS))
    absent = [package for package in _NEEDS.get(name, (name,)) if _missing(package)]
    if absent:  # all of them now: a training must not learn of one when it first saves
        raise BackendError(
            f"backend {name!r} needs the package {absent[0]}, which is not installed",
            code="missing-package",
            fixes=[f"pip install 'neumo[{_EXTRAS.get(name, name)}]'"],
        )
    found: Any = importlib.import_module(room)
    return found


def _missing(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is None
    except ModuleNotFoundError:
        return True
