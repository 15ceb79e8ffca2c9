"""Conformer against the public checkpoints, its sizes, and that padding changes nothing."""

import json

import numpy as np
import pytest
import torch

from neumo.asr import ConformerEncoder, CTCHead
from neumo.asr.presets import CONFORMERS
from neumo.backends.torch.registry import build
from neumo.nn.attention_relative import RelativeAttention, distances, shifted
from neumo.types import ConfigError, T, Vocab

LAYER = {
    "norm_attention": "norm_self_att",
    "attention.query": "self_attn.linear_q",
    "attention.key": "self_attn.linear_k",
    "attention.value": "self_attn.linear_v",
    "attention.output": "self_attn.linear_out",
    "attention.distance": "self_attn.linear_pos",
    "attention.bias_content": "self_attn.pos_bias_u",
    "attention.bias_distance": "self_attn.pos_bias_v",
    "conv.norm": "norm_conv",
    "conv.widen": "conv.pointwise_conv1",
    "conv.depthwise": "conv.depthwise_conv",
    "conv.normalise": "conv.batch_norm",
    "conv.narrow": "conv.pointwise_conv2",
    "norm": "norm_out",
}
for _number in "12":
    LAYER[f"feed_forward{_number}.norm"] = f"norm_feed_forward{_number}"
    LAYER[f"feed_forward{_number}.widen"] = f"feed_forward{_number}.linear1"
    LAYER[f"feed_forward{_number}.narrow"] = f"feed_forward{_number}.linear2"


def public_name(name):
    """The name that the public checkpoints give to one of our weights.

    There an activation stands between two stages of the subsampling, so that those of one convolution take
    two places, and those of two (each channel alone, then across channels) three.
    """
    parts = name.split(".")
    if parts[0] == "subsampling":
        if parts[1] == "project":
            return f"encoder.pre_encode.out.{parts[2]}"
        stage, layer = int(parts[2]), parts[3]
        place = {"conv": 2 * stage, "depthwise": 3 * stage - 1, "pointwise": 3 * stage}[layer]
        return f"encoder.pre_encode.conv.{place}.{parts[4]}"
    ours = ".".join(parts[2:])
    (part,) = (key for key in LAYER if ours == key or ours.rpartition(".")[0] == key)
    return f"encoder.layers.{parts[1]}.{LAYER[part]}{ours[len(part) :]}"


def spec_of(config):
    """The settings of a checkpoint in our words."""
    assert config["self_attention_model"] == "rel_pos"
    assert config["untie_biases"]
    assert config["att_context_size"] == [-1, -1]
    assert not config["causal_downsampling"]
    return ConformerEncoder(
        n_mels=config["feat_in"],
        width=config["d_model"],
        layers=config["n_layers"],
        heads=config["n_heads"],
        kernel=config["conv_kernel_size"],
        expansion=config["ff_expansion_factor"],
        stride=config["subsampling_factor"],
        subsampling=config["subsampling"],
        subsampling_width=None
        if config["subsampling_conv_channels"] == -1
        else config["subsampling_conv_channels"],
        norm={"batch_norm": "batch", "layer_norm": "layer"}[config["conv_norm_type"]],
        xscaling=config["xscaling"],
        dropout=config["dropout"],
        dropout_input=config["dropout_pre_encoder"],
        dropout_attention=config["dropout_att"],
        dropout_distances=config["dropout_emb"],
    )


HEADS = {
    "conformer_ctc_small": ("decoder", "logprobs"),
    "fastconformer_hybrid_tdt_ctc_small": ("ctc_decoder", "ctc_logprobs"),
    "fastconformer_rnnt_small": (None, None),
}


def load(name, checkpoints, weights_of):
    """A public checkpoint in our encoder, and what is left of its weights."""
    spec = spec_of(json.loads((checkpoints / f"{name}.json").read_text())["cfg"]["encoder"])
    encoder, weights = build(spec).eval(), weights_of(name)
    state = encoder.state_dict()
    theirs = {ours: weights.pop(public_name(ours)) for ours in state}
    # A convolution of one frame is a linear layer of each frame.
    encoder.load_state_dict({ours: value.reshape(state[ours].shape) for ours, value in theirs.items()})
    return encoder, weights


