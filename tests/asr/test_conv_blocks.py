"""What blocks of the Citrinet kind can do: squeeze-and-excitation, strides, joins, groups, normalisation."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from neumo.asr import ConvBlock, ConvEncoder, CTCHead, SqueezeExcite
from neumo.asr.presets import preset_blocks
from neumo.asr.torch.encoder import ChannelShuffle
from neumo.backends.torch.registry import build
from neumo.nn.norm import UtteranceNorm
from neumo.types import ConfigError, Vocab


def encoder_of(*blocks, **fields):
    torch.manual_seed(1)
    encoder = build(ConvEncoder(n_mels=4, blocks=blocks, **fields)).eval()
    for layer in encoder.modules():
        if isinstance(layer, nn.BatchNorm1d):
            nn.init.uniform_(layer.running_mean, -0.5, 0.5)
        if isinstance(layer, nn.BatchNorm1d | UtteranceNorm):  # normalised padding is then not zero
            nn.init.uniform_(layer.bias, -0.5, 0.5)
    return encoder


@pytest.mark.parametrize(
    ("preset", "width", "labels", "parameters"),
    [
        ("citrinet_512", 640, 1024, 36_994_321),  # stated by the original for a vocabulary of 1024
        ("citrinet_256", 640, 1024, 10_259_729),  # about 10 M and 142 M by the paper
        ("citrinet_1024", 640, 1024, 142_171_409),
        ("matchboxnet_3x1", 128, 29, 77_214),  # 77 k by the paper, for 30 commands
        ("matchboxnet_3x2", 128, 29, 92_766),  # 93 k
    ],
)
def test_presets_have_the_published_number_of_parameters(preset, width, labels, parameters):
    spec = ConvEncoder.preset(preset)
    with torch.device("meta"):
        modules = [build(spec), build(CTCHead(Vocab(map(str, range(labels))), width))]
    assert sum(weight.numel() for module in modules for weight in module.parameters()) == parameters


def test_citrinet_512_has_the_published_weights():
    with torch.device("meta"):
        encoder = build(ConvEncoder.preset("citrinet_512"))
    state = encoder.state_dict()
    assert len(state) == 923 - 2
    assert sum("squeeze" in name for name in state) == 46
    assert sum("residual" in name and "conv" in name for name in state) == 21
    assert encoder.spec.stride == 8
    assert encoder.spec.n_mels == 80


KINDS = {
    "squeeze": [ConvBlock(8, 5, repeat=2, separable=True, residual=True, squeeze=SqueezeExcite(2))],
    "window": [ConvBlock(8, 5, squeeze=SqueezeExcite(2, window=7)), ConvBlock(8, 3)],
    "stride_last": [ConvBlock(8, 5, repeat=3, stride=2, stride_last=True, residual=True, separable=True)],
    "max": [ConvBlock(8, 5, repeat=2, residual=True, residual_mode="max")] * 2,
    "groups": [ConvBlock(8, 5, groups=2, separable=True, repeat=2, residual=True)] * 2,
    "factor": [ConvBlock(8, 21, kernel_size_factor=0.25, dilation=2)],
}


@pytest.mark.parametrize("norm", ["batch", "layer", "instance", "group"])
@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind, norm):
    encoder = encoder_of(*KINDS[kind], norm=norm, norm_groups=2)
    mel = torch.randn(3, 4, 30)
    mel[0, :, 9:] = float("nan")  # whatever stands in the padding
    lengths = torch.tensor([9, 30, 0])
    with torch.no_grad():
        together, encoded_len = encoder(mel, lengths)
        alone, alone_len = encoder(mel[:1, :, :9], lengths[:1])
    assert torch.isfinite(together).all()
    assert together.shape[2] == encoded_len[1]
    assert alone.shape[2] == encoded_len[0] == alone_len[0]
    assert (together[0, :, : encoded_len[0]] - alone[0]).abs().max() < 1e-5
    assert not together[2].any()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_trains(kind):
    encoder = encoder_of(*KINDS[kind]).train()
    encoded, _ = encoder(torch.randn(2, 4, 30), torch.tensor([30, 9]))
    encoded.square().mean().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in encoder.parameters())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_bfloat16_autocast_stays_near(kind, norm):
    encoder = encoder_of(*KINDS[kind], norm=norm, norm_groups=2)
    mel, mel_len = torch.randn(2, 4, 80), torch.tensor([80, 50])
    with torch.no_grad():
        exact, _ = encoder(mel, mel_len)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            near, _ = encoder(mel, mel_len)
    assert near.dtype == torch.bfloat16
    assert (near.float() - exact).abs().max() < 0.05 * exact.abs().max()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_exported_with_any_number_of_frames(kind):
    encoder = encoder_of(*KINDS[kind], norm="group", norm_groups=2)
    example = torch.randn(2, 4, 24), torch.tensor([24, 11])
    dynamic = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}
    program = torch.export.export(encoder, example, dynamic_shapes=(dynamic, {0: torch.export.Dim.DYNAMIC}))
    mel, mel_len = torch.randn(3, 4, 41), torch.tensor([41, 17, 2])
    expected, expected_len = encoder(mel, mel_len)
    found, found_len = program.module()(mel, mel_len)
    assert torch.equal(found_len, expected_len)
    assert (found - expected).abs().max() < 1e-5


def test_the_stride_is_where_it_is_asked_for():
    block = {"width": 8, "kernel": 3, "repeat": 3, "stride": 2, "residual": True}
    for last, strides in ((False, [2, 1, 1]), (True, [1, 1, 2])):
        encoder = encoder_of(ConvBlock(**block, stride_last=last))
        assert [unit.conv.stride[0] for unit in encoder.blocks[0].units] == strides
        assert encoder.blocks[0].residual[0].conv.stride[0] == 2


def test_max_takes_the_greater_of_both():
    add, most = (
        encoder_of(ConvBlock(8, 3, residual=True, residual_mode=mode), activation="selu")
        for mode in ("add", "max")
    )
    mel, mel_len = torch.randn(1, 4, 9), torch.tensor([9])
    unit, branch = most.blocks[0].units[0](mel), most.blocks[0].residual[0](mel)
    assert torch.allclose(most(mel, mel_len).encoded, F.selu(torch.maximum(unit, branch)))
    assert torch.allclose(add(mel, mel_len).encoded, F.selu(unit + branch))


def test_channels_are_dealt_out_over_the_groups():
    x = torch.arange(6.0)[None, :, None].expand(2, 6, 5)
    assert ChannelShuffle(2)(x)[0, :, 0].tolist() == [0, 3, 1, 4, 2, 5]
    encoder = encoder_of(*KINDS["groups"])
    assert [type(layer).__name__ for layer in encoder.blocks[0].units[0]][-1] == "ChannelShuffle"


@pytest.mark.parametrize(
    ("kernel", "factor", "taps"), [(11, 1.0, 11), (39, 0.25, 9), (41, 0.25, 11), (5, 0.1, 1), (11, 2.0, 23)]
)
def test_kernels_are_scaled_to_odd_ones(kernel, factor, taps):
    assert ConvBlock(8, kernel, kernel_size_factor=factor).taps == taps
    assert encoder_of(ConvBlock(8, kernel, kernel_size_factor=factor)).blocks[0].units[
        0
    ].conv.kernel_size == (taps,)


def test_the_factor_of_a_preset_leaves_its_first_block():
    blocks = preset_blocks("citrinet_512", kernel_size_factor=0.25)
    assert [block.taps for block in (blocks[0], blocks[1], blocks[-2], blocks[-1])] == [5, 3, 9, 11]


def test_the_mean_of_a_window_is_over_its_valid_frames():
    from neumo.nn.squeeze import SqueezeExcite as Squeeze

    squeeze, x = Squeeze(4, 2, window=5), torch.randn(1, 4, 9)
    mean = squeeze._mean(x, torch.arange(9)[None, None] < 7)
    for frame in range(7):
        expected = x[0, :, max(frame - 2, 0) : min(frame + 3, 7)].mean(dim=1)
        assert torch.allclose(mean[0, :, frame], expected, atol=1e-6)


def test_normalisation_of_whole_utterances_is_that_of_torch():
    x = torch.randn(2, 8, 12)
    instance = nn.InstanceNorm1d(8, eps=1e-3, affine=True)
    assert torch.allclose(UtteranceNorm(8, 8)(x), instance(x), atol=1e-5)
    assert torch.allclose(UtteranceNorm(8, 2)(x), nn.GroupNorm(2, 8, eps=1e-3)(x), atol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ConvBlock(8, 3, residual_mode="stride"),
        lambda: ConvBlock(8, 3, kernel_size_factor=0.0),
        lambda: ConvBlock(8, 3, kernel_size_factor=float("nan")),
        lambda: SqueezeExcite(0),
        lambda: SqueezeExcite(window=4),
        lambda: ConvEncoder(norm="batched"),
        lambda: ConvEncoder(norm="group", norm_groups=3),
        lambda: ConvEncoder(norm="group", norm_groups=0),
    ],
)
def test_what_cannot_be_built_is_refused(wrong):
    with pytest.raises(ConfigError):
        wrong()
