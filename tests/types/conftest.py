"""Makes `tests.types.strategies` importable whichever way pytest is started."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])
if _ROOT not in sys.path:
    sys.path.insert(0, _ROOT)

from hypothesis import HealthCheck, settings  # noqa: E402

# Shared machines are slow at times; that says nothing about the code.
settings.register_profile("neumo", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("neumo")