def near(ours, theirs, lengths):
    """Whether the valid frames are the same: (B, T, ...)."""
    pairs = ((ours[row, :n].numpy(), theirs[row, :n]) for row, n in enumerate(lengths))
    return all((np.abs(one - two) <= 1e-4 * (1 + np.abs(two))).all() for one, two in pairs)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("padding", ["", "_pad16"])
def test_outputs_are_those_of_the_original(name, padding, checkpoints, weights_of):
    encoder, weights = load(name, checkpoints, weights_of)
    assert not [left for left in weights if left.startswith("encoder.")]
    arrays, (prefix, log_probs) = np.load(checkpoints / f"{name}.npz"), HEADS[name]
    if f"mel{padding}" not in arrays:
        return
    with torch.no_grad():
        mel, mel_len = torch.tensor(arrays[f"mel{padding}"]), torch.tensor(arrays[f"mel_len{padding}"])
        encoded, encoded_len = encoder(mel, mel_len)
    lengths = arrays[f"enc_len{padding}"].tolist()
    assert encoded_len.tolist() == lengths
    assert encoded.shape[2] == arrays[f"enc{padding}"].shape[2]
    assert near(encoded.mT, arrays[f"enc{padding}"].swapaxes(1, 2), lengths)
    if prefix is None:
        return
    head = build(CTCHead(Vocab(map(str, range(128))), encoded.shape[1]))
    head.linear.weight.data = weights[f"{prefix}.decoder_layers.0.weight"].squeeze(2)
    head.linear.bias.data = weights[f"{prefix}.decoder_layers.0.bias"]
    with torch.no_grad():
        assert near(head(encoded), arrays[f"{log_probs}{padding}"], lengths)


TRANSDUCER = 1025 * 640 + 2 * 2560 * 640 + 2 * 2560 + 641 * 640 + 513 * 640  # without the last layer


@pytest.mark.parametrize(
    ("preset", "head", "parameters"),
    [
        ("conformer_char", 29 * 257, 27_334_941),
        ("conformer_large", 129 * 513, 121_501_313),
        ("conformer_transducer_large", TRANSDUCER + 1030 * 641, 120_448_134),
        ("fastconformer_ctc_large", 1025 * 513, 115_600_385),
        ("fastconformer_large", TRANSDUCER + 1025 * 641, 114_095_617),
        ("fastconformer_tdt_large", TRANSDUCER + 1030 * 641, 114_885_254),
    ],
)
def test_presets_have_the_number_of_parameters_of_the_original(preset, head, parameters):
    with torch.device("meta"):
        encoder = build(ConformerEncoder.preset(preset))
    assert sum(weight.numel() for weight in encoder.parameters()) + head == parameters


@pytest.mark.parametrize(
    ("preset", "millions"), [("conformer_small", 13.0), ("conformer_medium", 30.5), ("conformer_tiny", 1.2)]
)
def test_small_presets_have_about_the_published_number_of_parameters(preset, millions):
    with torch.device("meta"):
        encoder = build(ConformerEncoder.preset(preset))
    assert round(sum(weight.numel() for weight in encoder.parameters()) / 1e6, 1) == millions


def small(**fields):
    torch.manual_seed(3)
    settings = {"n_mels": 8, "width": 16, "layers": 2, "heads": 2, "kernel": 5, "subsampling_width": 4}
    encoder = build(ConformerEncoder(**{**settings, **fields})).eval()
    for name, weight in encoder.named_parameters():
        if name.endswith(("bias", "bias_content", "bias_distance")):
            torch.nn.init.uniform_(weight, -0.5, 0.5)
    return encoder


KINDS = {
    "striding2": {"stride": 2},
    "striding4": {},
    "striding8": {"stride": 8},
    "dw_striding4": {"subsampling": "dw_striding"},
    "dw_striding8": {"subsampling": "dw_striding", "stride": 8},
    "stacking": {"subsampling": "stacking", "stride": 3},
    "unscaled": {"subsampling": "stacking", "stride": 1, "xscaling": False},
    "layer": {"norm": "layer"},
    "without_bias": {"bias": False},
    "window": {"attention_context": (3, 1)},
    "left": {"attention_context": (None, 0)},
    "itself": {"attention_context": (0, 0)},
}


