"""Search for what was said among the scores of a recogniser, with numpy alone."""

from neumo.asr.search.align import best_frames as best_frames
from neumo.asr.search.fusion import LabelFusion as LabelFusion
from neumo.asr.search.fusion import LMUnit as LMUnit
from neumo.asr.search.fusion import WordFusion as WordFusion
from neumo.asr.search.fusion import fuse as fuse
from neumo.asr.search.posteriors import Posteriors as Posteriors
from neumo.asr.search.prefix import Found as Found
from neumo.asr.search.prefix import Fusion as Fusion
from neumo.asr.search.prefix import prefix_beam_search as prefix_beam_search
from neumo.asr.search.rescore import choose as choose
from neumo.asr.search.rescore import combine as combine

__all__ = [
    "Found",
    "Fusion",
    "LMUnit",
    "LabelFusion",
    "Posteriors",
    "WordFusion",
    "best_frames",
    "choose",
    "combine",
    "fuse",
    "prefix_beam_search",
]
