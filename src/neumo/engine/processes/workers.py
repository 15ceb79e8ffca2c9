"""How processes read data ahead of a training: how many, how far, and what happens when one is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from neumo.types.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Workers:
    """Says how data is read by processes of its own.

    `count` 0 reads in the process that trains. Each worker holds up to `prefetch` batches ready. `start` is
    "fork" or "spawn"; "auto" is the former on Linux and the latter elsewhere. A worker that has died, or has
    not finished a batch within `timeout` seconds, is started again from that batch, up to `restarts` times in
    an epoch; without a `timeout` a read that hangs is waited for.

    >>> Workers(4, timeout=60)
    Workers(count=4, prefetch=2, start='auto', timeout=60, restarts=3)
    """

    count: int = 0
    prefetch: int = 2
    start: Literal["auto", "fork", "spawn"] = "auto"
    timeout: float | None = 600
    restarts: int = 3

    @classmethod
    def of(cls, workers: int | Workers) -> Workers:
        """Take a number of workers, or settings as they are.

        >>> Workers.of(2).count
        2
        """
        return workers if isinstance(workers, Workers) else cls(workers)

    def __post_init__(self) -> None:
        for name, least in (("count", 0), ("prefetch", 1), ("restarts", 0)):
            if getattr(self, name) < least:
                what = f"{name} of the workers is {getattr(self, name)}, expected {least} or more"
                raise ConfigError(what, code="workers")
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigError(
                f"timeout of the workers is {self.timeout}, expected more than 0 s", code="workers"
            )
        if self.start not in ("auto", "fork", "spawn"):
            what = f"start of the workers is {self.start!r}, expected 'auto', 'fork' or 'spawn'"
            raise ConfigError(what, code="workers")