@pytest.mark.parametrize("kind", KINDS)
def test_padding_changes_nothing(kind):
    encoder = small(**KINDS[kind])
    mel = torch.randn(3, 8, 67)
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
    encoder, spec = small(**KINDS[kind]), ConformerEncoder(n_mels=8, **{**KINDS[kind], "width": 16})
    size = spec.signature().gives["encoded"].axes[2].size
    for frames in [*range(41), 127, 128, 129]:
        with torch.no_grad():
            encoded, encoded_len = encoder(torch.randn(1, 8, frames), torch.tensor([frames]))
        assert encoded.shape == (1, 16, size.evaluate({T.symbol: frames}))
        assert encoded_len.tolist() == [encoded.shape[2]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_trains(kind):
    encoder = small(**KINDS[kind]).train()
    encoded, _ = encoder(torch.randn(3, 8, 50), torch.tensor([50, 21, 0]))
    encoded.square().mean().backward()
    assert all(torch.isfinite(weight.grad).all() for weight in encoder.parameters())
    if kind != "itself":  # a frame that reads itself only has nothing to choose
        # What is added to all keys changes no softmax.
        assert all(weight.grad.any() for name, weight in encoder.named_parameters() if "key.bias" not in name)


@pytest.mark.parametrize("frames", [0, 1, 2])
def test_hardly_any_frames_can_be_trained_on(frames):
    encoder = small().train()
    encoded, encoded_len = encoder(torch.randn(1, 8, frames), torch.tensor([frames]))
    assert encoded.shape == (1, 16, min(frames, 1))
    assert encoded_len.tolist() == [min(frames, 1)]
    assert torch.isfinite(encoded).all()


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_autocast_stays_near(kind):
    encoder = small(**KINDS[kind])
    mel, mel_len = torch.randn(2, 8, 80), torch.tensor([80, 50])
    with torch.no_grad():
        exact, _ = encoder(mel, mel_len)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            near, _ = encoder(mel, mel_len)
    assert torch.isfinite(near).all()
    assert (near.float() - exact).abs().max() < 0.05 * exact.abs().max()


@pytest.mark.parametrize("kind", ["striding4", "dw_striding8", "stacking", "window"])
def test_every_kind_is_exported_with_any_number_of_frames(kind):
    encoder = small(layers=1, **KINDS[kind])
    example = torch.randn(2, 8, 40), torch.tensor([40, 27])
    dynamic = torch.export.Dim.DYNAMIC
    program = torch.export.export(encoder, example, dynamic_shapes=({0: dynamic, 2: dynamic}, {0: dynamic}))
    mel, mel_len = torch.randn(3, 8, 77), torch.tensor([77, 9, 41])
    expected, expected_len = encoder(mel, mel_len)
    found, found_len = program.module()(mel, mel_len)
    assert torch.equal(found_len, expected_len)
    assert (found - expected).abs().max() < 1e-5


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # by torch itself
@pytest.mark.parametrize("training", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_it_compiles_as_one_graph_for_any_number_of_frames(training):
    torch._dynamo.reset()
    encoder = small(layers=1, dropout=0.0, dropout_input=0.0, dropout_attention=0.0, norm="layer")
    encoder.train(training)
    compiled = torch.compile(
        encoder, fullgraph=True, dynamic=True, backend="aot_eager" if training else "eager"
    )
    with torch.set_grad_enabled(training):
        for frames in (40, 61):
            mel, mel_len = torch.randn(2, 8, frames), torch.tensor([frames, 27])
            found, expected = compiled(mel, mel_len).encoded, encoder(mel, mel_len).encoded
            assert (found - expected).abs().max() < 1e-5


def test_scores_of_distances_are_those_of_the_paper():
    """Each pair of frames by itself, as the formula of section 3.3 says."""
    torch.manual_seed(5)
    attention, x = RelativeAttention(8, 2), torch.randn(1, 6, 8)
    torch.nn.init.normal_(attention.bias_content)
    torch.nn.init.normal_(attention.bias_distance)
    apart = distances(x)
    found = attention(x, apart, torch.zeros(1, 1, 1, 6, dtype=torch.bool))
    query, key, value = (
        layer(x)[0].view(6, 2, 4) for layer in (attention.query, attention.key, attention.value)
    )
    relative = attention.distance(apart).view(11, 2, 4)
    expected = torch.zeros(6, 2, 4)
    for head in range(2):
        for i in range(6):
            scores = [
                (query[i, head] + attention.bias_content[head]) @ key[j, head]
                + (query[i, head] + attention.bias_distance[head]) @ relative[5 - (i - j), head]
                for j in range(6)
            ]
            expected[i, head] = (torch.stack(scores) / 2).softmax(0) @ value[:, head]
    assert torch.allclose(found[0], attention.output(expected.flatten(1)), atol=1e-5)


@pytest.mark.parametrize("training", [False, True])
def test_the_softmax_is_computed_in_float32(training):
    """Scores around 20 in bfloat16 are wrong by up to 6 %, were they rounded before the softmax."""
    torch.manual_seed(8)
    attention, x = RelativeAttention(32, 2), 4 * torch.randn(2, 40, 32)
    torch.nn.init.uniform_(attention.bias_content, -4, 4)
    apart, hidden = distances(x), torch.zeros(2, 1, 1, 40, dtype=torch.bool)
    seen = {}

    def gather(query, key, value, attn_mask, dropout_p):
        seen["found"] = gathered(query, key, value, attn_mask=attn_mask, dropout_p=dropout_p)
        query, key, value, bias = (each.bfloat16().float() for each in (query, key, value, attn_mask))
        with torch.autocast("cpu", enabled=False):
            seen["exact"] = (query @ key.mT / 4 + bias).softmax(dim=-1) @ value
        return seen["found"]

    gathered = torch.nn.functional.scaled_dot_product_attention
    with pytest.MonkeyPatch.context() as patch, torch.set_grad_enabled(training):
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", gather)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            attention(x, apart, hidden)
    assert seen["found"].dtype == torch.bfloat16
    assert (seen["found"] - seen["exact"]).abs().max() < 2**-7 * seen["exact"].abs().max()


@pytest.mark.parametrize("frames", [1, 2, 5, 8])
def test_shifting_reads_the_distance_of_each_pair(frames):
    scores = torch.randn(2, 3, frames, 2 * frames - 1)
    found = shifted(scores)
    for i in range(frames):
        for j in range(frames):
            assert torch.equal(found[:, :, i, j], scores[:, :, i, frames - 1 - (i - j)])


def test_a_window_of_attention_hears_no_further():
    """One layer whose convolution spans one frame: a frame is heard by those in whose window it stands."""
    encoder = small(layers=1, kernel=1, subsampling="stacking", stride=1, attention_context=(2, 1))
    mel = torch.randn(1, 8, 12)
    other = mel.clone()
    other[:, :, 6] += 1
    with torch.no_grad():
        change = encoder(mel, torch.tensor([12])).encoded - encoder(other, torch.tensor([12])).encoded
    heard = change[0].abs().max(dim=0).values > 1e-6
    assert heard.nonzero().squeeze(1).tolist() == [5, 6, 7, 8]  # 5 looks 1 ahead, 8 looks 2 back


def test_presets_take_other_settings():
    spec = ConformerEncoder.preset("conformer_tiny", width=32, heads=2, n_mels=64)
    assert (spec.width, spec.layers, spec.n_mels) == (32, 4, 64)
    for preset in CONFORMERS:
        assert ConformerEncoder.preset(preset).stride in (4, 8)


@pytest.mark.parametrize(
    "wrong",
    [
        {"subsampling": "vgg"},
        {"norm": "instance"},
        {"stride": 3},
        {"stride": 1},
        {"stride": 6, "subsampling": "dw_striding"},
        {"stride": 0, "subsampling": "stacking"},
        {"heads": 3},
        {"kernel": 8},
        {"dropout": 1.5},
        {"width": 0},
        {"attention_context": (1, 2, 3)},
        {"attention_context": (-1, 0)},
        {"subsampling_width": 0},
    ],
)
def test_what_cannot_be_built_is_refused(wrong):
    with pytest.raises(ConfigError):
        ConformerEncoder(**wrong)


def test_an_unknown_preset_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'conformer_small'"):
        ConformerEncoder.preset("conformer-small")
