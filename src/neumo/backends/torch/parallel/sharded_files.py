"""Arrays of a checkpoint that every process writes and reads its part of: safetensors and JSON, no pickle.

The files are those of `torch.distributed.checkpoint` in the safetensors format of its `hf_storage`: each is
a safetensors file whose header says where in the whole tensors its tensors belong.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from neumo.backends.torch.parallel.shards import room_for
from neumo.engine.checkpoints.store import PARTS, Writer, digest_of
from neumo.engine.processes.world import World, first_says, together
from neumo.types.errors import BackendError, CheckpointError

SHARDS: Final = ".shards"  # ends the name of the folder that takes the place of a file


def write_shards(arrays: Mapping[str, Mapping[str, Tensor]], folder: Path, world: World) -> dict[str, Writer]:
    """Let each process write its part of some arrays, and return what moves the files into a checkpoint.

    All processes call it; the first one gets the writers, the others none. `folder` is that of the
    checkpoints, which all of them see. Raises `CheckpointError` in all of them if one cannot write.
    """
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.state_dict_saver import save

    staging = folder / PARTS
    _agree(world, first_says(world, _clear(staging) if world.rank == 0 else ""))
    for name, tensors in arrays.items():
        target = str(staging / f"{name}{SHARDS}")
        storage = _storage().HuggingFaceStorageWriter(target, save_distributed=True)
        try:
            save(dict(tensors), storage_writer=storage)
        except CheckpointException as error:  # of all processes, in all of them
            raise _cannot_write(next(iter(error.failures.values()))[0]) from error
    try:
        written, trouble = _own_files(staging, world.rank), ""
    except OSError as error:
        written, trouble = {}, str(error)
    _agree(world, next((text for text in together(world, trouble) if text), ""))
    every = {name: digest for part in together(world, written) for name, digest in part.items()}
    if world.rank:
        return {}
    return {name: _mover(staging / name, digest) for name, digest in every.items()}


def read_shards(folder: Path, like: Callable[[str], Tensor | None]) -> dict[str, Tensor]:
    """Read arrays that were written in parts, by however many processes.

    A tensor of the shape of `like(name)` is laid out as that is, and only what belongs here is read;
    others are whole, on the CPU. Raises `CheckpointError` if the files cannot be read.
    """
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = _storage().HuggingFaceStorageReader(str(folder))
    try:
        known = reader.read_metadata().state_dict_metadata
        tensors = {
            name: room_for(entry.size, entry.properties.dtype, like(name)) for name, entry in known.items()
        }
        with warnings.catch_warnings():  # each process reads by itself, which is what is meant
            warnings.filterwarnings("ignore", message="torch.distributed is")
            load(tensors, storage_reader=reader, no_dist=True)
    except Exception as error:  # whatever a damaged file may lead to
        raise CheckpointError(
            f"{folder.parent.name}/{folder.name} cannot be read: {error}",
            code="checkpoint-damaged",
            where=str(folder),
            fixes=["resume from another checkpoint of the same folder"],
        ) from error
    return tensors


def _storage() -> Any:
    try:
        from torch.distributed.checkpoint import hf_storage
    except ImportError as error:
        raise BackendError(
            "this torch cannot write or read checkpoints in parts as safetensors",
            code="sharded",
            fixes=["pip install -U torch", "FSDP(checkpoint='whole')"],
        ) from error
    return hf_storage


def _clear(staging: Path) -> str:
    try:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _own_files(staging: Path, rank: int) -> dict[str, str]:
    """The checksums of the files that this process has written: torch numbers them by process, from 1."""
    own = staging.glob(f"*{SHARDS}/shard-{rank + 1:05d}-*")
    return {str(path.relative_to(staging)): digest_of(path) for path in sorted(own)}


def _mover(source: Path, digest: str) -> Writer:
    def move(target: Path) -> str:
        os.replace(source, target)
        with suppress(OSError):  # the last one leaves the folders empty
            source.parent.rmdir()
            source.parent.parent.rmdir()
        return digest

    return move


def _agree(world: World, trouble: str) -> None:
    if trouble:
        raise _cannot_write(trouble)


def _cannot_write(reason: object) -> CheckpointError:
    return CheckpointError(
        f"cannot write the parts of a checkpoint: {reason}",
        code="checkpoint-disk",
        details=["earlier checkpoints are untouched"],
        fixes=["all processes write into one folder: it must be on a disk that each of them sees"],
    )
