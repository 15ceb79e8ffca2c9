"""Adapters of ids, masks and lengths: vocabulary, padding, meaning of True, strides."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Self

from neumo.graph.adapter import Adapter, ShapedAdapter, short_name
from neumo.graph.signature import Signature
from neumo.types import Any_, Axis, B, Element, Ids, Lengths, Mask, NeuralType, Size, T, U, Var, Vocab, gap


@dataclass(frozen=True)
class RemapIds(ShapedAdapter):
    """Translates ids of one vocabulary into those of another that has all of its labels, label by label.

    >>> RemapIds(Vocab("ab"), Vocab("bca")).table
    (2, 0)

    Negative ids, such as -100 behind the end, stay as they are.
    """

    entry: ClassVar[str] = "ids"
    exit: ClassVar[str] = "ids"

    source: Vocab
    target: Vocab

    @property
    def table(self) -> tuple[int, ...]:
        """The new id of each old one; a label that is missing from the target is a `ConfigError`."""
        return tuple(self.target.index(label) for label in self.source.labels)

    def signature(self) -> Signature:
        """Take and give ids."""
        return Signature(
            takes={"ids": Ids(self.source, pad=Var("pad"))[B, U]},
            gives={"ids": Ids(self.target, pad=Var("pad"))[B, U]},
        )

    def accepts(self, given: NeuralType) -> bool:
        """Accept ids of the source vocabulary."""
        return isinstance(given.element, Ids) and given.element.vocab == self.source

    def convert(self, element: Ids) -> Element:
        """Change the vocabulary; a pad that is a label moves with its label."""
        pad = element.pad
        if isinstance(pad, int) and 0 <= pad < len(self.source):
            pad = self.table[pad]
        return dataclasses.replace(element, vocab=self.target, pad=pad)

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where the wanted vocabulary has every given label."""
        if isinstance(wanted.element, Ids) and isinstance(given.element, Ids):
            source, target = given.element.vocab, wanted.element.vocab
            if not isinstance(source, Vocab) or not isinstance(target, Vocab) or source == target:
                return
            if all(label in target for label in source.labels):
                yield cls(source, target)

    def notation(self) -> str:
        """Write `RemapIds(en-sorted -> en)`."""
        return f"RemapIds({short_name(self.source)} -> {short_name(self.target)})"


@dataclass(frozen=True)
class Repad(Adapter):
    """Changes the id that stands behind the end of each row.

    With `ids_len` it writes the new pad behind each end. Without, it replaces the old pad wherever it stands;
    where the old pad is a label as well, that would be wrong, and `ids_len` is required.
    """

    entry: ClassVar[str] = "ids"
    exit: ClassVar[str] = "ids"

    source: int
    target: int

    def signature(self) -> Signature:
        """Take and give ids, with the lengths of their rows."""
        return self.signature_for({})

    def signature_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for these ids; `ids_len` is required where the old pad is also a label."""
        found = given.get("ids")
        element = Ids(Var("vocab"), pad=self.source)
        axes: tuple[Axis, ...] = (B, U)
        if found is not None and isinstance(found.element, Ids) and found.rank == 2:
            element, axes = dataclasses.replace(found.element, pad=self.source), found.axes
        lengths = Lengths(axes[1].size if axes[1].size is not None else U)[axes[0]]
        vocab = element.vocab
        is_label = isinstance(vocab, Vocab) and 0 <= self.source < len(vocab) and vocab.pad != self.source
        return Signature(
            takes={
                "ids": NeuralType(element, axes),
                "ids_len": lengths if is_label else lengths.as_optional(),
            },
            gives={"ids": NeuralType(dataclasses.replace(element, pad=self.target), axes)},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose for two known pads."""
        if isinstance(wanted.element, Ids) and isinstance(given.element, Ids):
            source, target = given.element.pad, wanted.element.pad
            if isinstance(source, int) and isinstance(target, int) and source != target:
                yield cls(source, target)

    def notation(self) -> str:
        """Write `Repad(0 -> -100)`."""
        return f"Repad({self.source} -> {self.target})"


