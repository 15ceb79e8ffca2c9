"""The printed form of types, and its way back: `parse(str(t)) == t`.

    Mel(rate=16000, n_mels=64)[B, F=64, T//160 + 1]     element, facets, axes
    Lengths(ceil(T/2))[B]    Mask(T, true=keep)[B, T]    what is measured comes first, without its name
    LogProbs(en+blank[29]#e5b6c69f)[B, T, V=en+blank[29]#e5b6c69f]
    Ids?[B, T]    Loss*[]    may be left out; takes several values; no axes
    Ids[B, U] when train                                 there in training only
    Audio(rate=$rate)[B, T=?]                            a facet variable; a size known only at run time
    Acoustic[B, F=64, T at 50 Hz]    Strings[list B]     a clock in ticks per second; a Python list
    Struct(text=Ids[B, U], score=Score[B])[]             named fields that are types

A word that is a text needs no quotes (`scale=ln`, `frame=bos..eos`). A vocabulary is found by its digest
among `names` and the vocabularies of this process, or by the name it has in `names` (`Ids(letters)`,
`Ids(letters+blank)`, `Ids(letters+ends)`). An axis shows its kind (`F=`) unless the names of its symbols
imply it (`T2`, `U'`, `C`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from neumo.types.axis import ONE, Axis, Kind, kind_of_size
from neumo.types.coherence import coherent
from neumo.types.element import Element, Facet, Var, element_class, facets_of
from neumo.types.errors import ConfigError, did_you_mean
from neumo.types.size import Size, Symbol
from neumo.types.structs import Struct
from neumo.types.type import NeuralType, When
from neumo.types.vocab import AtLeast, Vocab, find_vocab

Names = Mapping[str, Vocab]

_WORD = re.compile(r"[A-Za-z_][\w\-]*(\.{1,2}[\w\-]*)*")
_NAMED = re.compile(r"\s*([A-Za-z_]\w*)\s*=")
_KINDS = {kind.value: kind for kind in Kind} | {"C": Kind.FEATURE, "U": Kind.TIME}
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<vocab>[A-Za-z_][\w.+\-]*\[\d+\]\#[0-9a-f]{8})
  | (?P<number>\d+(?:\.\d*)?(?:[eE][+\-]?\d+)?|\.\d+(?:[eE][+\-]?\d+)?)
  | (?P<name>[A-Za-z_]\w*'*(?:@[\w.\-]+)?)
  | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<sign>//|[()\[\],=+\-*/?$])
    )""",
    re.VERBOSE,
)


def type_text(t: NeuralType, *, owners: bool = False, facets: frozenset[str] | None = None) -> str:
    """Print a type; see `NeuralType.text`.

    >>> from neumo.types.axis import B, T
    >>> from neumo.types.element import Lengths
    >>> type_text(Lengths(T)[B])
    'Lengths(T)[B]'
    """
    marks = ("?" if t.optional else "") + ("*" if t.many else "")
    axes = ", ".join(_axis_texts(t, owners, facets))
    when = f" when {t.when}" if t.when else ""
    return f"{element_text(t.element, owners=owners, only=facets)}{marks}[{axes}]{when}"


def _axis_texts(t: NeuralType, owners: bool, facets: frozenset[str] | None) -> Iterator[str]:
    """Print the axes; where facets are limited, a clock is shown only if asked for, but implied or not."""
    asked = facets is not None and "clock" in facets
    clocks = (t.clocks if asked else ()) or (None,) * t.rank
    for axis, clock in zip(t.axes, clocks, strict=True):
        text = axis.text(owners=owners, clock=facets is None)
        yield f"{text} at {clock} Hz" if clock is not None else text


def element_text(element: Element, *, owners: bool = False, only: frozenset[str] | None = None) -> str:
    """Print an element with the facets that are not at their default, or only those named in `only`.

    If "..." is among the names, dots stand for those that are left out.

    >>> from neumo.types.element import Mask
    >>> element_text(Mask(Symbol("T"), true="keep"))
    'Mask(T, true=keep)'
    """
    parts: list[str] = []
    if isinstance(element, Struct):
        fields = element.fields.items()
        new = [(name, field) for name, field in fields if element.stated.get(name) != field]
        parts = [
            f"{name}={type_text(field, owners=owners, facets=only and only | {'of'})}" for name, field in new
        ]
    dots = False
    for position, (name, known) in enumerate(facets_of(type(element)).items()):
        value = getattr(element, name)
        if _same(value, known.default):
            continue
        if only is not None and name not in only:
            dots = dots or "..." in only
            continue
        body = value.text(owners=owners) if isinstance(value, Size) else facet_text(value)
        parts.append(body if known.positional and position == len(parts) else f"{name}={body}")
    parts += ["..."] * dots
    return f"{element.label}({', '.join(parts)})" if parts else element.label


