"""The fast depthwise convolution against torch's own, values and gradients."""

import pytest
import torch
import torch.nn.functional as F

from neumo.nn.conv import SameConv1d
from neumo.nn.depthwise import depthwise_conv


@pytest.mark.parametrize("taps", [1, 3, 33])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("frames", [1, 2, 7, 50])
def test_it_is_the_convolution_of_torch(taps, stride, dilation, frames):
    generator = torch.Generator().manual_seed(taps * frames)
    x = torch.randn(2, 5, frames, dtype=torch.float64, generator=generator, requires_grad=True)
    weight = torch.randn(5, 1, taps, dtype=torch.float64, generator=generator, requires_grad=True)
    half = dilation * (taps - 1) // 2
    theirs = F.conv1d(x, weight, stride=stride, padding=half, dilation=dilation, groups=5)
    ours = depthwise_conv(x, weight, stride=stride, dilation=dilation)
    direction = torch.randn(theirs.shape, dtype=torch.float64, generator=generator)
    assert ours.shape == theirs.shape
    assert torch.allclose(ours, theirs, atol=1e-12)
    expected = torch.autograd.grad(theirs, (x, weight), direction)
    found = torch.autograd.grad(ours, (x, weight), direction)
    assert all(torch.allclose(a, b, atol=1e-10) for a, b in zip(found, expected, strict=True))


def test_the_gradients_have_gradients():
    x = torch.randn(2, 2, 7, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 1, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(depthwise_conv, (x, weight))
    assert torch.autograd.gradgradcheck(depthwise_conv, (x, weight))


@pytest.mark.parametrize("wanted", ["x", "weight"])
def test_only_the_wanted_gradient_is_computed(wanted):
    x, weight = (
        torch.randn(2, 3, 9, requires_grad=wanted == "x"),
        torch.randn(3, 1, 5, requires_grad=wanted == "weight"),
    )
    depthwise_conv(x, weight).sum().backward()
    assert (x.grad is not None, weight.grad is not None) == (wanted == "x", wanted == "weight")


def test_gradients_in_bfloat16_have_the_types_of_what_they_belong_to():
    layer = SameConv1d(4, 4, 5, groups=4)
    x = torch.randn(2, 4, 20, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(layer(x))
    assert y.dtype == torch.bfloat16
    y.float().square().sum().backward()
    assert x.grad.dtype == layer.weight.grad.dtype == torch.float32
    exact = torch.autograd.grad(layer(layer(x)).square().sum(), layer.weight)[0]
    assert (layer.weight.grad - exact).abs().max() < 0.05 * exact.abs().max()


@pytest.mark.parametrize("kernel", [1, 5])
@pytest.mark.parametrize("innermost", [True, False])
@pytest.mark.parametrize("stride", [1, 2])
def test_every_memory_layout_gives_the_same(kernel, innermost, stride):
    torch.manual_seed(kernel)
    layer = SameConv1d(6, 8, kernel, stride=stride).double()
    x = torch.randn(2, 6, 11, dtype=torch.float64)
    expected = F.conv1d(x, layer.weight, stride=stride, padding=kernel // 2)
    if innermost:
        x = x.transpose(1, 2).contiguous().transpose(1, 2)
    assert torch.allclose(layer(x), expected, atol=1e-12)


def test_a_graph_of_symbolic_size_can_be_exported():
    from neumo.asr import ConvEncoder
    from neumo.backends.torch.registry import build

    encoder = build(ConvEncoder.preset("digits", width=16)).eval()
    frames = torch.export.Dim("frames", min=4, max=4000)
    example = (torch.randn(2, 64, 40), torch.tensor([40, 20]))
    exported = torch.export.export(encoder, example, dynamic_shapes=({2: frames}, None)).module()
    mel, mel_len = torch.randn(2, 64, 77), torch.tensor([77, 30])
    assert torch.allclose(exported(mel, mel_len)[0], encoder(mel, mel_len)[0], atol=1e-5)
