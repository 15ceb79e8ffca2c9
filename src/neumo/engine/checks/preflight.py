"""What is checked before an action: the rules of graphs, the weights that a loss reaches, each utterance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from neumo.engine.plan import needed_steps
from neumo.graph.rules import Purpose, check_rules
from neumo.types import GraphError, Ids, Loss, Scores, Size, Symbol
from neumo.types.axis import Kind

if TYPE_CHECKING:
    from neumo.engine.backend import Session
    from neumo.graph.graph import Graph
    from neumo.graph.module import DataLayer, NeuralModule
    from neumo.graph.value import Step, Value


@runtime_checkable
class Foreseeing(Protocol):
    """A data source that knows the length and the text of its items before it reads them, and can leave
    some out.
    """

    indices: Any  # int64, the items that take part
    frames: Any  # int64 by item, how many samples its recording has

    def text_ids(self, index: int) -> Any:
        """Return the text of an item as ids."""
        ...

    def exclude(self, indices: Iterable[int], reason: str) -> None:
        """Leave items out, for a reason that the report of the source gives."""
        ...

    def name(self, index: int) -> str:
        """Return what messages call an item."""
        ...


def find_loss(graph: Graph, loss: str | Value | None) -> tuple[str, Value]:
    """Find the loss of a graph: the one that is named or given, or else its only output that is a loss."""
    if graph.mode == "infer":
        raise GraphError(
            f"graph {graph.name!r} is for inference, so it cannot be trained",
            code="mode",
            fixes=["make it with mode 'train', or 'both'"],
        )
    if loss is not None and not isinstance(loss, str):
        if all(loss.step is not step for step in graph.steps):
            raise GraphError(
                f"the loss is no value of graph {graph.name!r}",
                code="loss",
                details=[f"its own losses: {', '.join(_losses(graph)) or 'none'}"],
                fixes=[
                    "train the loss alone, without a graph",
                    *(f"loss={name!r}" for name in _losses(graph)),
                ],
            )
        named = [name for name, value in graph.outputs.items() if value is loss]
        return (named[0] if named else "loss"), loss
    if loss is not None:
        return loss, graph.outputs[loss]
    found = _losses(graph)
    if len(found) != 1:
        raise GraphError(
            f"graph {graph.name!r} has {len(found) or 'no'} outputs that are losses"
            + (", and one must be chosen" if found else ", so there is nothing to train on"),
            code="loss",
            details=[f"{name}: {value.type}" for name, value in graph.outputs.items()],
            fixes=[f"loss={name!r}" for name in found]
            or ["add the output of a loss module, such as CTCLoss"],
        )
    return found[0], graph.outputs[found[0]]


def _losses(graph: Graph) -> list[str]:
    return [name for name, value in graph.outputs.items() if isinstance(value.type.element, Loss)]


def loss_count(loss: Value) -> Value | None:
    """Find the output in which a loss module says how many things its loss is the mean over, if any."""
    step = loss.step
    return step.outputs.get("count") if step.module.role == "loss" and loss.port != "count" else None


def data_step(graph: Graph, steps: Iterable[Step]) -> Step:
    """Find the one data layer that feeds some steps; raises `GraphError` if there is not just one."""
    fed = [step for step in steps if step.module.role == "data"]
    layers = [step for step in fed if hasattr(step.module, "open")]
    if len(fed) == len(layers) == 1:
        return layers[0]
    opened = [step for step in fed if step not in layers]
    if opened:
        ports = ", ".join(opened[0].outputs)
        what = f"graph {graph.name!r} waits for inputs from outside ({ports}), not for a data layer"
        fixes = ["connect a data layer such as SpeechData", "infer(graph, inputs={...}) takes arrays"]
    elif layers:
        what = f"graph {graph.name!r} reads from {len(layers)} data layers, and an action reads from one"
        fixes = ["MultiData(layers=(...)) makes one data layer of several"]
    else:
        what = f"graph {graph.name!r} has no data layer, so there is nothing to run it on"
        fixes = ["connect a data layer such as SpeechData"]
    raise GraphError(what, code="data-layer", fixes=fixes)


def check_trainable(
    session: Session, graph: Graph, loss: Value, *, frozen: Iterable[NeuralModule] = ()
) -> None:
    """Raise `GraphError` unless the loss is computed from a module with weights that may change."""
    modules = {
        id(step.module): step.module for step in needed_steps(graph, [loss]) if step.module.role != "data"
    }
    if any(session.count_parameters(module, trainable_only=True) for module in modules.values()):
        return
    names = {id(module): name for name, module in graph.modules.items()}
    kept = {id(module) for module in frozen}
    raise GraphError(
        f"there is nothing to train: no weight can change {loss.name}",
        code="nothing-to-train",
        details=[f"{names[key]}: {'frozen' if key in kept else 'no weights'}" for key in modules],
        fixes=["unfreeze a module"]
        if kept & modules.keys()
        else ["connect a module that has weights, such as an encoder"],
    )


def rule_notes(
    session: Session,
    graph: Graph,
    loss: Value,
    *,
    built: Iterable[NeuralModule],
    frozen: Iterable[NeuralModule] = (),
) -> list[str]:
    """Check a graph that is about to be trained by the rules of `neumo.graph.rules`; return the warnings.

    Of the modules that are `built` the weights are counted; of others their class says whether there are
    any. Raises `GraphError`.
    """
    known = {id(module) for module in built}

    def trainable(module: NeuralModule) -> bool:
        return session.count_parameters(module) > 0 if id(module) in known else module.trainable

    purpose = Purpose("train", loss=loss, frozen=list(frozen), trainable=trainable)
    return [f"warning: {finding}" for finding in check_rules(graph, purpose)]


def usage_notes(graph: Graph) -> list[str]:
    """Check a graph that is about to be evaluated or to infer by the rules; return the warnings.

    Raises `GraphError`. What a training needs is not asked of a graph for training that is only looked at.
    """
    purpose = Purpose("both") if graph.mode == "train" else Purpose()
    return [f"graph {graph.name!r}: warning: {finding}" for finding in check_rules(graph, purpose)]


def infeasible_flags(steps: Iterable[Step]) -> list[Value]:
    """List the outputs by which losses say which utterances of a batch they had to leave out."""
    losses = [step for step in steps if step.module.role == "loss"]
    return [step.outputs["infeasible"] for step in losses if "infeasible" in step.outputs]


def exclude_infeasible(graph: Graph, steps: Sequence[Step], source: object, data: Step) -> dict[str, str]:
    """Leave out the utterances that a loss could never align; returns a sentence for each reason.

    A loss that can tell has a method `needed_frames(ids) -> int`. How many frames an utterance will have at
    the loss follows from the sizes of the graph, with the length of the utterance in the place of the
    data's.
    """
    if not isinstance(source, Foreseeing):
        return {}
    notes: dict[str, str] = {}
    for step in steps:
        needed: Callable[[Any], int] | None = getattr(step.module, "needed_frames", None)
        size = _frames_at(step)
        if needed is None or size is None or not _reads_text(step, data):
            continue
        symbol = _counted_by_data(graph, size, data)
        if symbol is None:
            continue
        lengths = source.frames
        short = [
            index
            for index in (int(number) for number in source.indices)
            if needed(source.text_ids(index)) > size.evaluate({symbol: int(lengths[index])})
        ]
        if short:
            reason = f"too short for its text at {graph.name_of(step.module)}"
            source.exclude(short, reason)
            names = listed(source.name(index) for index in short)
            notes[reason] = f"left out {len(short)} {reason}: {names}"
    return notes


def listed(names: Iterable[str], shown: int = 5) -> str:
    """Join names for a message, and count those beyond the first few.

    >>> listed("abcdefg", shown=2)
    'a, b and 5 more'
    """
    every = list(names)
    more = f" and {len(every) - shown} more" if len(every) > shown else ""
    return ", ".join(every[:shown]) + more


def open_source(layer: NeuralModule, seed: int) -> Any:
    """Open the data of a data layer."""
    return cast("DataLayer", layer).open(seed)


def _frames_at(step: Step) -> Size | None:
    """The size of the time axis of the scores that a loss takes."""
    for value in _single_inputs(step):
        if isinstance(value.type.element, Scores):
            return next((axis.size for axis in value.type.axes if axis.kind is Kind.TIME), None)
    return None


def _counted_by_data(graph: Graph, size: Size, data: Step) -> Symbol | None:
    """The one symbol in a size, if the lengths of the data's recordings count it."""
    symbols = size.symbols()
    if len(symbols) != 1:
        return None
    (symbol,) = symbols
    origin = graph.symbols.get(symbol)
    if origin is None or origin.lengths is None or origin.lengths.step is not data:
        return None
    return symbol if origin.lengths.port == "audio_len" else None


def _reads_text(step: Step, data: Step) -> bool:
    return any(
        isinstance(v.type.element, Ids) and v.step is data and v.port == "text" for v in _single_inputs(step)
    )


def _single_inputs(step: Step) -> Iterator[Value]:
    for _, value in step.edges():
        yield value
