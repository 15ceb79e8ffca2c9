"""The torch code of the adapters in `neumo.graph.adapters`: one small module each, without weights."""

from __future__ import annotations

from neumo.backends.torch.adapters_rows import CountToFraction as CountToFraction
from neumo.backends.torch.adapters_rows import FractionToCount as FractionToCount
from neumo.backends.torch.adapters_rows import FullLengths as FullLengths
from neumo.backends.torch.adapters_rows import Invert as Invert
from neumo.backends.torch.adapters_rows import LengthsToMask as LengthsToMask
from neumo.backends.torch.adapters_rows import MaskToLengths as MaskToLengths
from neumo.backends.torch.adapters_rows import Offset as Offset
from neumo.backends.torch.adapters_rows import Reframe as Reframe
from neumo.backends.torch.adapters_rows import RemapIds as RemapIds
from neumo.backends.torch.adapters_rows import Repad as Repad
from neumo.backends.torch.adapters_rows import Shift as Shift
from neumo.backends.torch.adapters_rows import Subsample as Subsample
from neumo.backends.torch.adapters_rows import Upsample as Upsample
from neumo.backends.torch.adapters_shapes import Append as Append
from neumo.backends.torch.adapters_shapes import Assume as Assume
from neumo.backends.torch.adapters_shapes import Concat as Concat
from neumo.backends.torch.adapters_shapes import Default as Default
from neumo.backends.torch.adapters_shapes import Fallback as Fallback
from neumo.backends.torch.adapters_shapes import Pick as Pick
from neumo.backends.torch.adapters_shapes import Repeat as Repeat
from neumo.backends.torch.adapters_shapes import Squeeze as Squeeze
from neumo.backends.torch.adapters_shapes import Stack as Stack
from neumo.backends.torch.adapters_shapes import Transpose as Transpose
from neumo.backends.torch.adapters_shapes import Unsqueeze as Unsqueeze
from neumo.backends.torch.adapters_shapes import Unstack as Unstack
from neumo.backends.torch.adapters_values import Exp as Exp
from neumo.backends.torch.adapters_values import FlipChannels as FlipChannels
from neumo.backends.torch.adapters_values import Log as Log
from neumo.backends.torch.adapters_values import LogSoftmax as LogSoftmax
from neumo.backends.torch.adapters_values import Mono as Mono
from neumo.backends.torch.adapters_values import Reduce as Reduce
from neumo.backends.torch.adapters_values import Reorder as Reorder
from neumo.backends.torch.adapters_values import Repeak as Repeak
from neumo.backends.torch.adapters_values import Repower as Repower
from neumo.backends.torch.adapters_values import Resample as Resample
from neumo.backends.torch.adapters_values import Rescale as Rescale
from neumo.backends.torch.adapters_values import ScalePixels as ScalePixels
from neumo.backends.torch.adapters_values import Softmax as Softmax
from neumo.backends.torch.adapters_values import Spread as Spread
from neumo.backends.torch.adapters_values import UnitNorm as UnitNorm
