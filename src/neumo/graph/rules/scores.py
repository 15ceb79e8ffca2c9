"""Rules about what a module may be used for: no softmax twice, and one set of weights for one meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from neumo.graph.assume import Assume
from neumo.graph.inputs import is_source
from neumo.graph.module import module_fields, signature_of
from neumo.graph.rules.finding import Finding
from neumo.graph.rules.view import View
from neumo.graph.value import Step, Value
from neumo.types import (
    Any_,
    Audio,
    Element,
    Features,
    Fix,
    Image,
    Kind,
    Logits,
    LogProbs,
    NeuralType,
    Pitch,
    Probs,
    Relation,
    Row,
    Scores,
    Spectrogram,
    Vocab,
)
from neumo.types.element import facets_of

_Key = tuple[int, str]
_SETTINGS = (Audio, Spectrogram, Image, Pitch)  # all facets of these decide what the numbers are
_WORDS = {"vocab": "two vocabularies", "space": "two learned spaces"}


def find_second_softmax(view: View) -> Iterator[Finding]:
    """Find normalised scores that come, perhaps through modules that take any scores, to a softmax."""
    normalised: dict[_Key, Value] = {}  # a value -> the value that it was when it was normalised
    for step in view.steps:
        for port, value in step.edges():
            origin = normalised.get(value.key)
            if origin is not None and _normalises(step, port, value):
                yield _softmax_finding(step, port, origin, view)
                break
        for value in step.outputs.values():
            if isinstance(value.type.element, LogProbs | Probs):
                normalised[id(step), value.port] = value
            elif (origin := _passed_on(step, value, normalised)) is not None:
                normalised[id(step), value.port] = origin


def _passed_on(step: Step, value: Value, normalised: dict[_Key, Value]) -> Value | None:
    """Give what was normalised and is still in a value: a module without weights took it as any scores."""
    if step.module.trainable or not isinstance(value.type.element, Scores | Any_):
        return None
    takes = signature_of(step.module).takes
    for port, given in step.edges():
        origin = normalised.get(given.key)
        if origin is not None and _is_general(takes[port]) and _same_vocab(origin.type, value.type):
            return origin
    return None


def _is_general(wanted: NeuralType) -> bool:
    return type(wanted.element) in (Scores, Any_)


def _normalises(step: Step, port: str, value: Value) -> bool:
    """Say whether a module does a softmax over what comes in at a port.

    It does if the port wants logits, or if it takes any scores, has no weights and gives (log-)probabilities
    over the same vocabulary.
    """
    if isinstance(step.module, Assume):
        return False  # somebody knows what these scores are, and said so with a reason
    wanted = signature_of(step.module).takes[port]
    if type(wanted.element) is Logits:
        return True
    if step.module.trainable or not _is_general(wanted):
        return False
    return any(
        isinstance(given.type.element, LogProbs | Probs) and _same_vocab(value.type, given.type)
        for given in step.outputs.values()
    )


def _same_vocab(one: NeuralType, two: NeuralType) -> bool:
    """Say whether two values may be scores of the same labels: nothing known of one speaks against it."""
    left, right = _vocab_of(one), _vocab_of(two)
    if left is not None and right is not None:
        return left == right
    sizes = [axes[-1].size for t in (one, two) if (axes := [a for a in t.axes if a.kind is Kind.VOCAB])]
    return len(sizes) < 2 or sizes[0] == sizes[1]


def _vocab_of(t: NeuralType) -> Vocab | None:
    found: Any = getattr(t.element, "vocab", None)
    return found if isinstance(found, Vocab) else next((a.vocab for a in t.axes if a.vocab is not None), None)


def _softmax_finding(step: Step, port: str, origin: Value, view: View) -> Finding:
    label, maker = view.label(step), view.label(origin.step)
    if isinstance(origin.type.element, LogProbs):
        why = "They are log-probabilities already. A softmax of them changes nothing at best."
    else:
        why = "They are probabilities already. A softmax of them is nearly flat, whatever the model knows."
    fixes = [Fix(f"let {maker} give logits")]
    if origin.step.module.role == "adapter":
        fixes = [Fix(f"take {maker} out")]
    elif is_source(origin.step):
        fixes = [Fix(f"declare {view.name(origin)} as Logits, if that is what they are")]
    if step.module.role != "loss":
        fixes.append(Fix(f"take {label} out"))
    return Finding(
        "softmax-twice",
        f"{label} normalises scores that are normalised already: {view.name(origin)}",
        f"{label}.{port}",
        step,
        port,
        rows=lambda: (Row("given", str(origin.type), f"made by {view.made(origin.step)}"),),
        why=(why,),
        trail=lambda: view.path(step, port, lambda value: isinstance(value.type.element, Scores | Any_)),
        ways=lambda: tuple(fixes),
    )


@dataclass(frozen=True, slots=True)
class _Use:
    """What a module was first used with at a port: the value of a facet, and the call."""

    view: View
    step: Step
    meaning: Any


def find_second_meaning(views: Iterable[View]) -> Iterator[tuple[View, Finding]]:
    """Find the modules with weights that are used under two vocabularies, spaces or settings of frames.

    The graphs of one recipe are looked at together, since they share modules.
    """
    first: dict[tuple[int, str], dict[str, _Use]] = {}
    told: set[tuple[int, str]] = set()
    for view in views:
        for step in view.steps:
            if not view.has_weights(step.module):
                continue
            for port, value in step.edges():
                key = (id(step.module), port)
                known = first.setdefault(key, {})
                differing: dict[str, tuple[_Use, Any]] = {}
                for facet, meaning in _meanings(value.type.element):
                    use = known.setdefault(facet, _Use(view, step, meaning))
                    if _differs(use.meaning, meaning):
                        differing[facet] = (use, meaning)
                if differing and key not in told:
                    told.add(key)
                    yield view, _meaning_finding(view, step, port, differing)


def _meanings(element: Element) -> Iterator[tuple[str, Any]]:
    """Give the known facets of an element that weights depend on."""
    for name, facet in facets_of(type(element)).items():
        value = getattr(element, name)
        if facet.kind == "vocab":
            if isinstance(value, Vocab):
                yield name, value
        elif isinstance(value, bool | int | float | str) and (
            (isinstance(element, _SETTINGS) and facet.severity == "must")
            or (isinstance(element, Features) and name == "space")
        ):
            yield name, value


def _differs(one: Any, two: Any) -> bool:
    if isinstance(one, Vocab) and isinstance(two, Vocab):
        return one.relation(two) not in (Relation.SAME, Relation.EXTENDS, Relation.PREFIX)
    return one != two


def _meaning_finding(view: View, step: Step, port: str, differing: Mapping[str, tuple[_Use, Any]]) -> Finding:
    label = view.label(step)
    facet, (use, meaning) = next(iter(differing.items()))
    words = _WORDS.get(facet, f"two values of {facet}")
    why = f"{label} has one set of weights, which cannot mean both."
    if isinstance(meaning, Vocab):
        sentence = meaning.difference(use.meaning).sentence
        why = f"{why} {sentence[0].upper()}{sentence[1:]}."
    before = ", ".join(f"{name}={first.meaning}" for name, (first, _) in differing.items())
    now = ", ".join(f"{name}={then}" for name, (_, then) in differing.items())
    return Finding(
        "one-module-two-vocabularies",
        f"{label} is used with {words} at {port}: {use.meaning} and {meaning}",
        f"{label}.{port}",
        step,
        port,
        rows=lambda: (
            Row("first", before, _place(use.view, use.step)),
            Row("then", now, _place(view, step)),
        ),
        why=(why,),
        ways=lambda: tuple(_ways_to_one_meaning(view, step, port, use)),
    )


def _ways_to_one_meaning(view: View, step: Step, port: str, use: _Use) -> Iterator[Fix]:
    """Offer the settings in which two front-ends differ, then two modules where both are trained."""
    one, two = (next(v.step for p, v in each.edges() if p == port) for each in (use.step, step))
    if type(one.module) is type(two.module) and one.module is not two.module:
        before, now = module_fields(one.module), module_fields(two.module)
        changed = ", ".join(f"{name}={value}" for name, value in before.items() if value != now[name])
        if changed:
            yield Fix(
                f"build {view.label(two)} with {changed}, or use one {type(one.module).__name__} for both"
            )
    if view is use.view or "infer" not in (view.graph.mode, use.view.graph.mode):
        yield Fix(f"make a second {type(step.module).__name__}: two objects are two sets of weights")
    yield Fix("convert one of the two values before it")


def _place(view: View, step: Step) -> str:
    return f"in graph {view.graph.name!r}, {step.place() or ''}".removesuffix(", ")