def _same(value: Any, default: Any) -> bool:
    """Tell whether a facet is at its default; 1 and True are two values."""
    return value is default or (type(value) is type(default) and value == default)


def facet_text(value: Any) -> str:
    """Print the value of a facet; a text that is one plain word needs no quotes.

    >>> facet_text("ln"), facet_text("per feature"), facet_text(1e-05), facet_text(Var("rate"))
    ('ln', '"per feature"', '1e-05', '$rate')
    """
    if isinstance(value, str):
        plain = _WORD.fullmatch(value) and value not in ("None", "True", "False", "inf", "nan")
        return value if plain else json.dumps(value, ensure_ascii=False)
    return str(value)


def parse(text: str, names: Names | None = None) -> NeuralType:
    """Read a type in its printed form; what cannot be read is a `ConfigError` that points at it.

    >>> from neumo.types.vocab import Vocab
    >>> parse("Mel(n_mels=64)[B, F(64), T//160 + 1]")
    Mel(n_mels=64)[B, F=64, T//160 + 1]
    >>> parse("Ids(letters)[B, U]", names={"letters": Vocab.english()})
    Ids(en[28]#c4af7923)[B, U]
    """
    return _read(text, names, _Reader.type)


def parse_element(text: str, names: Names | None = None) -> Element:
    """Read an element in its printed form.

    >>> parse_element("Audio(rate=16000)")
    Audio(rate=16000)
    """
    return _read(text, names, _Reader.element)


def parse_size(text: str) -> Size:
    """Read a size in its printed form.

    >>> parse_size("ceil((T//160 + 1)/2)")
    T//320 + 1
    """
    return _read(text, None, _Reader.size)


def _read(text: str, names: Names | None, rule: Callable[[_Reader], Any]) -> Any:
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"a type is read from a text, not from {text!r}", code="notation")
    reader = _Reader(text, names or {})
    try:
        return reader.finish(rule(reader))
    except RecursionError:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        raise ConfigError(f"cannot read {shown!r}: it is nested too deeply", code="notation") from None


