"""Corners that composing and its messages go through rarely."""

from dataclasses import dataclass

import pytest

import neumo
from neumo import Graph, Ids, Lengths, LogProbs, Mel, Vocab, WordErrorRate, inputs
from neumo.asr import ConvEncoder, GreedyCTC, SpecAugment
from neumo.graph.module import NeuralModule
from neumo.graph.rules import find
from neumo.graph.signature import Signature
from neumo.types import B, F, GraphError, PortError, T, U, V

LETTERS = Vocab.english()


@dataclass(frozen=True)
class KnowsItsPlace(NeuralModule):
    """Its ports cannot be stated, for a reason that has a place of its own."""

    def signature(self) -> Signature:
        raise GraphError("the table of ports is damaged", code="module", where="ports.txt:3")


def test_a_mistake_that_has_a_place_keeps_it() -> None:
    with pytest.raises(GraphError) as caught:
        KnowsItsPlace()()
    assert caught.value.what == "the table of ports is damaged"
    assert str(caught.value.where) == "ports.txt:3"


def test_a_private_attribute_that_is_not_there_is_a_plain_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute '_hidden'") as caught:
        SpecAugment()._hidden  # noqa: B018
    assert not isinstance(caught.value, neumo.NeumoError)


def test_front_ends_of_equal_settings_on_other_frames_are_no_setting_to_change() -> None:
    given = inputs(
        ln=Mel(n_mels=64, scale="ln")[B, F(64), T],
        db=Mel(n_mels=64, scale="db")[B, F(64), U],
        ln_len=Lengths(T)[B],
        db_len=Lengths(U)[B],
    )
    encoder = ConvEncoder().named("encoder")
    one = encoder(mel=SpecAugment()(mel=given.ln, mel_len=given.ln_len).mel, mel_len=given.ln_len)
    two = encoder(mel=SpecAugment()(mel=given.db, mel_len=given.db_len).mel, mel_len=given.db_len)
    found = find(Graph("twice", outputs={"one": one.encoded, "two": two.encoded}))
    (finding,) = [each for each in found if each.rule == "one-module-two-vocabularies"]
    fixes = [fix.text for fix in finding.error().fixes]
    assert not any(text.startswith("build ") for text in fixes)
    assert "convert one of the two values before it" in fixes


def test_a_reference_is_offered_with_its_own_lengths() -> None:
    labels = LETTERS.with_blank()
    given = inputs(
        scores=LogProbs(labels)[B, T, V(labels)],
        scores_len=Lengths(T)[B],
        text=Ids(LETTERS)[B, U],
        text_len=Lengths(U)[B],
    )
    found = GreedyCTC(LETTERS)(log_probs=given.scores, log_probs_len=given.scores_len)
    with pytest.raises(PortError) as caught:
        WordErrorRate(LETTERS)(
            hypothesis=found.ids,
            hypothesis_len=found.ids_len,
            reference=found.ids,
            reference_len=given.scores_len,
        )
    assert caught.value.code == "lengths"
    texts = [fix.text for fix in caught.value.fixes]
    assert any("reference=given.text" in text and "reference_len=given.text_len" in text for text in texts)


def test_a_reference_whose_lengths_nobody_has_is_not_offered() -> None:
    labels = LETTERS.with_blank()
    given = inputs(
        scores=LogProbs(labels)[B, T, V(labels)], scores_len=Lengths(T)[B], text=Ids(LETTERS)[B, U]
    )
    found = GreedyCTC(LETTERS)(log_probs=given.scores, log_probs_len=given.scores_len)
    with pytest.raises(PortError) as caught:
        WordErrorRate(LETTERS)(
            hypothesis=found.ids,
            hypothesis_len=found.ids_len,
            reference=found.ids,
            reference_len=given.scores_len,
        )
    assert caught.value.code == "lengths"
    assert not any("reference=given.text" in fix.text for fix in caught.value.fixes)
