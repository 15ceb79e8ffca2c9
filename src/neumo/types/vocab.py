"""Vocabularies with identity: ordered labels, the roles some play, and how two vocabularies differ."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import weakref
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal

from neumo.types.errors import ConfigError, DataError
from neumo.types.normalise import Normalise
from neumo.types.pieces import extends, join_pieces, read_pieces

Unit = Literal["char", "word", "piece"]
ROLES = ("pad", "blank", "bos", "eos", "unk")
BLANK = "<blank>"
ENDS = (("bos", "<bos>"), ("eos", "<eos>"))
_NAME = re.compile(r"[A-Za-z_][\w.+\-]*")


class Relation(Enum):
    """How one vocabulary relates to another; read `a.relation(b)` as "a ... b".

    >>> Vocab("abc").relation(Vocab("ab"))
    <Relation.EXTENDS: 'extends'>
    """

    SAME = "same"
    EXTENDS = "extends"
    PREFIX = "is a prefix of"
    ROLES = "has other roles than"
    PERMUTED = "is a permutation of"
    OVERLAPS = "overlaps"
    DISJOINT = "is disjoint from"


@dataclass(frozen=True)
class VocabDifference:
    """The difference between a given and a wanted vocabulary, ready to be told.

    `index` is where the orders first differ, `given_label` and `wanted_label` what is there (None past the
    end).

    >>> Vocab("ba").difference(Vocab("ab")).sentence
    "the same 2 labels in another order, first difference at index 0: 'b' there, 'a' here"
    """

    relation: Relation
    sentence: str
    index: int | None = None
    given_label: str | None = None
    wanted_label: str | None = None
    only_given: tuple[str, ...] = ()
    only_wanted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Encoding:
    """What `Vocab.encode` found: the ids, and every piece of the text that has no label of its own.

    >>> Vocab("ab").encode("abc")
    Encoding(ids=(0, 1), unknown=('c',))
    """

    ids: tuple[int, ...]
    unknown: tuple[str, ...] = ()


class Vocab:
    """An ordered set of labels with the roles `pad`, `blank`, `bos`, `eos`, `unk` (an index or a label each).

    Labels, their order and their roles are the identity; the `name` is for people. `unit` says whether a text
    is cut into characters, words or pieces. Pieces are cut by `model`, a SentencePiece model as bytes, and
    joined again without it. `normalise` says how texts are written before they are cut. What cuts a text is
    part of the identity as well.

    >>> letters = Vocab.english()
    >>> len(letters), letters.index("a"), letters[0], str(letters)
    (28, 1, ' ', 'en[28]#c4af7923')
    >>> letters.with_blank()
    Vocab(en+blank[29]#040063b9)
    """

    __slots__ = (
        "__weakref__", "_digest", "_hash", "_index",
        "blank", "bos", "eos", "labels", "model", "name", "normalise", "pad", "unit", "unk",
    )  # fmt: skip

    def __init__(
        self,
        labels: str | Iterable[str],
        name: str = "",
        pad: int | str | None = None,
        blank: int | str | None = None,
        bos: int | str | None = None,
        eos: int | str | None = None,
        unk: int | str | None = None,
        *,
        unit: Unit = "char",
        model: bytes | str | None = None,
        normalise: Normalise | Mapping[str, Any] | None = None,
    ) -> None:
        self.labels: tuple[str, ...] = _ordered(labels)
        self.name = name
        self.unit: Unit = unit
        self.model: bytes | None = _model_bytes(model)
        self.normalise = None if normalise is None else Normalise.from_data(normalise)
        self._index = {label: n for n, label in enumerate(self.labels)}
        self._check()
        self.pad = self._role("pad", pad)
        self.blank = self._role("blank", blank)
        self.bos = self._role("bos", bos)
        self.eos = self._role("eos", eos)
        self.unk = self._role("unk", unk)
        self._hash = hash((self.labels, self.roles, unit, self.model, self.normalise))
        self._digest = ""
        _KNOWN[id(self)] = self

    def _check(self) -> None:
        if not self.labels:
            raise ConfigError("a vocabulary needs at least one label", code="vocab")
        if len(self._index) < len(self.labels):
            twice = next(x for n, x in enumerate(self.labels) if self._index[x] != n)
            raise ConfigError(f"the vocabulary has the label {twice!r} twice", code="vocab")
        if self.name and not (isinstance(self.name, str) and _NAME.fullmatch(self.name)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"{self.name!r} cannot name a vocabulary",
                code="vocab",
                why="Use letters, digits and . _ + - only.",
            )
        if self.unit not in ("char", "word", "piece"):
            what = f"a vocabulary's unit is 'char', 'word' or 'piece', not {self.unit!r}"
            raise ConfigError(what, code="vocab")
        if self.model is None:
            return
        if self.unit != "piece":
            raise ConfigError(f"a vocabulary of {self.unit}s has no SentencePiece model", code="vocab")
        if not extends(self.labels, read_pieces(self.model).pieces):
            raise ConfigError("the labels are not the pieces of their SentencePiece model", code="vocab")

    def _role(self, role: str, value: int | str | None) -> int | None:
        if value is None:
            return None
        index = self._index.get(value, -1) if isinstance(value, str) else value
        if type(index) is int and 0 <= index < len(self.labels):
            return index
        raise ConfigError(
            f"{role}={value!r} is not in this vocabulary of {len(self.labels)} labels", code="vocab"
        )

    @classmethod
    def english(cls) -> Vocab:
        """Make the 28 labels of the public English models: space, a to z, apostrophe.

        >>> "".join(Vocab.english())
        " abcdefghijklmnopqrstuvwxyz'"
        """
        return cls(" abcdefghijklmnopqrstuvwxyz'", name="en")

    @classmethod
    def of_pieces(
        cls, model: bytes | str, name: str = "", normalise: Normalise | Mapping[str, Any] | None = None
    ) -> Vocab:
        """Make the vocabulary of a SentencePiece model, given as the bytes of its file or as base64.

        The roles are those that the model gives. `neumo.data.pieces` cuts texts with it.
        """
        known = read_pieces(_model_bytes(model) or b"")
        roles: dict[str, Any] = dict(known.roles)
        return cls(known.pieces, name, **roles, unit="piece", model=model, normalise=normalise)

    @property
    def roles(self) -> tuple[tuple[str, int], ...]:
        """The roles that are filled, as (role, index)."""
        filled = ((role, getattr(self, role, None)) for role in ROLES)
        return tuple((role, index) for role, index in filled if index is not None)

    @property
    def digest(self) -> str:
        """Eight hex digits of the sha256 of labels and roles."""
        if not self._digest:
            identity: list[Any] = [self.labels, dict(self.roles)]
            if self.unit != "char":
                identity.append(self.unit)
            if self.model is not None:
                identity.append(read_pieces(self.model).digest)
            if self.normalise is not None:
                identity.append(self.normalise.to_data())
            text = json.dumps(identity, ensure_ascii=False, sort_keys=True)
            self._digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return self._digest

    def index(self, label: str) -> int:
        """Look a label's index up; an unknown label is a `ConfigError`.

        >>> Vocab("ab").index("b")
        1
        """
        if label not in self._index:
            raise ConfigError(f"the vocabulary {self} has no label {label!r}", code="vocab")
        return self._index[label]

    def with_blank(self, where: Literal["end", "start"] = "end") -> Vocab:
        """Add the CTC blank behind (or before) the labels: another vocabulary, so it cannot be mixed up.

        >>> Vocab("ab").with_blank().blank, Vocab("ab").with_blank("start").blank
        (2, 0)
        """
        if self.blank is not None:
            raise ConfigError(
                f"the vocabulary {self} already has a blank, at index {self.blank}",
                code="vocab",
                fixes=("give the labels without the blank: it is added to them",),
            )
        if where not in ("end", "start"):
            raise ConfigError(f"the blank goes to the 'end' or the 'start', not {where!r}", code="vocab")
        name = self.name or "vocab"
        shift = int(where == "start")
        labels = (BLANK, *self.labels) if shift else (*self.labels, BLANK)
        roles = {role: index + shift for role, index in self.roles}
        roles["blank"] = 0 if shift else len(self)
        return self.extended(labels, f"blank+{name}" if shift else f"{name}+blank", roles)

    def extended(self, labels: Iterable[str], name: str, roles: Mapping[str, int]) -> Vocab:
        """Make a vocabulary of more labels whose texts are written and cut as those of this one are.

        >>> Vocab(["yes"], unit="word").extended(["yes", "<eos>"], "eos", {"eos": 1}).unit
        'word'
        """
        given: dict[str, Any] = dict(roles)
        return Vocab(labels, name, **given, unit=self.unit, model=self.model, normalise=self.normalise)

    def with_ends(self) -> Vocab:
        """Add `<bos>` and `<eos>` behind the labels, for decoders that write one label after the other.

        >>> ends = Vocab("ab", name="two").with_ends()
        >>> ends.labels, ends.bos, ends.eos
        (('a', 'b', '<bos>', '<eos>'), 2, 3)

        The labels keep their indices and roles: ids of this vocabulary mean the same there. An end that has
        its role already, as in many vocabularies of pieces, is not added again.
        """
        added = [(role, end) for role, end in ENDS if role not in dict(self.roles)]
        if not added:
            return self
        roles = dict(self.roles) | {role: len(self) + n for n, (role, _) in enumerate(added)}
        labels = (*self.labels, *(end for _, end in added))
        return self.extended(labels, f"{self.name or 'vocab'}+ends", roles)

    def relation(self, other: Vocab) -> Relation:
        """Say how this vocabulary relates to another.

        >>> Vocab("ab").relation(Vocab("ba")), Vocab("ab").relation(Vocab("cd"))
        (<Relation.PERMUTED: 'is a permutation of'>, <Relation.DISJOINT: 'is disjoint from'>)
        """
        if self == other:
            return Relation.SAME
        mine, theirs = self.labels, other.labels
        if mine == theirs:
            return Relation.ROLES
        alike = (self.unit, self.model, self.normalise) == (other.unit, other.model, other.normalise)
        if alike and mine[: len(theirs)] == theirs and self._roles_agree(other):
            return Relation.EXTENDS
        if alike and theirs[: len(mine)] == mine and other._roles_agree(self):
            return Relation.PREFIX
        shared = self._index.keys() & other._index.keys()
        if len(shared) == len(mine) == len(theirs):
            return Relation.PERMUTED
        return Relation.OVERLAPS if shared else Relation.DISJOINT

    def _roles_agree(self, shorter: Vocab) -> bool:
        """Tell whether every role of the shorter vocabulary is the same here."""
        mine = dict(self.roles)
        return all(mine.get(role) == index for role, index in shorter.roles)

    def difference(self, wanted: Vocab) -> VocabDifference:
        """Describe this (given) vocabulary against a wanted one, in one sentence and in data.

        >>> Vocab("abx").difference(Vocab("abc")).only_given
        ('x',)
        """
        relation = self.relation(wanted)
        index = next(
            (n for n, (a, b) in enumerate(zip(self.labels, wanted.labels, strict=False)) if a != b), None
        )
        if index is None and len(self) != len(wanted):
            index = min(len(self), len(wanted))
        parts = VocabDifference(
            relation,
            "",
            index,
            None if index is None or index >= len(self) else self.labels[index],
            None if index is None or index >= len(wanted) else wanted.labels[index],
            tuple(x for x in self.labels if x not in wanted._index),
            tuple(x for x in wanted.labels if x not in self._index),
        )
        return replace(parts, sentence=_sentence(self, wanted, parts))

    def encode(self, text: str) -> Encoding:
        """Turn a text into ids; pieces without a label become `unk` if there is one, and are always reported.

        >>> Vocab(["yes", "no"], unit="word").encode("yes no maybe")
        Encoding(ids=(0, 1), unknown=('maybe',))

        Texts are written as `normalise` says before. Pieces are cut by `neumo.data.encode_text`, as this room
        needs the standard library only.
        """
        if self.unit == "piece":
            raise ConfigError(
                f"the vocabulary {self} has pieces, which its SentencePiece model cuts",
                code="vocab",
                fixes=["neumo.data.pieces.encode(vocab, text)"],
            )
        text = text if self.normalise is None else self.normalise(text)
        pieces: Sequence[str] = text.split() if self.unit == "word" else text
        ids: list[int] = []
        unknown: list[str] = []
        for piece in pieces:
            index = self._index.get(piece)
            if index is None:
                unknown.append(piece)
                index = self.unk
            if index is not None:
                ids.append(index)
        return Encoding(tuple(ids), tuple(unknown))

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids into a text, leaving pad, blank, bos and eos out; an id outside is a `DataError`.

        >>> Vocab.english().decode([1, 2, 0, 3])
        'ab c'
        """
        silent = self.silent
        pieces: list[str] = []
        for value in ids:
            index = int(value)
            if not 0 <= index < len(self.labels):
                raise DataError(
                    f"id {index} is outside the vocabulary {self} of {len(self)} labels", code="ids"
                )
            if index not in silent:
                pieces.append(self.labels[index])
        if self.unit == "piece":
            return join_pieces(pieces)
        return (" " if self.unit == "word" else "").join(pieces)

    @property
    def silent(self) -> frozenset[int | None]:
        """Give the ids that stand for nothing in a text: pad, blank, bos and eos."""
        return frozenset((self.pad, self.blank, self.bos, self.eos))

    def to_data(self) -> dict[str, Any]:
        """Write the vocabulary as plain values for YAML or JSON.

        >>> Vocab("ab", name="two", blank=1).to_data()
        {'labels': ['a', 'b'], 'name': 'two', 'blank': 1}
        """
        data: dict[str, Any] = {"labels": list(self.labels)}
        if self.name:
            data["name"] = self.name
        if self.unit != "char":
            data["unit"] = self.unit
        if self.model is not None:
            data["model"] = base64.b64encode(self.model).decode("ascii")
        if self.normalise is not None:
            data["normalise"] = self.normalise.to_data()
        return data | dict(self.roles)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Vocab:
        """Read what `to_data` wrote; unknown keys are refused.

        >>> Vocab.from_data({"labels": "ab", "blank": "b"}).blank
        1
        """
        known = {"labels", "name", "unit", "model", "normalise", *ROLES}
        unknown = [key for key in data if key not in known]
        if unknown or "labels" not in data:
            what = f"has no {unknown[0]!r}" if unknown else "needs labels"
            from neumo.types.errors import did_you_mean

            fixes = did_you_mean(str(unknown[0]), known) if unknown else ()
            raise ConfigError(f"a vocabulary {what}", code="vocab", fixes=fixes)
        return cls(**dict(data))

    def __len__(self) -> int:
        return len(self.labels)

    def __iter__(self) -> Any:
        return iter(self.labels)

    def __getitem__(self, index: int) -> str:
        return self.labels[index]

    def __contains__(self, label: object) -> bool:
        return label in self._index

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Vocab) or self._hash != other._hash:
            return False
        mine, its = ((v.labels, v.roles, v.unit, v.model, v.normalise) for v in (self, other))
        return mine == its

    def __str__(self) -> str:
        return f"{self.name or 'vocab'}[{len(self)}]#{self.digest}"

    def __repr__(self) -> str:
        return f"Vocab({self})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocab.from_data, (self.to_data(),)


