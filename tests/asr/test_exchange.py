"""A beam search in the place of a greedy decoder, over the same modules."""

from __future__ import annotations

import numpy as np
import pytest

from neumo.asr import BeamCTC, TransducerBeam
from neumo.asr.exchange import with_beam
from neumo.asr.transcribe import Transcriber
from neumo.engine import NeuralFactory
from neumo.graph import Graph
from neumo.graph.yaml import load_recipe
from neumo.types.errors import ConfigError

from .test_transducer import RECIPE as TRANSDUCER
from .tones import play, recogniser

SONG = [("abc"[n % 3], n + 0.5, n + 0.7) for n in range(5)]


def test_a_ctc_graph_has_times_and_keeps_its_modules():
    factory, graph = NeuralFactory(device="cpu", seed=1, progress=False), recogniser(2)
    searched = with_beam(graph, beam=8)
    decoder = searched.outputs["ids"].step.module
    assert isinstance(decoder, BeamCTC)
    assert decoder.beam == 8
    shared = [module for module in graph.modules.values() if module in set(searched.modules.values())]
    assert len(shared) == len(graph.modules) - 1
    # Frames of 0.025 add up over a long tone: the search may rightly hear more than the best path.
    (found,) = Transcriber(factory, searched, times=True)([play(*SONG, seconds=6.0)])
    assert " ".join(word.text for word in found.words) == found.text
    times = [time for word in found.words for time in (word.start, word.end)]
    assert times == sorted(times)
    assert set("abc") <= set(found.text)


def test_a_beam_search_joins_chunks_as_well():
    factory, graph = NeuralFactory(device="cpu", seed=1, progress=False), with_beam(recogniser(2), beam=4)
    (found,) = Transcriber(factory, graph, chunk=3, overlap=1)([play(*SONG, seconds=6.0)])
    assert found.text == "a b c a b"


def test_a_transducer_gets_its_own_search_and_takes_no_n_grams():
    whole = load_recipe(TRANSDUCER).graphs["infer"]
    graph = Graph("infer", "infer", {name: whole.outputs[name] for name in ("ids", "ids_len")})
    searched = with_beam(graph, beam=3)
    assert isinstance(searched.outputs["ids"].step.module, TransducerBeam)
    noise = (0.1 * np.random.default_rng(1).standard_normal(16000)).astype(np.float32)
    factory = NeuralFactory(device="cpu", seed=3, progress=False)
    (found,) = Transcriber(factory, searched)([noise])
    assert found.error is None
    with pytest.raises(ConfigError, match="takes no n-gram language model"):
        with_beam(graph, beam=3, lm="words.arpa")


def test_weights_of_a_model_that_is_not_there_are_refused():
    with pytest.raises(ConfigError, match="there is none"):
        with_beam(recogniser(2), alpha=0.5)
