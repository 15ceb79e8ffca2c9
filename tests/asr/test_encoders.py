"""What every encoder must do: short audio, any batch, half precision throughout, recipes, and learning."""

import pytest
import torch
from torch import nn

from neumo.asr import (
    ConformerEncoder,
    ConvBlock,
    ConvEncoder,
    CTCHead,
    CTCLoss,
    GreedyCTC,
    MelSpectrogram,
    RecurrentEncoder,
    SqueezeExcite,
)
from neumo.asr.word_times import find_clock
from neumo.backends.torch.registry import build
from neumo.graph import Graph
from neumo.graph.inputs import inputs
from neumo.types import Audio, B, Lengths, T, Vocab

LETTERS = Vocab.english()


def conv(**fields):
    block = {"separable": True, "residual": True, "squeeze": SqueezeExcite(4)}
    blocks = (ConvBlock(16, 5, stride=2, stride_last=True, repeat=2, **block), ConvBlock(16, 9, **block))
    return ConvEncoder(n_mels=8, blocks=blocks, **fields)


def conformer(**fields):
    settings = {"n_mels": 8, "width": 16, "heads": 2, "layers": 1, "kernel": 5, "stride": 2}
    dropout = dict.fromkeys(("dropout", "dropout_input", "dropout_attention"), 0.0)
    return ConformerEncoder(**{**settings, **dropout, **fields})


def recurrent(**fields):
    return RecurrentEncoder(n_mels=8, hidden=12, layers=2, front_width=4, dropout=0.0, **fields)


ENCODERS = {
    "citrinet": conv(),
    "group_norm": conv(norm="group", norm_groups=4),
    "striding": conformer(),
    "dw_striding": conformer(subsampling="dw_striding", stride=4),
    "stacking": conformer(subsampling="stacking", norm="layer", attention_context=(4, 2)),
    "lstm": recurrent(reduction=(1, 2)),
    "gru": recurrent(front="vgg", cell="gru", projection=10),
}


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("samples", [1, 10, 100, 399])
@pytest.mark.parametrize("length", ["floor+1", "floor"])
@pytest.mark.parametrize("training", [True, False])
def test_short_audio_goes_through(name, samples, length, training):
    encoder = build(ENCODERS[name]).train(training)
    mel = build(MelSpectrogram(n_mels=8, length=length))(torch.randn(1, samples), torch.tensor([samples]))
    encoded, encoded_len = encoder(*mel)
    assert torch.isfinite(encoded).all()
    frames = samples // 160 + (1 if length == "floor+1" else 0)
    assert encoded_len[0] == encoded.shape[2] == -(-frames // ENCODERS[name].stride)
    if encoded.requires_grad:  # no frame, no gradient
        encoded.sum().backward()
    assert all(
        torch.isfinite(weight.grad).all() for weight in encoder.parameters() if weight.grad is not None
    )


@pytest.mark.parametrize("name", ENCODERS)
def test_an_utterance_is_the_same_alone_in_a_batch_and_in_any_order(name):
    torch.manual_seed(2)
    encoder = build(ENCODERS[name]).eval()
    for layer in encoder.modules():
        if isinstance(layer, nn.BatchNorm1d):  # as after training: normalised padding is not zero
            nn.init.uniform_(layer.running_mean, -0.5, 0.5)
            nn.init.uniform_(layer.bias, -0.5, 0.5)
    mel, mel_len = torch.randn(6, 8, 50), torch.tensor([50, 3, 17, 33, 1, 48])

    @torch.no_grad()
    def encoded(rows):
        longest = int(mel_len[rows].max())
        found, found_len = encoder(mel[rows, :, :longest], mel_len[rows])
        return {row: found[n, :, : found_len[n]] for n, row in enumerate(rows)}

    alone = {row: found for row in range(6) for row, found in encoded([row]).items()}
    for order in ([0, 1, 2, 3, 4, 5], [4, 1, 2, 5, 3, 0], [1, 4, 2]):
        for row, found in encoded(order).items():
            assert found.shape == alone[row].shape
            assert (found - alone[row]).abs().max() < 1e-5


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_weights_of_another_precision(name, dtype):
    torch.manual_seed(5)
    encoder = build(ENCODERS[name]).eval()
    mel, mel_len = torch.randn(2, 8, 40), torch.tensor([40, 23])
    with torch.no_grad():
        exact, _ = encoder(mel, mel_len)
        found, _ = encoder.to(dtype)(mel.to(dtype), mel_len)
    assert found.dtype == dtype
    limit = 0.05 if dtype == torch.bfloat16 else 1e-5
    assert (found.to(exact.dtype) - exact).abs().max() < limit * exact.abs().max()


@pytest.mark.parametrize("name", ENCODERS)
def test_a_few_utterances_are_learned_by_heart(name):
    torch.manual_seed(6)
    spec = ENCODERS[name]
    encoder, head, loss = build(spec), build(CTCHead(LETTERS, spec.width)), build(CTCLoss(LETTERS))
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-2)
    mel, mel_len = torch.randn(4, 8, 48), torch.tensor([48, 40, 48, 32])
    targets, targets_len = torch.randint(0, 28, (4, 3)), torch.tensor([3, 3, 2, 3])
    losses = []
    while len(losses) < 200 and (not losses or losses[-1] >= 0.2 * losses[0]):
        encoded, encoded_len = encoder(mel, mel_len)
        value = loss(head(encoded), encoded_len, targets, targets_len).loss
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.parametrize("name", ENCODERS)
def test_the_graph_knows_how_many_encoded_frames_make_a_second(name):
    spec = ENCODERS[name]
    given = inputs(audio=Audio(rate=16000)[B, T], audio_len=Lengths(T)[B])
    features = MelSpectrogram(n_mels=8)(audio=given.audio, audio_len=given.audio_len)
    encoded = spec(mel=features.mel, mel_len=features.mel_len)
    scores = CTCHead(LETTERS, spec.width)(encoded=encoded.encoded).log_probs
    read = GreedyCTC(LETTERS)(log_probs=scores, log_probs_len=encoded.encoded_len)
    clock = find_clock(Graph("infer", "infer", {"ids": read.ids, "ids_len": read.ids_len}))
    assert clock.rate * spec.stride == 100


