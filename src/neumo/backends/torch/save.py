"""Weights in and out of safetensors files, with a table of what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from neumo.backends.torch.parallel.sharded_files import SHARDS, read_shards
from neumo.backends.torch.parallel.shards import own_shard, put
from neumo.types.errors import CheckpointError

_NOTHING: Mapping[str, str] = {}
_SHOWN = 12  # rows of a table of differences
_SMALL = 1 << 20  # numbers that a module may have beyond those of its file before it is suspect


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] = _NOTHING) -> None:
    """Write named tensors to a safetensors file, with texts as its metadata.

    Weights that share memory are written each on its own. Raises `CheckpointError` where nothing can be
    written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    if path.is_dir() or not path.parent.is_dir():
        raise _no_place(path)

    seen: set[int] = set()
    whole: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        memory = plain.untyped_storage().data_ptr()
        whole[name] = plain.clone() if memory in seen or _is_part(plain) else plain
        seen.add(memory)
    try:
        save_file(whole, str(path), metadata={"format": "pt", **notes})
    except SafetensorError as error:
        raise CheckpointError(
            f"weights cannot be written to {path.name}: {error}",
            code="checkpoint-path",
            where=str(path),
            fixes=["choose a path on a disk that has room and may be written to"],
        ) from error


def _no_place(path: Path) -> CheckpointError:
    if path.is_dir():
        what, fix = f"{path} is a folder, and weights are written to a file", path / "weights.safetensors"
    else:
        what, fix = f"weights cannot be written to {path}: there is no folder {path.parent}", None
    return CheckpointError(
        what,
        code="checkpoint-path",
        where=str(path),
        fixes=[f"factory.save(graph, {str(fix)!r})" if fix else f"mkdir -p {path.parent}"],
    )


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file, to the CPU; raises `CheckpointError` if it is none.

    A folder of parts, as several processes write it together, is read as the one file that it stands for.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if path.suffix == SHARDS and path.is_dir():
        return read_shards(path, lambda _name: None)
    try:
        return load_file(str(path))
    except FileNotFoundError as error:
        raise CheckpointError(f"no such file: {path}", code="checkpoint-missing") from error
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path.name} is not a safetensors file, or is damaged: {error}",
            code="checkpoint-damaged",
            where=str(path),
            fixes=["neumo reads weights from safetensors only: no pickle"],
        ) from error


def read_arrays(folder: Path, name: str, like: Callable[[str], Tensor | None]) -> Mapping[str, Tensor]:
    """Read the arrays of a checkpoint: those of a file are whole, those in parts are laid out as `like`."""
    parts = folder / f"{name}{SHARDS}"
    return read_shards(parts, like) if parts.is_dir() else read_tensors(folder / f"{name}.safetensors")


