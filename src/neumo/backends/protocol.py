"""What a backend implements. The engine states it; whoever writes a backend finds all of it here.

A room `neumo/backends/<name>/` with a function `open_session(setup) -> Session` is a backend. `torch/`
beside this file is the example to follow: `session.py` first, then device, execute, reading/, training/ and
save.
"""

from __future__ import annotations

from neumo.engine.backend import Backend as Backend
from neumo.engine.backend import Batch as Batch
from neumo.engine.backend import Program as Program
from neumo.engine.backend import Reader as Reader
from neumo.engine.backend import Session as Session
from neumo.engine.backend import Setup as Setup
from neumo.engine.backend import Trainer as Trainer
from neumo.engine.backend import TrainingSetup as TrainingSetup
from neumo.engine.backend import Update as Update

__all__ = [
    "Backend",
    "Batch",
    "Program",
    "Reader",
    "Session",
    "Setup",
    "Trainer",
    "TrainingSetup",
    "Update",
]