RECIPE = """
neumo: 1
modules:
  one: {kind: ConformerEncoder, preset: conformer_tiny, width: 32, attention_context: [70, null]}
  two: {kind: RecurrentEncoder, preset: las, hidden: 16}
  three: {kind: ConvEncoder, preset: citrinet_256, kernel_size_factor: 0.25, norm: layer}
  four:
    kind: ConvEncoder
    blocks: [{width: 32, kernel: 11, squeeze: {reduction: 4, window: 9}, residual: true, residual_mode: max}]
graphs:
  infer:
    mode: infer
    inputs: {mel: "Mel(n_mels=80)[B, F=80, T]", other: "Mel(n_mels=64)[B, F=64, T]", mel_len: "Lengths(T)[B]"}
    steps:
      first: one(mel=mel, mel_len=mel_len)
      second: two(mel=mel, mel_len=mel_len)
      third: three(mel=mel, mel_len=mel_len)
      fourth: four(mel=other, mel_len=mel_len)
    outputs: {one: first.encoded, two: second.encoded, three: third.encoded, four: fourth.encoded}
"""


def test_a_recipe_makes_all_of_them_and_is_saved_and_read_back(tmp_path):
    from neumo.graph.yaml import load_recipe, save_recipe

    recipe = load_recipe(RECIPE)
    one, two, three, four = (recipe.modules[name] for name in ("one", "two", "three", "four"))
    assert (one.width, one.layers, one.attention_context) == (32, 4, (70, None))
    assert (two.hidden, two.reduction) == (16, (1, 2, 2, 2))
    assert (three.norm, three.n_mels, three.blocks[-1].taps) == ("layer", 80, 11)
    assert four.blocks[0].squeeze == SqueezeExcite(reduction=4, window=9)
    save_recipe(recipe, tmp_path / "again.yaml")
    again = load_recipe(tmp_path / "again.yaml")
    assert again.modules == recipe.modules
