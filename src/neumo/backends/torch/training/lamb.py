"""LAMB, which torch lacks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from neumo.backends.torch.training.tensorwise import Tensorwise
from neumo.engine.updates.optimizers import LAMB


class TorchLAMB(Tensorwise):
    """Gives the step of each weight tensor the size of the tensor (You et al. 2019, algorithm 2).

    The state of a tensor is `step`, on the CPU, and the moments `mean` and `square` of its gradient.
    """

    def __init__(self, groups: list[dict[str, Any]], spec: LAMB) -> None:
        self.spec = spec
        super().__init__(groups, spec)

    def _update(self, weights: list[Tensor], lr: float, decay: float) -> None:
        directions = self._directions(weights)
        if decay:
            torch._foreach_add_(directions, weights, alpha=decay)  # pyright: ignore[reportPrivateImportUsage]
        size = torch.stack(torch._foreach_norm(weights))  # pyright: ignore[reportPrivateImportUsage]
        length = torch.stack(torch._foreach_norm(directions))  # pyright: ignore[reportPrivateImportUsage]
        ratio = torch.where((size > 0) & (length > 0), (size / length).clamp(*self.spec.trust), 1.0)
        torch._foreach_mul_(directions, (ratio * -lr).unbind())  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_add_(weights, directions)  # pyright: ignore[reportPrivateImportUsage]

    def _directions(self, weights: list[Tensor]) -> list[Tensor]:
        """Return what Adam would move along, with its biases corrected, after updating the moments."""
        beta1, beta2 = self.spec.betas
        states = [self.state[weight] for weight in weights]
        for weight, state in zip(weights, states, strict=True):
            if not state:
                state["step"] = torch.tensor(0.0)
                state["mean"] = torch.zeros_like(weight)
                state["square"] = torch.zeros_like(weight)
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        means = [state["mean"] for state in states]
        squares = [state["square"] for state in states]
        torch._foreach_add_([state["step"] for state in states], 1.0)  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_lerp_(means, gradients, 1 - beta1)  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_mul_(squares, beta2)  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - beta2)  # pyright: ignore[reportPrivateImportUsage]
        numbers = [float(state["step"]) for state in states]
        roots = torch._foreach_div(squares, [1 - beta2**n for n in numbers])  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_sqrt_(roots)  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_add_(roots, self.spec.eps)  # pyright: ignore[reportPrivateImportUsage]
        directions = torch._foreach_div(means, [1 - beta1**n for n in numbers])  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_div_(directions, roots)  # pyright: ignore[reportPrivateImportUsage]
        return list(directions)
