"""What drawings are made of: boxes with ports, the links between them, and what is known about each."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal

from neumo.graph.draw.sizes import Hop, Key, Slot

LONGEST: Final = 34  # letters of an element or of settings in a picture; the whole is in the tooltip
NoteKind = Literal["assumed", "warning", "finding"]


@dataclass(frozen=True, slots=True)
class Mark:
    """One size of a type as drawn: an axis, or what lengths count (then `slot` is the name of the facet).

    `symbols` are numbers of `Sketch.symbols`; `clock` is in ticks per second, `told` whether the type
    prints it.
    """

    slot: Slot
    text: str
    symbols: tuple[int, ...] = ()
    clock: Fraction | None = None
    told: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """What was taken on trust or let pass at a connection, or what a rule has to say."""

    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True)
class Socket:
    """A port of a box: its name, its type in full, whether anything is connected, what it measures."""

    name: str
    type: str = ""
    used: bool = True
    minor: bool = False  # lengths and masks accompany the data; drawings show them thinner
    optional: bool = False
    when: str = ""  # the mode that a port is limited to
    marks: tuple[Mark, ...] = ()
    stories: tuple[str, ...] = ()  # where its sizes come from, one line each

    @property
    def element(self) -> str:
        """The type without its axes: `Mel(n_mels=64)`."""
        return _split_axes(self.type)[0]

    @property
    def axes(self) -> str:
        """The axes of the type, in brackets, and what follows them."""
        return _split_axes(self.type)[1]

    @property
    def caption(self) -> str:
        """The name with `?` where the port may be left out, and the mode that it is limited to."""
        return f"{self.name}{'?' * self.optional}{f' ({self.when})' if self.when else ''}"


@dataclass(frozen=True, slots=True)
class Setting:
    """A field of a module, as text, and whether it is at its default."""

    name: str
    text: str
    default: bool


@dataclass(frozen=True, slots=True)
class Box:
    """One step of a graph as drawn."""

    key: str
    title: str
    kind: str
    role: str
    settings: str = ""
    trainable: bool = False
    shared: int = 1  # how many steps use this very module, and so its weights
    takes: tuple[Socket, ...] = ()  # a port that is not `used` is an optional one that was left open
    gives: tuple[Socket, ...] = ()
    tag: int = 0  # the same number on every step that uses this module, 0 where there is one only
    uses: tuple[str, ...] = ()  # all steps that use it, as `graph.step`
    fields: tuple[Setting, ...] = ()
    summary: str = ""
    place: str = ""
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A connection: from an output of one box to an input of another."""

    source: str
    out: str
    target: str
    port: str
    minor: bool = False
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """A symbol of a graph and the value at which it occurs first: `T` of `data.audio`."""

    name: str
    value: str
    text: str


@dataclass(slots=True)
class Sketch:
    """A graph reduced to what drawings show, in topological order."""

    name: str
    mode: str
    boxes: list[Box] = field(default_factory=list[Box])
    links: list[Link] = field(default_factory=list[Link])
    outputs: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    symbols: list[Origin] = field(default_factory=list[Origin])
    notes: list[Note] = field(default_factory=list[Note])  # about the graph as a whole
    hops: dict[Key, Hop] = field(default_factory=dict[Key, Hop])  # empty unless asked for
    keys: dict[int, str] = field(default_factory=dict[int, str])  # the key of a box by the id of its step


def short_type(text: str) -> str:
    """A printed type without the digests of its vocabularies.

    >>> short_type("Ids(en[28]#5a34be53)[B, U]")
    'Ids(en[28])[B, U]'
    """
    return re.sub(r"(\[\d+\])#[0-9a-f]{8}", r"\1", text)


def shorten(text: str, longest: int = LONGEST) -> str:
    """Cut a type or settings to what can be read at a glance, between two facets where that is possible.

    >>> shorten("Audio(rate=16000, peak=1.0, channels=1)"), shorten("vocab=en[28], width=128", 20)
    ('Audio(rate=16000, peak=1.0, …)', 'vocab=en[28], …')
    >>> shorten("Struct(mel=Mel(n_mels=8)[B, T], n=Lengths(T))"), shorten("Struct(mel=Mel(rate=1))", 12)
    ('Struct(mel=Mel(n_mels=8)[B, T], …)', 'Struct(mel=…')
    """
    text = short_type(text)
    if len(text) <= longest:
        return text
    whole = text.endswith(")")  # an element, cut between its own facets; else settings, cut between them
    end = ", …)" if whole else ", …"
    depth, cut = 0, 0
    for index, sign in enumerate(text[: longest - len(end) + 1]):
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth <= whole:
            cut = index
    return text[:cut] + end if cut else text[: longest - 1] + "…"


def counted(number: int, what: str) -> str:
    """Write a number of things.

    >>> counted(1, "step"), counted(2, "step")
    ('1 step', '2 steps')
    """
    return f"{number} {what}{'s' * (number != 1)}"


def clock_text(clock: Fraction) -> str:
    """Write ticks per second.

    >>> clock_text(Fraction(100)), clock_text(Fraction(11025, 128))
    ('100 Hz', '86.13 Hz')
    """
    return f"{clock} Hz" if clock.denominator == 1 else f"{float(clock):.4g} Hz"


def _split_axes(text: str) -> tuple[str, str]:
    """Split a printed type where its axes begin: at the bracket that the last one closes."""
    depth, end = 0, len(re.sub(r" when \w+$", "", text))
    for index in range(end - 1, -1, -1):
        depth += (text[index] == "]") - (text[index] == "[")
        if depth == 0:
            return (text[:index], text[index:]) if text[index] == "[" else (text, "")
    return text, ""
