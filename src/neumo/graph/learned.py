"""What a module has learned to expect: the facets of what it was trained on go where its weights go.

A fresh module leaves facets open, so it trains on anything. Once it is trained, a facet that its signature
leaves open is the one that it had in training, as much a part of it as a weight: a fresh vocoder trains on
any mel spectrogram, a trained one refuses the wrong one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.graph.value import Step
from neumo.types import AtLeast, CheckpointError, Element, NeumoError, NeuralType, PortError, Var, Vocab
from neumo.types.element import element_class, facets_of

_KEY = "_learned"  # in the dictionary of a module, beside its name


@dataclass(frozen=True, slots=True)
class Learned:
    """What the inputs of a module were in training, by port, and which file says so."""

    elements: Mapping[str, Element]
    source: str = ""


def learned_facets(module: NeuralModule) -> dict[str, Element]:
    """Give what each input of a module was in training; nothing for a module with fresh weights.

    >>> from neumo.graph.adapters import LogSoftmax
    >>> learned_facets(LogSoftmax())
    {}
    """
    found = learned_of(module)
    return {} if found is None else dict(found.elements)


def set_learned(module: NeuralModule, elements: Mapping[str, Element] | None, *, source: str = "") -> None:
    """Say what the inputs of a module were when its weights were trained; `source` is the file that says so.

    From then on the facets that its signature leaves open have these values, and those that only warn
    elsewhere have to agree. None makes the module a fresh one again.
    """
    module.__dict__.pop("_signature", None)  # it was worked out without this
    if elements is None:
        module.__dict__.pop(_KEY, None)
    else:
        module.__dict__[_KEY] = Learned(dict(elements), source)


def learned_of(module: NeuralModule) -> Learned | None:
    """Give what a module has learned and where that is written, or None if its weights are fresh."""
    return module.__dict__.get(_KEY)


def learned_from(module: NeuralModule, port: str, facet: str) -> str | None:
    """Say where a facet of a port was learned ("" where no file says it); None if it was not learned."""
    found = learned_of(module)
    if found is None or getattr(found.elements.get(port), facet, None) is None:
        return None
    stated = getattr(module.signature().takes[port].element, facet, None)
    return found.source if stated is None or isinstance(stated, Var) else None


def with_learned(module: NeuralModule, signature: Signature) -> Signature:
    """Give a signature with what was learned in the place of the facets that it leaves open."""
    known = learned_facets(module)
    solved = {
        mine: theirs
        for port, wanted in signature.takes.items()
        for mine, theirs in _pairs(wanted.element, known.get(port)).values()
        if isinstance(mine, Var)
    }
    takes = {
        port: _filled(wanted.substitute({}, solved), known.get(port))
        for port, wanted in signature.takes.items()
    }
    gives = {port: given.substitute({}, solved) for port, given in signature.gives.items()}
    return Signature(takes=takes, gives=gives, known=signature.known, assumes=signature.assumes)


def _filled(wanted: NeuralType, learned: Element | None) -> NeuralType:
    changes = {
        name: theirs for name, (mine, theirs) in _pairs(wanted.element, learned).items() if mine is None
    }
    return wanted.with_element(cast("Any", replace)(wanted.element, **changes)) if changes else wanted


def _pairs(wanted: Element, learned: Element | None) -> dict[str, tuple[Any, Any]]:
    """Pair the facets that are open in one element and known in the other."""
    pairs = {name: (getattr(wanted, name), getattr(learned, name, None)) for name in _names(wanted)}
    return {
        name: (mine, theirs)
        for name, (mine, theirs) in pairs.items()
        if (mine is None or isinstance(mine, Var)) and theirs is not None
    }


def _names(element: Element) -> list[str]:
    """Name the facets of an element that are no sizes."""
    return [name for name, known in facets_of(type(element)).items() if known.kind != "size"]


def seen_facets(
    steps: Collection[Step], fixed: Collection[NeuralModule] = ()
) -> dict[int, dict[str, Element]]:
    """Find what the inputs of each trainable module are in some steps, by the id of the module.

    What a module has learned before stays; a facet that differs between two calls is left open. Modules of
    `fixed`, such as frozen ones, learn nothing new.
    """
    kept = {id(module) for module in fixed}
    found: dict[int, dict[str, Element]] = {}
    for step in steps:
        if step.module.trainable and id(step.module) not in kept:
            elements = found.setdefault(id(step.module), {})
            for port, value in step.edges():
                given = _known(value.type.element)
                elements[port] = _common(elements[port], given) if port in elements else given
    for module in {id(step.module): step.module for step in steps}.values():
        before = learned_of(module)
        if before is not None:
            found[id(module)] = {**found.get(id(module), {}), **before.elements}
    return {
        key: {port: element for port, element in elements.items() if _says_something(element)}
        for key, elements in found.items()
    }


def _known(element: Element) -> Element:
    """Leave out sizes, and what is not known."""
    values = {name: getattr(element, name) for name in _names(element)}
    sizes = [name for name, known in facets_of(type(element)).items() if known.kind == "size"]
    changes = {name: None for name, value in values.items() if isinstance(value, Var)} | dict.fromkeys(sizes)
    return cast("Any", replace)(element, **changes) if changes else element


def _common(one: Element, two: Element) -> Element:
    """Keep what two elements agree on."""
    shared = type(one) if isinstance(two, type(one)) else type(two) if isinstance(one, type(two)) else None
    if shared is None:
        return Element()
    names = [name for name in facets_of(shared) if getattr(one, name) == getattr(two, name)]
    kept = {name: getattr(one, name) if name in names else None for name in facets_of(shared)}
    return cast("Any", shared)(**kept)


def _says_something(element: Element) -> bool:
    return any(getattr(element, name) is not None for name in _names(element))


def learn(steps: Collection[Step], fixed: Collection[NeuralModule] = ()) -> None:
    """Let the trainable modules of some steps learn what their inputs are, at the end of a training."""
    found = seen_facets(steps, fixed)
    for module in {id(step.module): step.module for step in steps}.values():
        if id(module) in found:
            before = learned_of(module)
            set_learned(module, found[id(module)], source="" if before is None else before.source)


def check_learned(steps: Iterable[Step]) -> None:
    """Raise `PortError` if a step connects what its module, whose weights were just read, did not learn."""
    from neumo.graph.collect import together
    from neumo.graph.compose import Call, check

    errors: list[PortError] = []
    for step in steps:
        if learned_of(step.module) is not None and not step.refusal:
            errors += check(Call(step.module, step.inputs, step.location, {}, relaxed=step.relaxed))
    if errors:
        raise together(errors)


def learned_state(
    names: Mapping[str, NeuralModule], steps: Collection[Step], fixed: Collection[NeuralModule] = ()
) -> dict[str, Any]:
    """Write what modules learn in some steps as plain values, by the names of the modules, for a file."""
    found = seen_facets(steps, fixed)
    return {
        name: {port: _data(element) for port, element in found[id(module)].items()}
        for name, module in names.items()
        if id(module) in found
    }


def learned_data(names: Mapping[str, NeuralModule]) -> dict[str, Any]:
    """Write what modules have learned so far as plain values, by their names, for a file.

    >>> from neumo.graph.adapters import LogSoftmax
    >>> module = LogSoftmax()
    >>> set_learned(module, {"logits": Element()})
    >>> learned_data({"decoder": module, "other": LogSoftmax()})
    {'decoder': {'logits': {'element': 'Element'}}}
    """
    return {
        name: {port: _data(element) for port, element in learned_facets(module).items()}
        for name, module in names.items()
        if learned_of(module) is not None
    }


def read_learned(data: Any, *, source: str) -> dict[str, dict[str, Element]]:
    """Read what a file says that its modules learned, by module and port; raises `CheckpointError`."""
    return {
        name: {port: _element(entry, source) for port, entry in _items(ports, source)}
        for name, ports in _items(data, source)
    }


def restore_learned(names: Mapping[str, NeuralModule], data: Any, *, source: str) -> None:
    """Give modules what a file says that they learned; raises `CheckpointError` if it cannot be read.

    Nothing is given to any of them unless all of it can be read.
    """
    wanted = {name: ports for name, ports in _items(data, source) if name in names and names[name].trainable}
    for name, elements in read_learned(wanted, source=source).items():
        set_learned(names[name], elements, source=source)


def _items(data: Any, source: str) -> Iterable[tuple[str, Any]]:
    if not isinstance(data, Mapping):
        raise CheckpointError(
            f"what the modules of {source} learned cannot be read: {data!r} is no mapping", code="model-card"
        )
    return cast("Mapping[str, Any]", data).items()


def _data(element: Element) -> dict[str, Any]:
    values = {name: getattr(element, name) for name in _names(element)}
    return {"element": element.label} | {
        name: _plain(value) for name, value in values.items() if value is not None
    }


def _plain(value: Any) -> Any:
    if isinstance(value, AtLeast):
        return {"at_least": value.vocab.to_data()}
    return value.to_data() if isinstance(value, Vocab) else value


def _element(data: Any, source: str) -> Element:
    entries = dict(_items(data, source))
    try:
        cls = element_class(str(entries.pop("element", None)))
        facets = {name: _facet(value) for name, value in entries.items()}
        return cast("Any", cls)(**facets)
    except (NeumoError, TypeError, ValueError, KeyError) as error:
        raise CheckpointError(
            f"what the modules of {source} learned cannot be read: {str(error).splitlines()[0]}",
            code="model-card",
            fixes=["import the module that defines the element first, if it is one of your own"],
        ) from None


def _facet(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    data = dict(cast("Mapping[str, Any]", value))
    return AtLeast(Vocab.from_data(data["at_least"])) if "at_least" in data else Vocab.from_data(data)
