"""The names of figures that a training gives itself, which nothing that is measured beside it may take."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from numbers import Real
from typing import Final

from neumo.types.errors import ConfigError

_OF_A_STEP: Final = ("loss", "lr", "norm")
OWN: Final = frozenset({*_OF_A_STEP, "step", "epoch", "epoch_loss", "event", "skipped", "stopped", "text"})


def own_figures(phases: Iterable[str] = ()) -> frozenset[str]:
    """Name what the rows of a training hold already, with those of its phases.

    >>> sorted(own_figures(["d"]) - own_figures())
    ['loss.d', 'lr.d', 'norm.d']
    """
    return OWN | {f"{figure}.{phase}" for phase in phases for figure in _OF_A_STEP}


def check_measured(metrics: Mapping[str, object], taken: Collection[str] = OWN) -> None:
    """Raise `ConfigError` for a figure that is no number, or that would hide one of the training."""
    for name, value in metrics.items():
        if name in taken:
            raise hides(f"what was measured as {name!r}", name, fixes=[f"call it 'dev.{name}'"])
        if isinstance(value, bool) or not isinstance(value, Real):  # NaN may be measured
            raise ConfigError(
                f"what was measured as {name!r} is no number, but {value!r}",
                code="metric",
                fixes=[f"run.measure({{{name!r}: 0.5}})"],
            )


def hides(what: str, name: str, *, fixes: Iterable[str]) -> ConfigError:
    """Make the error for a figure that has the name of one of the training."""
    return ConfigError(
        f"{what} would hide the {name!r} of the training itself",
        code="metric",
        why="The rows of the log and the history hold the figures of the training and those of evaluations.",
        fixes=fixes,
    )
