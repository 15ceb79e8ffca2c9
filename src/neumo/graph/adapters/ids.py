"""Adapters of ids: vocabulary, padding, marks at the ends of rows, a shift by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Self

from neumo.graph.adapters.adapter import FittingAdapter, ShapedAdapter, from_to
from neumo.graph.signature import Signature
from neumo.types import AtLeast, Axis, B, ConfigError, Element, Ids, Lengths, NeuralType, U, Var, Vocab


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
        """Propose where the wanted vocabulary has every given label, and marks play the same roles there."""
        if isinstance(wanted.element, Ids) and isinstance(given.element, Ids):
            source, target = given.element.vocab, wanted.element.vocab
            target = target.vocab if isinstance(target, AtLeast) else target
            if not isinstance(source, Vocab) or not isinstance(target, Vocab) or source == target:
                return
            if all(label in target for label in source.labels) and _marks_agree(source, target):
                yield cls(source, target)

    def notation(self) -> str:
        """Write `RemapIds(en-sorted -> en)`."""
        return f"RemapIds({from_to(self.source, self.target)})"


@dataclass(frozen=True)
class Repad(FittingAdapter):
    """Changes the id that stands behind the end of each row.

    With `ids_len` it writes the new pad behind each end. Without, it replaces the old pad wherever it stands;
    where the old pad is (or may be) a label as well, that would be wrong, and `ids_len` is required.
    """

    entry: ClassVar[str] = "ids"
    exit: ClassVar[str] = "ids"

    source: int
    target: int

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for these ids; `ids_len` is required where the old pad is also a label."""
        found = given.get("ids")
        element = Ids(Var("vocab"), pad=self.source)
        axes: tuple[Axis, ...] = (B, U)
        if found is not None and isinstance(found.element, Ids) and found.rank == 2:
            element, axes = dataclasses.replace(found.element, pad=self.source), found.axes
        lengths = Lengths(axes[1].size if axes[1].size is not None else U)[axes[0]]
        alone = _is_pad_alone(element.vocab, self.source)
        return Signature(
            takes={"ids": NeuralType(element, axes), "ids_len": lengths.as_optional() if alone else lengths},
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


def _is_pad_alone(vocab: object, pad: int) -> bool:
    """Say whether an id stands for padding and nothing else: it is no label, or that of the role only."""
    if not isinstance(vocab, Vocab):
        return pad < 0
    return not 0 <= pad < len(vocab) or [role for role, index in vocab.roles if index == pad] == ["pad"]


def _marks_agree(source: Vocab, target: Vocab) -> bool:
    """Say whether no label has one role before and another one's place after: `<s>` as bos, then as eos."""
    there = dict(target.roles)
    return all(there.get(role, new) == new for role, new in _moved_roles(source, target))


def _moved_roles(source: Vocab, target: Vocab) -> Iterator[tuple[str, int]]:
    return ((role, target.index(source[index])) for role, index in source.roles)


@dataclass(frozen=True)
class Reframe(FittingAdapter):
    """Adds or takes away the marks at both ends of each row: `none`, `bos..`, `..eos` or `bos..eos`.

    >>> pieces = Vocab(["<pad>", "<s>", "</s>", "cat"], name="pieces", pad=0, bos=1, eos=2, unit="word")
    >>> Reframe("none", "bos..eos", pieces).signature().gives["ids_len"]
    Lengths(U + 2)[B]

    The marks are those of the vocabulary. Where the end of a row changes, `ids_len` says where it is; without
    it, all rows count as full. What is behind the new end is `pad`.
    """

    entry: ClassVar[str] = "ids"
    exit: ClassVar[str] = "ids"

    source: str
    target: str
    vocab: Vocab
    pad: int = 0

    def __post_init__(self) -> None:
        for frame in (self.source, self.target):
            if frame not in _FRAMES:
                raise ConfigError(
                    f"{frame!r} is no frame of ids", code="field", fixes=(f"use {', '.join(_FRAMES)}",)
                )
        for mark in ("bos", "eos"):
            if self.adds(mark) > 0 and getattr(self.vocab, mark) is None:
                raise ConfigError(f"the vocabulary {self.vocab} has no {mark} to add", code="field")

    def adds(self, mark: str) -> int:
        """How many `bos` or `eos` each row gets: 1, 0, or -1 where one is taken away."""
        return (mark in self.target) - (mark in self.source)

    @property
    def longer(self) -> int:
        """By how many ids each row grows."""
        return self.adds("bos") + self.adds("eos")

    def _shifted(self, before: bool | Var | None) -> bool | Var | None:
        """Say whether ids are the next ones: taking bos away and adding eos moves them on."""
        if {self.adds("bos"), self.adds("eos")} != {-1, 1}:
            return before
        moves_on = self.adds("eos") == 1
        return moves_on if before is (not moves_on) else None

    def ports_for(self, given: Mapping[str, NeuralType]) -> Signature:
        """State the ports for these ids; `ids_len` is required where the end of a row changes."""
        found = given.get("ids")
        is_written = (
            self.adds("eos") != 0 or "ids_len" in given
        )  # what is behind the new end, whatever it was
        element = Ids(self.vocab, frame=self.source)
        if found is not None and isinstance(found.element, Ids):
            pad = found.element.pad if is_written or found.element.pad is None else self.pad
            element = dataclasses.replace(found.element, vocab=self.vocab, frame=self.source, pad=pad)
        after = U + self.longer
        behind = self.pad if is_written else element.pad
        marked = dataclasses.replace(
            element, frame=self.target, pad=behind, shifted=self._shifted(element.shifted)
        )
        lengths = Lengths(U)[B]
        return Signature(
            takes={
                "ids": element[B, U],
                "ids_len": lengths if self.adds("eos") else lengths.as_optional(),
            },
            gives={
                "ids": marked[B, after],
                "ids_len": Lengths(after)[B],
            },
        )

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose for two known frames of a vocabulary that has the marks."""
        want, have = wanted.element, given.element
        if not isinstance(want, Ids) or not isinstance(have, Ids) or not isinstance(have.vocab, Vocab):
            return
        source, target, vocab = str(have.frame), str(want.frame), have.vocab
        if source == target or source not in _FRAMES or target not in _FRAMES:
            return
        marks = (mark for mark in ("bos", "eos") if mark in target and mark not in source)
        if all(getattr(vocab, mark) is not None for mark in marks):
            pad = have.pad if isinstance(have.pad, int) else vocab.pad or 0
            yield cls(source, target, vocab, pad)

    def notation(self) -> str:
        """Write `Reframe(none -> bos..eos)`."""
        return f"Reframe({self.source} -> {self.target})"


_FRAMES = ("none", "bos..", "..eos", "bos..eos")


@dataclass(frozen=True)
class Shift(ShapedAdapter):
    """Puts at each position the id that follows it: what a language model is to say next.

    >>> from neumo.graph.inputs import inputs
    >>> text = inputs(ids=Ids(pad=-100, frame="bos..eos", shifted=False)[B, U])
    >>> Shift(-100)(ids=text.ids).ids
    Shift.ids: Ids(pad=-100, frame="..eos", shifted=True)[B, U]

    The last position gets `pad`, which has to be what stands behind the end of each row as well.
    """

    entry: ClassVar[str] = "ids"
    exit: ClassVar[str] = "ids"

    pad: int

    def signature(self) -> Signature:
        """Take and give ids."""
        vocab = Var("vocab")
        return Signature(
            takes={"ids": Ids(vocab, pad=self.pad, shifted=False)[B, U]},
            gives={"ids": Ids(vocab, pad=self.pad, shifted=True)[B, U]},
        )

    def accepts(self, given: NeuralType) -> bool:
        """Accept ids that are not shifted, padded with this very id, in rows along the last axis."""
        element = given.element
        right = isinstance(element, Ids) and element.shifted is False and element.pad == self.pad
        return right and bool(given.axes) and given.axes[-1].kind is U.kind

    def convert(self, element: Ids) -> Element:
        """Shift, and lose the mark at the beginning, which follows nothing."""
        frame = {"bos..": "none", "bos..eos": "..eos"}.get(str(element.frame), element.frame)
        return dataclasses.replace(element, shifted=True, frame=frame)

    @classmethod
    def propose(cls, wanted: NeuralType, given: NeuralType) -> Iterator[Self]:
        """Propose where ids have to be shifted, are known not to be, and have a known pad."""
        want, have = wanted.element, given.element
        if not isinstance(want, Ids) or not isinstance(have, Ids):
            return
        if want.shifted is True and have.shifted is False and isinstance(have.pad, int):
            yield cls(have.pad)

    def notation(self) -> str:
        """Write `Shift(pad=-100)`."""
        return f"Shift(pad={self.pad})"
