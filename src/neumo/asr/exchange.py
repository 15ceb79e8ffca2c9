"""Another decoder for a graph that is there already: a beam search in the place of the greedy one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neumo.asr.modules import (
    AttentionBeam,
    AttentionGreedy,
    BeamCTC,
    GreedyCTC,
    TransducerBeam,
    TransducerGreedy,
)
from neumo.graph.graph import Graph
from neumo.graph.module import NeuralModule, label_of
from neumo.graph.value import Step, Value
from neumo.types.errors import ConfigError

__all__ = ["with_beam"]


def with_beam(
    graph: Graph,
    *,
    beam: int | None = None,
    lm: str | Path | None = None,
    alpha: float | None = None,
    beta: float | None = None,
) -> Graph:
    """Return a graph whose `ids` and `ids_len` come from a beam search; all other modules are shared.

    A CTC decoder becomes a `BeamCTC`, with the language model `lm` weighed by `alpha` and `beta` if one is
    given. Decoders of transducers and attention become their own beam searches, which take no such model
    here. What is left out has the default of the module. Raises `ConfigError` for what has no beam search.

    >>> from neumo.graph import inputs
    >>> from neumo.types import B, Lengths, LogProbs, T, V, Vocab
    >>> vocab = Vocab("ab ")
    >>> labels = vocab.with_blank("end")
    >>> given = inputs(log_probs=LogProbs(labels)[B, T, V(labels)], log_probs_len=Lengths(T)[B])
    >>> heard = GreedyCTC(vocab)(log_probs=given.log_probs, log_probs_len=given.log_probs_len)
    >>> graph = Graph("infer", "infer", {"ids": heard.ids, "ids_len": heard.ids_len})
    >>> type(with_beam(graph, beam=8).outputs["ids"].step.module).__name__
    'BeamCTC'
    """
    ids = graph.outputs.get("ids")
    if ids is None:
        raise ConfigError(f"graph {graph.name!r} has no decoder to exchange", code="option")
    weighed = {name: value for name, value in (("alpha", alpha), ("beta", beta)) if value is not None}
    if weighed and lm is None:
        named = " and ".join(f"{name}={value:g}" for name, value in weighed.items())
        raise ConfigError(
            f"{named} weigh a language model, and there is none", code="option", fixes=["--lm words.arpa"]
        )
    settings: dict[str, Any] = {
        **weighed,
        **({"beam": beam} if beam is not None else {}),
        **({"lm": lm} if lm else {}),
    }
    search = _search(graph, ids.step, settings)
    found = search(**ids.step.inputs)
    outputs: dict[str, Value] = {name: found[name] for name in ("ids", "ids_len")}
    names = {name: module for name, module in graph.modules.items() if module is not ids.step.module}
    return Graph(graph.name, graph.mode, outputs, silence=graph.silence, names=names)


def _search(graph: Graph, step: Step, settings: dict[str, Any]) -> NeuralModule:
    decoder = step.module
    if isinstance(decoder, GreedyCTC | BeamCTC):
        return BeamCTC(decoder.vocab, **settings)
    if "lm" in settings:
        raise ConfigError(
            f"{label_of(decoder)} takes no n-gram language model",
            code="option",
            why="Only CTC decoders do; this one has learned which labels follow one another.",
            fixes=["leave out --lm"],
        )
    if isinstance(decoder, TransducerGreedy | TransducerBeam):
        return TransducerBeam(decoder.vocab, max_symbols=decoder.max_symbols, **settings)
    if isinstance(decoder, AttentionGreedy):
        lengths = {"max_per_frame": decoder.max_per_frame, "max_labels": decoder.max_labels}
        return AttentionBeam(decoder.vocab, **lengths, **settings)
    raise ConfigError(
        f"there is no beam search to put in the place of {label_of(decoder)} in graph {graph.name!r}",
        code="option",
        fixes=["leave out --beam"],
    )
