"""Where models come from: one safe file that holds graphs, weights and a card.

Names are loaded when they are first used: looking into a model file needs neither a framework nor numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from neumo.hub.archive import Archive as Archive
    from neumo.hub.bundle import Model as Model
    from neumo.hub.bundle import load_model as load_model
    from neumo.hub.bundle import save_model as save_model
    from neumo.hub.card import Card as Card

_WHERE = {
    "Archive": "archive",
    "Card": "card",
    "Model": "bundle",
    "load_model": "bundle",
    "save_model": "bundle",
}

__all__ = ["Archive", "Card", "Model", "load_model", "save_model"]


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _WHERE:
        raise AttributeError(f"module 'neumo.hub' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"neumo.hub.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
