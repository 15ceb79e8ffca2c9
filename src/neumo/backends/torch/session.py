"""The weights that a factory has built with torch, and everything that is done with them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from neumo.backends.torch.changes import Changes
from neumo.backends.torch.compile import Compiler
from neumo.backends.torch.device import choose_place, supported
from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.mean import mean_of
from neumo.backends.torch.memory import is_about_memory, too_large
from neumo.backends.torch.parallel.fsdp import check_patterns
from neumo.backends.torch.parallel.parallelism import Parallelism
from neumo.backends.torch.parallel.same_weights import check_same_weights
from neumo.backends.torch.parallel.shards import whole
from neumo.backends.torch.parallel.sync_norm import SyncedNorms, check_groups, norm_group
from neumo.backends.torch.parallel.world import join, own_device, take_device
from neumo.backends.torch.precision import Precisions
from neumo.backends.torch.reading.loader import TorchReader, to_tensor
from neumo.backends.torch.registry import build
from neumo.backends.torch.save import (
    check_sizes,
    count,
    load_state,
    read_tensors,
    state_of,
    write_tensors,
)
from neumo.backends.torch.tie import Weight, find_weight, tie_weight, untie_weight
from neumo.backends.torch.training.numbers import numbers_of, set_numbers
from neumo.backends.torch.training.observe import observing
from neumo.backends.torch.training.phased import PhasedTrainer
from neumo.backends.torch.training.profiler import TorchProfiler
from neumo.backends.torch.training.trainer import TorchTrainer, reseed
from neumo.backends.torch.weights import fingerprint, named_weights, set_modes, state_names
from neumo.engine.backend import Setup, TrainingSetup
from neumo.engine.checks.verify import Guards
from neumo.engine.plan import Plan
from neumo.engine.processes.strategies import DDP, FSDP, Strategy
from neumo.engine.processes.workers import Workers
from neumo.engine.processes.world import World
from neumo.engine.seeds import derive_seed
from neumo.graph.module import label_of
from neumo.types.errors import BackendError, GraphError

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.graph.module import NeuralModule


@dataclass
class Built:
    """A specification and its torch module; holding the former keeps its identity from being reused."""

    spec: NeuralModule
    module: nn.Module
    frozen: bool = False  # as a whole
    still: set[str] = field(default_factory=set[str])  # the weights and statistics that stay as they are


@dataclass(frozen=True, eq=False)
class Tie:
    """A weight of one module that is the weight of another one, or of the same."""

    target: NeuralModule
    name: str
    source: NeuralModule
    source_name: str
    transpose: bool

    def ends_at(self, module: NeuralModule, name: str) -> bool:
        """Say whether this is the weight that takes its values from the other one."""
        return self.target is module and self.name == name

    def starts_at(self, module: NeuralModule, name: str) -> bool:
        """Say whether the other one takes its values from this weight."""
        return self.source is module and self.source_name == name


class TorchSession:
    """Builds each module once, by identity, so that all graphs of a factory share its weights."""

    def __init__(self, setup: Setup) -> None:
        self.strategy: Strategy = setup.strategy if setup.strategy is not None else DDP()
        self.world: World = join(self.strategy.timeout_minutes)
        own = {each.precision for each in setup.precisions}
        self.place = choose_place(own_device(setup.device, self.world), setup.precision, setup.allow, own)
        take_device(self.place.device, self.world)
        self.precisions = Precisions(self.place, setup.precisions)
        self._allow = setup.allow
        self.seed = setup.seed
        settings = setup.compile
        sharded = isinstance(self.strategy, FSDP) and self.world.size > 1
        self.compiler = (
            Compiler(settings, self.place, setup.allow, sharded=sharded) if settings is not None else None
        )
        self.notes: Sequence[str] = (
            *self.place.notes,
            *([str(settings)] if settings is not None else []),
            *(_alone(self.strategy) if self.world.size == 1 else ()),
        )
        self.device = str(self.place.device)
        self.versions = {"torch": torch.__version__}
        self._built: dict[int, Built] = {}
        self._ties: list[Tie] = []
        self._changes = Changes()
        self._parallelism: Parallelism | None = None  # of the last training, whose modules may be in parts
        self._norms: SyncedNorms | None = None

    @property
    def built(self) -> list[NeuralModule]:
        """The modules that have been built."""
        return [known.spec for known in self._built.values()]

    @property
    def precision(self) -> str:
        """Name the precision, and those of modules that have one of their own."""
        own = [f"{each.label} in {each.precision}" for each in self.precisions.overrides]
        return ", ".join([self.place.precision, *own])

    @property
    def advice(self) -> Sequence[str]:
        """Say what may help against numbers that are not finite, beside what helps everywhere."""
        ends = "fp16 ends at 65504: precision='bf16' has the range of fp32"
        return (ends,) if self.place.scales_loss else ()

    @property
    def supported(self) -> Mapping[str, str]:
        """Say of each precision why the device has not got it, "" if it has."""
        return supported(self.place.device, self._allow)

    def build(self, modules: Mapping[str, NeuralModule]) -> None:
        """Build the modules that have no weights yet; each starts from a seed made of its name."""
        for name, spec in modules.items():
            if id(spec) in self._built:
                self.precisions.settle(name, spec, self._built[id(spec)].module)
            elif spec.role not in ("data", "metric"):
                self._built[id(spec)] = Built(spec, self._make(name or label_of(spec), spec))
                self.precisions.settle(name, spec, self._built[id(spec)].module)
                self._changes.watch(self._built[id(spec)].module.parameters())
                if getattr(spec, "starts_frozen", False):
                    self.freeze(spec, True)

    def _make(self, name: str, spec: NeuralModule) -> nn.Module:
        """Weights are drawn on the CPU, so that they are the same on every device."""
        planned = _without_memory(spec) if self.place.device.type == "meta" else None
        module = planned if planned is not None else self._draw(name, spec)
        module = module.to(self.place.device)
        return module.double() if self.place.weights is torch.float64 else module

    def _draw(self, name: str, spec: NeuralModule) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(self.seed, "weights", name))
            try:
                return build(spec)
            except (MemoryError, OverflowError, RuntimeError, TypeError) as error:
                if not is_about_memory(error):
                    raise
                raise too_large(name, spec, error) from error

    def implementation(self, module: NeuralModule) -> nn.Module:
        """Return the torch module of a specification, built on first use."""
        self.build({label_of(module): module})
        return self._built[id(module)].module

    def program(self, plan: Plan, guards: Guards | None = None) -> TorchProgram:
        """Turn a plan into calls; the guards run between the calls as long as they ask to."""
        self.build(plan.modules)
        modules = [self._built[id(step.module)].module for step in plan.steps]
        self.precisions.check(plan.modules)
        return TorchProgram(plan, modules, self.place, guards, self.precisions, self.compiler)

    def trainer(self, program: TorchProgram, plan: Plan, setup: TrainingSetup) -> TorchTrainer:
        """Prepare to train the weights that the plan calls; what is frozen stays in evaluation mode."""
        if self._parallelism is not None:
            self._parallelism.close()  # what a training that failed has left
        self.set_modes(plan)
        modules = self._trained(plan)
        norms = self._synchronised(modules)
        trainer = TorchTrainer(program, modules, self.place, setup, self.world, self.strategy, norms)
        self._parallelism = trainer.parallelism
        return trainer

    def phased(
        self, programs: Mapping[str, TorchProgram], plan: Plan, setups: Mapping[str, TrainingSetup]
    ) -> PhasedTrainer:
        """Prepare to train with several optimizers, by name; `plan` has the modules of all programs."""
        if self._parallelism is not None:
            self._parallelism.close()
            self._parallelism = None
        self.set_modes(plan)
        modules = self._trained(plan)
        norms = self._synchronised(modules)
        return PhasedTrainer(programs, modules, self.place, setups, self.world, self.strategy, norms)

    def _trained(self, plan: Plan) -> dict[str, nn.Module]:
        """The modules of a training, of which all processes have the same weights."""
        modules = self._modules(plan.modules)
        if isinstance(self.strategy, FSDP) and self.world.size == 1:
            check_patterns(modules, self.strategy)
        check_same_weights(modules, self.world)
        return modules

    def _synchronised(self, modules: Mapping[str, nn.Module]) -> SyncedNorms | None:
        wanted = self.strategy.sync_norm
        if not wanted:
            return None
        size = self.world.size if wanted is True else wanted
        check_groups(size, self.world.size)
        if self.world.size == 1:
            return None
        if self._norms is None:
            self._norms = SyncedNorms(norm_group(size, self.device))
        self._norms.take(modules.values())
        return self._norms

    def _gathered(self) -> AbstractContextManager[None]:
        """Hold whole weights for a while, where a training has divided them; all processes enter it."""
        return nullcontext() if self._parallelism is None else self._parallelism.gathered()

    def set_modes(self, plan: Plan, held: Collection[str] = ()) -> None:
        """Put modules in the modes of training; what is frozen, or held, computes as in evaluation."""
        for name, spec in plan.modules.items():
            if (known := self._built.get(id(spec))) is not None:
                still = known.still | {each for each in self.weight_names(spec) if f"{name}.{each}" in held}
                frozen = known.frozen or (bool(still) and still.issuperset(self.weight_names(spec)))
                set_modes(known.module, frozen=frozen, still=still)

    @contextmanager
    def observing(self, plan: Plan, trained: Plan, seed: int) -> Iterator[None]:
        """Compute a plan beside a training step, in its modes and without gradients, and leave no trace."""
        self.build(plan.modules)
        ours = {id(module) for module in self._modules(trained.modules).values()}
        modules = list(self._modules(plan.modules).values())
        idle = [module for module in modules if id(module) not in ours]
        with self._gathered(), observing(modules, idle, self.place.device), self.place.float32():
            reseed(self.place.device, seed)
            yield

    def profiler(self, plan: Plan) -> TorchProfiler:
        """Profile what the modules of a plan compute from now on."""
        return TorchProfiler(self._modules(plan.modules), self.place.device)

    @contextmanager
    def inference(self, plan: Plan, seed: int) -> Iterator[Callable[[int], None]]:
        """Compute without gradients, in evaluation mode; call what it yields with each batch's number."""
        modules = list(self._modules(plan.modules).values())
        parts = [part for module in modules for part in module.modules()]
        before = [part.training for part in parts]
        for module in modules:
            module.eval()
        try:
            # Not inference_mode: what a module caches here (windows, positions) must serve training, too.
            with self._gathered(), torch.no_grad(), self.place.float32():
                yield lambda batch: reseed(self.place.device, derive_seed(seed, "batch", batch))
        finally:
            for part, training in zip(parts, before, strict=True):
                part.training = training

    def reader(
        self,
        source: DataSource,
        ports: Sequence[str],
        workers: int | Workers,
        tell: Callable[[str], None] | None = None,
    ) -> TorchReader:
        """Prepare to read a data source for the feeds of a plan, in this order of ports."""
        return TorchReader(source, ports, workers, self.place, tell)

    def feed(self, arrays: Iterable[Any]) -> tuple[Tensor | None, ...]:
        """Bring numpy arrays to the device; None is an input that is absent."""
        place = self.place
        return tuple(
            None if array is None else to_tensor(array, place.weights).to(place.device) for array in arrays
        )

    def to_numpy(self, value: Any) -> Any:
        """Bring a tensor back as a numpy array; half precision becomes float32."""
        if not isinstance(value, Tensor):
            return np.asarray(value)
        if value.device.type == "meta":
            raise BackendError(
                "device 'meta' has shapes and no numbers, so there is nothing to read",
                code="device",
                fixes=[
                    "NeuralFactory(device='cpu')",
                    "count_parameters(graph) and to_torch work without numbers",
                ],
            )
        plain = value.detach().cpu()
        return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy()

    def to_host(self, value: Any) -> Any:
        """Copy a value to the memory of the host as it is, for later."""
        return value.detach().to("cpu", copy=True) if isinstance(value, Tensor) else value

    def to_device(self, value: Any) -> Any:
        """Bring a value back that `to_host` has kept; a copy, as modules may write into what they get."""
        return value.to(self.place.device, copy=True) if isinstance(value, Tensor) else value

    def fingerprints(self, modules: Mapping[str, NeuralModule]) -> dict[str, str]:
        """Tell the weights and statistics of modules by a short text each, which changes when they do."""
        self.build(modules)
        return {name: fingerprint(module) for name, module in self._modules(modules).items()}

    def count_parameters(self, *modules: NeuralModule, trainable_only: bool = False) -> int:
        """Count the weights of modules, each weight once, or those that training would change."""
        weights = (weight for module in modules for weight in self.implementation(module).parameters())
        return count(weight for weight in weights if weight.requires_grad or not trainable_only)

    def weight_names(self, module: NeuralModule) -> list[str]:
        """List the names of the weights and statistics of a module."""
        return state_names(self.implementation(module))

    def freeze(self, module: NeuralModule, frozen: bool, names: Sequence[str] | None = None) -> None:
        """Keep weights and statistics of a module as they are, or let them change again; all, or some."""
        weights = named_weights(self.implementation(module))
        known = self._built[id(module)]
        every = set(self.weight_names(module)) | set(weights)
        meant = every if names is None else set(names)
        for name in meant & weights.keys():
            weights[name].requires_grad_(not frozen)
        known.still = known.still | meant if frozen else known.still - meant
        if names is None or not (frozen or known.still):
            known.frozen = frozen

    def numbers(self, module: NeuralModule, pattern: str) -> dict[str, float]:
        """Find numbers that are attributes of the built module or its layers: `dropout`, `*.drop.p`."""
        return numbers_of(self.implementation(module), pattern)

    def set_numbers(self, module: NeuralModule, values: Mapping[str, float]) -> None:
        """Change numbers that `numbers` has found; whole ones stay whole."""
        set_numbers(self.implementation(module), values)

    def is_frozen(self, module: NeuralModule) -> bool:
        """Say whether a module has weights, and none that training would change."""
        weights = list(self.implementation(module).parameters())
        return bool(weights) and not any(weight.requires_grad for weight in weights)

    def changed(self, module: NeuralModule) -> bool:
        """Say whether anything has trained weights of a module since they were drawn or loaded."""
        known = self._built.get(id(module))
        return known is not None and self._changes.any(known.module.parameters())

    def kept(self, module: NeuralModule) -> tuple[bool, frozenset[str]]:
        """Say whether a module was frozen as a whole, and which of its weights and statistics are kept."""
        self.implementation(module)
        known = self._built[id(module)]
        return known.frozen, frozenset(known.still)

    def tie(
        self, target: tuple[NeuralModule, str], source: tuple[NeuralModule, str], *, transpose: bool
    ) -> None:
        """Make a weight of one module another name of a weight; raises `GraphError` if they do not fit."""
        tie_weight(self._weight(*target), self._weight(*source), transpose=transpose)
        self._ties = [tie for tie in self._ties if not tie.ends_at(*target)]
        for tie in self._ties:
            if tie.starts_at(*target):  # what was tied to the target goes with it
                follower = self._weight(tie.target, tie.name)
                tie_weight(follower, self._weight(*target), transpose=tie.transpose)
        self._ties.append(Tie(*target, *source, transpose))

    def untie(self, module: NeuralModule, name: str) -> None:
        """Give a tied weight values of its own again; raises `GraphError` if it is not tied."""
        weight = self._weight(module, name)
        ended = [tie for tie in self._ties if tie.ends_at(module, name)]
        if not ended and not any(tie.starts_at(module, name) for tie in self._ties):
            raise GraphError(
                f"{weight.label} is not tied",
                code="tie",
                details=[_words(tie) for tie in self._ties] or ["no weight of this factory is tied"],
            )
        for tie in ended or [tie for tie in self._ties if tie.starts_at(module, name)]:
            untie_weight(self._weight(tie.target, tie.name))
            self._ties.remove(tie)
            for follower in self._ties:
                if follower.starts_at(tie.target, tie.name):
                    followed = self._weight(follower.target, follower.name)
                    tie_weight(followed, self._weight(tie.target, tie.name), transpose=follower.transpose)
        for known in self._built.values():
            self._changes.watch(known.module.parameters(), again=False)

    def _weight(self, module: NeuralModule, name: str) -> Weight:
        return find_weight(self.implementation(module), name, label_of(module))

    def weights(self, modules: Mapping[str, NeuralModule]) -> dict[str, Any]:
        """Return the weights of some modules as numpy arrays by `module.name`."""
        self.build(modules)
        state = state_of(self._modules(modules))
        return {name: self.to_numpy(whole(value)).copy() for name, value in state.items()}

    def load_weights(
        self, modules: Mapping[str, NeuralModule], arrays: Mapping[str, Any], *, partial: bool = False
    ) -> list[str]:
        """Put arrays into some modules; returns what a partial load left out. Raises `CheckpointError`."""
        tensors = {
            name: array if isinstance(array, Tensor) else torch.as_tensor(np.array(array))
            for name, array in arrays.items()
        }
        _say_not_numbers(tensors)
        if not partial:
            self._foresee(modules, tensors)
        self.build(modules)
        built = self._modules(modules)
        left = load_state(built, tensors, partial=partial)
        for name, module in built.items():
            top = f"{name}." if name else ""
            weights = named_weights(module).items()
            self._changes.watch(weight for key, weight in weights if top + key in tensors)
        return left

    def _foresee(self, modules: Mapping[str, NeuralModule], tensors: Mapping[str, Tensor]) -> None:
        """Refuse modules whose sizes are not those of the weights before their memory is asked for."""
        planned: dict[str, nn.Module] = {}
        for name, spec in modules.items():
            if id(spec) in self._built or spec.role in ("data", "metric"):
                continue
            if (module := _without_memory(spec)) is not None:
                planned[name] = module
        tops = tuple(f"{name}." if name else "" for name in planned)
        check_sizes(planned, {name: value for name, value in tensors.items() if name.startswith(tops)})

    def save(self, modules: Mapping[str, NeuralModule], path: Path, *, notes: Mapping[str, str]) -> None:
        """Write the weights of some modules to a safetensors file, with texts as its metadata."""
        self.build(modules)
        state = state_of(self._modules(modules))
        write_tensors(path, {name: whole(value) for name, value in state.items()}, notes)

    def read(self, path: Path) -> dict[str, Tensor]:
        """Read a safetensors file; raises `CheckpointError`."""
        return read_tensors(path)

    def average(self, files: Sequence[Path], path: Path, *, notes: Mapping[str, str]) -> None:
        """Write the mean of the weights in safetensors files to another one."""
        write_tensors(path, mean_of(files), notes)

    def load(self, modules: Mapping[str, NeuralModule], path: Path, *, partial: bool = False) -> list[str]:
        """Read the weights of some modules from a safetensors file; as `load_weights`."""
        return self.load_weights(modules, read_tensors(path), partial=partial)

    def _modules(self, modules: Mapping[str, NeuralModule]) -> dict[str, nn.Module]:
        return {
            name: self._built[id(spec)].module for name, spec in modules.items() if id(spec) in self._built
        }


def _say_not_numbers(tensors: Mapping[str, Tensor]) -> None:
    """Warn of weights that are no numbers: they come from a training that broke, and predict nothing."""
    broken = [name for name, value in tensors.items() if value.is_floating_point() and value.isnan().any()]
    if broken:
        more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
        logging.getLogger("neumo").warning("weights hold NaN: %s%s", ", ".join(broken[:3]), more)


def _alone(strategy: Strategy) -> list[str]:
    """What a strategy does not do in one process."""
    if not isinstance(strategy, FSDP):
        return []
    return ["FSDP in one process: all weights are whole, and so are the files of checkpoints"]


def _without_memory(spec: NeuralModule) -> nn.Module | None:
    """Make the shapes of a module and no numbers; None for one whose code reads numbers while it is made."""
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            return build(spec)
    except Exception:  # whatever it is: then the real one is made, which says why if it cannot be
        return None


def _words(tie: Tie) -> str:
    turned = ", transposed" if tie.transpose else ""
    return f"{label_of(tie.target)}.{tie.name} is tied to {label_of(tie.source)}.{tie.source_name}{turned}"
