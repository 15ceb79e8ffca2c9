"""Optimizers, as specifications: a backend builds them for the weights that an action trains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from neumo.engine.checks.arguments import check_fields
from neumo.types.errors import ConfigError

AdjustLr = Literal["original", "match_rms_adamw"]

_LIMITS: Final[
    Mapping[str, tuple[Callable[[Any], bool], str]]
] = {  # what must hold of a field, else what is said
    "lr": (lambda rate: rate >= 0, "is below 0"),
    "weight_decay": (lambda decay: decay >= 0, "is below 0"),
    "eps": (lambda eps: all(each is None or each >= 0 for each in _each(eps)), "is below 0"),
    "momentum": (lambda momentum: 0 <= momentum < 1, "is not in [0, 1)"),
    "betas": (
        lambda betas: len(betas) == 2 and all(0 <= b < 1 for b in betas),
        "are not two numbers in [0, 1)",
    ),
    "luc": (lambda luc: luc is None or luc > 0, "is not above 0"),
    "trust": (lambda trust: len(trust) == 2 and 0 <= trust[0] <= trust[1] > 0, "are no bounds of a ratio"),
    "beta2_decay": (lambda power: power <= 0, "is above 0"),
    "threshold": (lambda threshold: threshold >= 1, "is below 1"),
    "ns_steps": (lambda steps: 1 <= steps < 100, "is not from 1 to 99"),
    "adjust_lr": (lambda word: word in get_args(AdjustLr), f"is none of {', '.join(get_args(AdjustLr))}"),
    "groups": (lambda groups: all(isinstance(each, Group) for each in _each(groups)), "are not all groups"),
    "others": (lambda others: isinstance(others, tuple(OTHERS.values())), "is no optimizer"),
}


def _check(optimizer: object, name: str, value: Any) -> None:
    """Refuse a value of a field that cannot be meant."""
    if name not in _LIMITS:
        return
    holds, words = _LIMITS[name]
    if not holds(value):
        kind = type(optimizer).__name__
        raise ConfigError(f"{kind}: {name}={value!r} {words}", code="optimizer", fixes=_FIXES.get(name, ()))


_TOLD_APART: Final = ("groups", "others", "others_for", "adjust_lr")  # by what may stand in them, above


def _each(value: Any) -> Iterable[Any]:
    return cast("Iterable[Any]", value) if isinstance(value, tuple | list) else (value,)


_FIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "groups": ('groups=(Group("encoder", lr=1e-4),)',),
    "others": ("others=AdamW(lr=1e-3)",),
    "adjust_lr": tuple(f"adjust_lr={word!r}" for word in get_args(AdjustLr)),
}


@dataclass(frozen=True)
class Group:
    """Weights that are trained with settings of their own: a part of `groups=` of an optimizer.

    >>> Group("encoder", lr=1e-4).patterns
    ('encoder',)
    >>> Group(("*.bias", "*.norm.*"), weight_decay=0.0).weight_decay
    0.0

    `weights` names modules, layers, weights or patterns of them, as `factory.freeze` reads them. `lr` is the
    rate itself and `lr_scale` a multiple of that of the optimizer; either is scaled by the schedule.
    `lr=0` keeps weights as they are. `weight_decay` spares biases and norms, as the optimizer's does, unless
    `decay_all` says otherwise for this group.

    Groups are read in order, and each setting of a weight comes from the last group that names the weight and
    has the setting: what is special stands behind what is general.
    """

    weights: str | tuple[str, ...]
    lr: float | None = None
    lr_scale: float | None = None
    weight_decay: float | None = None
    decay_all: bool | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.weights, str):
            object.__setattr__(self, "weights", tuple(self.weights))
        if not self.patterns or not all(isinstance(cast(Any, each), str) for each in self.patterns):
            raise ConfigError(
                f"Group: weights={self.weights!r} names nothing",
                code="optimizer-group",
                fixes=['Group("encoder", lr=1e-4)'],
            )
        check_fields(self, code="optimizer-group", without=["weights"])
        for name in ("lr", "lr_scale", "weight_decay"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ConfigError(f"Group: {name}={value} is below 0", code="optimizer-group")
        if self.lr is not None and self.lr_scale is not None:
            raise ConfigError(
                f"Group: the rate is given twice, as lr={self.lr} and lr_scale={self.lr_scale}",
                code="optimizer-group",
                fixes=["keep one of the two"],
            )
        if self.lr is self.lr_scale is self.weight_decay is self.decay_all is None:
            raise ConfigError(
                f"the group {self.weights!r} has no setting of its own",
                code="optimizer-group",
                fixes=["give it lr, lr_scale, weight_decay or decay_all"],
            )

    @property
    def patterns(self) -> tuple[str, ...]:
        """The names and patterns, however they were written."""
        return (self.weights,) if isinstance(self.weights, str) else self.weights


@dataclass(frozen=True, kw_only=True)
class _Optimizer:
    """What all optimizers share: the learning rate, which weights decay, and groups of weights.

    `decay_all=False` spares biases, normalisation and all other weights of at most one axis from weight
    decay. `groups` give some weights settings of their own.
    """

    lr: float = 1e-3
    weight_decay: float = 0.0
    decay_all: bool = False
    groups: tuple[Group, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, code="optimizer", without=_TOLD_APART)
        for each in fields(self):
            _check(self, each.name, getattr(self, each.name))
        object.__setattr__(self, "groups", tuple(_each(self.groups)))

    @property
    def rule(self) -> str:
        """Name what keeps the same state: a training can go on with another rate, not with another rule.

        >>> AdamW(lr=1e-4, amsgrad=True).rule, Muon(others=SGD()).rule
        ('AdamW (amsgrad)', 'Muon and SGD')
        """
        return type(self).__name__ + (" (amsgrad)" if getattr(self, "amsgrad", False) else "")


@dataclass(frozen=True, kw_only=True)
class AdamW(_Optimizer):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101).

    >>> AdamW(lr=2e-3).betas
    (0.9, 0.98)
    >>> AdamW(groups=(Group("encoder", lr=1e-4),)).groups[0].lr
    0.0001

    `amsgrad` divides by the largest second moment so far (Reddi et al. 2018).
    """

    weight_decay: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-8
    amsgrad: bool = False


