"""Adapters: small exact conversions that stand between two ports whose types do not fit.

    Resample Repeak Mono                      of audio
    Rescale Repower                           of spectrograms and mels
    LogSoftmax Softmax Exp Log Reorder        of scores
    Reduce                                    of losses
    RemapIds Repad Reframe Shift              of ids
    Invert MaskToLengths LengthsToMask        of masks and lengths
    Subsample Upsample Offset                 of lengths
    FractionToCount CountToFraction           of lengths
    Transpose Squeeze Unsqueeze Repeat        of anything
    Concat Append                             of several values
    Stack Unstack Pick                        of lists and structs
    ScalePixels FlipChannels                  of images
    Spread UnitNorm                           of latent variables and voices
    Default Fallback FullLengths              of what may be absent

Each is a specification like any other module; `propose` says which instances might turn a given type into a
wanted one. A proposal becomes a fix in a message only if its type, compared again, fits. Only exact
conversions are here: what loses information (another log floor, a change of mel bands) has no adapter.
"""

from __future__ import annotations

from collections.abc import Iterator

from neumo.graph.adapters.absent import Default as Default
from neumo.graph.adapters.absent import Fallback as Fallback
from neumo.graph.adapters.adapter import Adapter as Adapter
from neumo.graph.adapters.axes import Repeat as Repeat
from neumo.graph.adapters.axes import Squeeze as Squeeze
from neumo.graph.adapters.axes import Transpose as Transpose
from neumo.graph.adapters.axes import Unsqueeze as Unsqueeze
from neumo.graph.adapters.ids import Reframe as Reframe
from neumo.graph.adapters.ids import RemapIds as RemapIds
from neumo.graph.adapters.ids import Repad as Repad
from neumo.graph.adapters.ids import Shift as Shift
from neumo.graph.adapters.image import FlipChannels as FlipChannels
from neumo.graph.adapters.image import ScalePixels as ScalePixels
from neumo.graph.adapters.join import Append as Append
from neumo.graph.adapters.join import Concat as Concat
from neumo.graph.adapters.latent import Spread as Spread
from neumo.graph.adapters.latent import UnitNorm as UnitNorm
from neumo.graph.adapters.lengths import CountToFraction as CountToFraction
from neumo.graph.adapters.lengths import FractionToCount as FractionToCount
from neumo.graph.adapters.lengths import FullLengths as FullLengths
from neumo.graph.adapters.lengths import Offset as Offset
from neumo.graph.adapters.lengths import Subsample as Subsample
from neumo.graph.adapters.lengths import Upsample as Upsample
from neumo.graph.adapters.lists import Pick as Pick
from neumo.graph.adapters.lists import Stack as Stack
from neumo.graph.adapters.lists import Unstack as Unstack
from neumo.graph.adapters.masks import Invert as Invert
from neumo.graph.adapters.masks import LengthsToMask as LengthsToMask
from neumo.graph.adapters.masks import MaskToLengths as MaskToLengths
from neumo.graph.adapters.scores import Exp as Exp
from neumo.graph.adapters.scores import Log as Log
from neumo.graph.adapters.scores import LogSoftmax as LogSoftmax
from neumo.graph.adapters.scores import Reduce as Reduce
from neumo.graph.adapters.scores import Reorder as Reorder
from neumo.graph.adapters.scores import Softmax as Softmax
from neumo.graph.adapters.sound import Mono as Mono
from neumo.graph.adapters.sound import Repeak as Repeak
from neumo.graph.adapters.sound import Resample as Resample
from neumo.graph.adapters.spectrum import Repower as Repower
from neumo.graph.adapters.spectrum import Rescale as Rescale
from neumo.types import NeuralType

__all__ = [
    "ADAPTERS",
    "Adapter",
    "Append",
    "Concat",
    "CountToFraction",
    "Default",
    "Exp",
    "Fallback",
    "FlipChannels",
    "FractionToCount",
    "FullLengths",
    "Invert",
    "LengthsToMask",
    "Log",
    "LogSoftmax",
    "MaskToLengths",
    "Mono",
    "Offset",
    "Pick",
    "Reduce",
    "Reframe",
    "RemapIds",
    "Reorder",
    "Repad",
    "Repeak",
    "Repeat",
    "Repower",
    "Resample",
    "Rescale",
    "ScalePixels",
    "Shift",
    "Softmax",
    "Spread",
    "Squeeze",
    "Stack",
    "Subsample",
    "Transpose",
    "UnitNorm",
    "Unsqueeze",
    "Unstack",
    "Upsample",
    "proposals",
]

ADAPTERS: tuple[type[Adapter], ...] = (
    Resample,
    Repeak,
    Mono,
    Rescale,
    Repower,
    LogSoftmax,
    Softmax,
    Exp,
    Log,
    Reorder,
    Reduce,
    RemapIds,
    Repad,
    Reframe,
    Shift,
    Invert,
    MaskToLengths,
    LengthsToMask,
    FractionToCount,
    CountToFraction,
    Subsample,
    Upsample,
    Offset,
    FullLengths,
    Default,
    Fallback,
    Transpose,
    Unsqueeze,
    Squeeze,
    Repeat,
    Pick,
    Stack,
    Unstack,
    ScalePixels,
    FlipChannels,
    Spread,
    UnitNorm,
    Concat,
    Append,
)


def proposals(wanted: NeuralType, given: NeuralType) -> Iterator[Adapter]:
    """Give every adapter that might turn `given` into `wanted`, the most specific first."""
    for kind in ADAPTERS:
        yield from kind.propose(wanted, given)
