"""Several optimizers over the modules of one training: each with its own loss, and its own weights."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from neumo.backends.torch.device import Place
from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.parallel.parallelism import whole_files
from neumo.backends.torch.parallel.statistics import Statistics
from neumo.backends.torch.parallel.sync_norm import SyncedNorms
from neumo.backends.torch.save import load_state, read_arrays, state_of
from neumo.backends.torch.training.hold import without_gradient
from neumo.backends.torch.training.optimizers import optimizer_tensors
from neumo.backends.torch.training.trainer import AVERAGE, OPTIMIZER, WEIGHTS, TorchTrainer
from neumo.backends.torch.weights import named_weights, trainable_weights
from neumo.engine.backend import TrainingSetup, Update
from neumo.engine.checkpoints.store import Writer
from neumo.engine.processes.strategies import FSDP, Strategy
from neumo.engine.processes.world import World
from neumo.types.errors import BackendError, ConfigError, GraphError


class PhaseTrainer(TorchTrainer):
    """Trains some of the weights of a program; the others pass gradients on and get none.

    Modules of which no weight is trained here compute as in training, with the statistics of the batch, but
    their running statistics stay: those of a module move only in the phases that train it.
    """

    def __init__(
        self,
        name: str,
        program: TorchProgram,
        modules: Mapping[str, nn.Module],
        place: Place,
        setup: TrainingSetup,
        world: World,
        strategy: Strategy,
        synced: SyncedNorms | None,
    ) -> None:
        own = {id(weight) for full, weight in _full_names(modules) if full in (setup.trains or ())}
        trained = {
            key: module
            for key, module in modules.items()
            if any(id(weight) in own and weight.requires_grad for weight in module.parameters())
        }
        if not trained:
            raise GraphError(
                f"phase {name!r} has nothing to train: no weight that it names can change",
                code="nothing-to-train",
                fixes=["unfreeze a module", "name a module that has weights in trains"],
            )
        self._others = [weight for weight in trainable_weights(modules).values() if id(weight) not in own]
        with without_gradient(self._others):
            super().__init__(program, trained, place, setup, world, strategy, synced)
        apart = synced.norms if synced is not None else ()
        self._foreign = Statistics(modules.values(), apart).without(self.statistics)

    def accumulate(
        self, feeds: Sequence[Any], *, seed: int, weight: float, reference: float, last: bool
    ) -> Sequence[Any]:
        """Add the gradient of one batch to that of the step; returns the wanted values of the plan."""
        if not self._batch_losses:
            self._foreign.keep()
        with without_gradient(self._others):
            return super().accumulate(feeds, seed=seed, weight=weight, reference=reference, last=last)

    @contextmanager
    def _traces(self, counted: bool) -> Iterator[None]:
        with super()._traces(counted), nullcontext() if counted else self._foreign.untouched():
            yield

    def apply(self, factor: float, signals: Sequence[float] = ()) -> Update:
        """Update the weights of this phase by what was accumulated."""
        update = super().apply(factor, signals)
        self._foreign.put_back()
        return update

    def hold(self, names: Collection[str]) -> None:
        """Keep weights of this phase, by `module.name`, as they are until this is called again."""
        with without_gradient(self._others):
            super().hold(names)


class PhasedTrainer:
    """The optimizers of the phases of a training, and all that they need to go on.

    A checkpoint has the weights of all modules once, and for each phase the state of its optimizer. Raises
    `GraphError` for weights that no phase trains, and `BackendError` under `FSDP`.
    """

    def __init__(
        self,
        programs: Mapping[str, TorchProgram],
        modules: Mapping[str, nn.Module],
        place: Place,
        setups: Mapping[str, TrainingSetup],
        world: World,
        strategy: Strategy,
        synced: SyncedNorms | None,
    ) -> None:
        if isinstance(strategy, FSDP) and world.size > 1:
            raise BackendError(
                "FSDP divides the weights for one optimizer, and this training has several",
                code="phases",
                fixes=["NeuralFactory(strategy=DDP())"],
            )
        self.modules = modules
        _check_trained(modules, setups)
        self.trainers = {
            name: PhaseTrainer(name, program, modules, place, setups[name], world, strategy, synced)
            for name, program in programs.items()
        }
        self.notes = _shared_notes(self.trainers)

    def hold(self, names: Collection[str]) -> None:
        """Keep weights, by `module.name`, as they are until this is called again without them."""
        for trainer in self.trainers.values():
            trainer.hold(names)

    def writers(self, folder: Path) -> dict[str, Writer]:
        """Return what writes each array file of a checkpoint in this folder, by file name."""
        state = state_of(self.modules)
        arrays: dict[str, Mapping[str, Tensor]] = {WEIGHTS: state}
        for name, trainer in self.trainers.items():
            arrays[_file(name)] = optimizer_tensors(trainer.optimizer, trainer.parameters)
        averages = [
            trainer.average.tensors for trainer in self.trainers.values() if trainer.average is not None
        ]
        if averages:
            arrays[AVERAGE] = {**state, **{key: value for each in averages for key, value in each.items()}}
        return whole_files(arrays)

    def scalars(self) -> dict[str, Any]:
        """Return what is not an array, ready for JSON."""
        return {"phases": {name: trainer.scalars() for name, trainer in self.trainers.items()}}

    def load(self, folder: Path, scalars: Mapping[str, Any]) -> None:
        """Go on from the files of a checkpoint."""
        before = list(scalars.get("phases", ()))
        if before != list(self.trainers):
            was = f"with phases {', '.join(before)}" if before else "with one optimizer"
            raise BackendError(
                f"{folder.name} was trained {was}, not with phases {', '.join(self.trainers)}",
                code="resume",
                where=str(folder),
                fixes=["train with the same phases", "resume='never' starts anew"],
            )
        state = state_of(self.modules)
        tensors = read_arrays(folder, WEIGHTS, state.get)
        for name, trainer in self.trainers.items():
            trainer.check_trained(folder, scalars["phases"][name]["trained"])
        load_state(self.modules, tensors)
        for name, trainer in self.trainers.items():
            trainer.load_progress(folder, scalars["phases"][name], _file(name))

    def averaged(self) -> AbstractContextManager[None]:
        """Put averaged weights in the place of the trained ones for a while, in the phases that have some."""
        return _all_averaged(list(self.trainers.values()))

    def finish(self) -> None:
        """Leave the averaged weights, if there are any, in the modules for good."""
        for trainer in self.trainers.values():
            trainer.finish()


@contextmanager
def _all_averaged(trainers: Sequence[TorchTrainer]) -> Iterator[None]:
    with ExitStack() as stack:
        for trainer in trainers:
            stack.enter_context(trainer.averaged())
        yield


def _file(name: str) -> str:
    return f"{OPTIMIZER}-{name}"


def _full_names(modules: Mapping[str, nn.Module]) -> Iterator[tuple[str, nn.Parameter]]:
    for name, module in modules.items():
        for key, weight in named_weights(module).items():
            yield f"{name}.{key}", weight


def _check_trained(modules: Mapping[str, nn.Module], setups: Mapping[str, TrainingSetup]) -> None:
    """Raise `GraphError` for weights that can change and that no phase trains."""
    named = frozenset[str]().union(*(setup.trains or () for setup in setups.values()))
    trained = {id(weight) for full, weight in _full_names(modules) if full in named}
    left = [full for full, weight in trainable_weights(modules).items() if id(weight) not in trained]
    if not left:
        return
    homes = list(dict.fromkeys(full.partition(".")[0] for full in left))
    more = [f"and {len(left) - 6} more"] if len(left) > 6 else []
    raise GraphError(
        f"no phase trains {', '.join(homes)}, whose weights can change",
        code="phases",
        details=[*left[:6], *more],
        fixes=[f"name {homes[0]} in trains of a phase", f"freeze {homes[0]}, if it is to stay as it is"],
    )


def _shared_notes(trainers: Mapping[str, PhaseTrainer]) -> list[str]:
    """Say which weights several phases train, which is allowed; raises `ConfigError` if both average them."""
    notes: list[str] = []
    names = list(trainers)
    for at, one in enumerate(names):
        for other in names[at + 1 :]:
            known = {id(weight) for weight in trainers[one].parameters.values()}
            shared = [full for full, weight in trainers[other].parameters.items() if id(weight) in known]
            if shared:
                homes = ", ".join(dict.fromkeys(full.partition(".")[0] for full in shared))
                notes.append(f"phases {one!r} and {other!r} both train {homes}")
            both = trainers[one].average is not None and trainers[other].average is not None
            twice = [module for module in trainers[one].modules if module in trainers[other].modules]
            if both and twice:
                raise ConfigError(
                    f"phases {one!r} and {other!r} both average {twice[0]!r}, which has one average",
                    code="phases",
                    fixes=["ema for one of the two phases only"],
                )
    return notes
