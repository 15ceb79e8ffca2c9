"""The rule about padding where it is not sure: a second mask is left open, or a padded axis is gone."""

from __future__ import annotations

from collections.abc import Iterator

from neumo.graph.inputs import GraphInputs
from neumo.graph.module import NeuralModule, signature_of
from neumo.graph.rules.finding import Finding
from neumo.graph.rules.padding import Padded, has_rows, measures_rows, mixing_axes, padded_sizes, tells_rows
from neumo.graph.rules.view import View, declared_ports
from neumo.graph.signature import Signature
from neumo.graph.value import Step, Value
from neumo.types import (
    Alignment,
    Axis,
    Durations,
    Element,
    Fix,
    Kind,
    Lengths,
    Loss,
    Mask,
    NeuralType,
    Row,
    Score,
    Size,
    Symbol,
)


def find_doubts(view: View) -> Iterator[Finding]:
    """Find masks that are left out beside one of the same axis, and padded axes that a module sums up."""
    padded = padded_sizes(view)
    if not padded:
        return
    for step in view.steps:
        yield from _open_masks(step, padded, view)
        yield from _lost_axes(step, padded, view)


def _open_masks(step: Step, padded: Padded, view: View) -> Iterator[Finding]:
    """Find the masks of a step that are left out although it gets another one of the same axis."""
    takes = signature_of(step.module).takes
    given = {port: value for port, value in step.edges() if _is_padded_mask(takes[port], value, padded)}
    for port, wanted in takes.items():
        if port in step.inputs or not isinstance(wanted.element, Mask) or not tells_rows(wanted):
            continue
        if wanted.when is not None and not view.training:
            continue
        twin = next((name for name in given if _same(takes[name], wanted)), None)
        if twin is not None:
            yield _open_mask(step, port, twin, given[twin], view)


def _is_padded_mask(wanted: NeuralType, value: Value, padded: Padded) -> bool:
    is_mask = isinstance(wanted.element, Mask) and measures_rows(value.type)
    return is_mask and any(symbol in padded for s in value.type.element.sizes() for symbol in s.symbols())


def _same(one: NeuralType, two: NeuralType) -> bool:
    """Say whether two masks are said in the same words: one of another meaning stands for the first."""
    return one.element == two.element and one.axes == two.axes


def _open_mask(step: Step, port: str, twin: str, given: Value, view: View) -> Finding:
    label = view.label(step)
    return Finding(
        "padding-doubt",
        f"{label} gets {twin}, and {port}, a mask of the same axis, is left out",
        f"{label}.{port}",
        step,
        twin,
        rows=lambda: (
            Row("given", f"{twin}: {given.type}", f"made by {view.made(given.step)}"),
            Row("open", f"{port}: {signature_of(step.module).takes[port]}"),
        ),
        why=(f"What {label} masks with {port} would see the padding that {twin} hides elsewhere.",),
        ways=lambda: (Fix(f"{port}={view.spell(given)}", "fits"),),
    )


def _lost_axes(step: Step, padded: Padded, view: View) -> Iterator[Finding]:
    """Find the padded axes that no output of a step has any more, where it cannot know of the padding."""
    for port, number in _summed(step.module):
        for name, value in step.edges():
            axes = value.type.axes
            if name != port or number >= len(axes) or not has_rows(value.type):
                continue
            known = _padding_of(axes[number], padded)
            if known is not None:
                yield _lost_axis(step, port, axes[number], known, view)


def _padding_of(axis: Axis, padded: Padded) -> Value | None:
    if axis.kind is not Kind.TIME or axis.size is None:
        return None
    return next((padded[symbol] for symbol in axis.size.symbols() if symbol in padded), None)


def _summed(module: NeuralModule) -> Iterator[tuple[str, int]]:
    """Give the time axes of ports that no output has any more, or has divided only, by port and number.

    That is of modules that say nothing about what they mix, and have no other way to know of padding. A loss
    and a metric are left alone: what they make of padded rows is mostly a matter of ids.
    """
    if isinstance(module, GraphInputs) or mixing_axes(module):
        return
    signature = signature_of(module)
    if not signature.gives or declared_ports(module, "mixes", signature.takes) is not None:
        return
    if any(isinstance(given.element, Loss | Score) for given in signature.gives.values()):
        return
    for port, wanted in signature.takes.items():
        for number, axis in enumerate(wanted.axes):
            symbol = None if axis.kind is not Kind.TIME or axis.size is None else axis.size.symbol
            if symbol is not None and not _is_told(signature, symbol) and not _is_kept(signature, symbol):
                yield port, number


def _is_told(signature: Signature, symbol: Symbol) -> bool:
    """Say whether an input that has or measures the axis can show where padding is: ids, durations, flags."""
    return any(_shows(wanted.element) and symbol in wanted.symbols() for wanted in signature.takes.values())


def _shows(element: Element) -> bool:
    return element.dtype != "float" or isinstance(element, Durations | Alignment)


def _is_kept(signature: Signature, symbol: Symbol) -> bool:
    """Say whether an output has the axis at its full length: position by position, as far as types know."""
    return any(
        axis.size is not None and _is_whole_in(axis.size, symbol)
        for given in signature.gives.values()
        if not isinstance(given.element, Lengths | Mask)
        for axis in given.axes
    )


def _is_whole_in(size: Size, symbol: Symbol) -> bool:
    atoms = [factor for atom, _ in size.terms for factor in getattr(atom, "factors", (atom,))]
    return symbol in atoms


def _lost_axis(step: Step, port: str, axis: Axis, known: Value, view: View) -> Finding:
    label, kind = view.label(step), type(step.module).__name__
    value = next(value for name, value in step.edges() if name == port)
    return Finding(
        "padding-doubt",
        f"{label} seems to mix {port} along {axis.size}, and cannot be told where its padding begins",
        f"{label}.{port}",
        step,
        port,
        rows=lambda: (
            Row("given", str(value.type), f"made by {view.made(value.step)}"),
            Row("padded", str(known.type), f"{view.name(known)} says how much of a row is real"),
        ),
        why=(
            f"No output of {label} has that axis at its full length, so it may well compute with several "
            "positions, and the padding behind a short row would count as well.",
        ),
        ways=lambda: (
            Fix(f"give {kind} a port such as {port}_len: Lengths(T)[B], and use it"),
            Fix(f'say it in the class: mixes = ("{port}",), or mixes = () if it picks single positions'),
        ),
    )
