"""The rule that padding is known where time is mixed: lengths or a mask are connected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from neumo.graph.candidates import fits_alone
from neumo.graph.inputs import GraphInputs
from neumo.graph.module import NeuralModule, signature_of
from neumo.graph.multi import MultiData
from neumo.graph.rules.finding import Finding
from neumo.graph.rules.view import View, declared_ports
from neumo.graph.signature import Signature
from neumo.graph.value import Step, Value
from neumo.types import Axis, Fix, Kind, Lengths, Mask, NeuralType, Row, Symbol

Padded = Mapping[Symbol, Value]  # a size that differs from row to row, and the lengths or mask that say so


def find_unmasked(view: View) -> Iterator[Finding]:
    """Find the time axes that are padded, and mixed by a module that is not told where padding begins."""
    padded = padded_sizes(view)
    if not padded:
        return
    for step in view.steps:
        ports = mixing_axes(step.module)
        told: set[str] = set()  # what was left out once may be missed at several ports
        for port, value in step.edges():
            edge = _Edge(step, port, value, ports.get(port, {}))
            for axis, meters, known in _open_axes(edge, padded):
                missing = meters or [port]
                if told.isdisjoint(missing):
                    yield _finding(edge, axis, meters, known, view)
                told.update(missing)


def mixed_ports(module: NeuralModule) -> list[str]:
    """List the input ports along whose time axes a module computes a position from others.

    >>> from neumo.graph.adapters import Resample
    >>> mixed_ports(Resample(44100, 16000))
    ['audio']

    They are what the class declares as `mixes`; or else the ports whose time axis is measured by lengths or
    a mask among the inputs: a module that asks for them has a use for them.
    """
    return list(mixing_axes(module))


@dataclass(frozen=True, slots=True)
class _Edge:
    """A value that goes into a port along whose time axes a module mixes."""

    step: Step
    port: str
    value: Value
    meters: Mapping[int, list[str]]  # axis -> the ports that measure it


def padded_sizes(view: View) -> dict[Symbol, Value]:
    """Find the sizes that a step makes together with the lengths or the mask that measure them."""
    padded: dict[Symbol, Value] = {}
    for step in view.steps:
        meters = [value for value in step.outputs.values() if measures_rows(value.type)]
        if not meters or _has_one_row(step.module):
            continue
        taken = {symbol for _, value in step.edges() for symbol in value.type.symbols()}
        for value in meters:
            for size in value.type.element.sizes():
                padded.update(dict.fromkeys(size.symbols() - taken, value))
    return padded


def measures_rows(t: NeuralType) -> bool:
    """Say whether a type measures each row of a batch: lengths or a mask of several rows."""
    return isinstance(t.element, Lengths | Mask) and has_rows(t)


def has_rows(t: NeuralType) -> bool:
    """Say whether a tensor holds several rows that were padded to one size: a list or one row was not."""
    return any(
        axis.kind is Kind.BATCH
        and not getattr(axis, "listed", False)
        and (axis.size is None or axis.size.constant != 1)
        for axis in t.axes
    )


def _has_one_row(module: NeuralModule) -> bool:
    first = module.layers[0] if isinstance(module, MultiData) and module.how == "zip" else module
    return getattr(first, "batch_size", None) == 1


def mixing_axes(module: NeuralModule) -> dict[str, dict[int, list[str]]]:
    """Give for each mixed port its time axes, each with the ports that could tell its padding."""
    if isinstance(module, GraphInputs):
        return {}
    signature = signature_of(module)
    declared = declared_ports(module, "mixes", signature.takes)
    found: dict[str, dict[int, list[str]]] = {}
    for port, wanted in signature.takes.items():
        if isinstance(wanted.element, Lengths | Mask) or (declared is not None and port not in declared):
            continue
        axes = {n: _meters(signature, port, axis) for n, axis in enumerate(wanted.axes) if _is_time(axis)}
        kept = axes if declared is not None else {n: meters for n, meters in axes.items() if meters}
        if kept:
            found[port] = kept
    return found


def _is_time(axis: Axis) -> bool:
    return axis.kind in (Kind.TIME, Kind.ANY) and axis.size is not None


def _meters(signature: Signature, port: str, axis: Axis) -> list[str]:
    """List the lengths and masks among the inputs that measure an axis, row by row.

    A mask without an axis for the batch, such as a causal one, is the same for all rows.
    """
    assert axis.size is not None
    symbols = axis.size.symbols()
    return [
        name
        for name, wanted in signature.takes.items()
        if name != port and _measures(wanted, symbols) and tells_rows(wanted)
    ]


def _measures(t: NeuralType, symbols: frozenset[Symbol]) -> bool:
    return isinstance(t.element, Lengths | Mask) and any(symbols & s.symbols() for s in t.element.sizes())


def tells_rows(wanted: NeuralType) -> bool:
    """Say whether what a port takes can differ from row to row."""
    return any(axis.kind in (Kind.BATCH, Kind.ANY) for axis in wanted.axes)


def _open_axes(edge: _Edge, padded: Padded) -> Iterator[tuple[Axis, list[str], Value]]:
    """Give the padded axes of a value whose padding its taker is not told, with what would tell it."""
    axes = edge.value.type.axes if has_rows(edge.value.type) else ()
    for number, meters in edge.meters.items():
        axis = axes[number] if number < len(axes) else None
        if axis is None or axis.kind is not Kind.TIME or axis.size is None:
            continue
        known = next((padded[symbol] for symbol in axis.size.symbols() if symbol in padded), None)
        if known is not None and not any(port in edge.step.inputs for port in meters):
            yield axis, meters, known


def _finding(edge: _Edge, axis: Axis, meters: list[str], known: Value, view: View) -> Finding:
    step, port = edge.step, edge.port
    label = view.label(step)
    if meters:
        what = f"{label} is not told where the padding of {port} begins: {' or '.join(meters)} is left out"
    else:
        what = f"{label} cannot be told where the padding of {port} begins: it has no port for lengths"
    return Finding(
        "padding",
        what,
        f"{label}.{port}",
        step,
        port,
        rows=lambda: _rows(edge, meters, known, view),
        why=(
            f"{label} computes with several positions of {port} along {axis.size}, so the padding behind a "
            "short row would count as well: the same row would come out differently in another batch.",
            *_same_for_all(step, axis),
        ),
        trail=lambda: view.path(step, port, lambda value: _shares(value, axis)),
        ways=lambda: _ways_out(edge, axis, meters, view),
    )


def _same_for_all(step: Step, axis: Axis) -> list[str]:
    """Say of masks of an axis that are connected, but have no rows, that they cannot tell it."""
    assert axis.size is not None
    symbols = axis.size.symbols()
    masks = [port for port, value in step.edges() if _measures(value.type, symbols)]
    return [f"{port} has no axis for the batch: it is the same for every row." for port in masks]


def _rows(edge: _Edge, meters: list[str], known: Value, view: View) -> list[Row]:
    takes = signature_of(edge.step.module).takes
    return [
        Row("given", str(edge.value.type), f"made by {view.made(edge.value.step)}"),
        Row("padded", str(known.type), f"{view.name(known)} says how much of a row is real"),
        *(Row("open", f"{meter}: {takes[meter]}") for meter in meters),
    ]


def _shares(value: Value, axis: Axis) -> bool:
    """Say whether an axis was made from one of this value: both depend on one size."""
    assert axis.size is not None
    symbols = axis.size.symbols()
    return any(
        each.kind is Kind.TIME and each.size is not None and each.size.symbols() & symbols
        for each in value.type.axes
    )


def _ways_out(edge: _Edge, axis: Axis, meters: list[str], view: View) -> tuple[Fix, ...]:
    """Name the values of the graph that measure this very axis and fit; or else say what to change."""
    takes = signature_of(edge.step.module).takes
    assert axis.size is not None
    here = view.position[id(edge.step)]
    fitting = [
        Fix(f"{meter}={view.spell(value)}", "fits")
        for meter in meters
        for value in view.meters.get(axis.size, [])
        if view.position[id(value.step)] < here and fits_alone(takes[meter].as_required(), value.type)
    ]
    if fitting:
        return tuple(fitting[:2])
    kind = type(edge.step.module).__name__
    if meters:
        return (Fix(f"connect {meters[0]}, such as the lengths that come with {view.name(edge.value)}"),)
    return (
        Fix(f"give {kind} a port such as {edge.port}_len: Lengths(T)[B], and use it"),
        Fix(f"if {kind} works position by position: mixes = () in the class"),
    )