@dataclass(frozen=True, kw_only=True)
class Adam(_Optimizer):
    """Adam (Kingma & Ba 2015, arXiv:1412.6980); weight decay, if any, is added to the gradient.

    `amsgrad` divides by the largest second moment so far (Reddi et al. 2018).
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    amsgrad: bool = False


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
    the first moment; `amsgrad` divides by the largest second moment so far. `luc` (layer-wise update
    clipping) bounds the norm of each tensor's step by so many times the norm of the tensor, such as 1e-3; a
    tensor of zeros is not bounded.
    """

    lr: float = 1e-2
    weight_decay: float = 1e-3
    betas: tuple[float, float] = (0.95, 0.25)
    eps: float = 1e-8
    average_gradients: bool = False
    amsgrad: bool = False
    luc: float | None = None


@dataclass(frozen=True, kw_only=True)
class LAMB(_Optimizer):
    """Adam whose step has, in each tensor, the size of the tensor, for large batches (You et al. 2019).

    Algorithm 2 of arXiv:1904.00962, with bias correction: the direction is Adam's plus the weight decay, and
    its length the rate times `|weights| / |direction|`, a ratio that `trust` bounds. Where either norm is
    0 the ratio is 1.
    """

    weight_decay: float = 1e-2
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6
    trust: tuple[float, float] = (0.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class Adafactor(_Optimizer):
    """Adam without its memory: second moments by row and column (Shazeer & Stern 2018, arXiv:1804.04235).

    A step is relative to the size of its tensor, and `lr` the largest relative step: at update n it is
    `min(lr, n**-0.5)` times the root mean square of the tensor, which counts as at least `eps[1]`. `eps[0]`
    bounds the second moments from below (None is the smallest number of their kind), `threshold` the root
    mean square of an update, and `beta2_decay` says how the memory grows: `beta2 = 1 - n**beta2_decay`.
    """

    lr: float = 1e-2
    beta2_decay: float = -0.8
    eps: tuple[float | None, float] = (None, 1e-3)
    threshold: float = 1.0


Plain: TypeAlias = AdamW | Adam | SGD | NovoGrad | LAMB | Adafactor


@dataclass(frozen=True, kw_only=True)
class Muon(_Optimizer):
    """Momentum whose matrices are made orthogonal, for hidden layers (Jordan et al. 2024).

    >>> Muon(lr=0.02, others=AdamW(lr=1e-3), others_for=("head",)).others.lr
    0.001

    It is for matrices: weights of two axes that are no embedding. All others (biases, norms, convolutions,
    embeddings) and what `others_for` names go to the optimizer `others`; name the output layer there, which
    nothing tells from a hidden one. `groups` may name weights of either.

    `adjust_lr` is "original", the rate times `sqrt(max(1, rows / columns))`, or "match_rms_adamw", which has
    the step sizes of AdamW, so that its rate and weight decay can be kept (Liu et al. 2025,
    arXiv:2502.16982).
    """

    lr: float = 2e-2
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_steps: int = 5
    adjust_lr: AdjustLr = "original"
    others: Plain = field(default_factory=AdamW)
    others_for: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.others_for
        object.__setattr__(self, "others_for", (given,) if isinstance(given, str) else tuple(given))
        if self.others.groups:
            raise ConfigError(
                f"Muon: the groups of others={type(self.others).__name__}(...) belong to Muon itself",
                code="optimizer-group",
                fixes=["Muon(groups=...): a group may name weights of either optimizer"],
            )

    @property
    def rule(self) -> str:
        """Name both optimizers."""
        return f"{super().rule} and {self.others.rule}"


Optimizer: TypeAlias = Plain | Muon
OTHERS: Final[dict[str, type[Plain]]] = {
    "AdamW": AdamW,
    "Adam": Adam,
    "SGD": SGD,
    "NovoGrad": NovoGrad,
    "LAMB": LAMB,
    "Adafactor": Adafactor,
}
OPTIMIZERS: Final[dict[str, type[Optimizer]]] = {**OTHERS, "Muon": Muon}


@dataclass(frozen=True, kw_only=True)
class LARC:
    """Scales the gradient of each tensor before the step (You, Gitman & Ginsburg 2017, arXiv:1708.03888).

    >>> LARC(trust=0.01).clip
    True

    The local rate of a tensor is `trust * |weights| / (|gradient| + weight_decay * |weights| + eps)`. With
    `clip` it bounds the rate of the optimizer from above (LARC); without it multiplies that rate (LARS).
    Tensors of zeros, or without gradient, are left alone. It goes with `SGD`, `Adam` and `AdamW`: all others
    normalise the gradient of each tensor anyway.
    """

    trust: float = 0.02
    clip: bool = True
    eps: float = 1e-8

    def __post_init__(self) -> None:
        check_fields(self, code="larc")
        if not self.trust > 0:
            raise ConfigError(f"LARC: trust={self.trust} is not above 0", code="larc")
        if not self.eps >= 0:
            raise ConfigError(f"LARC: eps={self.eps} is below 0", code="larc")

    def check(self, optimizer: Optimizer) -> None:
        """Raise `ConfigError` for an optimizer to which a scaled gradient is the same gradient."""
        if not isinstance(optimizer, SGD | Adam | AdamW):
            raise ConfigError(
                f"train: larc does nothing with {type(optimizer).__name__}, "
                "which normalises the gradient of each tensor itself",
                code="larc",
                fixes=["use SGD, Adam or AdamW with it", "leave larc out"],
            )


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
        check_fields(self, code="ema")
        if not 0 <= self.decay < 1:
            raise ConfigError(f"EMA: decay={self.decay} is not in [0, 1)", code="ema")

    def decay_at(self, update: int) -> float:
        """Return the decay of the n-th update, counted from 1.

        >>> EMA(decay=0.99).decay_at(1), EMA(decay=0.99).decay_at(10_000)
        (0.1, 0.99)
        """
        return min(self.decay, update / (update + 9)) if self.warmup else self.decay
