"""Attention and the layers of a Transformer against those of torch, and what padding must not change."""

import pytest
import torch
from torch import nn

from neumo.nn.attention import MultiHeadAttention
from neumo.nn.position import LearnedPositions, SinusoidalPositions, sinusoids
from neumo.nn.transformer import DecoderLayer, EncoderLayer
from neumo.types import ConfigError, DataError

WIDTH, HEADS, HIDDEN = 8, 2, 12


def copy_attention(mine, theirs):
    parts = (mine.query, mine.key, mine.value)
    for layer, weight, bias in zip(
        parts, theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), strict=True
    ):
        layer.load_state_dict({"weight": weight, "bias": bias})
    mine.output.load_state_dict(theirs.out_proj.state_dict())


def copy_layer(mine, theirs, norms):
    copy_attention(mine.attention, theirs.self_attn)
    if hasattr(mine, "cross"):
        copy_attention(mine.cross, theirs.multihead_attn)
    mine.feed_forward.widen.load_state_dict(theirs.linear1.state_dict())
    mine.feed_forward.narrow.load_state_dict(theirs.linear2.state_dict())
    for number, name in enumerate(norms, 1):
        getattr(mine, name).load_state_dict(getattr(theirs, f"norm{number}").state_dict())


def shaken(module):
    """Biases and norms that are not at their defaults."""
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.3)
    return module


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("causal", [False, True])
def test_an_encoder_layer_is_that_of_torch(norm, activation, causal):
    theirs = (
        shaken(
            nn.TransformerEncoderLayer(
                WIDTH, HEADS, HIDDEN, activation=activation, batch_first=True, norm_first=norm == "pre"
            )
        )
        .double()
        .eval()
    )
    mine = EncoderLayer(WIDTH, HEADS, HIDDEN, norm=norm, activation=activation).double().eval()
    copy_layer(mine, theirs, ["norm_attention", "norm_feed_forward"])
    x = torch.randn(3, 7, WIDTH, dtype=torch.float64)
    keep = torch.arange(7) < torch.tensor([7, 4, 1])[:, None]
    mask = torch.full((7, 7), -torch.inf, dtype=torch.float64).triu(1) if causal else None
    padding = torch.zeros(3, 7, dtype=torch.float64).masked_fill(~keep, -torch.inf)
    wanted = theirs(x, src_mask=mask, src_key_padding_mask=padding)
    assert (mine(x, keep, causal=causal) - wanted)[keep].abs().max() < 1e-12


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_a_decoder_layer_is_that_of_torch_whole_and_step_by_step(norm):
    theirs = shaken(
        nn.TransformerDecoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True, norm_first=norm == "pre")
    )
    theirs = theirs.double().eval()
    mine = DecoderLayer(WIDTH, HEADS, HIDDEN, norm=norm).double().eval()
    copy_layer(mine, theirs, ["norm_attention", "norm_cross", "norm_feed_forward"])
    x, memory = torch.randn(3, 5, WIDTH, dtype=torch.float64), torch.randn(3, 9, WIDTH, dtype=torch.float64)
    keep = torch.arange(9) < torch.tensor([9, 4, 1])[:, None]
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    padding = torch.zeros(3, 9, dtype=torch.float64).masked_fill(~keep, -torch.inf)
    wanted = theirs(x, memory, tgt_mask=causal, memory_key_padding_mask=padding)
    held_memory = mine.read(memory)
    assert (mine(x, held_memory, keep) - wanted).abs().max() < 1e-12
    weighed, weights = mine.weigh(x, held_memory, keep)
    assert (weighed - wanted).abs().max() < 1e-12
    assert (weights.sum(2) - 1).abs().max() < 1e-12
    assert (weights * ~keep[:, None]).abs().max() == 0
    held, stepped = None, []
    for at in range(5):
        one, held = mine.step(x[:, at : at + 1], held, held_memory, keep)
        stepped.append(one)
    assert (torch.cat(stepped, 1) - wanted).abs().max() < 1e-12


def test_hypotheses_of_one_row_read_its_memory_without_copies():
    layer = shaken(DecoderLayer(WIDTH, HEADS, HIDDEN, memory_width=6)).double().eval()
    memory, x = torch.randn(2, 9, 6, dtype=torch.float64), torch.randn(6, 1, WIDTH, dtype=torch.float64)
    keep = torch.arange(9) < torch.tensor([9, 4])[:, None]
    found, _ = layer.step(x, None, layer.read(memory), keep)
    repeated = layer.read(memory.repeat_interleave(3, 0))
    wanted, _ = layer.step(x, None, repeated, keep.repeat_interleave(3, 0))
    assert (found - wanted).abs().max() < 1e-12


def test_the_weights_are_those_that_the_attention_uses():
    attention = shaken(MultiHeadAttention(WIDTH, HEADS)).double()
    x, memory = torch.randn(2, 3, WIDTH).double(), torch.randn(2, 4, WIDTH).double()
    keep = torch.arange(4) < torch.tensor([4, 2])[:, None]
    held = attention.read(memory)
    weights = attention.weights(x, held, keep=keep)
    gathered = (weights @ held.values).transpose(1, 2).flatten(2)
    assert (attention.output(gathered) - attention(x, memory, keep=keep)).abs().max() < 1e-12


@pytest.mark.parametrize("size", [0, 5])
def test_a_row_with_nothing_to_read_gets_only_the_bias(size):
    attention = shaken(MultiHeadAttention(WIDTH, HEADS))
    x, memory = torch.randn(1, 3, WIDTH), torch.full((1, size, WIDTH), 7.0)
    found = attention(x, memory, keep=torch.zeros(1, size, dtype=torch.bool))
    assert torch.equal(found, attention.output.bias.expand_as(found))
    found.sum().backward()
    assert all(
        torch.isfinite(weight.grad).all() for weight in attention.parameters() if weight.grad is not None
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_attention_computes_in_half_precision(dtype):
    layer = EncoderLayer(WIDTH, HEADS, HIDDEN)
    x = torch.randn(2, 5, WIDTH)
    keep = torch.arange(5) < torch.tensor([5, 0])[:, None]
    with torch.autocast("cpu", dtype=dtype):
        found = layer(x, keep, causal=True)
    assert torch.isfinite(found).all()
    assert (found[:1].float() - layer(x, keep, causal=True)[:1]).abs().max() < 0.1


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ConfigError, match="3 heads"):
        MultiHeadAttention(8, 3)


def test_sinusoids_are_those_of_the_paper():
    table = sinusoids(torch.arange(50), 6)
    for position in (0, 7, 49):
        for i in range(3):
            angle = torch.tensor(position / 10000 ** (2 * i / 6))
            assert abs(table[position, 2 * i] - angle.sin()) < 1e-5
            assert abs(table[position, 2 * i + 1] - angle.cos()) < 1e-5
    assert sinusoids(torch.arange(3), 5).shape == (3, 5)


def test_positions_go_on_from_where_they_are_told():
    x = torch.randn(2, 6, 4)
    for positions in (SinusoidalPositions(4), LearnedPositions(6, 4)):
        assert torch.allclose(positions(x)[:, 4:], positions(x[:, 4:], start=4), atol=1e-6)
    with pytest.raises(DataError, match="7 positions, and 6 are learned"):
        LearnedPositions(6, 4)(x, start=1)
