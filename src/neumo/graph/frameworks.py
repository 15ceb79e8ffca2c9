"""Opens the rooms of frameworks by name, where a graph is turned into something that computes."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from neumo.types import BackendError


def load_room(framework: str, room: str) -> Any:
    """Import a module of `neumo.backends.<framework>`; raises `BackendError` if the framework is missing."""
    if importlib.util.find_spec(framework) is None:
        raise BackendError(
            f"{framework} is not installed, and this needs it",
            code="missing-package",
            fixes=[f"pip install 'neumo[{framework}]'"],
        )
    return importlib.import_module(f"neumo.backends.{framework}.{room}")
