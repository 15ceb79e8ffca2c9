"""Scales the loss of an fp16 training, within bounds."""

from __future__ import annotations

from typing import Any

import torch

from neumo.backends.torch.device import Place
from neumo.engine.updates.precision import LossScale
from neumo.types.errors import ConfigError

_NEVER = 2**31 - 1  # steps: torch counts them in an int32


class Scaler(torch.amp.GradScaler):
    """The scaler of torch within the bounds of a `LossScale`.

    >>> scaler = Scaler("cpu", LossScale(initial=8.0, largest=16.0, growth_interval=1))
    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> optimizer = torch.optim.SGD([weight], lr=0.1)
    >>> for _ in range(3):
    ...     scaler.scale(weight.sum()).backward()
    ...     scaler.step(optimizer)
    ...     scaler.update()
    ...     print(scaler.get_scale())
    16.0
    16.0
    16.0
    """

    def __init__(self, device: str, spec: LossScale, *, enabled: bool = True) -> None:
        super().__init__(
            device,
            init_scale=spec.initial,
            growth_factor=spec.growth,
            backoff_factor=spec.backoff,
            growth_interval=spec.growth_interval or _NEVER,
            enabled=enabled,
        )
        self.spec = spec

    @property
    def will_back_off(self) -> bool:
        """Whether gradients have overflowed, and `update` will make the scale smaller for it."""
        scale = self.get_scale()
        can = self.is_enabled() and self.spec.bounded(scale * self.spec.backoff) < scale
        return can and any(bool(flag) for flag in self._found())

    def _found(self) -> list[torch.Tensor]:
        states = self._per_optimizer_states.values()
        return [flag for state in states for flag in state["found_inf_per_device"].values()]

    def update(self, new_scale: float | torch.Tensor | None = None) -> None:
        """Back off after an overflow, grow after enough steps without one, and stay within the bounds."""
        if new_scale is None and self.is_enabled() and not self._found():
            new_scale = self.get_scale()  # no weight had a gradient, so nothing is known
        super().update(new_scale)
        if self._scale is not None:
            least, most = self.spec.bounds
            self._scale.clamp_(least, most)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a saved scale; how it changes is said by the training, which may say it anew."""
        if state_dict and self.is_enabled():
            own = self.state_dict()
            scale = self.spec.bounded(state_dict["scale"])
            super().load_state_dict({**own, "scale": scale, "_growth_tracker": state_dict["_growth_tracker"]})


def make_scaler(place: Place, loss_scale: LossScale | None) -> Scaler:
    """Make the scaler of a training; it does nothing where no module computes in fp16.

    Raises `ConfigError` for a loss scale where nothing would be scaled.
    """
    if loss_scale is not None and not place.scales_loss:
        raise ConfigError(
            f"loss_scale={loss_scale} scales nothing: the factory computes in {place.precision}",
            code="loss-scale",
            why="Only gradients in fp16 can vanish.",
            fixes=["leave loss_scale out", "NeuralFactory(precision='fp16')"],
        )
    return Scaler(place.device.type, loss_scale or LossScale(), enabled=place.scales_loss)
