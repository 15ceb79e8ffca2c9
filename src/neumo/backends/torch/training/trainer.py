"""One training step: forward, backward, a check that all is finite, clip, update, average."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from neumo.backends.torch.device import Place
from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.parallel.ddp import DataParallel
from neumo.backends.torch.parallel.fsdp import FullySharded
from neumo.backends.torch.parallel.parallelism import Parallelism, SingleProcess
from neumo.backends.torch.parallel.statistics import Shared, Statistics
from neumo.backends.torch.parallel.sync_norm import SyncedNorms
from neumo.backends.torch.parallel.world import is_about_others, others_lost
from neumo.backends.torch.save import load_state, read_arrays, state_of
from neumo.backends.torch.training.average import Average
from neumo.backends.torch.training.gradients import describe_gradients
from neumo.backends.torch.training.hold import without_gradient
from neumo.backends.torch.training.larc import apply_larc
from neumo.backends.torch.training.optimizers import (
    build_optimizer,
    load_optimizer,
    optimizer_tensors,
    set_rate,
)
from neumo.backends.torch.training.scaling import make_scaler
from neumo.backends.torch.weights import named_weights, trainable_weights
from neumo.engine import faults
from neumo.engine.backend import TrainingSetup, Update
from neumo.engine.checkpoints.store import Writer
from neumo.engine.processes.strategies import FSDP, Strategy
from neumo.engine.processes.world import World
from neumo.engine.updates.optimizers import Optimizer
from neumo.types.errors import BackendError, ConfigError

WEIGHTS: Final = "weights"  # the arrays of a checkpoint: each a file, or a folder of parts
AVERAGE: Final = "average"
OPTIMIZER: Final = "optimizer"


@dataclass(frozen=True, slots=True)
class _BatchLoss:
    """What a batch adds to a step: its mean loss, and how many things that is the mean over."""

    loss: Tensor
    weight: Tensor | float


class TorchTrainer:
    """Trains the modules of one program, one step for each window of batches.

    The loss and the gradient of a step are those of one batch that holds all batches of the window, of all
    processes: each counts as many times as its loss is the mean over. A step whose loss or gradient is not
    finite leaves no trace in the modules.
    """

    def __init__(
        self,
        program: TorchProgram,
        modules: Mapping[str, nn.Module],
        place: Place,
        setup: TrainingSetup,
        world: World,
        strategy: Strategy | None = None,
        synced: SyncedNorms | None = None,
    ) -> None:
        self.program = program
        self.modules = modules
        self.place = place
        self.world = world
        self.clip = setup.clip
        self.larc = setup.larc
        self.rule = setup.optimizer.rule
        wanted = list(program.plan.wanted)
        self._loss = wanted.index(setup.loss)
        self._count = wanted.index(setup.count) if setup.count is not None else None
        self._synced = synced
        self.parallelism = choose_parallelism(program, modules, place, world, strategy, setup.optimizer)
        self.parameters = trainable_weights(modules)
        self.optimizer = build_optimizer(setup.optimizer, self.parameters, modules)
        self._weights = list(self.parameters.values())
        self.statistics = Statistics(modules.values(), synced.norms if synced is not None else ())
        self._shared = Shared(self.statistics, world, synced)
        self.average = Average(setup.ema, state_of(modules)) if setup.ema is not None else None
        self.scaler = make_scaler(place, setup.loss_scale)
        self.ready = time.perf_counter()
        self._needs_grad_checked = False
        self._batch_losses: list[_BatchLoss] = []
        self._held: list[nn.Parameter] = []
        self._reference = 1.0

    def accumulate(
        self, feeds: Sequence[Any], *, seed: int, weight: float, reference: float, last: bool
    ) -> Sequence[Any]:
        """Add the gradient of one batch to that of the step; returns the wanted values of the plan."""
        if not self._batch_losses:
            self.statistics.keep()
        elif self.program.records:
            raise _several_recorded()
        if self._synced is not None:
            self._synced.counted = bool(weight)
        reseed(self.place.device, seed)
        with self.place.float32(), self.parallelism.turn(last), self._traces(bool(weight)):
            wanted = self._forward(feeds)
            loss: Tensor = faults.spoil(wanted[self._loss])
            if not self._needs_grad_checked:
                self._check(loss)
            amount = self._amount(wanted, weight)
            alone = last and not self._batch_losses and self.world.size == 1
            self._reference = 0.0 if alone else reference
            share = loss if alone else loss * (amount / reference)
            self.ready = time.perf_counter()  # from here on it may wait for the others
            self.scaler.scale(share).backward()
        self._batch_losses.append(_BatchLoss(loss.detach(), amount))
        wanted[self._loss] = None  # frees the graph of the backward pass
        return wanted

    def _traces(self, counted: bool) -> AbstractContextManager[None]:
        """Leave no trace of a batch that only fills a turn, of which another one has been counted."""
        return nullcontext() if counted else self.statistics.untouched()

    def _forward(self, feeds: Sequence[Any]) -> list[Any]:
        if not self._held or self.world.size > 1:  # DistributedDataParallel waits for every gradient
            return self.parallelism(feeds)
        with without_gradient(self._held):
            return self.parallelism(feeds)

    def hold(self, names: Collection[str]) -> None:
        """Keep weights, by `module.name`, as they are until this is called again without them."""
        weights = {
            f"{name}.{key}": w for name, m in self.modules.items() for key, w in named_weights(m).items()
        }
        held = {id(weight): weight for name, weight in weights.items() if name in names}
        self._held = [weight for weight in held.values() if weight.requires_grad]
        if len(self._held) == len(self.parameters):
            raise ConfigError(
                "every weight is held, so there is nothing to train",
                code="nothing-to-train",
                fixes=["let some weights be trained from the start: name fewer in Unfreeze"],
            )

    def _amount(self, wanted: Sequence[Any], weight: float) -> Tensor | float:
        """How many things the loss is the mean over, as the loss counts them or else the engine."""
        if self._count is None or not weight:
            return weight
        return wanted[self._count].detach().sum().to(self.place.weights)

    def apply(self, factor: float, signals: Sequence[float] = ()) -> Update:
        """Update the weights by what was accumulated, at `factor` of the learning rates."""
        for weight in self._held:
            weight.grad = None  # an optimizer passes over such weights: no decay, no moments
        self.scaler.unscale_(self.optimizer)
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        losses, amounts, size = self._numbers(self.parallelism.norm(gradients))
        pairs = zip(losses, amounts, strict=True)
        total = sum(loss * amount for loss, amount in pairs if amount or not _finite(loss))
        mine = sum(amounts)
        total, amount, *signals = self.world.sum([total, mine, *signals], "the loss of a step")
        # Only now times the number of processes: before, it would decide which steps overflow in fp16.
        post = self.parallelism.factor * self._reference / amount if self._reference and amount else 1.0
        value, norm = total / amount if amount else total, size * post
        skipped = self._skipped(value, norm) or ("" if amount else "empty")
        broken: tuple[dict[str, float], str] = ({}, "")
        if skipped:
            self.statistics.put_back()  # the weights have not been touched yet
            if skipped in ("loss", "gradient"):
                broken = describe_gradients(self.parameters)
        else:
            self._shared.average(mine / amount)
            self._update(gradients, post * self._clipping(norm), factor)
        if self.place.scales_loss:  # a loss that is no number says nothing of its scale, nor does no loss
            self.scaler.update(self.scaler.get_scale() if skipped in ("loss", "empty") else None)
        for weight in self._weights:  # as zero_grad does, which takes twenty times as long
            weight.grad = None
        self._batch_losses.clear()
        return Update(value, norm, skipped, losses, signals, *broken)

    def _numbers(self, norm: Tensor) -> tuple[list[float], list[float], float]:
        """Bring losses, weights and the norm to the host, in the one place where it waits for the device."""
        counted = [batch.weight for batch in self._batch_losses if isinstance(batch.weight, Tensor)]
        numbers = self._on_host([*(batch.loss for batch in self._batch_losses), *counted, norm])
        size = numbers.pop()
        losses, rest = numbers[: len(self._batch_losses)], iter(numbers[len(self._batch_losses) :])
        weights = [
            next(rest) if isinstance(batch.weight, Tensor) else batch.weight for batch in self._batch_losses
        ]
        return losses, weights, size

    def _on_host(self, values: Sequence[Tensor]) -> list[float]:
        if self.place.device.type == "cpu":  # nothing to wait for, so one by one costs less
            return [value.item() for value in values]
        wide = torch.float32 if self.place.device.type == "mps" else torch.float64
        return torch.stack([value.to(wide) for value in values]).tolist()

    def _clipping(self, norm: float) -> float:
        return self.clip / (norm + 1e-6) if self.clip is not None and norm > self.clip else 1.0

    def _update(self, gradients: list[Tensor], scale: float, factor: float) -> None:
        if scale != 1.0:
            with torch.no_grad():
                torch._foreach_mul_(gradients, scale)  # pyright: ignore[reportPrivateImportUsage]
        set_rate(self.optimizer, factor)
        if self.larc is not None:
            apply_larc(self.optimizer, self.larc)
        self.optimizer.step()  # not that of the scaler, which waits to learn that all is finite, as is known
        if self.average is not None:
            self.average.update()

    def _skipped(self, loss: float, norm: float) -> str:
        if not _finite(loss):
            return "loss"
        if _finite(norm):
            return ""
        return "overflow" if self.scaler.will_back_off else "gradient"

    def _check(self, loss: Tensor) -> None:
        self._needs_grad_checked = True
        if loss.numel() != 1:
            raise BackendError(
                f"the loss has the shape {tuple(loss.shape)}, and a loss is one number",
                code="loss",
                fixes=["give the loss module a reduction: its signature says Loss()[()]"],
            )
        if not loss.requires_grad:
            raise BackendError(
                "the loss does not depend on any weight: its gradient is cut on the way",
                code="loss",
                fixes=[
                    "look for argmax, detach or numpy in the modules before it: train on scores, not on ids"
                ],
            )

    def writers(self, folder: Path) -> dict[str, Writer]:
        """Return what writes each array file of a checkpoint in this folder, by file name.

        All processes call it; the files are for the first one to write.
        """
        arrays: dict[str, Mapping[str, Tensor]] = {
            WEIGHTS: state_of(self.modules),
            OPTIMIZER: optimizer_tensors(self.optimizer, self.parameters),
        }
        if self.average is not None:
            arrays[AVERAGE] = self.average.tensors
        return self.parallelism.writers(arrays, folder)

    def explain(self, error: Exception) -> Exception:
        """Turn an error of a step into one that says what failed: a module, or another process."""
        if self.world.size > 1 and is_about_others(error):
            return others_lost(error, self.world)
        return self.program.explain(error)

    def scalars(self) -> dict[str, Any]:
        """Return what is not an array, ready for JSON."""
        return {
            "scaler": self.scaler.state_dict(),
            "average_updates": self.average.updates if self.average is not None else None,
            "optimizer": self.rule,
            "trained": list(self.parameters),
        }

    def load(self, folder: Path, scalars: Mapping[str, Any]) -> None:
        """Go on from the files of a checkpoint."""
        state = state_of(self.modules)
        tensors = read_arrays(folder, WEIGHTS, state.get)
        if tensors.keys() == state.keys():  # else it is another model, which the table shows
            self.check_trained(folder, scalars.get("trained", list(self.parameters)))
        load_state(self.modules, tensors)
        self.load_progress(folder, scalars)

    def load_progress(self, folder: Path, scalars: Mapping[str, Any], optimizer: str = OPTIMIZER) -> None:
        """Go on with all but the weights, which are loaded; `optimizer` names the file of its state."""
        if scalars["optimizer"] != self.rule:
            raise BackendError(
                f"{folder} was trained with {scalars['optimizer']}, not with {self.rule}",
                code="resume",
                fixes=["train with the same optimizer", "resume='never' starts anew"],
            )
        entries = read_arrays(folder, optimizer, lambda name: self.parameters.get(name.rpartition("/")[0]))
        load_optimizer(self.optimizer, self.parameters, entries)
        if scalars["scaler"]:
            self.scaler.load_state_dict(dict(scalars["scaler"]))
        if self.average is not None:
            updates = scalars["average_updates"]
            started = updates is not None  # else it starts now, from the weights that were just loaded
            averages = read_arrays(folder, AVERAGE if started else WEIGHTS, self.average.tensors.get)
            self.average.load(averages, updates or 0)

    def check_trained(self, folder: Path, before: Sequence[str]) -> None:
        """A resumed run is the same run: the same weights are frozen and tied in it."""
        now = list(self.parameters)
        rows = [f"{name} was trained, and is now frozen or tied" for name in before if name not in now]
        rows += [f"{name} was frozen or tied, and would now be trained" for name in now if name not in before]
        if not rows:
            return
        more = [f"and {len(rows) - 6} more"] if len(rows) > 6 else []
        raise BackendError(
            f"{folder.name} was trained with other weights frozen or tied: {len(rows)} differ",
            code="resume",
            where=str(folder),
            details=[*rows[:6], *more],
            fixes=[
                "freeze and tie the same weights before resuming",
                "resume='never' starts anew; factory.load(graph, path) takes the weights alone",
            ],
        )

    def averaged(self) -> AbstractContextManager[None]:
        """Put the averaged weights in the place of the trained ones for a while; nothing happens without
        EMA.
        """
        return nullcontext() if self.average is None else self.average.in_place()

    def finish(self) -> None:
        """Leave the averaged weights, if there are any, in the modules for good, which are whole again."""
        if self.average is not None:
            self.average.swap()
        self.parallelism.close()
        if self._synced is not None:
            self._synced.undo()


def choose_parallelism(
    program: TorchProgram,
    modules: Mapping[str, nn.Module],
    place: Place,
    world: World,
    strategy: Strategy | None,
    optimizer: Optimizer,
) -> Parallelism:
    """Divide the training of a program among the processes; raises `BackendError` where that cannot be."""
    if world.size == 1:
        return SingleProcess(program)
    if isinstance(strategy, FSDP):
        return FullySharded(program, modules, strategy, world, place.device, optimizer)
    return DataParallel(program, trainable_weights(modules).values(), world.size)


def reseed(device: torch.device, seed: int) -> None:
    """Seed the random numbers of torch on the CPU and on the device; far cheaper than `torch.manual_seed`."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.init()  # before it there are no generators
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.default_generators[index].manual_seed(seed)


def _several_recorded() -> BackendError:
    return BackendError(
        "CUDA graphs were asked for, and a step that computes several batches one after the other",
        code="compile",
        why="It is not proved that one leaves alone what the other has computed: values, and gradients.",
        fixes=["cuda_graphs=False", "batches_per_step=None: one batch in each process, of a larger size"],
    )


def _finite(number: float) -> bool:
    return number - number == 0.0
