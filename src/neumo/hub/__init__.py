"""Where models come from: one safe file that holds graphs, weights and a card."""

from neumo.hub.archive import Archive as Archive
from neumo.hub.bundle import Model as Model
from neumo.hub.bundle import load_model as load_model
from neumo.hub.bundle import save_model as save_model
from neumo.hub.card import Card as Card

__all__ = ["Archive", "Card", "Model", "load_model", "save_model"]
