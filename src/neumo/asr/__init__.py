"""Speech recognition: neural modules from audio to text. No framework is needed to compose and check them."""

from neumo.asr.modules import *  # noqa: F403 - its list of names is the one of this room
from neumo.asr.modules import __all__ as __all__
