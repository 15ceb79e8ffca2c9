"""The PyTorch backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neumo.backends.torch.session import TorchSession
    from neumo.engine.backend import Setup


def open_session(setup: Setup) -> TorchSession:
    """Make a session on the device and in the precision that a factory asks for."""
    from neumo.backends.torch.session import TorchSession

    return TorchSession(setup)
