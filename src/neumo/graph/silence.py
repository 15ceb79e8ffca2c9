"""What a graph silences: rules that it need not keep, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from neumo.types import GraphError, did_you_mean


def check_silence(silence: object) -> dict[str, str]:
    """Give what is silenced, by rule; raises `GraphError` for unknown rules and missing reasons.

    >>> check_silence({"loss-reaches-weights": "the weights are frozen on purpose"})
    {'loss-reaches-weights': 'the weights are frozen on purpose'}
    """
    if silence is None:
        return {}
    if not isinstance(silence, Mapping):
        what = f"silence maps rules to reasons, and is a {type(silence).__name__}"
        raise GraphError(what, code="silence", fixes=[_example("unused-output")])
    checked: dict[str, str] = {}
    for rule, reason in cast("Mapping[object, object]", silence).items():
        if not isinstance(rule, str):
            raise GraphError(f"{rule!r} is no rule", code="silence", fixes=[_example("unused-output")])
        if not isinstance(reason, str) or not reason.strip():
            raise GraphError(
                f"{rule!r} is silenced without a reason",
                code="silence",
                why="The reason is kept with the graph, in its recipe and its model file.",
                fixes=[_example(rule)],
            )
        _check_rule(rule)
        checked[rule] = reason
    return checked


def _check_rule(rule: str) -> None:
    from neumo.graph.rules import RULES  # rules look at graphs, which check what they silence

    if rule not in RULES:
        raise GraphError(
            f"there is no rule {rule!r} that a graph could silence",
            code="silence",
            details=[f"the rules are {', '.join(RULES)}"],
            fixes=did_you_mean(rule, RULES),
        )


def _example(rule: object) -> str:
    return f'write silence={{"{rule}": "why this graph does without the rule"}}'