@dataclass(frozen=True)
class AtLeast:
    """Wanted facet: this vocabulary or a prefix of it, whose ids mean the same.

    >>> AtLeast(Vocab("ab", name="two")).vocab.name
    'two'
    """

    vocab: Vocab

    def __post_init__(self) -> None:
        if not isinstance(self.vocab, Vocab):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"AtLeast takes a Vocab, not {self.vocab!r}", code="vocab")

    def __str__(self) -> str:
        return f"at_least({self.vocab})"


_KNOWN: weakref.WeakValueDictionary[int, Vocab] = weakref.WeakValueDictionary()


def find_vocab(digest: str, extra: Iterable[Vocab] = (), *, name: str = "") -> Vocab | None:
    """Find a vocabulary of this process by its digest, so that printed types can be read back.

    Those of `extra` come first; of several with one identity, the one of this `name` is preferred.

    >>> letters = Vocab.english()
    >>> find_vocab(letters.digest) == letters
    True
    """
    for pool in (extra, _KNOWN.values()):
        found = [vocab for vocab in pool if vocab.digest == digest]
        if found:
            return next((vocab for vocab in found if vocab.name == name), found[0])
    return None


def _model_bytes(model: object) -> bytes | None:
    """Take a SentencePiece model as bytes, or as the base64 in which a recipe holds it."""
    if model is None or isinstance(model, bytes):
        return model
    try:
        return base64.b64decode(str(model).encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise ConfigError("the model of a vocabulary is neither bytes nor base64", code="vocab") from None


def _ordered(labels: object) -> tuple[str, ...]:
    """Take the labels in their order; a set has none, and the order of a dict is not that of its indices."""
    kind = type(labels).__name__
    if isinstance(labels, Mapping | Set) or not isinstance(labels, Iterable):
        raise ConfigError(
            f"the labels of a vocabulary come in order, as a text or a list, not as {kind}",
            code="vocab",
            fixes=["sorted(labels, key=labels.get) puts a dict of indices in order"]
            if isinstance(labels, Mapping)
            else ["sorted(labels) gives a set an order"] * isinstance(labels, Set),
        )
    found: tuple[Any, ...] = tuple(labels)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    for n, label in enumerate(found):
        if not isinstance(label, str):
            raise ConfigError(f"label {n} of the vocabulary is {label!r}, not a text", code="vocab")
    return found


def _sentence(given: Vocab, wanted: Vocab, parts: VocabDifference) -> str:
    relation, size = parts.relation, len(given)
    if relation is Relation.SAME:
        return f"the same {size} labels"
    if relation is Relation.ROLES and given.roles == wanted.roles and given.unit == wanted.unit:
        if given.model != wanted.model:
            return f"the same {size} labels of another SentencePiece model, which cuts texts in another way"
        there, here = (vocab.normalise or "as it is" for vocab in (given, wanted))
        return f"the same {size} labels for texts that are written differently: {there} there, {here} here"
    if relation is Relation.ROLES and given.roles == wanted.roles:
        return f"the same {size} labels for another unit: {given.unit} there, {wanted.unit} here"
    if relation is Relation.ROLES:
        return f"the same {size} labels with other roles: {_roles(given)} there, {_roles(wanted)} here"
    if relation is Relation.PERMUTED and (moved := _moved_roles(given, wanted)):
        return f"the same {size} labels, but {moved}"
    if relation is Relation.PERMUTED:
        at = f"at index {parts.index}: {parts.given_label!r} there, {parts.wanted_label!r} here"
        return f"the same {size} labels in another order, first difference {at}"
    if relation is Relation.EXTENDS:
        more = f"{size - len(wanted)} more behind them: {_some(parts.only_given)}"
        return f"the wanted {len(wanted)} labels and {more}"
    if relation is Relation.PREFIX:
        return f"only the first {size} of the wanted {len(wanted)} labels, without {_some(parts.only_wanted)}"
    if relation is Relation.DISJOINT:
        return f"none of the {size} labels is among the wanted {len(wanted)}: {_some(given.labels)} there"
    there, here = parts.only_given, parts.only_wanted
    tell = [f"{_some(there)} only there"] * bool(there) + [f"{_some(here)} only here"] * bool(here)
    return f"other labels: {'; '.join(tell)}"


def _moved_roles(given: Vocab, wanted: Vocab) -> str:
    """Say which roles stand elsewhere, if the labels without a role stand in one order; else nothing."""
    played = {vocab[index] for vocab in (given, wanted) for _, index in vocab.roles}
    one, two = ([label for label in vocab if label not in played] for vocab in (given, wanted))
    if one != two:
        return ""
    here = dict(wanted.roles)
    moved = [(role, index, here.get(role)) for role, index in given.roles if here.get(role) != index]
    places = (
        f"the {role} is {_place(given, there)} there and {_place(wanted, at)} here"
        for role, there, at in moved
        if at is not None
    )
    return ", ".join(places)


def _place(vocab: Vocab, index: int) -> str:
    return "first" if index == 0 else "last" if index == len(vocab) - 1 else f"at index {index}"


def _roles(vocab: Vocab) -> str:
    return ", ".join(f"{role}={index}" for role, index in vocab.roles) or "none"


def _some(labels: Sequence[str], limit: int = 5) -> str:
    shown = ", ".join(repr(label) for label in labels[:limit])
    return shown + (f" and {len(labels) - limit} more" if len(labels) > limit else "")
