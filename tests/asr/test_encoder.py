"""The encoder against the public checkpoints, its sizes, and that padding changes nothing."""

import numpy as np
import pytest
import torch

from neumo.asr import ConvBlock, ConvEncoder, CTCHead, SqueezeExcite
from neumo.asr.presets import PRESETS
from neumo.backends.torch.registry import build
from neumo.nn.conv import SameConv1d
from neumo.types import ConfigError, Mel, T, Vocab

LETTERS = Vocab.english()


def public_name(name: str, spec: ConvEncoder) -> str:
    """The name that the public checkpoints give to one of our weights.

    One repeat of a separable block takes five places there (depthwise, pointwise, norm, activation, dropout),
    of another block four (convolution, norm, activation, dropout). Squeeze-and-excitation takes the place of
    the activation of the last repeat, whose own one stands behind the residual sum.
    """
    _, block, part, index, layer, weight = name.split(".", 5)
    if layer == "squeeze":
        place = {"reduce.weight": "fc.0.weight", "expand.weight": "fc.2.weight"}[weight]
        return f"encoder.encoder.{block}.mconv.{int(index) * 5 + 3}.{place}"
    if part == "residual":
        place = f"res.{index}.{0 if layer == 'conv' else 1}"
    else:
        separable = spec.blocks[int(block)].separable
        order = ["depthwise", "pointwise", "norm"] if separable else ["conv", "norm"]
        place = f"mconv.{int(index) * (len(order) + 2) + order.index(layer)}"
    return f"encoder.encoder.{block}.{place}.{weight if layer == 'norm' else f'conv.{weight}'}"


def blocks_of(checkpoints, name):
    """The block list of a checkpoint's configuration."""
    import json

    config = json.loads((checkpoints / f"{name}.json").read_text())["cfg"]
    assert {block.get("se_context_size", -1) for block in config["encoder"]["jasper"]} == {-1}
    return tuple(
        ConvBlock(
            block["filters"],
            block["kernel"][0],
            repeat=block["repeat"],
            stride=block["stride"][0],
            dilation=block["dilation"][0],
            separable=block.get("separable", False),
            residual=block["residual"],
            dense=block.get("residual_dense", False),
            dropout=block["dropout"],
            stride_last=block.get("stride_last", False),
            squeeze=SqueezeExcite() if block.get("se") else None,
            kernel_size_factor=block.get("kernel_size_factor", 1.0),
        )
        for block in config["encoder"]["jasper"]
    )


@pytest.fixture(params=["quartznet_small", "jasper_dense_small", "citrinet_small"])
def public(request, checkpoints, weights_of):
    """A public checkpoint in our modules: encoder, head, and the arrays that the original computed."""
    return public_model(request.param, checkpoints, weights_of)


def public_model(name, checkpoints, weights_of):
    n_mels, vocab = (80, Vocab(map(str, range(128)))) if name == "citrinet_small" else (64, LETTERS)
    spec = ConvEncoder(n_mels=n_mels, blocks=blocks_of(checkpoints, name))
    encoder, head = build(spec).eval(), build(CTCHead(vocab, spec.width)).eval()
    weights = weights_of(name)
    encoder.load_state_dict({ours: weights.pop(public_name(ours, spec)) for ours in encoder.state_dict()})
    head.linear.weight.data = weights.pop("decoder.decoder_layers.0.weight").squeeze(2)
    head.linear.bias.data = weights.pop("decoder.decoder_layers.0.bias")
    assert sorted(weights) == ["preprocessor.featurizer.fb", "preprocessor.featurizer.window"]
    return encoder, head, np.load(checkpoints / f"{name}.npz")


@pytest.mark.parametrize("padding", ["", "_pad16"])
def test_outputs_are_those_of_the_original(public, padding):
    encoder, head, arrays = public
    with torch.no_grad():
        mel, mel_len = torch.tensor(arrays[f"mel{padding}"]), torch.tensor(arrays[f"mel_len{padding}"])
        encoded, encoded_len = encoder(mel, mel_len)
        log_probs = head(encoded)
    assert encoded_len.tolist() == arrays[f"enc_len{padding}"].tolist()
    for ours, theirs in [
        (encoded.mT, arrays[f"enc{padding}"].swapaxes(1, 2)),
        (log_probs, arrays[f"logprobs{padding}"]),
    ]:
        for row, length in enumerate(encoded_len.tolist()):
            expected = theirs[row, :length]
            assert (np.abs(ours[row, :length].numpy() - expected) <= 1e-4 * (1 + np.abs(expected))).all()


