"""Fully sharded training (FSDP2): every process holds a part of each weight, and gathers it to compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from neumo.backends.torch.execute import TorchProgram
from neumo.backends.torch.parallel.parallelism import Arrays, whole_files
from neumo.backends.torch.parallel.sharded_files import write_shards
from neumo.backends.torch.parallel.shards import gather, whole
from neumo.engine.checkpoints.store import Writer
from neumo.engine.processes.strategies import FSDP
from neumo.engine.processes.world import World
from neumo.engine.updates.optimizers import Optimizer
from neumo.types.errors import BackendError, ConfigError

SHARDABLE: Final = ("SGD", "Adam", "AdamW", "NovoGrad", "LAMB")  # those that are right on parts of weights
_MAKER: Final = "torch.distributed."  # where the hooks of a sharded module come from


class FullySharded:
    """Shards some modules in place and runs a program with them, until `close` makes them whole again.

    Modules and parameters stay the same objects; while they are sharded, the parameters that the modules show
    are `DTensor`s. Weights are gathered, and gradients summed, in the precision that the weights have, so the
    losses are those of `DDP`: autocast lowers the precision of the products only.
    """

    def __init__(
        self,
        program: TorchProgram,
        modules: Mapping[str, nn.Module],
        strategy: FSDP,
        world: World,
        device: torch.device,
        optimizer: Optimizer,
    ) -> None:
        _check_optimizer(optimizer)
        self._sharded_files = strategy.checkpoint == "sharded"
        self._world = world
        self.factor = float(world.size)  # gradients come out as means over the processes
        self._program = program
        self._reshard = strategy.reshard
        held = {
            name: module for name, module in modules.items() if next(module.parameters(), None) is not None
        }
        paths = _chosen(held, strategy.shard)
        _check(held, paths)
        self._before = [_Before.of(layer) for module in held.values() for layer in module.modules()]
        self._roots = list(held.values())
        self._units = self._split(paths, world, device)

    def _split(self, paths: Mapping[str, nn.Module], world: World, device: torch.device) -> list[Any]:
        """Shard the units, those that are deepest inside first."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        if device.type == "cuda":
            torch.cuda.set_device(device)
        mesh = init_device_mesh(device.type, (world.size,))
        units = [paths[path] for path in sorted(paths, key=lambda path: -path.count("."))]
        for before in self._before:
            before.make_plain()
        self._handles: list[RemovableHandle] = []
        for unit in units:
            self._handles.append(unit.register_forward_hook(_own_memory))
            policy = MixedPrecisionPolicy(reduce_dtype=_reduced_in(unit))
            try:
                fully_shard(unit, mesh=mesh, reshard_after_forward=self._reshard, mp_policy=policy)
            except Exception as error:  # whatever it is that torch does not shard: in all processes
                self._restore()
                raise _not_sharded(unit, error) from error
        for before in self._before:
            before.free()
        sharded: list[Any] = units
        for unit in sharded:  # once, so that the memory of the units is settled before anybody looks at it
            unit.unshard()
            unit.reshard()
        return sharded

    @contextmanager
    def turn(self, last: bool) -> Iterator[None]:
        """Exchange gradients in the backward pass of the last batch of a step only."""
        if not self._units:
            raise BackendError(
                "the weights of this training are whole again: another one has begun",
                code="shard",
                fixes=["strategy=DDP() lets two trainings share modules"],
            )
        roots: list[Any] = self._roots
        for root in roots:
            root.set_requires_gradient_sync(last)
            root.set_is_last_backward(last)
        yield

    def __call__(self, feeds: Sequence[Any]) -> list[Any]:
        """Run the program."""
        return self._program(feeds)

    def norm(self, gradients: Iterable[Tensor]) -> Tensor:
        """Compute the norm of the whole gradient, of which each process holds a part."""
        return whole(torch.nn.utils.get_total_norm(list(gradients)))

    def writers(self, arrays: Arrays, folder: Path) -> dict[str, Writer]:
        """Return what writes the files of a checkpoint: whole ones, or the part of each process."""
        if self._sharded_files:
            return write_shards(arrays, folder, self._world)
        first = self._world.rank == 0
        return whole_files({name: gather(tensors, first=first) for name, tensors in arrays.items()})

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Hold all weights whole for a while: then each process may compute by itself, or not at all.

        All processes enter it together.
        """
        for unit in self._units:
            unit.set_reshard_after_forward(False, recurse=False)
            unit.unshard()
        try:
            yield
        finally:
            for unit in self._units:
                unit.reshard()
                unit.set_reshard_after_forward(self._reshard, recurse=False)
                _forget_passes(unit)

    def close(self) -> None:
        """Make the modules whole and plain again, in all processes; they call it together."""
        if not self._units:
            return
        seen: dict[int, Tensor] = {}
        for unit in self._units:
            unit.reshard()
        for before in self._before:
            before.gather(seen)
        self._restore()
        self._units, self._roots = [], []

    def _restore(self) -> None:
        for handle in self._handles:
            handle.remove()
        for before in self._before:
            before.restore()
        self._before = []


@dataclass(frozen=True, eq=False)
class _Before:
    """A layer as it was before it was sharded: its class, its attributes and its parameters."""

    layer: nn.Module
    kind: type[nn.Module]
    attributes: frozenset[str]
    parameters: Mapping[str, nn.Parameter]

    @classmethod
    def of(cls, layer: nn.Module) -> _Before:
        return cls(layer, type(layer), frozenset(vars(layer)), dict(layer.named_parameters(recurse=False)))

    def make_plain(self) -> None:
        """Lay the numbers of each weight out one after the other, as sharding asks."""
        for weight in self.parameters.values():
            weight.data = weight.data.contiguous()

    def free(self) -> None:
        """Give the memory of the whole weights back: from now on there are the parts."""
        for weight in self.parameters.values():
            weight.data = weight.data.new_empty(0)

    def gather(self, seen: dict[int, Tensor]) -> None:
        """Fill the parameters with what the parts have become, each once."""
        for name, weight in self.parameters.items():
            if id(weight) not in seen:
                now = cast("Tensor", self.layer._parameters[name])
                weight.data = seen[id(weight)] = whole(now.detach())
                weight.requires_grad_(now.requires_grad)
                weight.grad = None

    def restore(self) -> None:
        """Take away what sharding has added to the layer; what others have added stays."""
        layer: Any = self.layer
        tables = [table for table in vars(layer).values() if isinstance(table, dict)]
        added = {
            key
            for table in cast("list[dict[Any, Any]]", tables)
            for key, hook in table.items()
            if isinstance(key, int) and str(getattr(hook, "__module__", "")).startswith(_MAKER)
        }
        for table in cast("list[dict[Any, Any]]", tables):
            for key in added & table.keys():
                del table[key]
        layer.__class__ = self.kind
        layer._parameters.update(self.parameters)
        for name in vars(layer).keys() - self.attributes:
            if name.startswith(("_fsdp_", "_is_fsdp_", "__composable_api_")):
                delattr(layer, name)
        _forget(layer)


def _forget_passes(unit: Any) -> None:
    """Strike out which units have computed, in which order, while there was nothing to gather.

    The next backward pass would gather ahead what comes before its own units in that order, in those
    processes only that had something to compute: the others would not, and all would wait for ever.
    """
    state = unit._get_fsdp_state()
    order: list[Any] = getattr(state._comm_ctx, "post_forward_order", [])  # none before the first pass
    order.clear()
    groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
    for group in groups:
        if group is not None:
            group._post_forward_indices.clear()


def _forget(layer: nn.Module) -> None:
    """Strike a layer off torch's list of sharded ones, so that it can be sharded again."""
    from torch.distributed import _composable_state

    known: Any = getattr(_composable_state, "_module_state_mapping", {})
    known.pop(layer, None)


