"""Beam search without any language model still asked for the file of one."""

import pytest
import torch

from neumo.asr import BeamCTC
from neumo.backends.torch.registry import build
from neumo.lm import estimate, units_of, write_arpa
from neumo.types import Vocab

LETTERS = Vocab.english()


def decoded(**settings):
    generator = torch.Generator().manual_seed(6)
    log_probs = (torch.randn(5, 60, 29, generator=generator) * 2.5).log_softmax(-1)
    return build(BeamCTC(LETTERS, beam=16, n_best=8, **settings))(log_probs, torch.tensor([60, 41, 0, 7, 60]))


def test_no_file_is_needed():
    found = decoded()
    assert found.score.isfinite().all()
    assert not found.best_lm[found.best_lm.isfinite()].any()


@pytest.mark.parametrize("unit", ["word", "char"])
def test_no_model_is_the_same_as_one_of_no_weight(tmp_path, unit):
    texts = ["so be it", "it is so", "be it so"]
    write_arpa(estimate([units_of(text, unit) for text in texts], order=3).model, tmp_path / "lm.arpa")
    without, weightless = decoded(), decoded(lm=tmp_path / "lm.arpa", alpha=0.0, beta=0.0)
    for name, one, other in zip(without._fields, without, weightless, strict=True):
        assert torch.equal(one, other), name
    heavy = decoded(lm=tmp_path / "lm.arpa", alpha=1.0, beta=0.0)
    assert not torch.equal(heavy.score, without.score)
