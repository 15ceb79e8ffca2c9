"""A network with its batch norms folded computes what it computed before."""

from __future__ import annotations

import pytest
import torch

from neumo.asr import ConvBlock, ConvEncoder
from neumo.backends.torch.fold import fold_norms, native_precision
from neumo.backends.torch.registry import build


@pytest.mark.parametrize("separable", [True, False])
def test_an_encoder_with_folded_norms_is_the_same(separable):
    torch.manual_seed(1)
    blocks = (ConvBlock(16, 5, stride=2), ConvBlock(24, 7, repeat=2, separable=separable, residual=True))
    encoder = build(ConvEncoder(n_mels=8, blocks=blocks)).train()
    mel, mel_len = torch.randn(2, 8, 50), torch.tensor([50, 31])
    with torch.no_grad():
        for _ in range(3):
            encoder(3 * mel + 1, mel_len)
        encoder.eval()
        before = encoder(mel, mel_len).encoded
        assert fold_norms(encoder) == 4
        after = encoder(mel, mel_len).encoded
    assert (after - before).abs().max() <= 1e-5 * (1 + before.abs().max())
    assert fold_norms(encoder) == 0


def test_the_native_precision_is_explained():
    chosen, why = native_precision("cpu")
    assert why.startswith(f"{chosen}: ")
