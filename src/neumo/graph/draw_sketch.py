"""What every drawing of a graph shows: boxes with ports, and the links between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from neumo.graph.module import NeuralModule, label_of, module_fields
from neumo.types.vocab import Vocab

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.value import Step, Value
    from neumo.types import NeuralType


@dataclass(frozen=True, slots=True)
class Socket:
    """A port of a box: its name, its type in full, whether anything is connected, what it measures."""

    name: str
    type: str = ""
    used: bool = True
    minor: bool = False  # lengths and masks accompany the data; drawings show them thinner

    @property
    def element(self) -> str:
        """The type without its axes: `Mel(n_mels=64)`."""
        return _split_axes(self.type)[0]

    @property
    def axes(self) -> str:
        """The axes of the type, in brackets."""
        return _split_axes(self.type)[1]


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
    takes: tuple[Socket, ...] = ()
    gives: tuple[Socket, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """A connection: from an output of one box to an input of another."""

    source: str
    out: str
    target: str
    port: str
    minor: bool = False


@dataclass(slots=True)
class Sketch:
    """A graph reduced to what drawings show, in topological order."""

    name: str
    mode: str
    boxes: list[Box] = field(default_factory=list[Box])
    links: list[Link] = field(default_factory=list[Link])
    outputs: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


def sketch(graph: Graph) -> Sketch:
    """Reduce a graph to boxes and links; each step gets a name that reads well in a listing."""
    names = step_names(graph)
    drawn = Sketch(graph.name, graph.mode)
    calls = Counter(id(step.module) for step in graph.steps)
    used = {(id(value.step), value.port) for step in graph.steps for _, value in step.edges()}
    used |= {(id(value.step), value.port) for value in graph.outputs.values()}
    for step in graph.steps:
        drawn.boxes.append(_box(step, names, calls[id(step.module)], used))
        for port, value in step.edges():
            minor = _is_minor(value.type)
            drawn.links.append(Link(names[id(value.step)], value.port, names[id(step)], port, minor))
    for name, value in graph.outputs.items():
        drawn.outputs[name] = (names[id(value.step)], value.port)
    return drawn


def step_names(graph: Graph, taken: Iterable[str] = ()) -> dict[int, str]:
    """Name each step after its module: `mel`, `encoder`, `encoder_2` for the second use; by `id(step)`."""
    modules = {id(module): name for name, module in graph.modules.items()}
    stems = {
        id(step): "inputs" if is_open(step) else _snake(modules[id(step.module)]) for step in graph.steps
    }
    used = set(taken)
    reserved = set(stems.values())
    names: dict[int, str] = {}
    for key, stem in stems.items():
        name, count = stem, 1
        while name in used or (count > 1 and name in reserved):
            count += 1
            name = f"{stem}_{count}"
        used.add(name)
        names[key] = name
    return names


def is_open(step: Step) -> bool:
    """Whether a step is the open inputs of the graph."""
    return type(step.module).__name__ == "GraphInputs"


def _box(step: Step, names: dict[int, str], calls: int, used: set[tuple[int, str]]) -> Box:
    module = step.module
    takes = tuple(Socket(port, minor=_is_minor(value.type)) for port, value in _first_edges(step).items())
    gives = tuple(
        Socket(port, str(value.type), (id(step), port) in used, _is_minor(value.type))
        for port, value in step.outputs.items()
    )
    if is_open(step):
        return Box(names[id(step)], "inputs", "", "inputs", gives=gives)
    title = names[id(step)] if calls == 1 else label_of(module)
    kind = type(module).__name__
    return Box(
        names[id(step)], title, kind, module.role, _settings(module), module.trainable, calls, takes, gives
    )


def _first_edges(step: Step) -> dict[str, Value]:
    """One connection per port: a port that takes many values is one socket."""
    return {port: source[0] if isinstance(source, tuple) else source for port, source in step.inputs.items()}


def _settings(module: NeuralModule) -> str:
    """The fields that are not at their default, as in a call; vocabularies by name and size."""
    fields = {
        name: value for name, value in module_fields(module).items() if not is_default(module, name, value)
    }
    return ", ".join(f"{name}={_setting(value)}" for name, value in fields.items())


def is_default(owner: object, name: str, value: object) -> bool:
    """Whether a field of a dataclass has the value that it has when nothing is said."""
    field: Field[Any] = getattr(type(owner), "__dataclass_fields__")[name]  # noqa: B009
    default: object = field.default
    if field.default_factory is not MISSING:
        default = field.default_factory()
    return type(default) is type(value) and bool(default == value)


def _setting(value: Any) -> str:
    if isinstance(value, Vocab):
        return short_type(str(value))
    parts = list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else []
    if parts and is_dataclass(parts[0]):
        kinds = Counter(type(part).__name__ for part in parts)
        return " + ".join(f"{count} {kind}" for kind, count in kinds.items())
    text = repr(cast("object", value))
    return text if len(text) <= 60 else f"{text[:59]}…"


def short_type(text: str) -> str:
    """A printed type without the digests of its vocabularies.

    >>> short_type("Ids(en[28]#5a34be53)[B, U]")
    'Ids(en[28])[B, U]'
    """
    return re.sub(r"(\[\d+\])#[0-9a-f]{8}", r"\1", text)


def _is_minor(type_: NeuralType) -> bool:
    return type(type_.element).__name__ in {"Lengths", "Mask"}


def _split_axes(text: str) -> tuple[str, str]:
    """Split a printed type where its axes begin: at the bracket that the last one closes."""
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += (text[index] == "]") - (text[index] == "[")
        if depth == 0:
            return (text[:index], text[index:]) if text[index] == "[" else (text, "")
    return text, ""


def _snake(name: str) -> str:
    """`MelSpectrogram` as the name of a value: `mel_spectrogram`; `CTCLoss_2`: `ctc_loss_2`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
