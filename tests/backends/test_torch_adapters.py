"""Each adapter does what its type says: sizes by its signature, values by their definition."""

import math

import numpy as np
import pytest
import torch

from neumo.backends.torch.registry import build, implementation
from neumo.graph import adapters as specs
from neumo.graph.adapters import ADAPTERS
from neumo.graph.module import signature_of
from neumo.types import Vocab

ABC, CAB = Vocab("abc"), Vocab("cab")


def agree_with(spec, given: dict[str, torch.Tensor], found: tuple[torch.Tensor, ...]) -> None:
    """The sizes of the outputs are those of the signature, once the sizes of the inputs are put in."""
    signature = signature_of(spec)
    sizes = {}
    for port, value in given.items():
        for axis, size in zip(signature.takes[port].axes, value.shape, strict=True):
            if axis.symbol is not None:
                assert sizes.setdefault(axis.symbol, size) == size
    for port, value in zip(signature.gives.values(), found, strict=True):
        assert [axis.size.evaluate(sizes) for axis in port.axes] == list(value.shape)
        assert {"float": value.is_floating_point(), "bool": value.dtype == torch.bool}.get(
            port.element.dtype, True
        )


def run(spec, **given):
    found = build(spec).eval()(**given)
    agree_with(spec, given, found if isinstance(found, tuple) else (found,))
    return found


def test_every_adapter_has_torch_code():
    assert [implementation(kind).__name__ for kind in ADAPTERS] == [kind.__name__ for kind in ADAPTERS]


@pytest.mark.parametrize(
    ("source", "target"), [(22050, 16000), (8000, 16000), (44100, 16000), (16000, 22050)]
)
@pytest.mark.parametrize("samples", [0, 1, 100, 4410])
def test_resample_gives_the_stated_number_of_samples(source, target, samples):
    audio, audio_len = torch.randn(2, samples), torch.tensor([samples, samples // 3])
    changed, changed_len = run(specs.Resample(source, target), audio=audio, audio_len=audio_len)
    assert changed_len.tolist() == [math.ceil(n * target / source) for n in audio_len.tolist()]
    assert not changed[1, changed_len[1] :].any()


@pytest.mark.parametrize(
    ("source", "target"), [(22050, 16000), (8000, 16000), (44100, 16000), (16000, 48000)]
)
def test_resample_keeps_what_both_rates_can_hold_and_nothing_else(source, target):
    def tone(hertz, rate):
        return np.sin(2 * np.pi * hertz * np.arange(rate // 2) / rate)

    def resampled(hertz):
        audio = torch.tensor(tone(hertz, source), dtype=torch.float32)[None]
        return build(specs.Resample(source, target))(audio)[0][0].numpy()

    middle = slice(400, -400)
    for hertz in (100, 1000, 3200):
        assert np.abs(resampled(hertz) - tone(hertz, target))[middle].max() < 1e-3
    for hertz in range(target // 2 + 600, source // 2, 500):
        assert np.abs(resampled(hertz))[middle].max() < 1e-3


def test_resample_without_lengths_counts_full_rows():
    assert build(specs.Resample(22050, 16000))(torch.zeros(2, 441))[1].tolist() == [320, 320]


def test_resample_is_exact_in_float64_where_the_rates_agree():
    audio = torch.randn(1, 50, dtype=torch.float64)
    changed, _ = build(specs.Resample(16000, 16000))(audio)
    assert torch.equal(changed, audio)


def test_repeak_and_mono():
    samples = torch.tensor([[-32768, 0, 16384]], dtype=torch.int16)
    assert run(specs.Repeak(32768.0, 1.0), audio=samples).tolist() == [[-1.0, 0.0, 0.5]]
    assert run(specs.Mono(), audio=torch.tensor([[[1.0, 3.0], [3.0, 5.0]]])).tolist() == [[2.0, 4.0]]


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_rescale_goes_between_all_scales(power):
    energy = torch.rand(2, 3, 4, dtype=torch.float64) + 0.1
    scales = {
        "ln": energy.log(),
        "log10": energy.log10(),
        "db": (10 if power == 2 else 20) * energy.log10(),
        "linear": energy,
    }
    for source in ("ln", "log10", "db"):
        for target in scales.keys() - {source}:
            found = run(specs.Rescale(source, target, power), mel=scales[source])
            assert torch.allclose(found, scales[target])


def test_scores_become_what_they_are_called():
    logits = torch.randn(2, 3, 5)
    log_probs = run(specs.LogSoftmax(), logits=logits)
    probs = run(specs.Softmax(), logits=logits)
    assert torch.allclose(probs.sum(-1), torch.ones(2, 3))
    assert torch.allclose(run(specs.Exp(), log_probs=log_probs), probs)
    assert torch.allclose(run(specs.Log(), probs=probs), log_probs, atol=1e-6)
    assert torch.isfinite(run(specs.Log(), probs=torch.tensor([[[0.0, 1.0]]]))).all()
    assert run(specs.LogSoftmax(), logits=logits.bfloat16()).dtype == torch.float32


def test_reorder_moves_each_label_with_its_score():
    scores = torch.randn(2, 3, 3)
    found = run(specs.Reorder(CAB, ABC), scores=scores)
    for label in "abc":
        assert torch.equal(found[..., ABC.index(label)], scores[..., CAB.index(label)])


def test_remap_translates_labels_and_keeps_negative_ids():
    ids = torch.tensor([[0, 1, 2, -100]])
    assert run(specs.RemapIds(CAB, ABC), ids=ids).tolist() == [[2, 0, 1, -100]]


def test_repad_writes_behind_the_ends():
    ids = torch.tensor([[1, 0, 2, 0], [3, 0, 0, 0]])
    assert run(specs.Repad(0, -100), ids=ids, ids_len=torch.tensor([3, 1])).tolist() == [
        [1, 0, 2, -100],
        [3, -100, -100, -100],
    ]
    assert run(specs.Repad(-100, 0), ids=torch.tensor([[1, -100]])).tolist() == [[1, 0]]


def test_masks_and_lengths_turn_into_one_another():
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert run(specs.Invert(), mask=mask).tolist() == (~mask).tolist()
    lengths = run(specs.MaskToLengths(), mask=mask)
    assert lengths.tolist() == [2, 1]
    like = torch.zeros(2, 3)
    assert torch.equal(run(specs.LengthsToMask("keep"), lengths=lengths, like=like), mask)
    assert torch.equal(run(specs.LengthsToMask("pad"), lengths=lengths, like=like), ~mask)


def test_subsample_rounds_as_it_says():
    lengths = torch.arange(7)
    assert run(specs.Subsample(3), lengths=lengths).tolist() == [0, 1, 1, 1, 2, 2, 2]
    assert run(specs.Subsample(3, "floor"), lengths=lengths).tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_axes_are_moved_added_and_removed():
    value = torch.randn(2, 3, 4)
    assert torch.equal(run(specs.Transpose("B F T", "T B F"), value=value), value.permute(2, 0, 1))
    assert build(specs.Unsqueeze(1))(value).shape == (2, 1, 3, 4)
    assert torch.equal(build(specs.Squeeze(1))(build(specs.Unsqueeze(1))(value)), value)


def test_default_fills_in_what_is_absent():
    like = torch.ones(2, 3)
    assert build(specs.Default(0.5))(None, like).tolist() == [[0.5] * 3] * 2
    assert build(specs.Default(0.5))(like * 2, like).tolist() == [[2.0] * 3] * 2