class _Reader:
    """A recursive-descent reader over one text."""

    def __init__(self, text: str, names: Names) -> None:
        self.text = text
        self.names = names
        self.at = 0  # where the next token begins

    def error(self, what: str, *, at: int | None = None, **more: Any) -> ConfigError:
        """Make the error, with a caret under the place."""
        at = self.at if at is None else at
        at += len(self.text[at:]) - len(self.text[at:].lstrip())
        return ConfigError(
            f"cannot read {self.text!r}: {what}",
            code="notation",
            details=("  " + self.text, "  " + " " * at + "^"),
            **more,
        )

    def peek(self) -> tuple[str, str]:
        """Look at the next token: its kind and its text ("end" at the end)."""
        match = _TOKEN.match(self.text, self.at)
        if match is not None:
            return str(match.lastgroup), match.group(str(match.lastgroup))
        if self.text[self.at :].strip():
            raise self.error("unexpected character here")
        return "end", ""

    def take(self) -> tuple[str, str]:
        """Read the next token."""
        token = self.peek()
        match = _TOKEN.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return token

    def accept(self, sign: str) -> bool:
        """Read this sign if it comes next."""
        if self.peek() == ("sign", sign):
            self.take()
            return True
        return False

    def expect(self, sign: str) -> None:
        """Read this sign or fail."""
        if not self.accept(sign):
            raise self.error(f"expected {sign!r} here")

    def finish(self, result: Any) -> Any:
        """Make sure that nothing is left."""
        if self.peek()[0] != "end":
            raise self.error("nothing may follow here")
        return result

    # types

    def type(self) -> NeuralType:
        element = self.element()
        optional = self.accept("?")
        many = self.accept("*")
        self.expect("[")
        axes: list[Axis] = []
        while not self.accept("]"):
            if axes:
                self.expect(",")
            axes.append(self.axis())
        return coherent(NeuralType(element, tuple(axes), optional, many, self.when()))

    def when(self) -> When:
        """Read ` when train`, if it is there."""
        if not self.accept_word("when"):
            return None
        if not self.accept_word("train"):
            raise self.error("expected 'train' here")
        return "train"

    def element(self) -> Element:
        kind, word = self.peek()
        if kind != "name":
            raise self.error("expected the name of an element here")
        self.take()
        cls = element_class(word)
        if issubclass(cls, Struct):
            return cls(**self.fields())
        facets = facets_of(cls)
        values: dict[str, Any] = {}
        if self.accept("("):
            while not self.accept(")"):
                if values:
                    self.expect(",")
                at = self.at
                name = self.facet_name(cls, facets, len(values))
                if name in values:
                    raise self.error(f"{name} is given twice", at=at)
                values[name] = self.facet(facets[name])
        return cls(**values)

    def fields(self) -> dict[str, NeuralType]:
        """Read the fields of a struct: `(text=Ids[B, U], score=Score[B])`, or nothing."""
        found: dict[str, NeuralType] = {}
        if self.accept("("):
            while not self.accept(")"):
                if found:
                    self.expect(",")
                named = _NAMED.match(self.text, self.at)
                if named is None or named.group(1) in found:
                    raise self.error("expected the name of a field here, each once")
                self.at = named.end()
                found[named.group(1)] = self.type()
        return found

    def facet_name(self, cls: type[Element], facets: Mapping[str, Facet], position: int) -> str:
        """Read `name=`, or take the facet that stands at this position."""
        named = _NAMED.match(self.text, self.at)
        if named is not None:
            word = named.group(1)
            if word not in facets:
                raise self.error(f"{cls.label} has no facet {word!r}", fixes=did_you_mean(word, facets))
            self.at = named.end()
            return word
        if position < len(facets):
            return list(facets)[position]
        raise self.error(f"{cls.label} takes {len(facets)} facets")

    def facet(self, known: Facet) -> Any:
        kind, word = self.peek()
        if self.accept("$"):
            return Var(self.word())
        if (kind, word) == ("name", "None"):
            self.take()
            return None
        if known.kind == "size":
            return self.size()
        if known.kind == "vocab":
            return self.vocab()
        return self.value()

    def value(self) -> Any:
        """Read a number, a truth value or a text."""
        kind, word = self.peek()
        if kind == "text":
            self.take()
            return self.quoted(word)
        if kind == "name" and word not in ("inf", "nan"):
            word = self.word()
            return {"True": True, "False": False}.get(word, word)
        sign = -1 if self.accept("-") else 1
        kind, word = self.take()
        if kind == "number" and word.isdigit():
            return sign * int(word)
        if kind == "number" or word in ("inf", "nan"):
            return sign * float(word)
        raise self.error("expected a number, a word or a quoted text here")

    def quoted(self, word: str) -> str:
        body = word[1:-1]
        if word[0] == "'":
            body = body.replace("\\'", "'").replace('"', '\\"')
        try:
            return str(json.loads(f'"{body}"', strict=False))
        except ValueError:
            raise self.error(f"{word} is not a text that can be read") from None

    def word(self) -> str:
        """Read a plain word, which may hold dots and hyphens (`bos..eos`, `bert-base`)."""
        self.peek()
        start = self.at + len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
        match = _WORD.match(self.text, start)
        if match is None:
            raise self.error("expected a word here")
        self.at = match.end()
        return match.group()

    def vocab(self) -> Vocab | AtLeast:
        """Read a vocabulary, or `at_least(...)` around one."""
        before = self.at
        if self.take() == ("name", "at_least") and self.accept("("):
            inner = self.vocab()
            self.expect(")")
            return inner if isinstance(inner, AtLeast) else AtLeast(inner)
        self.at = before
        return self.plain_vocab()

    def plain_vocab(self) -> Vocab:
        """Read `en[28]#f3b66b0a`, a name of `names`, `name+blank`, `blank+name` or `name+ends`."""
        at = self.at
        kind, word = self.take()
        if kind == "vocab":
            return self.known_vocab(word, at)
        if kind != "name":
            raise self.error("expected a vocabulary here", at=at)
        if not self.accept("+"):
            return self.named_vocab(word, at)
        second = self.take()[1]
        if second == "blank":
            return self.named_vocab(word, at).with_blank("end")
        if second == "ends":
            return self.named_vocab(word, at).with_ends()
        if word == "blank":
            return self.named_vocab(second, at).with_blank("start")
        raise self.error("only a blank or the ends can be added to a vocabulary", at=at)

    def known_vocab(self, word: str, at: int) -> Vocab:
        digest, name = word.rpartition("#")[2], word.partition("[")[0]
        found = find_vocab(digest, self.names.values(), name="" if name == "vocab" else name)
        if found is not None:
            return found
        raise self.error(
            f"no vocabulary with the digest {digest} is known",
            at=at,
            why="A digest says which vocabulary is meant but not what its labels are.",
            fixes=("pass it: parse(text, names={'letters': vocab})",),
        )

    def named_vocab(self, word: str, at: int) -> Vocab:
        if word in self.names:
            return self.names[word]
        raise self.error(f"no vocabulary is called {word!r}", at=at, fixes=did_you_mean(word, self.names))

    # axes and sizes

    def axis(self) -> Axis:
        """Read an axis: `list` before it and a clock behind it are told apart from names by what follows."""
        before = self.at
        listed = self.take() == ("name", "list") and self.peek()[1] not in (",", "]")
        if not listed:
            self.at = before
        axis = self.plain_axis()
        at = self.at
        try:
            axis = axis.at(self.clock()) if self.accept_word("at") else axis
        except ConfigError as error:
            raise error if error.code == "notation" else self.error(error.what, at=at) from None
        return axis.list() if listed else axis

    def accept_word(self, word: str) -> bool:
        """Read this word if it comes next."""
        found = self.peek() == ("name", word)
        if found:
            self.take()
        return found

    def clock(self) -> Fraction:
        """Read `50 Hz` or `11025/128 Hz`."""
        kind, word = self.take()
        if kind != "number":
            raise self.error("expected a number of ticks per second here")
        clock = Fraction(word) / (self.divisor() if self.accept("/") else 1)
        if not self.accept_word("Hz"):
            raise self.error("expected 'Hz' here")
        return clock

    def plain_axis(self) -> Axis:
        before = self.at
        kind, word = self.take()
        if kind == "name" and word in _KINDS:
            if self.accept("="):
                return self.sized(_KINDS[word])
            if self.accept("("):
                axis = self.sized(_KINDS[word])
                self.expect(")")
                return axis
        self.at = before
        if self.accept("?"):
            return Axis(Kind.ANY, None)
        size = self.axis_size()
        implied = kind_of_size(size)
        if implied is not None:
            return Axis(implied, size)
        if size.constant == 1:
            return ONE
        raise self.error(
            f"the kind of the axis {size} is not clear", at=before, fixes=(f"F={size} for a feature axis",)
        )

    def sized(self, kind: Kind) -> Axis:
        """Read what stands behind `F=`: a size, a vocabulary, or `?`."""
        if self.accept("?"):
            return Axis(kind, None)
        ahead, word = self.peek()
        if kind is Kind.VOCAB and (ahead == "vocab" or word in self.names or word == "blank"):
            vocab = self.plain_vocab()
            return Axis(kind, len(vocab), vocab)
        return Axis(kind, self.axis_size())

    def axis_size(self) -> Size:
        before = self.at
        size = self.size()
        if size.negative:
            raise self.error(f"an axis cannot have the size {size}", at=before)
        return size

    def size(self) -> Size:
        negative = self.accept("-")
        total = self.product()
        if negative:
            total = -total
        while True:
            if self.accept("+"):
                total = total + self.product()
            elif self.accept("-"):
                total = total - self.product()
            else:
                return total

    def product(self) -> Size:
        total = self.factor()
        while True:
            if self.accept("*"):
                total = total * self.factor()
            elif self.accept("//"):
                total = total // self.divisor()
            else:
                return total

    def divisor(self) -> int:
        kind, word = self.peek()
        if kind != "number" or not word.isdigit() or int(word) < 1:
            raise self.error("expected a whole number above 0 here")
        self.take()
        return int(word)

    def factor(self) -> Size:
        if self.accept("("):
            inner = self.size()
            self.expect(")")
            return inner
        kind, word = self.peek()
        if kind == "number" and word.isdigit():
            self.take()
            return Size.of(int(word))
        if kind != "name":
            raise self.error("expected a size here")
        self.take()
        if word in ("ceil", "floor"):
            return self.rounded(up=word == "ceil")
        name, _, owner = word.partition("@")
        return Symbol(name, owner=owner).size

    def rounded(self, *, up: bool) -> Size:
        """Read `(size / number)` behind ceil or floor."""
        self.expect("(")
        inner = self.size()
        self.expect("/")
        by = self.divisor()
        self.expect(")")
        return inner.ceildiv(by) if up else inner // by
