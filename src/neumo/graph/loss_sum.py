"""One loss out of several: the weighted sum that a training with more than one aim makes small."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import ClassVar

from neumo.graph.module import NeuralModule, Role
from neumo.graph.signature import Signature
from neumo.types import ConfigError, Loss, NeuralType, Values, Var


@dataclass(frozen=True)
class LossSum(NeuralModule):
    """Adds losses with a weight each, such as those of CTC and attention on one encoder.

    >>> both = LossSum({"ctc": 0.3, "attention": 0.7})
    >>> list(both.signature().takes)
    ['ctc', 'attention', 'ctc_count', 'attention_count']

    Each weight names a port. Losses that are means say how many things they are means over: connect these
    counts, all of them or none, and the sum has a `count` as well, by which the batches of a step are
    weighted. The counts are of one unit, since a mean over utterances and one over labels weigh batches
    differently; where they differ, as where a loss had to leave an utterance out, the largest counts.

    Raises `ConfigError` for no weights, for names that are no port and for weights that are no number.
    """

    role: ClassVar[Role] = "loss"

    weights: Mapping[str, float]

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping) or not self.weights:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"LossSum.weights is {self.weights!r}, and needs a weight for each loss",
                code="field",
                fixes=["LossSum({'ctc': 0.3, 'attention': 0.7})"],
            )
        for name, weight in self.weights.items():
            self._check(name, weight)

    def _check(self, name: object, weight: object) -> None:
        fine = isinstance(name, str) and name.isidentifier() and not iskeyword(name) and name[0] != "_"
        if not fine or name == "count" or str(name).endswith("_count"):
            raise ConfigError(f"LossSum cannot have a port {name!r} for a loss", code="field")
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise ConfigError(f"LossSum.weights has {weight!r} for {name}, not a number", code="field")

    def signature(self) -> Signature:
        """Losses and their counts to one loss and its count."""
        return self._ports(counted=True)

    def signature_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """All counts or none: with them the sum has one, too."""
        return self._ports(counted=any(f"{name}_count" in given for name in self.weights))

    def _ports(self, *, counted: bool) -> Signature:
        loss = Loss(reduction=Var("reduction"))[()]
        losses = dict.fromkeys(self.weights, loss)
        if not counted:
            return Signature(takes=losses, gives={"loss": loss})
        count = Values(Var("unit"))[()]
        counts = {f"{name}_count": count for name in self.weights}
        return Signature(takes={**losses, **counts}, gives={"loss": loss, "count": count})
