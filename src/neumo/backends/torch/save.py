"""Weights in and out of safetensors files, with a table of what does not fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from neumo.types.errors import CheckpointError

_SHOWN = 12  # rows of a table of differences


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors to a safetensors file; weights that share memory are written each on its own."""
    from safetensors.torch import save_file

    seen: set[int] = set()
    whole: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        memory = plain.untyped_storage().data_ptr()
        whole[name] = plain.clone() if memory in seen or _is_part(plain) else plain
        seen.add(memory)
    save_file(whole, str(path), metadata={"format": "pt"})


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read all tensors of a safetensors file, to the CPU; raises `CheckpointError` if it is none."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

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


def state_of(modules: Mapping[str, nn.Module]) -> dict[str, Tensor]:
    """Return all weights and saved statistics as `module.name`, without copies."""
    return {
        f"{name}.{key}": value
        for name, module in modules.items()
        for key, value in module.state_dict().items()
        if isinstance(value, Tensor)
    }


@torch.no_grad()
def load_state(
    modules: Mapping[str, nn.Module], tensors: Mapping[str, Tensor], *, partial: bool = False
) -> list[str]:
    """Copy tensors into modules by name.

    Raises `CheckpointError` with a table of all that is missing, left over or of another shape;
    `partial=True` loads what fits instead, and returns the rest in words.
    """
    state = state_of(modules)
    table = _differences(state, tensors)
    if table and not partial:
        raise _misfit(table, len(state), len(tensors))
    for name, target in state.items():
        given = tensors.get(name)
        if given is not None and given.shape == target.shape:
            target.copy_(given)
    return table


def _differences(state: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> list[str]:
    rows = [f"missing    {name} {_shape(value)}" for name, value in state.items() if name not in tensors]
    rows += [f"left over  {name} {_shape(value)}" for name, value in tensors.items() if name not in state]
    for name, value in state.items():
        given = tensors.get(name)
        if given is not None and given.shape != value.shape:
            rows.append(f"shape      {name} is {_shape(given)} in the file, {_shape(value)} in the model")
    return rows


def _misfit(table: list[str], wanted: int, given: int) -> CheckpointError:
    hidden = len(table) - _SHOWN
    more = [f"and {hidden} more"] if hidden > 0 else []
    return CheckpointError(
        f"these weights are of another model: {len(table)} of {max(wanted, given)} entries differ",
        code="weights",
        details=[*table[:_SHOWN], *more],
        fixes=["partial=True loads what fits and lists the rest"],
        data={"differences": table},
    )


def _shape(value: Tensor) -> str:
    return "x".join(map(str, value.shape)) or "scalar"


def _is_part(tensor: Tensor) -> bool:
    return tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size()


def count(tensors: Iterable[Tensor]) -> int:
    """Count the numbers in some tensors, each tensor once."""
    return sum(tensor.numel() for tensor in {id(tensor): tensor for tensor in tensors}.values())
