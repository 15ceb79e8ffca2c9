"""Elements: what the numbers of a tensor mean, with facets such as rate, mel settings or vocabulary.

    Element
    ├── Any_ (printed `Any`)
    ├── Audio
    ├── Spectrogram
    │   ├── Mel
    │   └── MFCC
    ├── Scores
    │   ├── Logits   ├── LogProbs   └── Probs
    ├── Ids   ├── Lengths   ├── Mask
    ├── Features
    │   ├── Acoustic   └── Text
    └── Latent, Alignment, Loss, Item, Flags, Score

`neumo.types.domain` adds those of single fields (pictures, prosody, flows, dialogue), `neumo.types.structs`
elements with fields that are types.

A facet is None while unknown, a value, or a `Var` that is solved at connection.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from neumo.types.axis import Axis, Clocks, Kind
from neumo.types.errors import ConfigError, did_you_mean
from neumo.types.size import Size, Symbol
from neumo.types.vocab import AtLeast, Vocab

if TYPE_CHECKING:
    from neumo.types.type import NeuralType

Severity = Literal["must", "should"]
FacetKind = Literal["value", "vocab", "size"]
Holds = Literal["", "count", "whole", "positive", "number", "flag", "text"]
DTypeClass = Literal["float", "int", "bool", "str", "any"]
_uids = itertools.count(1)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_HOLDS: Mapping[Holds, tuple[str, Callable[[Any], bool]]] = {
    "count": ("a whole number above 0", lambda value: type(value) is int and value > 0),
    "whole": ("a whole number", lambda value: type(value) is int),
    "positive": ("a number above 0", lambda value: _is_number(value) and value > 0),
    "number": ("a number", _is_number),
    "flag": ("True or False", lambda value: isinstance(value, bool)),
    "text": ("a text", lambda value: isinstance(value, str)),
}


@dataclass(frozen=True)
class Var:
    """A facet that is solved at connection, such as the rate of an augmentation that takes any rate.

    The copy made for a call has its own `uid`; a `rigid` one stands for a value that nobody knows.

    >>> Audio(rate=Var("rate"))
    Audio(rate=$rate)
    """

    name: str
    uid: int = 0
    rigid: bool = False
    owner: str = ""

    def fresh(self, *, rigid: bool, owner: str = "") -> Var:
        """Make a copy that is equal to nothing else."""
        return Var(self.name, next(_uids), rigid, owner)

    def __str__(self) -> str:
        return f"${self.name}"


@dataclass(frozen=True)
class Facet:
    """What compare and notation need to know about one field of an element.

    `positional` fields are printed without their name; a mismatch of a `should` facet is a warning only;
    where there are `choices`, the value is one of them. `holds` is the class of its values: a "count" is a
    whole number above 0, a "flag" True or False.

    >>> facets_of(Mel)["window"].severity
    'should'
    """

    name: str
    severity: Severity = "must"
    kind: FacetKind = "value"
    positional: bool = False
    choices: tuple[str, ...] = ()
    holds: Holds = ""
    default: Any = None


def facet(
    default: Any = None,
    *,
    severity: Severity = "must",
    kind: FacetKind = "value",
    positional: bool = False,
    choices: tuple[str, ...] = (),
    holds: Holds = "",
) -> Any:
    """Declare a facet of an element that needs more than a plain dataclass field says.

    >>> @dataclass(frozen=True)
    ... class Loudness(Features):
    ...     unit: str | None = facet(severity="should", choices=("db", "sone"))
    >>> facets_of(Loudness)["unit"].severity
    'should'
    """
    more = {"severity": severity, "kind": kind, "positional": positional, "choices": choices, "holds": holds}
    return field(default=default, metadata=more)


_VOCAB = {"kind": "vocab", "positional": True}
_SIZE = {"kind": "size", "positional": True}
_FIRST = {"positional": True, "holds": "text"}
_COUNT = {"holds": "count"}
_WHOLE = {"holds": "whole"}
_POSITIVE = {"holds": "positive"}
_NUMBER = {"holds": "number"}
_FLAG = {"holds": "flag"}
_TEXT = {"holds": "text"}
_SOFT = {"severity": "should", "holds": "text"}
_FACETS: dict[type, dict[str, Facet]] = {}
_MEASURES: dict[type, tuple[str, ...]] = {}
_BY_NAME: dict[str, type[Element]] = {}


def facets_of(element: type[Element]) -> dict[str, Facet]:
    """List the facets of an element class, inherited ones first.

    >>> list(facets_of(Audio))
    ['rate', 'peak', 'channels']
    """
    known = _FACETS.get(element)
    if known is None:
        known = {f.name: Facet(f.name, **f.metadata, default=f.default) for f in fields(element)}
        _FACETS[element] = known
    return known


def measures(element: type[Element]) -> tuple[str, ...]:
    """Name the facets of an element class that are sizes.

    >>> measures(Lengths), measures(Audio)
    (('of',), ())
    """
    known = _MEASURES.get(element)
    if known is None:
        known = tuple(name for name, f in facets_of(element).items() if f.kind == "size")
        _MEASURES[element] = known
    return known


def element_class(name: str) -> type[Element]:
    """Look an element class up by its printed name; a `ConfigError` tells the nearest match.

    >>> element_class("Mel")
    <class 'neumo.types.element.Mel'>
    """
    if name in _BY_NAME:
        return _BY_NAME[name]
    raise ConfigError(
        f"there is no element {name!r}",
        code="element",
        why="An element of your own is known once the module that defines it has been imported.",
        fixes=did_you_mean(name, _BY_NAME),
    )


@dataclass(frozen=True)
class Element:
    """What the numbers of a tensor mean; index it with axes to get a type.

    A subclass is a frozen dataclass; its fields are facets and the inherited ones stay. `dtype` is the class
    of numbers, precision is the backend's business.

    >>> from neumo.types.axis import B, T
    >>> @dataclass(frozen=True)
    ... class Energy(Features):
    ...     scale: str | None = None
    >>> Energy(scale="db")[B, T]
    Energy(scale=db)[B, T]
    """

    dtype: ClassVar[DTypeClass] = "float"
    label: ClassVar[str] = "Element"  # the printed name
    nested: ClassVar[bool] = False  # whether it holds types itself

    def __init_subclass__(cls, label: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.label = label or cls.__name__
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = Element.__repr__  # keeps @dataclass from writing its own
        taken = _BY_NAME.get(cls.label)
        if taken is not None and taken.__module__.startswith("neumo.") and cls.__module__ != taken.__module__:
            raise ConfigError(
                f"there already is an element {cls.label!r} in {taken.__module__}", code="element"
            )
        _BY_NAME[cls.label] = cls

    def __post_init__(self) -> None:
        for name, known in facets_of(type(self)).items():
            value = getattr(self, name)
            if value is None or isinstance(value, Var):
                continue
            if known.kind == "size":
                object.__setattr__(self, name, Size.of(value))
            elif known.kind == "vocab" and not isinstance(value, (Vocab, AtLeast)):
                raise ConfigError(
                    f"{self.label} takes a Vocab for {name}, not {value!r}",
                    code="element",
                    fixes=("Vocab(labels)",),
                )
            elif not isinstance(value, (bool, int, float, str, Vocab, AtLeast, Size)):
                raise ConfigError(
                    f"{self.label}.{name} cannot be {value!r}",
                    code="element",
                    why="A facet is a number, a text, a Vocab, a Size or a Var.",
                )
            elif known.choices and value not in known.choices:
                raise ConfigError(
                    f"{self.label}.{name} is {' or '.join(map(repr, known.choices))}, not {value!r}",
                    code="element",
                    fixes=did_you_mean(str(value), known.choices),
                )
            elif known.holds and not _HOLDS[known.holds][1](value):
                raise ConfigError(
                    f"{self.label}.{name} is {_HOLDS[known.holds][0]}, not {value!r}", code="element"
                )
        self.settle()

    def settle(self) -> None:
        """Work out what follows from the facets, such as the class of numbers; called when they change."""

    def __class_getitem__(cls, axes: object) -> NeuralType:
        raise ConfigError(
            f"{cls.label}[...] is written for {cls.__name__}()[...]",
            code="element",
            why="A type is printed without empty parentheses; in Python the element is made first.",
            fixes=(f"write {cls.__name__}() before the bracket",),
        )

    def __getitem__(self, axes: Axis | tuple[Axis, ...]) -> NeuralType:
        from neumo.types.coherence import coherent
        from neumo.types.type import NeuralType

        return coherent(NeuralType(self, axes if isinstance(axes, tuple) else (axes,)))

    def optional(self) -> Wrapped:
        """Make ports of this element ones that may be left out: `Ids().optional()[B, T]`.

        >>> from neumo.types.axis import B, T
        >>> Ids().optional()[B, T]
        Ids?[B, T]
        """
        return Wrapped(self[()]).optional()

    def many(self) -> Wrapped:
        """Make ports of this element ones that take several values: `Loss().many()[()]`.

        >>> Loss().many()[()]
        Loss*[]
        """
        return Wrapped(self[()]).many()

    def only(self, when: Literal["train"] | None) -> Wrapped:
        """Make ports of this element ones that are there in training only: `Ids().only("train")[B, U]`.

        >>> from neumo.types.axis import B, U
        >>> Ids().only("train")[B, U]
        Ids[B, U] when train
        """
        return Wrapped(self[()]).only(when)

    def implied_clock(self) -> Fraction | None:
        """How many steps of the time axis make a second, where the facets say it.

        >>> Mel(rate=22050, hop=256).implied_clock()
        Fraction(11025, 128)
        """
        return None

    def implied_size(self, kind: Kind) -> tuple[int, str] | None:
        """How long an axis of a kind is, where the facets say it, and which facet that is.

        >>> Mel(n_mels=80).implied_size(Kind.FEATURE), Spectrogram(n_fft=512).implied_size(Kind.FEATURE)
        ((80, 'n_mels'), (257, 'n_fft'))
        """
        return None

    def variables(self) -> tuple[Var, ...]:
        """Collect the facets that are variables."""
        return tuple(value for value in vars(self).values() if isinstance(value, Var))

    def sizes(self) -> tuple[Size, ...]:
        """Collect the facets that are sizes (what `Lengths` and `Mask` measure)."""
        names = measures(type(self))
        return tuple(v for name in names if isinstance(v := getattr(self, name), Size)) if names else ()

    def substitute(
        self,
        sizes: Mapping[Symbol, Size],
        facets: Mapping[Var, Any],
        axes: Mapping[Symbol, Axis] | None = None,
        clocks: Clocks | None = None,
    ) -> Element:
        """Put sizes in the place of symbols, values in that of variables; see `NeuralType.substitute`."""
        if not (facets or measures(type(self))):
            return self
        changes: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Size):
                new = value.substitute(sizes)
                if new is not value:
                    changes[name] = new
            elif isinstance(value, Var) and value in facets:
                changes[name] = facets[value]
        if not changes:
            return self
        # The values were checked when the element was made, so the copy skips __init__: this is the hot path.
        copy = object.__new__(type(self))
        vars(copy).update(vars(self), **changes)
        if facets:
            copy.settle()
        return copy

    def __str__(self) -> str:
        from neumo.types.notation import element_text

        return element_text(self)

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Wrapped:
    """An element on its way to become an optional, a variadic or a train-only type; index it with axes.

    >>> from neumo.types.axis import B, U
    >>> Ids().optional().only("train")[B, U]
    Ids?[B, U] when train
    """

    type: NeuralType

    def optional(self) -> Wrapped:
        """Let ports of this type be left out."""
        return Wrapped(self.type.as_optional())

    def many(self) -> Wrapped:
        """Let ports of this type take several values."""
        return Wrapped(self.type.as_many())

    def only(self, when: Literal["train"] | None) -> Wrapped:
        """Let ports of this type be there in training only."""
        return Wrapped(self.type.only(when))

    def __getitem__(self, axes: Axis | tuple[Axis, ...]) -> NeuralType:
        from neumo.types.coherence import coherent

        return coherent(self.type.with_axes(*(axes if isinstance(axes, tuple) else (axes,))))


def _ratio(rate: Any, hop: Any) -> Fraction | None:
    """Steps per second of frames that are `hop` samples apart, if both are known."""
    known = type(rate) is int and type(hop) is int and rate > 0 and hop > 0
    return Fraction(rate, hop) if known else None


def _stated(count: int | Var | None, name: str) -> tuple[int, str] | None:
    """A number that a facet states, with the name of the facet."""
    return None if count is None or isinstance(count, Var) else (count, name)


@dataclass(frozen=True)
class Any_(Element, label="Any"):
    """Anything at all; as a given type it promises nothing."""

    dtype: ClassVar[DTypeClass] = "any"


@dataclass(frozen=True)
class Audio(Element):
    """Samples of sound: `rate` in Hz, `peak` the largest magnitude (1.0 or 32768.0), number of `channels`."""

    rate: int | Var | None = field(default=None, metadata=_COUNT)
    peak: float | Var | None = field(default=None, metadata=_POSITIVE)
    channels: int | Var | None = field(default=None, metadata=_COUNT)

    def implied_clock(self) -> Fraction | None:
        """A sample each 1/rate of a second."""
        return _ratio(self.rate, 1)

    def implied_size(self, kind: Kind) -> tuple[int, str] | None:
        """Its channels are an axis of features."""
        return _stated(self.channels, "channels") if kind is Kind.FEATURE else None


@dataclass(frozen=True)
class Spectrogram(Element):
    """Frames of a short-time spectrum.

    `rate` in Hz; `hop`, `n_fft`, `win` in samples; `power` 1 (magnitude) or 2; `scale` "linear", "ln",
    "log10" or "db"; `floor` what is added or clamped before the logarithm; `norm` such as "per_feature";
    `center` whether frames are centred on their samples.
    """

    rate: int | Var | None = field(default=None, metadata=_COUNT)
    hop: int | Var | None = field(default=None, metadata=_COUNT)
    n_fft: int | Var | None = field(default=None, metadata=_COUNT)
    win: int | Var | None = field(default=None, metadata=_COUNT)
    window: str | Var | None = field(default=None, metadata=_SOFT)
    power: float | Var | None = field(default=None, metadata=_POSITIVE)
    scale: str | Var | None = field(default=None, metadata=_TEXT)
    floor: float | Var | None = field(default=None, metadata=_NUMBER)
    norm: str | Var | None = field(default=None, metadata=_TEXT)
    center: bool | Var | None = field(default=None, metadata=_FLAG)

    def implied_clock(self) -> Fraction | None:
        """A frame each hop/rate of a second."""
        return _ratio(self.rate, self.hop)

    def implied_size(self, kind: Kind) -> tuple[int, str] | None:
        """The bins of a transform of real numbers."""
        found = _stated(self.n_fft, "n_fft") if kind is Kind.FEATURE else None
        return found and (found[0] // 2 + 1, found[1])


@dataclass(frozen=True)
class Mel(Spectrogram):
    """Mel spectrogram: `n_mels` bands from `fmin` to `fmax` Hz on the `mel_scale` "slaney" or "htk"."""

    n_mels: int | Var | None = field(default=None, metadata=_COUNT)
    fmin: float | Var | None = field(default=None, metadata=_NUMBER)
    fmax: float | Var | None = field(default=None, metadata=_POSITIVE)
    mel_scale: str | Var | None = field(default=None, metadata=_TEXT)

    def implied_size(self, kind: Kind) -> tuple[int, str] | None:
        """Its bands."""
        return _stated(self.n_mels, "n_mels") if kind is Kind.FEATURE else None


@dataclass(frozen=True)
class MFCC(Spectrogram):
    """Mel-frequency cepstral coefficients, `n_mfcc` of them out of `n_mels` bands."""

    n_mfcc: int | Var | None = field(default=None, metadata=_COUNT)
    n_mels: int | Var | None = field(default=None, metadata=_COUNT)

    def implied_size(self, kind: Kind) -> tuple[int, str] | None:
        """Its coefficients."""
        return _stated(self.n_mfcc, "n_mfcc") if kind is Kind.FEATURE else None


@dataclass(frozen=True)
class Scores(Element):
    """A number for each label of a `vocab`, which is or will be normalised `over` an axis.

    That is the axis of labels ("V") unless stated: "T" for the ends of a span, None where it is unknown.

    >>> from neumo.types.axis import B, T
    >>> LogProbs(over="T")[B, T]
    LogProbs(over=T)[B, T]
    """

    vocab: Vocab | AtLeast | Var | None = field(default=None, metadata=_VOCAB)
    over: str | Var | None = field(default="V", metadata=_TEXT)

    def implied_size(self, kind: Kind) -> tuple[int, str] | None:
        """One score for each label."""
        return (len(self.vocab), "vocab") if kind is Kind.VOCAB and isinstance(self.vocab, Vocab) else None


@dataclass(frozen=True)
class Logits(Scores):
    """Raw scores, before any softmax."""


@dataclass(frozen=True)
class LogProbs(Scores):
    """Natural logarithms of probabilities, after log-softmax."""


@dataclass(frozen=True)
class Probs(Scores):
    """Probabilities, after softmax."""


@dataclass(frozen=True)
class Ids(Element):
    """Indices into a `vocab`: the `pad` id behind the end, `frame` such as "bos..eos", `shifted` by one."""

    dtype: ClassVar[DTypeClass] = "int"
    vocab: Vocab | AtLeast | Var | None = field(default=None, metadata=_VOCAB)
    pad: int | Var | None = field(default=None, metadata=_WHOLE)
    frame: str | Var | None = field(
        default=None, metadata={"choices": ("none", "bos..", "..eos", "bos..eos")}
    )
    shifted: bool | Var | None = field(default=None, metadata=_FLAG)


@dataclass(frozen=True)
class Lengths(Element):
    """How much of the size `of` each row uses, as a "count" or a "fraction".

    >>> from neumo.types.axis import B, T
    >>> Lengths(T // 160 + 1)[B]
    Lengths(T//160 + 1)[B]
    """

    dtype: ClassVar[DTypeClass] = "int"
    of: Any = field(default=None, metadata=_SIZE)
    unit: str | Var | None = field(default="count", metadata={"choices": ("count", "fraction")})

    def settle(self) -> None:
        """A fraction is no whole number."""
        object.__setattr__(self, "dtype", "float" if self.unit == "fraction" else "int")


@dataclass(frozen=True)
class Mask(Element):
    """Which positions of the size `of` count: `true` says what True means, "keep" or "pad"."""

    dtype: ClassVar[DTypeClass] = "bool"
    of: Any = field(default=None, metadata=_SIZE)
    true: str | Var | None = field(default=None, metadata={"choices": ("keep", "pad")})
    unit: str | Var | None = field(default=None, metadata=_TEXT)


@dataclass(frozen=True)
class Features(Element):
    """Learned features; `space` names the model family whose meaning they share (such as "bert")."""

    space: str | Var | None = field(default=None, metadata=_FIRST)


@dataclass(frozen=True)
class Acoustic(Features):
    """Learned features of sound."""


@dataclass(frozen=True)
class Text(Features):
    """Learned features of text."""


@dataclass(frozen=True)
class Latent(Element):
    """A latent variable with a `prior` such as "normal": a sample of it, or a `part` of its distribution."""

    prior: str | Var | None = field(default=None, metadata=_FIRST)
    part: str | Var | None = field(
        default=None, metadata={"choices": ("sample", "mean", "std", "log_variance")}
    )


@dataclass(frozen=True)
class Alignment(Element):
    """Weights that say which input each output comes from: attention ("soft") or one path ("hard")."""

    form: str | Var | None = field(default=None, metadata={"choices": ("soft", "hard")})


@dataclass(frozen=True)
class Loss(Element):
    """What training makes small; `reduction` such as "mean" or "sum"."""

    reduction: str | Var | None = field(default=None, metadata=_TEXT)


@dataclass(frozen=True)
class Item(Element):
    """The index of an utterance in its data source."""

    dtype: ClassVar[DTypeClass] = "int"


@dataclass(frozen=True)
class Flags(Element):
    """Yes or no for each position or utterance."""

    dtype: ClassVar[DTypeClass] = "bool"


@dataclass(frozen=True)
class Score(Element):
    """The value of a metric."""
