"""The weights that a factory has built with torch, and everything that is done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from neumo.backends.torch.device import choose_place
from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.loader import TorchReader, to_tensor
from neumo.backends.torch.registry import build
from neumo.backends.torch.save import count, load_state, read_tensors, state_of, write_tensors
from neumo.backends.torch.train import TorchTrainer, reseed
from neumo.engine.backend import Setup, TrainingSetup
from neumo.engine.plan import Plan
from neumo.engine.seeds import derive_seed
from neumo.engine.verify import Guards

if TYPE_CHECKING:
    from neumo.data.source import DataSource
    from neumo.graph.module import NeuralModule


@dataclass
class Built:
    """A specification and its torch module; holding the former keeps its identity from being reused."""

    spec: NeuralModule
    module: nn.Module
    frozen: bool = False


class TorchSession:
    """Builds each module once, by identity, so that all graphs of a factory share its weights."""

    def __init__(self, setup: Setup) -> None:
        self.place = choose_place(setup.device, setup.precision, setup.allow)
        self.seed = setup.seed
        self.notes: Sequence[str] = self.place.notes
        self.device = str(self.place.device)
        self.versions = {"torch": torch.__version__}
        self._built: dict[int, Built] = {}

    def build(self, modules: Mapping[str, NeuralModule]) -> None:
        """Build the modules that have no weights yet; each starts from a seed made of its name."""
        for name, spec in modules.items():
            if id(spec) not in self._built and spec.role not in ("data", "metric"):
                self._built[id(spec)] = Built(spec, self._make(name, spec))

    def _make(self, name: str, spec: NeuralModule) -> nn.Module:
        """Weights are drawn on the CPU, so that they are the same on every device."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(self.seed, "weights", name))
            module = build(spec)
        module = module.to(self.place.device)
        return module.double() if self.place.weights is torch.float64 else module

    def implementation(self, module: NeuralModule) -> nn.Module:
        """Return the torch module of a specification, built on first use."""
        from neumo.graph.module import label_of

        self.build({label_of(module): module})
        return self._built[id(module)].module

    def program(self, plan: Plan, guards: Guards | None = None) -> TorchProgram:
        """Turn a plan into calls; the guards run between the calls as long as they ask to."""
        self.build(plan.modules)
        modules = [self._built[id(step.module)].module for step in plan.steps]
        return TorchProgram(plan, modules, self.place, guards)

    def trainer(self, program: TorchProgram, plan: Plan, setup: TrainingSetup) -> TorchTrainer:
        """Prepare to train the weights that the plan calls; what is frozen stays in evaluation mode."""
        for spec in plan.modules.values():
            known = self._built[id(spec)]
            known.module.train(not known.frozen)
        return TorchTrainer(program, self._modules(plan.modules), self.place, setup)

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
            with torch.no_grad():
                yield lambda batch: reseed(self.place.device, derive_seed(seed, "batch", batch))
        finally:
            for part, training in zip(parts, before, strict=True):
                part.training = training

    def reader(self, source: DataSource, ports: Sequence[str], workers: int) -> TorchReader:
        """Prepare to read a data source for the feeds of a plan, in this order of ports."""
        return TorchReader(source, ports, workers, self.place)

    def feed(self, arrays: Iterable[Any]) -> tuple[Tensor, ...]:
        """Bring numpy arrays to the device."""
        return tuple(to_tensor(array, self.place.weights).to(self.place.device) for array in arrays)

    def to_numpy(self, value: Any) -> Any:
        """Bring a tensor back as a numpy array; half precision becomes float32."""
        if not isinstance(value, Tensor):
            return np.asarray(value)
        plain = value.detach().cpu()
        return (plain.float() if plain.dtype in (torch.bfloat16, torch.float16) else plain).numpy()

    def count_parameters(self, module: NeuralModule, trainable_only: bool = False) -> int:
        """Count the weights of a module, or those that training would change."""
        weights = self.implementation(module).parameters()
        return count(weight for weight in weights if weight.requires_grad or not trainable_only)

    def freeze(self, module: NeuralModule, frozen: bool) -> None:
        """Keep the weights and statistics of a module as they are, or let them change again."""
        self.implementation(module).requires_grad_(not frozen)
        self._built[id(module)].frozen = frozen

    def weights(self, modules: Mapping[str, NeuralModule]) -> dict[str, Any]:
        """Return the weights of some modules as numpy arrays by `module.name`."""
        self.build(modules)
        return {name: self.to_numpy(value).copy() for name, value in state_of(self._modules(modules)).items()}

    def load_weights(
        self, modules: Mapping[str, NeuralModule], arrays: Mapping[str, Any], *, partial: bool = False
    ) -> list[str]:
        """Put arrays into some modules; returns what a partial load left out. Raises `CheckpointError`."""
        self.build(modules)
        tensors = {name: torch.as_tensor(np.array(array)) for name, array in arrays.items()}
        return load_state(self._modules(modules), tensors, partial=partial)

    def save(self, modules: Mapping[str, NeuralModule], path: Path) -> None:
        """Write the weights of some modules to a safetensors file."""
        self.build(modules)
        write_tensors(path, state_of(self._modules(modules)))

    def load(self, modules: Mapping[str, NeuralModule], path: Path, *, partial: bool = False) -> list[str]:
        """Read the weights of some modules from a safetensors file; as `load_weights`."""
        self.build(modules)
        return load_state(self._modules(modules), read_tensors(path), partial=partial)

    def _modules(self, modules: Mapping[str, NeuralModule]) -> dict[str, nn.Module]:
        return {
            name: self._built[id(spec)].module for name, spec in modules.items() if id(spec) in self._built
        }
