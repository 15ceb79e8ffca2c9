"""Filters counted other lengths than the model, and some short cuts still ended the process.

What is left out before a training is what the encoder, run on it, has too few frames for: for each encoder
and durations from 0.05 to 0.30 s in steps of 10 ms.
"""

import json

import numpy as np
import pytest
import soundfile
import torch

from neumo.asr import (
    ConformerEncoder,
    ConvBlock,
    ConvEncoder,
    CTCHead,
    CTCLoss,
    MelSpectrogram,
    RecurrentEncoder,
    SpeechData,
    SqueezeExcite,
)
from neumo.backends.torch.registry import build
from neumo.engine.checks.preflight import exclude_infeasible
from neumo.graph import Graph
from neumo.types import Vocab

LETTERS = Vocab.english()
TEXT = "hello"  # needs 6 frames
SAMPLES = range(800, 4801, 160)


def citrinet():
    blocks = [ConvBlock(8, 5, stride=2, stride_last=True, repeat=2, squeeze=SqueezeExcite())] * 3
    return ConvEncoder(n_mels=8, blocks=tuple(blocks), norm="group", norm_groups=2)


def conformer(subsampling, stride):
    settings = {"n_mels": 8, "width": 8, "heads": 2, "layers": 1, "kernel": 3}
    return ConformerEncoder(**settings, subsampling=subsampling, stride=stride)


def recurrent(**fields):
    return RecurrentEncoder(n_mels=8, hidden=4, layers=2, front_width=2, **fields)


ENCODERS = {
    "citrinet": citrinet(),
    "striding2": conformer("striding", 2),
    "striding4": conformer("striding", 4),
    "dw_striding": conformer("dw_striding", 8),
    "stacking": conformer("stacking", 3),
    "pyramid": recurrent(reduction=(1, 2)),
    "vgg": recurrent(front="vgg"),
    "vgg_pyramid": recurrent(front="vgg", reduction=(1, 2)),
}


@pytest.fixture
def manifest(tmp_path):
    """One recording of each duration."""
    lines = []
    for samples in SAMPLES:
        soundfile.write(tmp_path / f"{samples}.wav", np.zeros(samples, np.int16), 16000)
        row = {"audio_filepath": f"{samples}.wav", "duration": samples / 16000, "text": TEXT}
        lines.append(json.dumps(row))
    # One that every encoder has frames enough for: a training needs something.
    soundfile.write(tmp_path / "long.wav", np.zeros(32000, np.int16), 16000)
    lines.append(json.dumps({"audio_filepath": "long.wav", "duration": 2.0, "text": TEXT}))
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    return tmp_path / "train.jsonl"


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("length", ["floor+1", "floor"])
def test_what_is_left_out_is_what_the_encoder_has_too_few_frames_for(name, length, manifest):
    spec, front_end = ENCODERS[name], MelSpectrogram(n_mels=8, length=length)
    data = SpeechData(manifest, vocab=LETTERS)
    batch = data()
    features = front_end(audio=batch.audio, audio_len=batch.audio_len)
    encoded = spec(mel=features.mel, mel_len=features.mel_len)
    loss = CTCLoss(LETTERS)(
        log_probs=CTCHead(LETTERS, spec.width)(encoded=encoded.encoded).log_probs,
        log_probs_len=encoded.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    graph = Graph("train", "train", {"loss": loss.loss})
    source = data.open(seed=1)
    exclude_infeasible(graph, graph.steps, source, next(s for s in graph.steps if s.module is data))
    kept = {int(index) for index in source.indices} - {len(SAMPLES)}

    mel, encoder = build(front_end).eval(), build(spec).eval()
    needed = CTCLoss.needed_frames(LETTERS.encode(TEXT).ids)
    for index, samples in enumerate(SAMPLES):
        with torch.no_grad():
            found, found_len = encoder(*mel(torch.randn(1, samples), torch.tensor([samples])))
        assert torch.isfinite(found).all()
        assert found.shape[2] == found_len[0]
        assert (index in kept) == (found.shape[2] >= needed)
    assert len(kept) < len(SAMPLES)