@pytest.mark.parametrize("name", ["quartznet_small", "jasper_dense_small"])
def test_audio_to_ids_is_that_of_the_original(name, checkpoints, weights_of):
    import json

    from neumo.asr import GreedyCTC, MelSpectrogram

    encoder, head, _ = public_model(name, checkpoints, weights_of)
    arrays = np.load(checkpoints / "input_16000.npz")
    spec = MelSpectrogram(length="floor")
    with torch.no_grad():
        features = build(spec).eval()(torch.tensor(arrays["signal"]), torch.tensor(arrays["length"]))
        encoded = encoder(*features)
        decoded = build(GreedyCTC(LETTERS))(head(encoded.encoded), encoded.encoded_len)
    expected = json.loads((checkpoints / f"{name}.json").read_text())["transcribe"]
    texts = [
        LETTERS.decode(ids[:n]) for ids, n in zip(decoded.ids.tolist(), decoded.ids_len.tolist(), strict=True)
    ]
    assert texts == expected


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [
        ("quartznet_15x5", 18_924_381),
        ("jasper_10x5dr", 332_632_349),
        ("digits", 195_933),
        ("an4", 821_789),
    ],
)
def test_presets_have_the_published_number_of_parameters(preset, parameters):
    spec = ConvEncoder.preset(preset)
    with torch.device("meta"):
        modules = [build(spec), build(CTCHead(LETTERS, spec.width))]
    assert sum(weight.numel() for module in modules for weight in module.parameters()) == parameters


def test_jasper_10x5dr_has_the_published_branches():
    with torch.device("meta"):
        encoder = build(ConvEncoder.preset("jasper_10x5dr"))
    assert sum(len(block.residual) for block in encoder.blocks) == 55
    widths = [branch.conv.in_channels for branch in encoder.blocks[10].residual]
    assert widths == [256, 256, 256, 384, 384, 512, 512, 640, 640, 768]
    assert len(encoder.state_dict()) == 650 - 2


@pytest.mark.parametrize("preset", PRESETS)
def test_computed_lengths_are_the_real_lengths(preset):
    """For 0 to 2000 frames: the convolutions, the lengths that the encoder gives, the size of its type."""
    spec = ConvEncoder.preset(preset)
    size = spec.signature().gives["encoded"].axes[2].size
    lengths = torch.arange(2001)
    with torch.device("meta"):
        encoder = build(spec).eval()
    real = real_lengths(encoder)
    assert real == [size.evaluate({T.symbol: frames}) for frames in lengths.tolist()]
    small = build(ConvEncoder(blocks=tuple(thin(block) for block in spec.blocks), n_mels=4)).eval()
    encoded = small(torch.zeros(2001, 4, 1), lengths)
    assert encoded.encoded_len.tolist() == real


def real_lengths(encoder):
    """What the convolutions do to 0 to 2000 frames, by the rule in the documentation of `nn.Conv1d`."""
    convolutions = [
        (layer.padding[0], layer.stride[0], layer.dilation[0] * (layer.kernel_size[0] - 1))
        for block in encoder.blocks
        for unit in block.units
        for layer in unit
        if isinstance(layer, torch.nn.Conv1d)
    ]
    real = []
    for frames in range(2001):
        for padding, stride, reach in convolutions if frames else ():
            frames = (frames + 2 * padding - reach - 1) // stride + 1
        real.append(frames)
    return real


def thin(block):
    import dataclasses

    return dataclasses.replace(block, width=4, groups=1)


@pytest.mark.parametrize("preset", ["digits", "quartznet_5x5"])
def test_the_real_tensor_has_the_stated_size(preset):
    spec = ConvEncoder.preset(preset)
    encoder = build(ConvEncoder(blocks=tuple(thin(block) for block in spec.blocks), n_mels=4)).eval()
    size = spec.signature().gives["encoded"].axes[2].size
    for frames in [*range(65), *range(65, 2001, 61), 2000]:
        with torch.no_grad():
            encoded, encoded_len = encoder(torch.randn(1, 4, frames), torch.tensor([frames]))
        assert encoded.shape[2] == encoded_len[0] == size.evaluate({T.symbol: frames})