def _chosen(modules: Mapping[str, nn.Module], patterns: Sequence[str]) -> dict[str, nn.Module]:
    """Find what is gathered by itself: each module, and the layers in it that the patterns mean."""
    every = {_path(name, inner): layer for name, m in modules.items() for inner, layer in m.named_modules()}
    found = dict(modules)
    for pattern in patterns:
        hits = [path for path in every if _fits(path, pattern)]
        if not hits:
            raise ConfigError(
                f"FSDP: shard={pattern!r} names no module and no layer of one",
                code="shard",
                details=["a `*` stands for one part of a path: 'encoder.blocks.*'"],
                fixes=[f"did you mean {path!r}?" for path in get_close_matches(pattern, every, 2)],
            )
        found.update({path: every[path] for path in hits if any(True for _ in every[path].parameters())})
    return {**found, **_of_other_dtype(every, found)}


def _of_other_dtype(every: Mapping[str, nn.Module], units: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Find the layers that keep their weights in another dtype than most of their unit, as norms may: torch
    gathers weights of one dtype only, so each of them is gathered by itself.
    """
    found: dict[str, nn.Module] = {}
    for path, layer in every.items():
        own = {weight.dtype for weight in layer.parameters(recurse=False)}
        owner = max((each for each in units if f"{path}.".startswith(f"{each}.") or not each), key=len)
        if path not in units and own and own != {_usual_dtype(units[owner])}:
            found[path] = layer
    return found


def _usual_dtype(module: nn.Module) -> torch.dtype:
    sizes: dict[torch.dtype, int] = {}
    for weight in module.parameters():
        sizes[weight.dtype] = sizes.get(weight.dtype, 0) + weight.numel()
    return max(sizes, key=lambda dtype: sizes[dtype])


def _path(module: str, layer: str) -> str:
    return ".".join(part for part in (module, layer) if part)


def _fits(path: str, pattern: str) -> bool:
    parts, wanted = path.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def check_patterns(modules: Mapping[str, nn.Module], strategy: FSDP) -> None:
    """Raise `ConfigError` for patterns that mean nothing, or lists, before there are processes to divide."""
    held = {name: module for name, module in modules.items() if next(module.parameters(), None) is not None}
    _check_lists(_chosen(held, strategy.shard))


def _check_lists(paths: Mapping[str, nn.Module]) -> None:
    for path, layer in paths.items():
        if isinstance(layer, nn.ModuleList | nn.ModuleDict):
            raise ConfigError(
                f"FSDP: shard={path!r} is a list of layers, which is never called itself",
                code="shard",
                fixes=[f"shard={f'{path}.*'!r} shards each of its layers"],
            )


def _check(modules: Mapping[str, nn.Module], paths: Mapping[str, nn.Module]) -> None:
    """Refuse what cannot be sharded: lists without a forward, scalars, and weights that two units share."""
    _check_lists(paths)
    owners: dict[int, tuple[str, str]] = {}
    for name, module in modules.items():
        for inner, weight in module.named_parameters(remove_duplicate=False):
            path = _path(name, inner)
            if weight.ndim == 0:
                raise BackendError(
                    f"{path} is a single number, and FSDP splits weights along their first axis",
                    code="shard",
                    fixes=["give it the shape (1,)", "strategy=DDP()"],
                )
            owner = max((each for each in paths if f"{path}.".startswith(f"{each}.") or not each), key=len)
            first, unit = owners.setdefault(id(weight), (path, owner))
            if unit != owner:
                raise _tied(first, path)


def _tied(one: str, two: str) -> BackendError:
    return BackendError(
        f"{one} and {two} are one weight, and FSDP would split it twice",
        code="shard",
        details=["a weight belongs to the one module, or the one layer of `shard`, that gathers it"],
        fixes=["shard=() where both are in one module", "untie them", "strategy=DDP()"],
    )


def _not_sharded(unit: nn.Module, error: Exception) -> BackendError:
    return BackendError(
        f"{type(unit).__name__} cannot be sharded: {error}", code="shard", fixes=["strategy=DDP()"]
    )


def _check_optimizer(optimizer: Optimizer) -> None:
    kind = type(optimizer).__name__
    if kind not in SHARDABLE:
        raise BackendError(
            f"{kind} needs whole matrices, and FSDP gives each process a part of each",
            code="shard",
            fixes=[f"an optimizer that works on parts: {', '.join(SHARDABLE)}", "strategy=DDP()"],
        )


def _reduced_in(module: nn.Module) -> torch.dtype | None:
    """Sum gradients of half precision in float32."""
    half = any(weight.dtype in (torch.float16, torch.bfloat16) for weight in module.parameters())
    return torch.float32 if half else None


def _own_memory(_module: nn.Module, _inputs: Any, output: Any) -> Any:
    """Give outputs that are views memory of their own.

    The hook that gathers weights for the backward pass hangs on the output, and an in-place operation on a
    view, such as that of an activation, would lose it.
    """
    if isinstance(output, Tensor):
        return output.clone() if output.requires_grad and output._is_view() else output
    if isinstance(output, tuple | list):
        parts = [_own_memory(_module, None, part) for part in cast("Sequence[Any]", output)]
        kind: Any = type(output)
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    if isinstance(output, dict):
        return {key: _own_memory(_module, None, part) for key, part in cast("dict[Any, Any]", output).items()}
    return output
