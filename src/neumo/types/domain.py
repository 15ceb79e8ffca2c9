"""Elements of single fields: texts, classes and values, pictures, prosody, flows, speakers, dialogue, state.

Element
├── Strings   ├── Values   ├── Positions
├── Image
├── Pitch   ├── Durations   ├── LogDet
├── State   ├── DialogueState   └── Scorer
Ids
└── Hypotheses
Features
└── Speaker
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from neumo.types.axis import Kind
from neumo.types.element import DTypeClass, Element, Features, Ids, Var
from neumo.types.vocab import AtLeast, Vocab

_SIZE = {"kind": "size", "positional": True}
_VOCAB = {"kind": "vocab", "positional": True}
_FIRST = {"positional": True, "holds": "text"}
_POSITIVE = {"holds": "positive"}
_TEXT = {"holds": "text"}

_CHANNELS: dict[Any, int] = {"rgb": 3, "bgr": 3, "rgba": 4, "grey": 1}


def _choice(*choices: str, positional: bool = False) -> dict[str, Any]:
    return {"choices": choices, "positional": positional}


@dataclass(frozen=True)
class Strings(Element):
    """Texts, one a row: their `language`, `form` and who says them (`by` "user" or "system").

    `form` is "written" (case, digits, punctuation), "spoken" (as it is read out), "graphemes" or "phonemes".

    >>> from neumo.types.axis import B
    >>> Strings(language="en", form="written")[B.list()]
    Strings(language=en, form=written)[list B]
    """

    dtype: ClassVar[DTypeClass] = "str"
    language: str | Var | None = field(default=None, metadata=_TEXT)
    form: str | Var | None = field(
        default=None, metadata=_choice("written", "spoken", "graphemes", "phonemes")
    )
    by: str | Var | None = field(default=None, metadata=_choice("user", "system"))


@dataclass(frozen=True)
class Values(Element):
    """Quantities to be predicted (regression) in a `unit`, as they are or with a `norm` applied.

    >>> from neumo.types.axis import B
    >>> Values("years")[B]
    Values(years)[B]
    """

    unit: str | Var | None = field(default=None, metadata=_FIRST)
    norm: str | Var | None = field(default=None, metadata=_TEXT)


@dataclass(frozen=True)
class Positions(Element):
    """Indices along the axis of the size `of`: the start of an answer, the head of a word.

    >>> from neumo.types.axis import B, U
    >>> Positions(U)[B]
    Positions(U)[B]
    """

    dtype: ClassVar[DTypeClass] = "int"
    of: Any = field(default=None, metadata=_SIZE)


@dataclass(frozen=True)
class Image(Element):
    """Pixels: the order of their `channels`, the largest value `peak` (1.0, 255.0), a `norm` ("imagenet").

    >>> from neumo.types.axis import B, C, H, W
    >>> Image(channels="rgb", peak=1.0)[B, C(3), H, W]
    Image(channels=rgb, peak=1.0)[B, F=3, H, W]
    """

    channels: str | Var | None = field(default=None, metadata=_choice("rgb", "bgr", "rgba", "grey"))
    peak: float | Var | None = field(default=None, metadata=_POSITIVE)
    norm: str | Var | None = field(default=None, metadata=_TEXT)

    def implied_size(self, kind: Kind) -> tuple[int, str] | None:
        """Its channels are an axis of features."""
        count = _CHANNELS.get(self.channels) if kind is Kind.FEATURE else None
        return None if count is None else (count, "channels")


@dataclass(frozen=True)
class Pitch(Element):
    """Fundamental frequency in a `unit` ("hz", "ln_hz" or "semitones"), with a `norm` such as "per_speaker".

    >>> Pitch(unit="ln_hz").unit
    'ln_hz'
    """

    unit: str | Var | None = field(default=None, metadata=_choice("hz", "ln_hz", "semitones"))
    norm: str | Var | None = field(default=None, metadata=_TEXT)


@dataclass(frozen=True)
class Durations(Element):
    """How long each symbol lasts, in "frames" or "seconds"; together they last as long as the size `of`.

    Frames are counted in whole numbers; seconds, and logarithms (`scale` "ln"), are not whole.

    >>> from neumo.types.axis import B, T, U
    >>> Durations(T, unit="frames", scale="linear")[B, U].element.dtype
    'int'
    """

    dtype: ClassVar[DTypeClass] = "any"
    of: Any = field(default=None, metadata=_SIZE)
    unit: str | Var | None = field(default=None, metadata=_choice("frames", "seconds"))
    scale: str | Var | None = field(default=None, metadata=_choice("linear", "ln"))

    def settle(self) -> None:
        """Only counted frames are whole numbers."""
        whole = "int" if (self.unit, self.scale) == ("frames", "linear") else "any"
        object.__setattr__(self, "dtype", "float" if self.unit == "seconds" or self.scale == "ln" else whole)


@dataclass(frozen=True)
class LogDet(Element):
    """Logarithm of the determinant of a flow, as `reduction` "sum" or "mean" over what it transforms.

    >>> LogDet(reduction="sum")
    LogDet(reduction=sum)
    """

    reduction: str | Var | None = field(default=None, metadata=_choice("sum", "mean"))


@dataclass(frozen=True)
class Speaker(Features):
    """An embedding of a speaker's voice; `norm` "l2" where its length is 1.

    >>> Speaker("xvector", norm="l2")
    Speaker(xvector, norm=l2)
    """

    norm: str | Var | None = field(default=None, metadata=_TEXT)


@dataclass(frozen=True)
class State(Element):
    """What a recurrent or streaming `module` hands from one call to its next.

    >>> State("encoder")
    State(encoder)
    """

    module: str | Var | None = field(default=None, metadata=_FIRST)


@dataclass(frozen=True)
class DialogueState(Element):
    """The value of each of the `slots` of a dialogue, as an index into the values of that slot.

    >>> DialogueState(Vocab(["hotel-area", "taxi-leave"], name="slots")).dtype
    'int'
    """

    dtype: ClassVar[DTypeClass] = "int"
    slots: Vocab | AtLeast | Var | None = field(default=None, metadata=_VOCAB)


@dataclass(frozen=True)
class Hypotheses(Ids):
    """Ids that a decoder chose, best first where there are several; not a reference.

    >>> from neumo.types.axis import B, U
    >>> Hypotheses()[B, U]
    Hypotheses[B, U]
    """


@dataclass(frozen=True)
class Scorer(Element):
    """What says how probable each label of a `vocab` is next: a model with all that it has read so far.

    >>> from neumo.types.axis import B
    >>> Scorer(Vocab("ab", name="two").with_ends())[B].rank
    1

    Its value is an object of the backend, not numbers; a search asks it for one label after the other. So the
    network that is trained on given labels and the search that makes labels are two modules, and the weights
    stay with the first.
    """

    dtype: ClassVar[DTypeClass] = "any"
    vocab: Vocab | AtLeast | Var | None = field(default=None, metadata=_VOCAB)