def state_of(modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Return all weights and saved statistics as `module.name`, without copies; a module may be called ""."""
    return {
        f"{name}.{key}" if name else key: value
        for name, module in modules.items()
        for key, value in module.state_dict().items()
        if isinstance(value, Tensor)
    }


@torch.no_grad()
def load_state(
    modules: Mapping[str, nn.Module], tensors: Mapping[str, Tensor], *, partial: bool = False
) -> list[str]:
    """Copy tensors into modules by name.

    Raises `CheckpointError` with a table of all that is missing, left over, of another shape or of another
    kind of numbers, and of tied weights that differ; `partial=True` loads what fits instead, and returns the
    rest in words.
    """
    state = state_of(modules)
    table = _differences(state, tensors)
    if table and not partial:
        raise _misfit(table, len(state), len(tensors))
    for name, target in state.items():
        given = tensors.get(name)
        if given is not None and given.shape == target.shape and _kind(given) == _kind(target):
            put(target, given)
    return table


def check_sizes(modules: Mapping[str, nn.Module], tensors: Mapping[str, Tensor]) -> None:
    """Hold modules that were built without memory (device "meta") against the tensors that they will get.

    Raises `CheckpointError` if a shape differs, or if the modules are far larger than all that there is: what
    a file claims is refused before memory is asked for it.
    """
    state = state_of(modules)
    lacking = sum(value.numel() for name, value in state.items() if name not in tensors)
    present = sum(value.numel() for value in tensors.values())
    shapes = [name for name in state if name in tensors and tensors[name].shape != state[name].shape]
    if shapes or lacking > present + _SMALL:
        raise _misfit(_differences(state, tensors), len(state), len(tensors))


def twins(state: Mapping[str, Tensor]) -> dict[str, str]:
    """Map each name whose memory another name has already shown, as tied weights do, to that first name.

    >>> one = torch.zeros(2, 3)
    >>> twins({"a": one, "b": torch.zeros(2, 3), "c": one.t()})
    {'c': 'a'}
    """
    first: dict[tuple[int, int, torch.dtype], str] = {}
    found: dict[str, str] = {}
    for name, value in state.items():
        here = own_shard(value)
        if here.numel() and here.device.type != "meta":
            before = first.setdefault((here.data_ptr(), here.numel(), here.dtype), name)
            if before != name:
                found[name] = before
    return found


def seen_as(value: Tensor, like: Tensor, first: Tensor) -> Tensor:
    """Show `value`, which is for `first`, as its twin `like` shows the memory of `first`."""
    same = like.shape == first.shape and like.stride() == first.stride()
    return value if same or value.ndim != 2 else value.t()


def _differences(state: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    shared = twins(state)
    given_once = {shared.get(name, name) for name in tensors}
    rows = [
        f"missing    {name} {_shape(value)}"
        for name, value in state.items()
        if name not in tensors and shared.get(name, name) not in given_once
    ]
    rows += [f"left over  {name} {_shape(value)}" for name, value in tensors.items() if name not in state]
    for name, value in state.items():
        given = tensors.get(name)
        if given is None:
            continue
        if given.shape != value.shape:
            rows.append(f"shape      {name} is {_shape(given)} in the file, {_shape(value)} in the model")
        elif _kind(given) != _kind(value):
            rows.append(f"numbers    {name} is {_dtype(given)} in the file, {_dtype(value)} in the model")
    rows += [
        f"tied       {name} and {first} are one weight in the model, and differ in the file"
        for name, first in shared.items()
        if _differ(state, tensors, name, first)
    ]
    return rows


def _differ(state: Mapping[str, Tensor], tensors: Mapping[str, Tensor], name: str, first: str) -> bool:
    one, two = tensors.get(first), tensors.get(name)
    if one is None or two is None or one.shape != state[first].shape or two.shape != state[name].shape:
        return False
    one, two = own_shard(one), own_shard(two)
    expected = seen_as(one, own_shard(state[name]), own_shard(state[first]))
    return not bool(((expected == two) | ((expected != expected) & (two != two))).all())


def _kind(tensor: Tensor) -> str:
    """Real, complex, whole or yes/no: what a copy must not change in silence. Precision it may."""
    if tensor.dtype is torch.bool:
        return "bool"
    return "complex" if tensor.is_complex() else "float" if tensor.is_floating_point() else "int"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _misfit(table: list[str], wanted: int, given: int) -> CheckpointError:
    hidden = len(table) - _SHOWN
    more = [f"and {hidden} more"] if hidden > 0 else []
    numbers = any(row.startswith("numbers") for row in table)
    tied = any(row.startswith("tied") for row in table)
    return CheckpointError(
        f"these weights are of another model: {len(table)} of {max(wanted, given)} entries differ",
        code="weights",
        details=[*table[:_SHOWN], *more],
        fixes=[
            *(["convert the numbers first, such as array.astype('float32')"] if numbers else []),
            *(["untie them before loading, or rename one of the two away"] if tied else []),
            "partial=True loads what fits and lists the rest",
        ],
        data={"differences": table},
    )


def _shape(value: Tensor) -> str:
    return "x".join(map(str, value.shape)) or "scalar"


def _is_part(tensor: Tensor) -> bool:
    return tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size()


def count(tensors: Iterable[Tensor]) -> int:
    """Count the numbers in some tensors, each tensor once."""
    return sum(tensor.numel() for tensor in {id(tensor): tensor for tensor in tensors}.values())
