"""The recurrent encoder: sizes, that padding changes nothing, and the same results when it is exported."""

import pytest
import torch

from neumo.asr import RecurrentEncoder
from neumo.asr.presets import RECURRENT
from neumo.backends.torch.registry import build
from neumo.nn.recurrent import Recurrent, backwards
from neumo.types import ConfigError, T

KINDS = {
    "lstm": {},
    "gru": {"cell": "gru"},
    "one_way": {"bidirectional": False},
    "projection": {"projection": 5, "reduction": (1, 2)},
    "pyramid": {"reduction": (1, 2, 3), "layers": 3},
    "stacked": {"reduction": (3, 1), "cell": "gru"},
    "vgg": {"front": "vgg", "front_width": 3},
    "all": {"front": "vgg", "front_width": 3, "reduction": (1, 2), "projection": 5, "cell": "gru"},
}


def spec_of(**fields):
    return RecurrentEncoder(**{"n_mels": 7, "layers": 2, "hidden": 6, **fields})


def small(**fields):
    torch.manual_seed(4)
    return build(spec_of(**fields)).eval()


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind):
    encoder = small(**KINDS[kind])
    mel = torch.randn(3, 7, 67)
    mel[0, :, 21:] = float("nan")  # whatever stands in the padding
    lengths = torch.tensor([21, 67, 0])
    with torch.no_grad():
        together, encoded_len = encoder(mel, lengths)
        alone, alone_len = encoder(mel[:1, :, :21], lengths[:1])
    assert torch.isfinite(together).all()
    assert alone.shape[2] == encoded_len[0] == alone_len[0] > 0
    assert (together[0, :, : encoded_len[0]] - alone[0]).abs().max() < 1e-5
    assert not together[0, :, encoded_len[0] :].any()
    assert not together[2].any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_type_states_the_real_length(kind):
    """For all of 0 to 40 frames; real, computed and declared."""
    encoder, spec = small(**KINDS[kind]), spec_of(**KINDS[kind])
    size = spec.signature().gives["encoded"].axes[2].size
    for frames in [*range(41), 127, 128, 129]:
        with torch.no_grad():
            encoded, encoded_len = encoder(torch.randn(1, 7, frames), torch.tensor([frames]))
        assert encoded.shape == (1, spec.width, size.evaluate({T.symbol: frames}))
        assert encoded_len.tolist() == [encoded.shape[2]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_trains(kind):
    encoder = small(**KINDS[kind]).train()
    encoded, _ = encoder(torch.randn(3, 7, 50), torch.tensor([50, 21, 0]))
    encoded.square().mean().backward()
    assert all(torch.isfinite(weight.grad).all() and weight.grad.any() for weight in encoder.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_autocast_stays_near(kind):
    encoder = small(**KINDS[kind])
    mel, mel_len = torch.randn(2, 7, 80), torch.tensor([80, 50])
    with torch.no_grad():
        exact, _ = encoder(mel, mel_len)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            near, _ = encoder(mel, mel_len)
    assert torch.isfinite(near).all()
    assert (near.float() - exact).abs().max() < 0.05 * exact.abs().max()


@pytest.mark.parametrize("kind", ["lstm", "all"])
def test_exported_code_gives_the_same(kind):
    """For as many frames: torch unrolls recurrent layers over time."""
    encoder = small(**KINDS[kind])
    mel, mel_len = torch.randn(3, 7, 20), torch.tensor([20, 13, 5])
    program = torch.export.export(encoder, (mel, torch.tensor([20, 20, 20])))
    with torch.no_grad():
        found, expected = program.module()(mel, mel_len), encoder(mel, mel_len)
    assert torch.equal(found[1], expected.encoded_len)
    assert (found[0] - expected.encoded).abs().max() < 1e-5


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_reading_backwards_gives_what_packing_gives(cell, bidirectional):
    layer = Recurrent(4, 6, cell=cell, bidirectional=bidirectional)
    x, lengths = torch.randn(4, 9, 4), torch.tensor([9, 1, 5, 3])
    packed, other = layer._packed(x, lengths), layer._backwards(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        assert (packed[row, :length] - other[row, :length]).abs().max() < 1e-6


def test_backwards_twice_is_forwards():
    x, lengths = torch.randn(3, 7, 2), torch.tensor([7, 0, 4])
    assert torch.equal(backwards(backwards(x, lengths), lengths), x)
    assert torch.equal(backwards(x, lengths)[2, :4], x[2, :4].flip(0))


def test_the_pyramid_reads_frames_in_pairs():
    """A layer of the pyramid reads two frames of the layer below as one (Chan et al. 2016, equation 5)."""
    encoder = small(reduction=(1, 2), bidirectional=False)
    mel, length = torch.randn(1, 7, 9), torch.tensor([9])
    with torch.no_grad():
        below = encoder.layers[0].cell(mel.mT)[0]
        pairs = torch.cat([below, below.new_zeros(1, 1, 6)], dim=1).reshape(1, 5, 12)
        expected = encoder.layers[1].cell(pairs)[0]
        found = encoder(mel, length).encoded.mT
    assert torch.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(("preset", "stride", "width"), [("las", 8, 512), ("vgg_blstm", 4, 320)])
def test_presets(preset, stride, width):
    spec = RecurrentEncoder.preset(preset)
    assert (spec.stride, spec.width) == (stride, width)
    with torch.device("meta"):
        build(spec)


@pytest.mark.parametrize(
    "wrong",
    [
        {"cell": "rnn"},
        {"front": "conv"},
        {"layers": 0},
        {"projection": 0},
        {"reduction": (2, 2)},
        {"reduction": (1, 2, 2, 0)},
        {"dropout": -0.1},
    ],
)
def test_what_cannot_be_built_is_refused(wrong):
    with pytest.raises(ConfigError):
        RecurrentEncoder(**wrong)


def test_an_unknown_preset_is_refused():
    assert "las" in RECURRENT
    with pytest.raises(ConfigError, match="there is no encoder preset 'lass'"):
        RecurrentEncoder.preset("lass")
