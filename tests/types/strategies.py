"""Hypothesis strategies for sizes, axes, vocabularies, elements and types."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hypothesis import reject
from hypothesis import strategies as st

from neumo.types import (
    MFCC,
    Acoustic,
    Alignment,
    Any_,
    AtLeast,
    Audio,
    Axis,
    ConfigError,
    DialogueState,
    Durations,
    Element,
    Features,
    Flags,
    Hypotheses,
    Ids,
    Image,
    Item,
    Kind,
    Latent,
    Lengths,
    LogDet,
    Logits,
    LogProbs,
    Loss,
    Mask,
    Mel,
    NeuralType,
    Pitch,
    Positions,
    Probs,
    Score,
    Scorer,
    Scores,
    Size,
    Speaker,
    Spectrogram,
    State,
    Strings,
    Struct,
    Symbol,
    Text,
    Values,
    Var,
    Vocab,
    facets_of,
)
from neumo.types.coherence import coherent


@dataclass(frozen=True)
class DialectMel(Mel):
    """An element of a user, with a facet of its own."""

    dialect: str | None = None


# Everything the notation uses itself, and what JSON escapes; a finite alphabet is quick to draw from.
ALPHABET = "abT_1 '\"\\,.()[]=?$#*/+-@é日\n\t\x7f\ud800"
NAMES = ("B", "T", "T2", "U", "U'", "F", "C", "V", "H", "W", "X", "width", "frames")
symbols = st.builds(Symbol, st.sampled_from(NAMES), owner=st.sampled_from(("", "", "SpeechData")))
numbers = st.integers(0, 2000)
divisors = st.integers(1, 12)

sizes = st.recursive(
    st.one_of(numbers.map(Size.of), symbols.map(lambda s: s.size)),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, n: a * n, inner, st.integers(-3, 8)),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, n: a // n, inner, divisors),
        st.builds(lambda a, n: a.ceildiv(n), inner, divisors),
    ),
    max_leaves=6,
)

labels = st.lists(st.text(ALPHABET, min_size=1, max_size=3), min_size=1, max_size=6, unique=True)


@st.composite
def vocabs(draw: st.DrawFn) -> Vocab:
    """A small vocabulary with some roles."""
    found = draw(labels)
    role = st.one_of(st.none(), st.integers(0, len(found) - 1))
    name = draw(st.sampled_from(("", "en", "de-2.1", "x+y", "_a")))
    unit = draw(st.sampled_from(("char", "word")))
    return Vocab(found, name, pad=draw(role), blank=draw(role), bos=draw(role), unit=unit)


clocks = st.builds(Fraction, st.integers(1, 48000), st.integers(1, 400))


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    """Any axis: symbolic, fixed, dynamic, of a vocabulary, or the singleton; time axes may have a clock."""
    kind = draw(st.sampled_from([k for k in Kind if k is not Kind.SINGLETON]))
    form = draw(st.integers(0, 5))
    if form == 0:
        return Axis(Kind.SINGLETON, 1)
    clock = draw(clocks) if kind is Kind.TIME and draw(st.booleans()) else None
    if form == 1:
        return Axis(kind, None, None, clock)
    if form == 2:
        vocab = draw(vocabs())
        return Axis(Kind.VOCAB, len(vocab), vocab)
    return Axis(kind, draw(sizes.filter(lambda size: not size.negative)), None, clock)


texts = st.one_of(
    st.sampled_from(
        ("ln", "log10", "bos..eos", "bert-base", "bos..", "a.b", "True", "None", "inf", "$x", "a b")
    ),
    st.text(ALPHABET, max_size=6),
)
floats = st.floats(allow_nan=False)
values = st.one_of(st.integers(-(10**6), 10**6), floats, st.booleans(), texts)
variables = st.builds(Var, st.sampled_from(("rate", "x_1", "n-mels")))

CLASSES: tuple[type[Element], ...] = (
    MFCC, Acoustic, Alignment, Any_, Audio, DialectMel, DialogueState, Durations, Features, Flags, Hypotheses,
    Ids, Image, Item, Latent, Lengths, LogDet, LogProbs, Logits, Loss, Mask, Mel, Pitch, Positions, Probs,
    Score, Scorer, Scores, Speaker, Spectrogram, State, Strings, Text, Values,
)  # fmt: skip
BY_CLASS = {
    "": values,
    "count": st.integers(1, 10**6),
    "whole": st.integers(-(10**6), 10**6),
    "positive": st.one_of(st.integers(1, 10**6), floats.filter(lambda x: x > 0)),
    "number": st.one_of(st.integers(-(10**6), 10**6), floats),
    "flag": st.booleans(),
    "text": texts,
}
BY_KIND = {
    "value": values,
    "size": sizes,
    "vocab": st.one_of(vocabs(), vocabs().map(AtLeast)),
}


@st.composite
def elements(draw: st.DrawFn) -> Element:
    """Any element with any facets, some of them unknown."""
    cls = draw(st.sampled_from(CLASSES))
    found = {}
    for name, facet in facets_of(cls).items():
        choice = draw(st.integers(0, 5))
        if choice == 0:
            found[name] = draw(variables)
        elif choice <= 2:
            kind = BY_CLASS[facet.holds] if facet.kind == "value" else BY_KIND[facet.kind]
            found[name] = draw(st.sampled_from(facet.choices) if facet.choices else kind)
        elif choice == 3:
            found[name] = None
    return cls(**found)


@st.composite
def bracketed(draw: st.DrawFn, element: st.SearchStrategy[Element], most: int = 4) -> NeuralType:
    """A type: some axes behind an element, the first ones maybe lists; no axis contradicts the element."""
    found = draw(st.lists(axes(), max_size=most))
    listed = draw(st.sampled_from((0, 0, 0, 1, 2)))
    shown = [axis.list() if n < listed else axis for n, axis in enumerate(found)]
    made = Any_()[tuple(shown)].with_element(draw(element))
    try:
        return coherent(made)
    except ConfigError:
        return reject()


structs = st.dictionaries(
    st.sampled_from(("text", "score", "best", "fields")), bracketed(elements(), 2), min_size=1, max_size=3
).map(lambda fields: Struct(**fields))


@st.composite
def types(draw: st.DrawFn) -> NeuralType:
    """Any type, some of them structs, optional, variadic or of training only."""
    found = draw(bracketed(st.one_of(elements(), elements(), elements(), structs)))
    found = found.as_optional() if draw(st.booleans()) else found
    found = found.as_many() if draw(st.booleans()) else found
    return found.only(draw(st.sampled_from((None, None, "train"))))