@dataclass(frozen=True)
class Invert(ShapedAdapter):
    """Inverts a mask: True comes to mean the opposite."""

    entry: ClassVar[str] = "mask"
    exit: ClassVar[str] = "mask"

    def signature(self) -> Signature:
        """Take a mask of positions to keep, give one of positions to leave out."""
        return Signature(
            takes={"mask": Mask(T, true="keep")[B, T]}, gives={"mask": Mask(T, true="pad")[B, T]}
        )

    def accepts(self, given: NeuralType) -> bool:
        """Accept masks that say what True means."""
        return isinstance(given.element, Mask) and given.element.true in _OPPOSITE

    def convert(self, element: Mask) -> Element:
        """Turn keep into pad and pad into keep."""
        return dataclasses.replace(element, true=_OPPOSITE[str(element.true)])

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where the two meanings meet."""
        if not isinstance(wanted.element, Mask) or not isinstance(given.element, Mask):
            return
        if wanted.element.true == _OPPOSITE.get(str(given.element.true)):
            yield cls()

    def notation(self) -> str:
        """Write `Invert(mask)`."""
        return "Invert(mask)"


_OPPOSITE = {"keep": "pad", "pad": "keep"}


@dataclass(frozen=True)
class MaskToLengths(Adapter):
    """Counts the True positions of a keep mask: the lengths of rows that are padded behind their end."""

    entry: ClassVar[str] = "mask"
    exit: ClassVar[str] = "lengths"

    def signature(self) -> Signature:
        """Take a mask, give lengths."""
        return Signature(takes={"mask": Mask(T, true="keep")[B, T]}, gives={"lengths": Lengths(T)[B]})

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where lengths are wanted and a mask is given."""
        if isinstance(wanted.element, Lengths) and isinstance(given.element, Mask):
            yield cls()


@dataclass(frozen=True)
class LengthsToMask(Adapter):
    """Makes a mask out of lengths; `like` is any value `[B, T, ...]` that has the axis to be masked."""

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "mask"

    true: Literal["keep", "pad"] = "keep"

    def signature(self) -> Signature:
        """Take lengths and a value of the masked size, give a mask."""
        return self.signature_for({})

    def signature_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for the axes that follow the two in `like`."""
        like = given.get("like")
        rest = like.axes[2:] if like is not None else ()
        return Signature(
            takes={"lengths": Lengths(T)[B], "like": NeuralType(Any_(), (B, T, *rest))},
            gives={"mask": Mask(T, true=self.true)[B, T]},
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where a mask is wanted and lengths are given."""
        if isinstance(wanted.element, Mask) and isinstance(given.element, Lengths):
            yield cls("pad" if wanted.element.true == "pad" else "keep")

    def notation(self) -> str:
        """Write `LengthsToMask(true=keep)`."""
        return f"LengthsToMask(true={self.true})"


@dataclass(frozen=True)
class Subsample(Adapter):
    """Divides lengths by the stride of a module, rounding as it does: ceil(n / by), or floor(n / by)."""

    entry: ClassVar[str] = "lengths"
    exit: ClassVar[str] = "lengths"

    by: int
    rounding: Literal["ceil", "floor"] = "ceil"

    def signature(self) -> Signature:
        """Take lengths, give shorter ones."""
        after = T.ceildiv(self.by) if self.rounding == "ceil" else T // self.by
        return Signature(takes={"lengths": Lengths(T)[B]}, gives={"lengths": Lengths(after)[B]})

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose both roundings for the whole number by which the given lengths are too long."""
        if isinstance(wanted.element, Lengths) and isinstance(given.element, Lengths):
            by = _times_longer(given.element.of, wanted.element.of)
            if by is not None and by.denominator == 1 and by > 1:
                yield cls(int(by))
                yield cls(int(by), "floor")

    def notation(self) -> str:
        """Write `Subsample(by=2)`."""
        return (
            f"Subsample(by={self.by})"
            if self.rounding == "ceil"
            else f"Subsample(by={self.by}, rounding=floor)"
        )


def _times_longer(given: Size | None, wanted: Size | None) -> Fraction | None:
    return None if given is None or wanted is None else gap(wanted, given).factor
