"""Adapters: small exact conversions that stand between two ports whose types do not fit.

    Resample Repeak Mono                      of audio
    Rescale                                   of spectrograms and mels
    LogSoftmax Softmax Exp Log Reorder        of scores
    RemapIds Repad                            of ids
    Invert MaskToLengths LengthsToMask        of masks and lengths
    Subsample                                 of lengths
    Transpose Squeeze Unsqueeze               of anything
    Default                                   of what may be absent

Each is a specification like any other module; `propose` says which instances might turn a given type into a
wanted one. A proposal becomes a fix in a message only if its type, compared again, fits. Only exact
conversions are here: what loses information (another log floor, a change of mel bands) has no adapter.
"""

from __future__ import annotations

from collections.abc import Iterator

from neumo.graph.adapter import Adapter as Adapter
from neumo.graph.adapters_axes import Default as Default
from neumo.graph.adapters_axes import Squeeze as Squeeze
from neumo.graph.adapters_axes import Transpose as Transpose
from neumo.graph.adapters_axes import Unsqueeze as Unsqueeze
from neumo.graph.adapters_ids import Invert as Invert
from neumo.graph.adapters_ids import LengthsToMask as LengthsToMask
from neumo.graph.adapters_ids import MaskToLengths as MaskToLengths
from neumo.graph.adapters_ids import RemapIds as RemapIds
from neumo.graph.adapters_ids import Repad as Repad
from neumo.graph.adapters_ids import Subsample as Subsample
from neumo.graph.adapters_scores import Exp as Exp
from neumo.graph.adapters_scores import Log as Log
from neumo.graph.adapters_scores import LogSoftmax as LogSoftmax
from neumo.graph.adapters_scores import Reorder as Reorder
from neumo.graph.adapters_scores import Softmax as Softmax
from neumo.graph.adapters_sound import Mono as Mono
from neumo.graph.adapters_sound import Repeak as Repeak
from neumo.graph.adapters_sound import Resample as Resample
from neumo.graph.adapters_sound import Rescale as Rescale
from neumo.types import NeuralType

ADAPTERS: tuple[type[Adapter], ...] = (
    Resample,
    Repeak,
    Mono,
    Rescale,
    LogSoftmax,
    Softmax,
    Exp,
    Log,
    Reorder,
    RemapIds,
    Repad,
    Invert,
    MaskToLengths,
    LengthsToMask,
    Subsample,
    Transpose,
    Unsqueeze,
    Squeeze,
    Default,
)


def proposals(wanted: NeuralType, given: NeuralType) -> Iterator[Adapter]:
    """Give every adapter that might turn `given` into `wanted`, the most specific first."""
    for kind in ADAPTERS:
        yield from kind.propose(wanted, given)