def test_every_kind_of_convolution_in_the_presets_has_the_stated_size():
    """On tensors without storage, for many of 0 to 2000 frames: what `real_lengths` computes is what torch
    does.
    """
    blocks = {block for preset in PRESETS for block in ConvEncoder.preset(preset).blocks}
    kinds = {(block.kernel, block.stride, block.dilation, block.separable) for block in blocks}
    lengths = [*range(200), *range(200, 2001, 17)]
    with torch.device("meta"):
        for kernel, stride, dilation, separable in kinds:
            conv = SameConv1d(2, 2, kernel, stride=stride, dilation=dilation, groups=2 if separable else 1)
            sizes = [conv(torch.empty(1, 2, frames)).shape[2] for frames in lengths]
            assert sizes == [-(-frames // stride) for frames in lengths]


@pytest.mark.parametrize("act", ["relu", "hardtanh", "selu", "silu", "gelu"])
def test_every_activation_keeps_the_padding_out(act):
    torch.manual_seed(1)
    block = ConvBlock(8, 5, repeat=2, residual=True, separable=True)
    encoder = build(ConvEncoder(n_mels=4, blocks=(block, block), activation=act)).eval()
    settle(encoder)
    mel = torch.randn(2, 4, 30)
    mel[0, :, 9:] = float("inf")  # whatever stands in the padding
    together, _ = encoder(mel, torch.tensor([9, 30]))
    alone, _ = encoder(mel[:1, :, :9], torch.tensor([9]))
    assert torch.allclose(together[0, :, :9], alone[0], atol=1e-6)


def settle(module):
    """Statistics other than 0 and 1, as after training: the normalised padding is then not zero."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm1d):
            torch.nn.init.uniform_(layer.running_mean, -0.5, 0.5)
            torch.nn.init.uniform_(layer.running_var, 0.5, 2)
            torch.nn.init.uniform_(layer.bias, -0.5, 0.5)


def test_without_masks_padding_reaches_the_utterance():
    encoder = build(ConvEncoder.preset("digits", masked=False)).eval()
    settle(encoder)
    mel = torch.randn(1, 64, 60)
    long, _ = encoder(torch.nn.functional.pad(mel, (0, 60)), torch.tensor([60]))
    short, _ = encoder(mel, torch.tensor([60]))
    assert not torch.allclose(long[:, :, :30], short, atol=1e-3)


def test_groups_and_dilation_and_strides():
    blocks = (
        ConvBlock(8, 3, stride=2),
        ConvBlock(12, 5, dilation=3, groups=4, residual=True, stride=3, repeat=2),
    )
    encoder = build(ConvEncoder(n_mels=6, blocks=blocks))
    encoded, encoded_len = encoder(torch.randn(2, 6, 50), torch.tensor([50, 13]))
    assert encoded.shape == (2, 12, 9)
    assert encoded_len.tolist() == [9, 3]
    assert encoder.blocks[1].units[0].conv.weight.shape == (12, 2, 5)


def test_one_frame_can_be_trained_on():
    encoder = build(ConvEncoder.preset("digits")).train()
    before = {name: value.clone() for name, value in encoder.named_buffers()}
    encoded, _ = encoder(torch.randn(1, 64, 1), torch.tensor([1]))
    encoded.sum().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in encoder.parameters())
    assert all(torch.equal(before[name], value) for name, value in encoder.named_buffers())


def test_bfloat16_autocast_stays_near():
    torch.manual_seed(2)
    encoder = build(ConvEncoder.preset("digits")).eval()
    mel, mel_len = torch.randn(2, 64, 80), torch.tensor([80, 50])
    with torch.no_grad():
        exact, _ = encoder(mel, mel_len)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            near, _ = encoder(mel, mel_len)
    assert near.dtype == torch.bfloat16
    assert (near.float() - exact).abs().max() < 0.05 * exact.abs().max()


def test_the_specification_refuses_what_cannot_be_built():
    for wrong in [
        lambda: ConvBlock(64, 10),
        lambda: ConvBlock(64, 11, dense=True),
        lambda: ConvBlock(64, 11, dense=True, residual=True, stride=2),
        lambda: ConvBlock(64, 11, groups=3),
        lambda: ConvBlock(64, 11, dropout=1.5),
        lambda: ConvEncoder(blocks=()),
        lambda: ConvEncoder(n_mels=65, blocks=(ConvBlock(64, 11, groups=2),)),
        lambda: ConvEncoder(activation="relux"),
        lambda: ConvEncoder.preset("quartznet15x5"),
        lambda: ConvEncoder.preset("digits", width=3),
    ]:
        with pytest.raises(ConfigError):
            wrong()
    with pytest.raises(ConfigError, match="did you mean 'quartznet_15x5'"):
        ConvEncoder.preset("quartznet15x5")


def test_known_training_features_are_part_of_the_type():
    spec = ConvEncoder(mel=Mel(rate=16000, hop=160))
    assert str(spec.signature().takes["mel"]) == "Mel(rate=16000, hop=160, n_mels=64)[B, F=64, T]"
