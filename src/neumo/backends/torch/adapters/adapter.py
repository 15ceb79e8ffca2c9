"""What the torch code of all adapters has in common."""

from __future__ import annotations

from typing import Any

from torch import nn


class AdapterModule(nn.Module):
    """Keeps the specification, which holds all that an adapter needs to know; it has no weights."""

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.spec = spec
