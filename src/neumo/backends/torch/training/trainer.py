"""One training step: forward, backward, a check that all is finite, clip, update, average."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from neumo.backends.torch.training.average import Average
from neumo.backends.torch.device import Place
from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.training.optimizers import build_optimizer, load_optimizer, optimizer_tensors
from neumo.backends.torch.save import load_state, read_tensors, state_of, write_tensors
from neumo.backends.torch.weights import statistics_of, trainable_weights
from neumo.engine.backend import TrainingSetup, Update
from neumo.engine.checkpoint import Writer
from neumo.types.errors import BackendError

WEIGHTS: Final = "weights.safetensors"
AVERAGE: Final = "average.safetensors"
OPTIMIZER: Final = "optimizer.safetensors"
SMALLEST_SCALE: Final = 1.0  # of an fp16 loss: below it the overflow is not the fault of the scale


class TorchTrainer:
    """Trains the modules of one program. A step whose loss or gradient is not finite leaves no trace in
    them.
    """

    def __init__(
        self, program: TorchProgram, modules: Mapping[str, nn.Module], place: Place, setup: TrainingSetup
    ) -> None:
        self.program = program
        self.modules = modules
        self.place = place
        self.clip = setup.clip
        self._loss = list(program.plan.wanted).index(setup.loss)
        self.parameters = trainable_weights(modules)
        self.optimizer = build_optimizer(setup.optimizer, self.parameters)
        self._weights = list(self.parameters.values())
        self.statistics = statistics_of(modules.values())
        self._kept = [value.clone() for value in self.statistics]
        self.average = Average(setup.ema, state_of(modules)) if setup.ema is not None else None
        self.scaler = torch.amp.GradScaler(place.device.type, enabled=place.scales_loss)
        self._needs_grad_checked = False

    def step(self, feeds: Sequence[Any], *, seed: int, lr: float) -> Update:
        """Make one update at a learning rate; all random numbers of it come from the seed."""
        reseed(self.place.device, seed)
        if self._kept:
            _copy_all(self._kept, self.statistics)
        wanted = self.program(feeds)
        loss: Tensor = wanted[self._loss]
        if not self._needs_grad_checked:
            self._check(loss)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        numbers = torch.stack([loss.detach().to(norm.dtype), norm])
        value, size = numbers.tolist()  # the one place where the host waits for the device
        skipped = self._skipped(value, size)
        if skipped:
            self._undo()
        else:
            self._update(norm, size, lr)
        if self.place.scales_loss:
            self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        wanted[self._loss] = None  # frees the graph of the backward pass
        return Update(value, size, skipped, wanted)

    def _update(self, norm: Tensor, size: float, lr: float) -> None:
        if self.clip is not None and size > self.clip:
            torch.nn.utils.clip_grads_with_norm_(self._weights, self.clip, norm)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.scaler.step(self.optimizer)
        if self.average is not None:
            self.average.update()

    def _skipped(self, loss: float, norm: float) -> str:
        if not _finite(loss):
            return "loss"
        if _finite(norm):
            return ""
        hopeful = self.place.scales_loss and self.scaler.get_scale() > SMALLEST_SCALE
        return "overflow" if hopeful else "gradient"

    @torch.no_grad()
    def _undo(self) -> None:
        """Put back the statistics that the forward pass has spoilt; the weights have not been touched yet."""
        if self._kept:
            _copy_all(self.statistics, self._kept)

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

    def writers(self) -> dict[str, Writer]:
        """Return what writes each array file of a checkpoint, by file name."""
        files: dict[str, Writer] = {
            WEIGHTS: _writer(lambda: state_of(self.modules)),
            OPTIMIZER: _writer(lambda: optimizer_tensors(self.optimizer, self.parameters)),
        }
        average = self.average
        if average is not None:
            files[AVERAGE] = _writer(lambda: average.tensors)
        return files

    def scalars(self) -> dict[str, Any]:
        """Return what is not an array, ready for JSON."""
        return {
            "scaler": self.scaler.state_dict(),
            "average_updates": self.average.updates if self.average is not None else None,
            "optimizer": type(self.optimizer).__name__,
            "trained": list(self.parameters),
        }

    def load(self, folder: Path, scalars: Mapping[str, Any]) -> None:
        """Go on from the files of a checkpoint."""
        tensors = read_tensors(folder / WEIGHTS)
        if tensors.keys() == state_of(self.modules).keys():  # else it is another model, which the table shows
            self._check_trained(folder, scalars.get("trained", list(self.parameters)))
        load_state(self.modules, tensors)
        if scalars["optimizer"] != type(self.optimizer).__name__:
            raise BackendError(
                f"{folder} was trained with {scalars['optimizer']}, not with {type(self.optimizer).__name__}",
                code="resume",
                fixes=["train with the same optimizer", "resume='never' starts anew"],
            )
        load_optimizer(self.optimizer, self.parameters, read_tensors(folder / OPTIMIZER))
        if scalars["scaler"]:
            self.scaler.load_state_dict(dict(scalars["scaler"]))
        if self.average is not None:
            updates = scalars["average_updates"]
            started = updates is not None  # else it starts now, from the weights that were just loaded
            self.average.load(read_tensors(folder / (AVERAGE if started else WEIGHTS)), updates or 0)

    def _check_trained(self, folder: Path, before: Sequence[str]) -> None:
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
        """Leave the averaged weights, if there are any, in the modules for good."""
        if self.average is not None:
            self.average.swap()


def reseed(device: torch.device, seed: int) -> None:
    """Seed the random numbers of torch on the CPU and on the device; far cheaper than `torch.manual_seed`."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


def _copy_all(targets: list[Tensor], sources: list[Tensor]) -> None:
    with torch.no_grad():
        torch._foreach_copy_(targets, sources)  # pyright: ignore[reportPrivateImportUsage]


def _finite(number: float) -> bool:
    return number - number == 0.0


def _writer(tensors: Callable[[], Mapping[str, Tensor]]) -> Writer:
    return lambda path: write_tensors(path, tensors())
