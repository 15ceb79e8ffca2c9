"""NovoGrad, which torch lacks."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from neumo.backends.torch.training.tensorwise import Tensorwise
from neumo.engine.updates.optimizers import NovoGrad


class TorchNovoGrad(Tensorwise):
    """Normalises the gradient of each weight tensor by its own norm (Ginsburg et al. 2019, algorithm 1).

    The state of a tensor is `energy`, the moving average of `|gradient|**2` (a scalar), its maximum
    `largest` with `amsgrad`, and `moment`, of the shape of the tensor.
    """

    def __init__(self, groups: list[dict[str, Any]], spec: NovoGrad) -> None:
        self.spec = spec
        super().__init__(groups, spec)

    def _update(self, weights: list[Tensor], lr: float, decay: float) -> None:
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        roots = torch.stack(self._energies(weights, gradients)).sqrt() + self.spec.eps
        updates = torch._foreach_div(gradients, roots.unbind())  # pyright: ignore[reportPrivateImportUsage]
        if decay:
            torch._foreach_add_(updates, weights, alpha=decay)  # pyright: ignore[reportPrivateImportUsage]
        if self.spec.average_gradients:
            torch._foreach_mul_(updates, 1 - self.spec.betas[0])  # pyright: ignore[reportPrivateImportUsage]
        moments = [self.state[weight]["moment"] for weight in weights]
        torch._foreach_mul_(moments, self.spec.betas[0])  # pyright: ignore[reportPrivateImportUsage]
        torch._foreach_add_(moments, updates)  # pyright: ignore[reportPrivateImportUsage]
        if self.spec.luc is None:
            torch._foreach_add_(weights, moments, alpha=-lr)  # pyright: ignore[reportPrivateImportUsage]
        else:
            for weight, moment in zip(weights, moments, strict=True):
                weight.sub_(moment * _bounded(weight, moment, lr, self.spec.luc))

    def _energies(self, weights: list[Tensor], gradients: list[Tensor]) -> list[Tensor]:
        """Return by what the gradients are divided, squared, after updating it: one scalar for each."""
        exact = [grad if grad.dtype is torch.float64 else grad.float() for grad in gradients]
        norms = torch._foreach_norm(exact)  # pyright: ignore[reportPrivateImportUsage]
        squares = torch._foreach_mul(norms, norms)  # pyright: ignore[reportPrivateImportUsage]
        states = [cast(dict[str, Tensor], self.state[weight]) for weight in weights]
        for weight, state, square in zip(weights, states, squares, strict=True):
            if not state:  # the average starts at the first square
                state["energy"] = square.clone()
                state["moment"] = torch.zeros_like(weight)
                if self.spec.amsgrad:
                    state["largest"] = square.clone()
        energies = [state["energy"] for state in states]
        torch._foreach_lerp_(energies, squares, 1 - self.spec.betas[1])  # pyright: ignore[reportPrivateImportUsage]
        if not self.spec.amsgrad:
            return energies
        largest = [state["largest"] for state in states]
        torch._foreach_maximum_(largest, energies)  # pyright: ignore[reportPrivateImportUsage]
        return largest


def _bounded(weight: Tensor, moment: Tensor, lr: float, luc: float) -> Tensor:
    """Lower the rate where the step would be longer than `luc` times the weights; those of 0 move freely."""
    size, length = torch.linalg.vector_norm(weight), torch.linalg.vector_norm(moment)
    bound = luc * size / length  # infinite or NaN where nothing moves
    return torch.where((size > 0) & (length > 0), bound.clamp(max=lr), lr)
