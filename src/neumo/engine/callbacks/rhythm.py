"""How often something is done: every so many epochs, or every so many steps."""

from __future__ import annotations

from neumo.engine.checks.arguments import check_kind
from neumo.types.errors import ConfigError


def one_rhythm(kind: str, epochs: int | None, steps: int | None) -> tuple[int | None, int | None]:
    """Read `every_epochs` and `every_steps` of a callback: one of them, or each epoch if neither is given.

    >>> one_rhythm("Evaluate", None, 100), one_rhythm("Evaluate", None, None)
    ((None, 100), (1, None))
    """
    if epochs is not None and steps is not None:
        raise ConfigError(
            f"{kind}: give every_epochs or every_steps, not both",
            code="rhythm",
            fixes=[f"{kind}(every_epochs=1)"],
        )
    for name, value in (("every_epochs", epochs), ("every_steps", steps)):
        check_kind(kind, name, value, int | None, code="rhythm")
        if value is not None and value < 1:
            raise ConfigError(f"{kind}: {name}={value} is below 1", code="rhythm")
    return (1, None) if epochs is None and steps is None else (epochs, steps)
