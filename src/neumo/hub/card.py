"""The card of a model: what it is, what it learned from, how good it is, and who may use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from neumo.types.errors import CheckpointError

__all__ = ["Card"]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class Card:
    """Describes a model to whoever receives its file.

    >>> card = Card(name="digits", licence="CC0-1.0", metrics={"wer": 0.004})
    >>> Card.from_json(card.to_json()) == card
    True

    `data` says what it was trained and measured on, `metrics` how good it was there, `versions` with what it
    was made; `created` is a time in ISO 8601; `learned` holds, by module and port, what the inputs of modules
    were in training. Everything is plain text and numbers.
    """

    name: str
    description: str = ""
    licence: str = "not stated"
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    parameters: int = 0
    created: str = field(default_factory=_now)
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    learned: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dictionary."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Card:
        """Read a card; keys that this version does not know are left out.

        Raises `CheckpointError` where a value is not of its kind.
        """
        wanted = {each.name: each.type for each in fields(cls)}
        known = {key: value for key, value in data.items() if key in wanted}
        kinds = {"str": str, "int": int}
        for key, value in {"name": None, **known}.items():
            kind = kinds.get(str(wanted[key]), dict)
            if not isinstance(value, kind):
                raise CheckpointError(
                    f"the card of the model is wrong: {key} is {value!r}, expected {kind.__name__}",
                    code="model-card",
                )
        return cls(**known)

    def text(self) -> str:
        """Return the card as lines for a terminal."""
        rows = {
            "model": self.name,
            "about": self.description,
            "licence": self.licence,
            "weights": f"{self.parameters:,}" if self.parameters else "",
            "data": _listed(self.data),
            "metrics": _listed(self.metrics),
            "learned": _ports(self.learned),
            "created": f"{self.created} with {_listed(self.versions)}",
        }
        return "\n".join(f"{label:<9}{text}" for label, text in rows.items() if text)


def _ports(learned: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Name the ports that learned what they take."""
    return ", ".join(f"{name}.{port}" for name, ports in learned.items() for port in ports)


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in values.items()
    )
