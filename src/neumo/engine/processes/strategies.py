"""How several processes divide a training among them, as specifications; a backend carries them out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from neumo.types.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DDP:
    """Every process holds all weights, computes some batches of each step, and shares the gradient.

    >>> DDP(sync_norm=True).timeout_minutes
    30.0

    `sync_norm` lets batch normalisation see the batches of all processes in a step: True, or the number of
    neighbouring processes that do so together. Every wait for the others ends after `timeout_minutes`.
    """

    sync_norm: bool | int = False
    timeout_minutes: float = 30.0

    def __post_init__(self) -> None:
        check_strategy(self)


@dataclass(frozen=True, kw_only=True)
class FSDP:
    """Every process holds a part of each weight, of its gradient and of the state of the optimizer.

    `shard` names the modules and layers that are gathered and freed one after the other, as patterns such as
    "encoder.blocks.*"; whole modules are, if none is named. `reshard` frees the gathered weights of a layer
    between its forward and its backward pass: less memory, more communication. `checkpoint` "whole" writes
    the same files as any other training, "sharded" lets every process write its part; either can be resumed
    by any number of processes.
    """

    shard: tuple[str, ...] = ()
    reshard: bool = True
    checkpoint: Literal["whole", "sharded"] = "whole"
    sync_norm: bool | int = False
    timeout_minutes: float = 30.0

    def __post_init__(self) -> None:
        check_strategy(self)


Strategy: TypeAlias = DDP | FSDP
STRATEGIES: dict[str, type[Strategy]] = {"DDP": DDP, "FSDP": FSDP}


def check_strategy(strategy: Strategy) -> None:
    """Raise `ConfigError` for settings that cannot be meant."""
    kind = type(strategy).__name__
    if strategy.sync_norm is not True and strategy.sync_norm < 0:
        raise ConfigError(f"{kind}: sync_norm={strategy.sync_norm} is below 0", code="strategy")
    if not strategy.timeout_minutes > 0:
        what = f"{kind}: timeout_minutes={strategy.timeout_minutes} is not above 0"
        raise ConfigError(what, code="strategy")
    if isinstance(strategy, FSDP) and isinstance(strategy.shard, str):
        raise ConfigError(
            f"FSDP: shard={strategy.shard!r} is one text, and it is a tuple of patterns",
            code="strategy",
            fixes=[f"shard=({strategy.shard!r},)"],
        )
    if isinstance(strategy, FSDP) and strategy.checkpoint not in ("whole", "sharded"):
        what = f"FSDP: checkpoint={strategy.checkpoint!r} is neither 'whole' nor 'sharded'"
        raise ConfigError(what, code="strategy")
