"""Rules about what measures: the loss that is trained, the reference of a metric, labels that are padding."""

from __future__ import annotations

from collections.abc import Iterator

from neumo.graph.inputs import is_source
from neumo.graph.rules.finding import Finding
from neumo.graph.rules.targets import accompanies
from neumo.graph.rules.view import View
from neumo.graph.value import Step, Value
from neumo.types import Fix, Hypotheses, Ids, Row, Vocab


def find_losses_per_row(view: View) -> Iterator[Finding]:
    """Find that a training has losses and none of them is one number, such as one of each utterance."""
    if not view.training or not view.losses or any(not loss.type.axes for loss in view.losses):
        return
    loss = view.losses[0]
    name, label = view.name(loss), view.label(loss.step)
    axes = ", ".join(str(axis) for axis in loss.type.axes)
    yield Finding(
        "loss-is-a-number",
        f"{name} is not one number, so it cannot be trained: it has one for each of [{axes}]",
        name,
        loss.step,
        rows=lambda: (Row("given", str(loss.type), f"made by {view.made(loss.step)}"),),
        why=("A gradient is that of one number: the mean over a batch, or the sum.",),
        ways=lambda: (Fix(f"let {label} give a mean or a sum: its signature then says Loss()[()]"),),
    )


def find_self_measures(view: View) -> Iterator[Finding]:
    """Find the metrics and losses that compare a value with itself: they see no error, whatever happens."""
    for step in view.steps:
        if step.module.role not in ("metric", "loss"):
            continue
        first: dict[object, str] = {}
        for port, value in step.edges():
            if accompanies(value):
                continue
            twin = first.setdefault(_origin(step, value), port)
            if twin != port:
                yield _self_measure(step, port, twin, value, view)


def _origin(step: Step, value: Value) -> object:
    """What is the same for values that tell nothing about each other: the search that made hypotheses."""
    if step.module.role == "metric" and isinstance(value.type.element, Hypotheses):
        return id(value.step)
    return value.key


def _self_measure(step: Step, port: str, twin: str, value: Value, view: View) -> Finding:
    label, name = view.label(step), view.name(value)
    found = isinstance(value.type.element, Hypotheses) or not is_source(value.step)
    other = port if found else twin
    same = step.inputs[twin] is value
    what = name if same else f"what {view.label(value.step)} found"
    return Finding(
        "compared-with-itself",
        f"{label} compares {what} with itself: {twin} and {port} are {'one value' if same else 'both of it'}",
        f"{label}.{other}",
        step,
        other,
        rows=lambda: (Row("given", str(value.type), f"made by {view.made(value.step)}"),),
        why=("Such a figure says that there are no errors, whatever the model does.",),
        ways=lambda: (
            Fix(
                f"give {other} what the data says, such as its text"
                if found
                else f"give {other} what the model found"
            ),
        ),
    )


def find_padding_labels(view: View) -> Iterator[Finding]:
    """Find losses that take ids whose padding is an ordinary label, without lengths that tell them apart."""
    for step in view.steps:
        if step.module.role != "loss" or any(accompanies(value) for _, value in step.edges()):
            continue
        for port, value in step.edges():
            label = _padding_label(value)
            if label is not None:
                yield _padding_finding(step, port, value, label, view)


def _padding_label(value: Value) -> str | None:
    """Give the label that ids are padded with, where it means something else as well."""
    element = value.type.element
    if not isinstance(element, Ids) or not isinstance(element.vocab, Vocab) or not value.type.axes:
        return None
    vocab, pad = element.vocab, element.pad
    if not isinstance(pad, int) or not 0 <= pad < len(vocab) or pad in (vocab.pad, vocab.blank):
        return None
    return vocab[pad]


def _padding_finding(step: Step, port: str, value: Value, label: str, view: View) -> Finding:
    name, user = view.name(value), view.label(step)
    return Finding(
        "pad-is-a-label",
        f"{user} cannot tell the label {label!r} in {name} from padding",
        f"{user}.{port}",
        step,
        port,
        rows=lambda: (Row("given", str(value.type), f"made by {view.made(value.step)}"),),
        why=(
            f"Rows are padded with the index of {label!r}, and {user} takes neither lengths nor a mask: it "
            f"leaves out all {label!r}, or trains on padding.",
        ),
        ways=lambda: (
            Fix(f"pad {name} with an index that is no label, such as -100"),
            Fix(f"let {user} take the lengths of {port}"),
        ),
    )
