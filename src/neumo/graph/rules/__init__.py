"""Rules that hold for a graph as a whole, beyond its single connections; each has a name and can be silenced.

    padding                      error    time is mixed only where the padding is known
    loss-reaches-weights         error    the loss of a training reaches weights
    softmax-twice                error    scores are normalised once
    target-in-inference          error    predictions do not depend on their targets
    one-module-two-vocabularies  error    one set of weights has one meaning
    loss-is-a-number             error    what is trained is one number
    compared-with-itself         error    a metric or a loss compares two things
    untrained-module             warning  all weights of a training are trained
    never-trained                warning  a graph that predicts uses weights that another one trains
    padding-doubt                warning  what seems to mix time is told all that it asks for
    pad-is-a-label               warning  a loss can tell labels from padding
    unused-output                warning  what is given on purpose is used

`neumo explain padding` and so on show a wrong and a right graph for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from neumo.graph.module import NeuralModule
from neumo.graph.rules.doubt import find_doubts
from neumo.graph.rules.finding import Finding as Finding
from neumo.graph.rules.finding import Severity as Severity
from neumo.graph.rules.finding import active as active
from neumo.graph.rules.measures import find_losses_per_row, find_padding_labels, find_self_measures
from neumo.graph.rules.padding import find_unmasked
from neumo.graph.rules.padding import mixed_ports as mixed_ports
from neumo.graph.rules.scores import find_second_meaning, find_second_softmax
from neumo.graph.rules.targets import find_leaked_targets, find_unused_outputs
from neumo.graph.rules.view import Purpose as Purpose
from neumo.graph.rules.view import View
from neumo.graph.rules.weights import find_idle_losses, find_never_trained, find_untrained_modules

if TYPE_CHECKING:
    from neumo.graph.graph import Graph

_Check = Callable[[View], Iterable[Finding]]


def _nothing(_: View) -> Iterable[Finding]:
    return ()


@dataclass(frozen=True)
class Rule:
    """Is what must hold for every graph: its name, how bad a breach is, and what it says.

    >>> RULES["padding"].severity
    'error'

    An error stops an action, a warning is said once. `check` looks at one graph; rules that compare graphs
    of a recipe are checked by `find_between`.
    """

    name: str
    severity: Severity
    doc: str
    check: _Check = field(default=_nothing, repr=False, compare=False)


def _one_graph_meanings(view: View) -> Iterator[Finding]:
    return (finding for _, finding in find_second_meaning([view]))


_ALL: Final = (
    Rule(
        "padding",
        "error",
        "A module that mixes positions in time gets the lengths or the mask of an axis that is padded.",
        find_unmasked,
    ),
    Rule(
        "loss-reaches-weights",
        "error",
        "The loss of a training graph depends, along gradients, on a module with weights.",
        find_idle_losses,
    ),
    Rule(
        "softmax-twice",
        "error",
        "Scores that were normalised do not go through a second softmax over the same vocabulary.",
        find_second_softmax,
    ),
    Rule(
        "target-in-inference",
        "error",
        "The predictions of an inference graph do not depend on the targets that they should predict.",
        find_leaked_targets,
    ),
    Rule(
        "one-module-two-vocabularies",
        "error",
        "One module with weights is used with one vocabulary, one learned space, one setting of frames.",
        _one_graph_meanings,
    ),
    Rule(
        "loss-is-a-number",
        "error",
        "The loss of a training is one number, not one of each utterance.",
        find_losses_per_row,
    ),
    Rule(
        "compared-with-itself",
        "error",
        "A metric or a loss compares two values, not one with itself.",
        find_self_measures,
    ),
    Rule(
        "untrained-module",
        "warning",
        "A loss of a training graph reaches each of its modules with weights that is not frozen.",
        find_untrained_modules,
    ),
    Rule(
        "never-trained",
        "warning",
        "A module with weights that a graph of a recipe predicts with is part of one that trains.",
    ),
    Rule(
        "padding-doubt",
        "warning",
        "A module that seems to mix positions in time, or has two masks of an axis, is told of padding.",
        find_doubts,
    ),
    Rule(
        "pad-is-a-label",
        "warning",
        "A loss without lengths takes ids whose padding is none of the labels.",
        find_padding_labels,
    ),
    Rule(
        "unused-output",
        "warning",
        "Lengths of open inputs, targets, scores to be trained and losses are used by something.",
        find_unused_outputs,
    ),
)

RULES: Final[Mapping[str, Rule]] = {rule.name: rule for rule in _ALL}
"""All rules by name, errors first."""


def find(graph: Graph, purpose: Purpose | None = None) -> list[Finding]:
    """Find where a graph breaks rules, errors first, each rule in the order of composition.

    >>> from neumo.graph.adapters import Resample
    >>> from neumo.graph.graph import Graph
    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Audio, B, Lengths, T
    >>> spoken = inputs(audio=Audio(rate=8000)[B, T], audio_len=Lengths(T)[B])
    >>> wide = Resample(8000, 16000)(audio=spoken.audio)
    >>> [finding.rule for finding in find(Graph("widen", outputs={"audio": wide.audio}))]
    ['padding', 'unused-output']

    `purpose` says what the graph is about to be used for, where that is known better than by its mode.
    Findings of rules that the graph silences are there too, with the reason.
    """
    view = View(graph, purpose or Purpose())
    return [_complete(finding, graph) for rule in RULES.values() for finding in rule.check(view)]


def find_between(
    graphs: Mapping[str, Graph],
    *,
    trained: Collection[str] = (),
    frozen: Collection[NeuralModule] = (),
    has_weights: bool = False,
) -> list[Finding]:
    """Find where graphs that share modules, such as those of a recipe, break rules together.

    `trained` names graphs that are trained whatever their mode, `frozen` the modules whose weights stay;
    with `has_weights` the weights come from a file, so that no module predicts at random.
    """
    purposes = {name: Purpose("train" if name in trained else None, frozen=frozen) for name in graphs}
    views = {name: View(graph, purposes[name]) for name, graph in graphs.items()}
    alone = {
        (finding.about, finding.sentence) for view in views.values() for finding in _one_graph_meanings(view)
    }
    found = [
        (view.graph, finding)
        for view, finding in find_second_meaning(views.values())
        if (finding.about, finding.sentence) not in alone
    ]
    if not has_weights:
        found += [(graphs[name], finding) for name, finding in find_never_trained(graphs, views)]
    return [_complete(finding, graph) for graph, finding in found]


def check_rules(graph: Graph, purpose: Purpose | None = None, *, strict: bool = False) -> list[Finding]:
    """Raise `GraphError` if a graph breaks a rule, with all that is wrong; return the warnings.

    With `strict` a warning is as bad as an error.
    """
    findings = find(graph, purpose)
    warnings = active(findings, "warning")
    refuse([*active(findings, "error"), *(warnings if strict else ())])
    return warnings


def refuse(findings: Iterable[Finding]) -> None:
    """Raise the errors of findings: the first one, with the others below it.

    >>> refuse([])
    """
    errors = [finding.error() for finding in findings]
    if errors:
        first, *others = errors
        first.also = tuple(others)
        raise first


def unneeded(graph: Graph, findings: Iterable[Finding]) -> list[str]:
    """List the rules that a graph silences although it keeps them."""
    broken = {finding.rule for finding in findings}
    return [rule for rule in graph.silence if rule not in broken]


def _complete(finding: Finding, graph: Graph) -> Finding:
    """Add what the rule and the graph say; what a nested graph silences is silent where it is used, too."""
    calls = () if finding.step is None else finding.step.within
    reasons = [graph.silence, *(call.graph.silence for call in calls)]
    reason = next((each[finding.rule] for each in reasons if finding.rule in each), "")
    severity = RULES[finding.rule].severity
    return replace(finding, severity=severity, graph=graph.name, silenced=reason)
