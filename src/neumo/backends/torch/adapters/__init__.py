"""The torch code of the adapters in `neumo.graph.adapters`: one small module each, without weights."""

from __future__ import annotations

from neumo.backends.torch.adapters.losses import LossSum as LossSum
from neumo.backends.torch.adapters.rows import CountToFraction as CountToFraction
from neumo.backends.torch.adapters.rows import FractionToCount as FractionToCount
from neumo.backends.torch.adapters.rows import FullLengths as FullLengths
from neumo.backends.torch.adapters.rows import Invert as Invert
from neumo.backends.torch.adapters.rows import LengthsToMask as LengthsToMask
from neumo.backends.torch.adapters.rows import MaskToLengths as MaskToLengths
from neumo.backends.torch.adapters.rows import Offset as Offset
from neumo.backends.torch.adapters.rows import Reframe as Reframe
from neumo.backends.torch.adapters.rows import RemapIds as RemapIds
from neumo.backends.torch.adapters.rows import Repad as Repad
from neumo.backends.torch.adapters.rows import Shift as Shift
from neumo.backends.torch.adapters.rows import Subsample as Subsample
from neumo.backends.torch.adapters.rows import Upsample as Upsample
from neumo.backends.torch.adapters.shapes import Append as Append
from neumo.backends.torch.adapters.shapes import Assume as Assume
from neumo.backends.torch.adapters.shapes import Concat as Concat
from neumo.backends.torch.adapters.shapes import Default as Default
from neumo.backends.torch.adapters.shapes import Fallback as Fallback
from neumo.backends.torch.adapters.shapes import Pick as Pick
from neumo.backends.torch.adapters.shapes import Repeat as Repeat
from neumo.backends.torch.adapters.shapes import Squeeze as Squeeze
from neumo.backends.torch.adapters.shapes import Stack as Stack
from neumo.backends.torch.adapters.shapes import Transpose as Transpose
from neumo.backends.torch.adapters.shapes import Unsqueeze as Unsqueeze
from neumo.backends.torch.adapters.shapes import Unstack as Unstack
from neumo.backends.torch.adapters.values import Exp as Exp
from neumo.backends.torch.adapters.values import FlipChannels as FlipChannels
from neumo.backends.torch.adapters.values import Log as Log
from neumo.backends.torch.adapters.values import LogSoftmax as LogSoftmax
from neumo.backends.torch.adapters.values import Mono as Mono
from neumo.backends.torch.adapters.values import Reduce as Reduce
from neumo.backends.torch.adapters.values import Reorder as Reorder
from neumo.backends.torch.adapters.values import Repeak as Repeak
from neumo.backends.torch.adapters.values import Repower as Repower
from neumo.backends.torch.adapters.values import Resample as Resample
from neumo.backends.torch.adapters.values import Rescale as Rescale
from neumo.backends.torch.adapters.values import ScalePixels as ScalePixels
from neumo.backends.torch.adapters.values import Softmax as Softmax
from neumo.backends.torch.adapters.values import Spread as Spread
from neumo.backends.torch.adapters.values import UnitNorm as UnitNorm
