"""Types that pass through a module unchanged: every facet is a variable that the connection solves."""

from __future__ import annotations

import dataclasses
from typing import Final

from neumo.types import Audio, Mel, Var

ANY_MEL: Final = Mel(**{field.name: Var(field.name) for field in dataclasses.fields(Mel)})
ANY_AUDIO: Final = Audio(**{field.name: Var(field.name) for field in dataclasses.fields(Audio)})
