"""Optimizers, as specifications: a backend builds them for the weights that an action trains."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from neumo.types.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class _Optimizer:
    """What all optimizers share: the learning rate and which weights decay.

    `decay_all=False` spares biases, normalisation and all other weights of at most one axis from weight
    decay.
    """

    lr: float = 1e-3
    weight_decay: float = 0.0
    decay_all: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(self, field.name, getattr(self, field.name))


@dataclass(frozen=True, kw_only=True)
class AdamW(_Optimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019).

    >>> AdamW(lr=2e-3).betas
    (0.9, 0.98)
    """

    weight_decay: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-8


@dataclass(frozen=True, kw_only=True)
class Adam(_Optimizer):
    """Adam (Kingma & Ba 2015); weight decay, if any, is added to the gradient."""

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8


@dataclass(frozen=True, kw_only=True)
class SGD(_Optimizer):
    """Stochastic gradient descent with momentum; weight decay is added to the gradient."""

    lr: float = 1e-2
    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum:
            raise ConfigError(
                "SGD: nesterov=True needs a momentum",
                code="optimizer",
                fixes=["set momentum=0.9, or nesterov=False"],
            )


@dataclass(frozen=True, kw_only=True)
class NovoGrad(_Optimizer):
    """Layer-wise normalised gradients with decoupled weight decay (Ginsburg et al. 2019, arXiv:1905.11286).

    One second moment per layer makes it frugal and robust to the learning rate. The betas are those with
    which the paper trains Jasper. `average_gradients` scales the gradient by `1 - beta1` before it joins
    the first moment.
    """

    lr: float = 1e-2
    weight_decay: float = 1e-3
    betas: tuple[float, float] = (0.95, 0.25)
    eps: float = 1e-8
    average_gradients: bool = False


Optimizer: TypeAlias = AdamW | Adam | SGD | NovoGrad
OPTIMIZERS: dict[str, type[Optimizer]] = {"AdamW": AdamW, "Adam": Adam, "SGD": SGD, "NovoGrad": NovoGrad}


@dataclass(frozen=True, kw_only=True)
class EMA:
    """Averages the weights over the last steps, exponentially; the average is what is evaluated and kept.

    After update n (from 1) the average moves to the weights by `1 - d` where `d = min(decay, n / (n + 9))`,
    so that the random start is soon forgotten; `warmup=False` uses `decay` from the start. State that is
    not trained but saved, such as the statistics of batch normalisation, is averaged alike; counters are
    copied.
    """

    decay: float = 0.999
    warmup: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.decay < 1:
            raise ConfigError(f"EMA: decay={self.decay} is not in [0, 1)", code="ema")

    def decay_at(self, update: int) -> float:
        """Return the decay of the n-th update, counted from 1.

        >>> EMA(decay=0.99).decay_at(1), EMA(decay=0.99).decay_at(10_000)
        (0.1, 0.99)
        """
        return min(self.decay, update / (update + 9)) if self.warmup else self.decay


def _check(optimizer: object, name: str, value: Any) -> None:
    kind = type(optimizer).__name__
    if name in ("lr", "weight_decay", "eps") and not value >= 0:
        raise ConfigError(f"{kind}: {name}={value} is below 0", code="optimizer")
    if name == "momentum" and not 0 <= value < 1:
        raise ConfigError(f"{kind}: momentum={value} is not in [0, 1)", code="optimizer")
    if name == "betas" and not (len(value) == 2 and all(0 <= beta < 1 for beta in value)):
        raise ConfigError(f"{kind}: betas={value!r} are not two numbers in [0, 1)", code="optimizer")
