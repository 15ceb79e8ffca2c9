"""The numbers of an example batch, element by element: what may stand in a tensor of that type."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from neumo.data.example_rows import Rows, measured_size
from neumo.data.example_sizes import usual_size
from neumo.types import (
    Alignment,
    Audio,
    Axis,
    ConfigError,
    Durations,
    Ids,
    Image,
    Item,
    Kind,
    Latent,
    Lengths,
    LogProbs,
    Loss,
    Mask,
    NeuralType,
    Pitch,
    Positions,
    Probs,
    Score,
    Size,
    Speaker,
    Spectrogram,
    Struct,
    Vocab,
)

_MANY: Final = 2  # values of a port that takes many
_LABELS: Final = 5  # of an unknown vocabulary, where no vocabulary axis tells
_QUIET: Final = 0.3  # of the peak: the usual level of speech
_FRAME: Final = 0.01  # seconds


class Maker:
    """Makes values of types, whose sizes and lengths are known."""

    def __init__(self, rows: Rows, rng: np.random.Generator) -> None:
        self.rows = rows
        self.rng = rng

    def make(self, type: NeuralType) -> Any:
        """Make a value of a type: an array, a tuple of them for `many`, lists along list axes, dicts."""
        if type.many:
            return tuple(self.make(type.as_single()) for _ in range(_MANY))
        lists = sum(axis.listed for axis in type.axes)
        if isinstance(type.element, Struct):
            shape = tuple(self.number(type, axis) for axis in type.axes[:lists])
            return self._structs(type.element, shape)
        return _as_lists(self._value(type), lists)

    def _structs(self, element: Struct, shape: tuple[int, ...]) -> Any:
        if shape:
            return [self._structs(element, shape[1:]) for _ in range(shape[0])]
        return {name: self.make(field) for name, field in element.fields.items()}

    def number(self, type: NeuralType, axis: Axis) -> int:
        """The size of an axis; one that is known at run time only is as usual for its kind."""
        return usual_size(type, axis.kind) if axis.size is None else self.rows.number(axis.size)

    def shape(self, type: NeuralType) -> tuple[int, ...]:
        """The shape of a value."""
        return tuple(self.number(type, axis) for axis in type.axes)

    def sizes(self, type: NeuralType) -> list[Size]:
        """The sizes of the axes, numbers for those that are known at run time only."""
        return [
            Size.of(usual_size(type, axis.kind)) if axis.size is None else axis.size for axis in type.axes
        ]

    def normal(self, type: NeuralType) -> Any:
        """Numbers of mean 0 and deviation 1, float32."""
        return self.rng.standard_normal(self.shape(type), np.float32)

    def inside(self, type: NeuralType) -> Any:
        """True before the end of each row, for all axes that lengths count; None where none are known."""
        known = [self.rows.inside(self.sizes(type), at) for at in range(type.rank)]
        found = [each for each in known if each is not None]
        return np.logical_and.reduce(found) if found else None

    def silenced(self, type: NeuralType, values: Any) -> Any:
        """Put zeros behind the end of each row."""
        inside = self.inside(type)
        return values if inside is None else np.where(inside, values, np.zeros_like(values))

    def _value(self, type: NeuralType) -> Any:
        for cls in type.element.__class__.__mro__:
            make = _MAKERS.get(cls)
            if make is not None:
                return make(self, type)
        return _BY_DTYPE[type.element.dtype](self, type)


def _as_lists(value: Any, depth: int) -> Any:
    """Turn the first axes into Python lists; a text that is left alone is a `str`."""
    if depth:
        return [_as_lists(part, depth - 1) for part in value]
    return str(value) if isinstance(value, str) else value


def _above_zero(facet: Any, usual: float) -> float:
    """A facet that is a number above 0, or else what is usual."""
    known = isinstance(facet, int | float) and 0 < facet < 1e30  # float32 ends there
    return float(facet) if known else usual


def _features(maker: Maker, type: NeuralType) -> Any:
    return maker.silenced(type, maker.normal(type))


def _audio(maker: Maker, type: NeuralType) -> Any:
    element: Any = type.element
    peak = _above_zero(element.peak, 1.0)
    loud = np.clip(maker.normal(type) * (_QUIET * peak), -peak, peak)
    return maker.silenced(type, loud).astype(np.float32)


def _spectrogram(maker: Maker, type: NeuralType) -> Any:
    """Levels between the floor and a little above 1, or normalised ones."""
    element: Any = type.element
    if element.norm not in (None, "none") and isinstance(element.norm, str):
        return _features(maker, type)
    power = np.exp(2 * maker.normal(type) - 4).astype(np.float64)
    floor = _above_zero(element.floor, 1e-5)
    scale = {"ln": np.log, "log10": np.log10, "db": lambda x: 10 * np.log10(x)}.get(str(element.scale))
    values = power if scale is None else scale(power + floor)
    return maker.silenced(type, values.astype(np.float32))


def _log_probs(maker: Maker, type: NeuralType) -> Any:
    logits = maker.normal(type).astype(np.float64)
    over = _normalised_axis(type)
    if over is None:
        return np.log(_sigmoid(logits)).astype(np.float32)
    shifted = logits - logits.max(axis=over, keepdims=True, initial=0)
    return (shifted - np.log(np.exp(shifted).sum(axis=over, keepdims=True))).astype(np.float32)


def _probs(maker: Maker, type: NeuralType) -> Any:
    return np.exp(_log_probs(maker, type))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _normalised_axis(type: NeuralType) -> int | None:
    """The axis over which probabilities sum to one: the one of `over`, the vocabulary, or else the last."""
    over = getattr(type.element, "over", None)
    for at, axis in enumerate(type.axes):
        names = (axis.kind.value, None if axis.symbol is None else axis.symbol.name)
        if over in names if isinstance(over, str) else axis.kind is Kind.VOCAB:
            return at
    return type.rank - 1 if type.rank else None


def _ids(maker: Maker, type: NeuralType) -> Any:
    element: Any = type.element
    vocab = getattr(element.vocab, "vocab", element.vocab)  # AtLeast
    labels = np.asarray(_plain_labels(vocab) if isinstance(vocab, Vocab) else range(_unknown_labels(maker)))
    ids = labels[maker.rng.integers(0, len(labels), maker.shape(type))]
    if type.rank:
        _frame(maker, type, vocab, ids)
    inside = maker.inside(type)
    return ids if inside is None else np.where(inside, ids, _pad(element, vocab))


def _plain_labels(vocab: Vocab) -> list[int]:
    """The labels without a role, or all where each has one."""
    special = {index for _, index in vocab.roles}
    return [n for n in range(len(vocab)) if n not in special] or list(range(len(vocab)))


def _unknown_labels(maker: Maker) -> int:
    found = [number for symbol, number in maker.rows.numbers.items() if symbol.name[:1] == "V"]
    return max(1, min([*found, _LABELS]))


def _pad(element: Any, vocab: Any) -> int:
    if isinstance(element.pad, int):
        return element.pad
    return (getattr(vocab, "pad", None) or 0) if isinstance(vocab, Vocab) else 0


def _frame(maker: Maker, type: NeuralType, vocab: Any, ids: Any) -> None:
    """Write bos first and eos last in each row, where the frame and the vocabulary have them."""
    frame = getattr(type.element, "frame", None)
    if not isinstance(vocab, Vocab) or not ids.size:
        return
    frame = frame if isinstance(frame, str) else ""
    first, _, last = frame.partition("..")
    both = first and last and vocab.bos is not None and vocab.eos is not None
    size = type.axes[-1].size
    if both and ids.shape[-1] < 2 and size is not None and size.terms:
        raise ConfigError(
            f"a row of {type} has a bos and an eos, and would be {ids.shape[-1]} long",
            code="size",
            fixes=(f"give {type.axes[-1]} a size of 2 or more, or leave it out",),
        )
    inside = maker.rows.inside(maker.sizes(type), type.rank - 1)
    ends = np.full(ids.shape[:-1], ids.shape[-1]) if inside is None else inside.sum(axis=-1)
    if last and vocab.eos is not None:
        np.put_along_axis(ids, ends[..., None] - 1, vocab.eos, axis=-1)
    starts = first or getattr(type.element, "shifted", None) is True  # what is shifted begins with bos
    if starts and vocab.bos is not None:
        ids[..., 0] = vocab.bos


def _lengths(maker: Maker, type: NeuralType) -> Any:
    element: Any = type.element
    of = measured_size(element)
    if of is None:
        return np.ones(maker.shape(type), np.float32 if element.unit == "fraction" else np.int64)
    used = maker.rows.lengths(of, tuple(maker.sizes(type)))
    if element.unit == "fraction":
        return (used / max(1, maker.rows.number(of))).astype(np.float32)
    return used.copy()


def _mask(maker: Maker, type: NeuralType) -> Any:
    element: Any = type.element
    sizes = maker.sizes(type)
    of = measured_size(element)
    at = next((n for n in reversed(range(len(sizes))) if sizes[n] == of), len(sizes) - 1)
    inside = maker.rows.inside(sizes, at, guess=True) if sizes else np.ones((), bool)
    return ~inside if element.true == "pad" else inside.copy()


def _durations(maker: Maker, type: NeuralType) -> Any:
    """Frames for each label of a row; they sum to what the row uses of the size they expand to."""
    element: Any = type.element
    counts = _counts(maker, type, measured_size(element))
    if element.unit != "seconds" and element.scale != "ln":
        return counts.astype(np.int64)
    lasting = counts * _FRAME if element.unit == "seconds" else counts
    return (np.log(np.maximum(lasting, _FRAME)) if element.scale == "ln" else lasting).astype(np.float32)


def _counts(maker: Maker, type: NeuralType, of: Size | None) -> Any:
    """Share the frames of each row out among its labels, as evenly as whole numbers can."""
    shape, inside = maker.shape(type) or (1,), maker.inside(type)
    inside = np.ones(shape, bool) if inside is None else inside
    labels = np.maximum(inside.sum(axis=-1, keepdims=True), 1)
    frames = labels * 3 if of is None else maker.rows.reach(of, maker.sizes(type)[:-1])[..., None]
    place = np.arange(shape[-1])
    counts = np.where(inside, (place + 1) * frames // labels - place * frames // labels, 0)
    return counts.reshape(maker.shape(type))


def _positions(maker: Maker, type: NeuralType) -> Any:
    element: Any = type.element
    share = maker.rng.random(maker.shape(type))
    of = measured_size(element)
    reach = _LABELS if of is None else maker.rows.reach(of, maker.sizes(type))
    return np.asarray(share * reach).astype(np.int64)


def _speaker(maker: Maker, type: NeuralType) -> Any:
    element: Any = type.element
    voices = maker.normal(type)
    if element.norm == "l2" and type.rank:
        at = next((n for n, axis in enumerate(type.axes) if axis.kind is Kind.FEATURE), -1)
        voices /= np.maximum(np.linalg.norm(voices, axis=at, keepdims=True), 1e-6)
    return voices


def _alignment(maker: Maker, type: NeuralType) -> Any:
    """Weights that sum to one; a hard alignment chooses."""
    element: Any = type.element
    weights = _probs(maker, type)
    if element.form != "hard" or not type.rank:
        return weights
    return (weights == weights.max(axis=-1, keepdims=True)).astype(np.float32)


def _positive(maker: Maker, type: NeuralType) -> Any:
    return np.abs(maker.normal(type)) + np.float32(0.1)


def _latent(maker: Maker, type: NeuralType) -> Any:
    """A deviation is above 0, the other parts are any numbers."""
    element: Any = type.element
    return _positive(maker, type) if element.part == "std" else _features(maker, type)


def _pitch(maker: Maker, type: NeuralType) -> Any:
    """The height of a voice; 0 where a frame has none."""
    element: Any = type.element
    if isinstance(element.norm, str) and element.norm != "none":
        return _features(maker, type)
    hertz = np.clip(120 + 40 * maker.normal(type), 60, 400)
    heights = {"ln_hz": np.log, "semitones": lambda hz: 12 * np.log2(hz / 55)}.get(str(element.unit))
    voiced = hertz if heights is None else heights(hertz)
    return maker.silenced(type, np.where(maker.normal(type) > 1, 0, voiced)).astype(np.float32)


def _image(maker: Maker, type: NeuralType) -> Any:
    element: Any = type.element
    if isinstance(element.norm, str) and element.norm != "none":
        return maker.normal(type)
    peak = _above_zero(element.peak, 1.0)
    return (maker.rng.random(maker.shape(type), np.float32) * peak).astype(np.float32)


def _item(maker: Maker, type: NeuralType) -> Any:
    shape = maker.shape(type)
    return np.arange(math.prod(shape)).reshape(shape)


def _whole(maker: Maker, type: NeuralType) -> Any:
    return maker.rng.integers(0, 4, maker.shape(type))


def _flags(maker: Maker, type: NeuralType) -> Any:
    return np.asarray(maker.rng.random(maker.shape(type)) < 0.5)


def _strings(maker: Maker, type: NeuralType) -> Any:
    words = np.asarray(["one", "two words", "three"])
    return words[maker.rng.integers(0, len(words), maker.shape(type))]


_Make = Callable[[Maker, NeuralType], Any]
_MAKERS: Final[Mapping[type, _Make]] = {
    Alignment: _alignment,
    Audio: _audio,
    Durations: _durations,
    Ids: _ids,
    Image: _image,
    Item: _item,
    Latent: _latent,
    Lengths: _lengths,
    LogProbs: _log_probs,
    Loss: _positive,
    Mask: _mask,
    Pitch: _pitch,
    Positions: _positions,
    Probs: _probs,
    Score: _positive,
    Speaker: _speaker,
    Spectrogram: _spectrogram,
}
_BY_DTYPE: Final[Mapping[str, _Make]] = {
    "float": _features,
    "any": _features,
    "int": _whole,
    "bool": _flags,
    "str": _strings,
}
