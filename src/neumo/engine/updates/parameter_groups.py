"""Which weights an optimizer trains with which rate and weight decay: its groups, applied to names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from neumo.engine.updates.optimizers import Group, Muon, Optimizer
from neumo.engine.updates.weight_names import Names, select
from neumo.types.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class Weight:
    """What the groups of an optimizer must know of one trained weight.

    `names` are all its names as `module.weight`, several if it is tied; `axes` is how many it has.
    """

    names: tuple[str, ...]
    axes: int
    embedding: bool = False


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The rate and the weight decay of one weight, and whether the optimizer `others` of `Muon` trains it."""

    lr: float
    weight_decay: float
    others: bool = False


def settings_of(spec: Optimizer, weights: Mapping[str, Weight], names: Names) -> dict[str, Setting]:
    """Give each trained weight, by its first name, its rate and weight decay.

    >>> from neumo.engine.updates.optimizers import AdamW
    >>> weights = {f"head.{name}": Weight(names=(f"head.{name}",), axes=axes) for name, axes in
    ...     (("weight", 2), ("bias", 1))}
    >>> spec = AdamW(lr=0.1, weight_decay=0.5, groups=(Group("*.bias", lr_scale=0.5),))
    >>> for name, setting in settings_of(spec, weights, {"head": ["weight", "bias"]}).items():
    ...     print(name, setting.lr, setting.weight_decay)
    head.weight 0.1 0.5
    head.bias 0.05 0.0

    `names` are those of everything that modules have, trained or not. Raises `GraphError` with the nearest
    match for a name of a group that means nothing, and `ConfigError` for a group that changes nothing.
    """
    others = _others(spec, weights, names)
    groups = [(group, _trained(group.weights, group.patterns, weights, names, spec)) for group in spec.groups]
    settings: dict[str, Setting] = {}
    used: set[int] = set()
    for name, weight in weights.items():
        mine = [group for group, members in groups if name in members]
        told = [_last(mine, "lr", "lr_scale"), _last(mine, "weight_decay"), _last(mine, "decay_all")]
        used |= {id(group) for group in told if group is not None}
        base = spec.others if isinstance(spec, Muon) and name in others else spec
        settings[name] = _setting(base, weight, *told, others=name in others)
    for group, members in groups:
        _check_effect(group, id(group) in used, [(weights[name], settings[name]) for name in members])
    return settings


def _setting(
    base: Optimizer,
    weight: Weight,
    rate: Group | None,
    decay: Group | None,
    everything: Group | None,
    *,
    others: bool,
) -> Setting:
    """Make the setting of a weight of what its optimizer says and, where there is one, a group instead."""
    lr = base.lr
    if rate is not None:
        lr = rate.lr if rate.lr is not None else base.lr * (rate.lr_scale or 0.0)
    decays = weight.axes > 1 or bool(base.decay_all if everything is None else everything.decay_all)
    amount = base.weight_decay if decay is None else decay.weight_decay
    return Setting(lr=lr, weight_decay=(amount or 0.0) if decays else 0.0, others=others)


def _last(groups: Sequence[Group], *settings: str) -> Group | None:
    """Find the last of some groups that has one of these settings."""
    having = [group for group in groups if any(getattr(group, name) is not None for name in settings)]
    return having[-1] if having else None


def _others(spec: Optimizer, weights: Mapping[str, Weight], names: Names) -> set[str]:
    """Name the weights that `Muon` leaves to its second optimizer."""
    if not isinstance(spec, Muon):
        return set()
    found = {name for name, weight in weights.items() if weight.axes != 2 or weight.embedding}
    if spec.others_for:
        found |= _trained(spec.others_for, spec.others_for, weights, names, spec)
    if len(found) == len(weights):
        raise ConfigError(
            "Muon has no matrix to train: all weights go to its optimizer others",
            code="optimizer-group",
            details=["it is for weights of two axes that are no embedding and not named in others_for"],
            fixes=[f"train with {type(spec.others).__name__} alone"],
        )
    return found


def _trained(
    written: object, patterns: Iterable[str], weights: Mapping[str, Weight], names: Names, spec: Optimizer
) -> set[str]:
    """Name the trained weights that patterns mean, each by its first name."""
    owner = f"{type(spec).__name__}: the training"
    chosen = select(names, patterns, owner)
    full = {
        f"{module}.{name}" if module else name
        for module, some in chosen.items()
        for name in (names[module] if some is None else some)
    }
    found = {first for first, weight in weights.items() if full.intersection(weight.names)}
    if not found:
        raise ConfigError(
            f"{owner} changes none of the weights that {written!r} names",
            code="optimizer-group",
            details=[f"{name} is frozen, or no weight" for name in sorted(full)[:3]],
            fixes=["let them free with unfreeze, or leave the group out"],
        )
    return found


def _check_effect(group: Group, used: bool, members: Sequence[tuple[Weight, Setting]]) -> None:
    """Refuse a group of which nothing is left, since it stands in front of a more general one."""
    if not used:
        raise ConfigError(
            f"the group {group.weights!r} changes nothing: groups behind it say otherwise for all it names",
            code="optimizer-group",
            fixes=["put what is special behind what is general"],
        )
    asked = group.weight_decay is not None and group.weight_decay > 0 and group.decay_all is None
    if asked and all(weight.axes < 2 and not setting.weight_decay for weight, setting in members):
        raise ConfigError(
            f"the group {group.weights!r} has weight_decay={group.weight_decay}, "
            "and names biases and norms only, which are spared from it",
            code="optimizer-group",
            fixes=["decay_all=True in this group", "leave weight_decay out"],
        )
