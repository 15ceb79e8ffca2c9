"""The axes of a graph that change from batch to batch, named as torch.export and ONNX want them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from neumo.graph.inputs import is_open, is_source
from neumo.graph.module import label_of
from neumo.graph.names import FreeNames
from neumo.types import Axis, Size, Symbol

if TYPE_CHECKING:
    from neumo.graph.graph import Graph
    from neumo.graph.value import Value

DynamicAxes = dict[str, dict[int, str]]


def dynamic_axes(graph: Graph) -> DynamicAxes:
    """Name every axis of the inputs and outputs of a graph whose size is not fixed.

    >>> from neumo.graph import Graph, inputs
    >>> from neumo.graph.adapters import Resample
    >>> from neumo.types import Audio, B, Lengths, T
    >>> spoken = inputs(audio=Audio(rate=8000)[B, T], audio_len=Lengths(T)[B])
    >>> wide = Resample(8000, 16000)(audio=spoken.audio, audio_len=spoken.audio_len)
    >>> dynamic_axes(Graph(outputs={"wide": wide.audio, "wide_len": wide.audio_len}))
    {'audio': {0: 'B', 1: 'T'}, 'audio_len': {0: 'B'}, 'wide': {0: 'B', 1: '2*T'}, 'wide_len': {0: 'B'}}

    The result has the form of `dynamic_axes` of `torch.onnx.export`: {name of the tensor: {axis: name of its
    size}}. Equal names are equal sizes: a symbol gives its name (numbered where two symbols are called
    alike), an expression is written in symbols, a size that is known at run time only is named after its
    tensor. The inputs are the open inputs of the graph and what its data layers feed; an input whose name is
    taken is called `<module>_<name>`, an output that has the name of an input `<name>_out`.
    """
    given: dict[str, Value] = {}
    free = FreeNames(between="")
    for value in _fed(graph):
        is_new = value.port not in free.taken  # two data layers may call a port alike
        given[free.take(value.port if is_new else f"{label_of(value.step.module)}_{value.port}")] = value
    made = {f"{name}_out" if name in given else name: value for name, value in graph.outputs.items()}
    tensors = given | made
    names = _symbol_names(tensors.values())
    return {name: found for name, value in tensors.items() if (found := _axes(name, value, names))}


def _fed(graph: Graph) -> Iterator[Value]:
    """The values that come from outside: open inputs, and what is read of the data layers."""
    if graph.inputs:
        yield from graph.inputs.values()
    read = {value.key for step in graph.steps for _, value in step.edges()}
    for step in graph.steps:
        if is_source(step) and not is_open(step):
            yield from (value for value in step.outputs.values() if value.key in read)


def _axes(name: str, value: Value, names: dict[Symbol, Size]) -> dict[int, str]:
    return {
        index: _axis_name(f"{name}_{index}", axis, names)
        for index, axis in enumerate(value.type.axes)
        if axis.size is None or axis.size.terms
    }


def _axis_name(unknown: str, axis: Axis, names: dict[Symbol, Size]) -> str:
    return unknown if axis.size is None else axis.size.substitute(names).text()


def _symbol_names(values: Iterable[Value]) -> dict[Symbol, Size]:
    """Give each symbol a name of its own: `T`, and `T2` for another one that is called T; `T'` is `T_new`."""
    free = FreeNames(between="")
    names: dict[Symbol, Size] = {}
    for size in (axis.size for value in values for axis in value.type.axes):
        for symbol in sorted(size.symbols() if size is not None else (), key=lambda each: each.key):
            if symbol not in names:
                name = symbol.name.replace("'", "_new")
                names[symbol] = Symbol(free.take(name, name if name.isidentifier() else f"({name})")).size
    return names
