"""Checks of the numbers in a tensor, compiled from elements: what verify="values" adds to shapes and
dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from neumo.types import (
    Audio,
    Ids,
    Lengths,
    LogProbs,
    Loss,
    Mask,
    NeuralType,
    Probs,
    Scores,
    Size,
    Symbol,
    Vocab,
)

if TYPE_CHECKING:
    from neumo.graph.value import Value

SUM_TOLERANCE: Final = 2e-2  # of probabilities over the labels: bf16 has 8 bits
LOUD: Final = 2.0  # times the declared peak; resampling overshoots a little, another scale by thousands

ValueCheck: TypeAlias = "Callable[[Any, Numbers, Mapping[Symbol, int]], str | None]"


class Numbers:
    """Reads the numbers of tensors, and remembers the lengths of this run for the masks that go with them."""

    def __init__(self, to_numpy: Callable[[Any], Any]) -> None:
        self._to_numpy = to_numpy
        self._lengths: dict[Size, Any] = {}

    def begin(self) -> None:
        """Forget the lengths of the run before."""
        self._lengths.clear()

    def __call__(self, tensor: Any) -> Any:
        """Return a tensor as a numpy array."""
        return self._to_numpy(tensor)

    def remember(self, size: Size, lengths: Any) -> None:
        """Keep the lengths that count a size."""
        self._lengths.setdefault(size, lengths)

    def lengths(self, size: Size) -> Any:
        """Return the lengths that count a size, if they have been seen."""
        return self._lengths.get(size)

    def range_of(self, tensor: Any) -> str:
        """Say the smallest and the largest number of a tensor, and how many are not finite."""
        import numpy as np

        array = self._to_numpy(tensor)
        if array.size == 0:
            return ", empty"
        if array.dtype.kind != "f":
            return f", min {array.min()}, max {array.max()}"
        bad = int(array.size - np.isfinite(array).sum())
        known = array[np.isfinite(array)]
        shown = f", min {known.min():.4g}, max {known.max():.4g}" if known.size else ""
        return shown + (f", {bad} not finite" if bad else "")


def value_check(value: Value, *, fed: bool) -> ValueCheck:
    """Compile the check of a value's numbers; `fed` values come from outside, so their lengths must be
    above 0.
    """
    return numbers_check(value.type, fed=fed)


def numbers_check(type: NeuralType, *, fed: bool = False) -> ValueCheck:
    """Compile the check of the numbers in a tensor of a type."""
    element = type.element
    if isinstance(element, Ids):
        return _ids(element)
    if isinstance(element, Lengths) and element.unit == "count":
        return _lengths(element, least=1 if fed else 0)
    if isinstance(element, Mask):
        return _mask(element)
    if isinstance(element, LogProbs | Probs):
        return _sums_to_one(type)
    if isinstance(element, Scores):
        return _not_nan
    if isinstance(element, Audio):
        return _audio(element)
    return _nothing if element.dtype != "float" or isinstance(element, Loss) else _finite


def edge_check(wanted: NeuralType, given: NeuralType) -> Callable[[Any, Numbers], str | None]:
    """Compile what can be seen in a tensor about a connection that was taken on trust: fixed sizes, ids,
    loudness.
    """
    fixed = [(number, axis.size.constant) for number, axis in enumerate(wanted.axes) if axis.size is not None]
    element = wanted.element
    kind = element.dtype if given.element.dtype == "any" else "any"  # what the given type does not say
    numeric: ValueCheck = _nothing
    if isinstance(element, Ids) and getattr(given.element, "vocab", None) is None:
        numeric = _ids(element)
    elif isinstance(element, Audio) and getattr(given.element, "peak", None) is None:
        numeric = _audio(element)
    elif isinstance(element, LogProbs | Probs) and not isinstance(given.element, type(element)):
        numeric = _sums_to_one(wanted)

    def check(tensor: Any, numbers: Numbers) -> str | None:
        shape = getattr(tensor, "shape", ())
        for number, size in fixed:
            if size is not None and (number >= len(shape) or shape[number] != size):
                return f"axis {number} must be {size} long, and the shape is {tuple(shape)}"
        if kind != "any" and hasattr(tensor, "dtype") and (found := dtype_class(tensor)) != kind:
            return f"it holds {found} numbers, not {kind}"
        return numeric(tensor, numbers, {})

    return check


def dtype_class(tensor: Any) -> str:
    """Say which class of numbers a tensor of any framework holds: float, int, bool, or the name of another.

    >>> import numpy
    >>> dtype_class(numpy.zeros(2, numpy.int32))
    'int'
    """
    dtype = str(tensor.dtype)
    for kind in ("float", "bool", "int"):
        if kind in dtype:
            return kind
    return dtype


def _nothing(tensor: Any, numbers: Numbers, sizes: Mapping[Symbol, int]) -> str | None:
    return None


def _ids(element: Ids) -> ValueCheck:
    vocab, pad = element.vocab, element.pad
    if not isinstance(vocab, Vocab):
        return _nothing
    labels = len(vocab)

    def check(tensor: Any, numbers: Numbers, sizes: Mapping[Symbol, int]) -> str | None:
        array = numbers(tensor)
        wrong = (array < 0) | (array >= labels)
        if isinstance(pad, int):
            wrong &= array != pad
        if not wrong.any():
            return None
        return f"{int(wrong.sum())} ids are outside the {labels} labels, the first is {int(array[wrong][0])}"

    return check


def _lengths(element: Lengths, least: int) -> ValueCheck:
    size: object = element.of

    def check(tensor: Any, numbers: Numbers, sizes: Mapping[Symbol, int]) -> str | None:
        array = numbers(tensor)
        if (array < least).any():
            return f"row {int((array < least).argmax())} has length {int(array.min())}, below {least}"
        if not isinstance(size, Size):  # lengths of nobody knows what
            return None
        numbers.remember(size, array)
        if size.symbols() <= sizes.keys() and (array > (longest := size.evaluate(sizes))).any():
            row = int((array > longest).argmax())
            return f"row {row} has length {int(array[row])}, beyond {size} = {longest}"
        return None

    return check


def _mask(element: Mask) -> ValueCheck:
    size: Size = element.of
    keep = element.true != "pad"

    def check(tensor: Any, numbers: Numbers, sizes: Mapping[Symbol, int]) -> str | None:
        import numpy as np

        array: Any = numbers(tensor)
        lengths: Any = numbers.lengths(size)
        if lengths is None or array.ndim != 2 or len(lengths) != len(array):
            return None
        inside: Any = lengths[:, None] > np.arange(int(array.shape[1]))
        rows: Any = (array != (inside == keep)).any(axis=1)
        row = int(rows.argmax())
        return f"row {row} disagrees with its length {int(lengths[row])}" if rows.any() else None

    return check


def _sums_to_one(type: NeuralType) -> ValueCheck:
    from neumo.types.axis import Kind

    element = type.element
    if not type.axes or (isinstance(element, Scores) and element.over != "V"):
        return _not_nan  # one number, or over another axis, whose name is not a kind
    over = next((n for n, axis in enumerate(type.axes) if axis.kind is Kind.VOCAB), len(type.axes) - 1)
    logs = isinstance(type.element, LogProbs)

    def check(tensor: Any, numbers: Numbers, sizes: Mapping[Symbol, int]) -> str | None:
        import numpy as np

        array = numbers(tensor)
        total = (np.exp(array) if logs else array).sum(axis=over)
        if total.size == 0 or bool((np.abs(total - 1) <= SUM_TOLERANCE).all()):
            return None
        worst = total.flat[np.nanargmax(np.abs(total - 1)) if not np.isnan(total).all() else 0]
        return f"the probabilities of a position sum to {worst:.4g}, not to 1"

    return check


def _audio(element: Audio) -> ValueCheck:
    peak = element.peak

    def check(tensor: Any, numbers: Numbers, sizes: Mapping[Symbol, int]) -> str | None:
        array = numbers(tensor)
        loudest = float(abs(array).max()) if array.size else 0.0
        if isinstance(peak, int | float) and loudest > LOUD * peak:
            return f"its peak is {loudest:.4g}, and {peak:g} was promised"
        return _finite(tensor, numbers, sizes)

    return check


def _finite(tensor: Any, numbers: Numbers, sizes: Mapping[Symbol, int]) -> str | None:
    import numpy as np

    array = numbers(tensor)
    wrong = array.size - int(np.isfinite(array).sum())
    return f"{wrong} of {array.size} numbers are not finite" if wrong else None


def _not_nan(tensor: Any, numbers: Numbers, sizes: Mapping[Symbol, int]) -> str | None:
    import numpy as np

    wrong = int(np.isnan(numbers(tensor)).sum())
    return f"{wrong} scores are NaN" if wrong else None
