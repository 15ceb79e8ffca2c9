"""The specifications: signatures proved against the torch code, graphs, recipes, and the data layer."""

import subprocess
import sys

import numpy as np
import pytest
import soundfile
import torch

from neumo.asr import (
    ConformerEncoder,
    ConvBlock,
    ConvEncoder,
    CropOrPad,
    CTCHead,
    CTCLoss,
    Gain,
    GreedyCTC,
    LinearSpectrogram,
    MelCepstrum,
    MelSpectrogram,
    RecurrentEncoder,
    SpecAugment,
    SpecCutout,
    SpeechData,
    SpeedPerturb,
    StackFrames,
    TelephoneBand,
    TimeShift,
    TimeStretch,
    WhiteNoise,
)
from neumo.backends.torch.registry import build
from neumo.graph.inputs import inputs
from neumo.types import Audio, B, ConfigError, Lengths, PortError, T, Vocab

LETTERS = Vocab.english()
SMALL = ConvEncoder(n_mels=8, blocks=(ConvBlock(12, 3, stride=2), ConvBlock(6, 5, stride=3, separable=True)))
MODULES = [
    MelSpectrogram(),
    MelSpectrogram(length="floor", pad_to=16),
    MelSpectrogram(length="ceil", n_mels=20, hop=100, win=200, n_fft=256),
    LinearSpectrogram(),
    LinearSpectrogram(length="floor", pad_to=16, n_fft=400),
    MelCepstrum(),
    StackFrames(n_mels=8),
    SpeedPerturb(),
    TimeStretch(),
    Gain(),
    TimeShift(),
    WhiteNoise(),
    TelephoneBand(),
    CropOrPad(),
    CropOrPad(place="start"),
    SpecAugment(),
    SpecAugment(time_masks=0.04, time_width=0.04),
    SpecCutout(),
    SMALL,
    ConvEncoder.preset("digits"),
    ConformerEncoder(n_mels=8, width=8, layers=1, heads=2, kernel=3, subsampling="dw_striding", stride=8),
    ConformerEncoder(n_mels=8, width=8, layers=1, heads=2, kernel=3, subsampling="stacking", stride=3),
    RecurrentEncoder(n_mels=8, hidden=4, layers=2, reduction=(1, 2), front="vgg", front_width=2),
    CTCHead(LETTERS, width=6),
    CTCLoss(LETTERS),
    GreedyCTC(LETTERS),
]


def example(port, sizes):
    """A value of this type: numbers, lengths within their axis, ids within their vocabulary."""
    shape = [axis.size.evaluate(sizes) for axis in port.axes]
    if isinstance(port.element, Lengths):
        longest = port.element.of.evaluate(sizes)
        return torch.tensor([longest] + [longest // 2] * (shape[0] - 1))
    if port.element.dtype == "int":
        return torch.randint(0, len(port.element.vocab), shape)
    return torch.randn(shape)


@pytest.mark.parametrize("spec", MODULES, ids=lambda spec: type(spec).__name__)
@pytest.mark.parametrize("frames", [640, 1601, 3999])
@pytest.mark.parametrize("training", [True, False])
def test_the_signature_is_what_the_code_does(spec, frames, training):
    signature = spec.signature()
    symbols = sorted({s for port in signature.takes.values() for s in port.symbols()}, key=str)
    sizes = {s: {"B": 3, "T": frames, "U": 4}.get(s.name, 8) for s in symbols}
    given = {name: example(port, sizes) for name, port in signature.takes.items()}
    found = build(spec).train(training)(**given)
    found = found if isinstance(found, tuple) else (found,)
    assert len(found) == len(signature.gives)
    for (name, port), value in zip(signature.gives.items(), found, strict=True):
        kinds = {
            "float": value.is_floating_point(),
            "int": value.dtype == torch.int64,
            "bool": value.dtype == torch.bool,
        }
        assert kinds[port.element.dtype], name
        assert value.dim() == len(port.axes)
        for axis, size in zip(port.axes, value.shape, strict=True):
            if axis.size.symbols() <= set(symbols):  # the others are new at each call
                assert axis.size.evaluate(sizes) == size, name


def recogniser(vocab=LETTERS, front_end=None, encoder=None, head=None):
    given = inputs(audio=Audio(rate=16000)[B, T], audio_len=Lengths(T)[B])
    features = (front_end or MelSpectrogram())(audio=given.audio, audio_len=given.audio_len)
    encoded = (encoder or ConvEncoder.preset("digits"))(mel=features.mel, mel_len=features.mel_len)
    log_probs = (head or CTCHead(vocab, width=256))(encoded=encoded.encoded).log_probs
    return features, encoded, log_probs


def test_a_recogniser_composes():
    data = SpeechData("train.jsonl", vocab=LETTERS)()
    faster = SpeedPerturb()(audio=data.audio, audio_len=data.audio_len)
    features = MelSpectrogram()(audio=faster.audio, audio_len=faster.audio_len)
    masked = SpecAugment()(mel=features.mel, mel_len=features.mel_len).mel
    cut = SpecCutout()(mel=masked, mel_len=features.mel_len).mel
    encoded = ConvEncoder.preset("quartznet_5x5")(mel=cut, mel_len=features.mel_len)
    log_probs = CTCHead(LETTERS)(encoded=encoded.encoded).log_probs
    loss = CTCLoss(LETTERS)(
        log_probs=log_probs, log_probs_len=encoded.encoded_len, targets=data.text, targets_len=data.text_len
    )
    ids = GreedyCTC(LETTERS)(log_probs=log_probs, log_probs_len=encoded.encoded_len)
    assert str(loss.loss.type) == "Loss(reduction=mean)[]"
    assert ids.ids.type.element.vocab == LETTERS
    assert masked.type.element == features.mel.type.element


def test_lengths_of_another_clock_are_refused():
    data = SpeechData("train.jsonl", vocab=LETTERS)()
    faster = SpeedPerturb()(audio=data.audio, audio_len=data.audio_len)
    with pytest.raises(PortError):
        MelSpectrogram()(audio=faster.audio, audio_len=data.audio_len)
    features, _, log_probs = recogniser()
    with pytest.raises(PortError):
        GreedyCTC(LETTERS)(log_probs=log_probs, log_probs_len=features.mel_len)


@pytest.mark.parametrize(
    "pieces",
    [
        {"front_end": MelSpectrogram(rate=22050)},
        {"front_end": MelSpectrogram(n_mels=80)},
        {"head": CTCHead(LETTERS, width=512)},
    ],
)
def test_pieces_that_do_not_fit_are_refused(pieces):
    with pytest.raises(PortError):
        recogniser(**pieces)


def test_a_blank_at_the_other_end_is_refused():
    _, encoded, log_probs = recogniser()
    with pytest.raises(PortError):
        GreedyCTC(Vocab(reversed(LETTERS.labels)))(log_probs=log_probs, log_probs_len=encoded.encoded_len)


def test_known_training_features_refuse_others():
    trained = ConvEncoder.preset("digits", mel=MelSpectrogram(hop=200).element())
    with pytest.raises(PortError, match="hop"):
        recogniser(encoder=trained)
    recogniser(front_end=MelSpectrogram(hop=200), encoder=trained)


RECIPE = """
neumo: 1
vocabs:
  letters: {labels: " abcdefghijklmnopqrstuvwxyz'"}
modules:
  mel: {kind: MelSpectrogram, length: floor}
  encoder: {kind: ConvEncoder, preset: an4, width: 128, dropout: 0.1}
  head: {kind: CTCHead, vocab: letters, width: 128}
  greedy: {kind: GreedyCTC, vocab: letters}
graphs:
  infer:
    mode: infer
    inputs: {audio: "Audio(rate=16000)[B, T]", audio_len: "Lengths(T)[B]"}
    steps:
      feats: mel(audio=audio, audio_len=audio_len)
      enc: encoder(mel=feats.mel, mel_len=feats.mel_len)
      scores: head(encoded=enc.encoded)
      found: greedy(log_probs=scores.log_probs, log_probs_len=enc.encoded_len)
    outputs: {ids: found.ids, ids_len: found.ids_len}
"""


def test_a_recipe_makes_the_modules_and_is_saved_and_read_back(tmp_path):
    from neumo.graph.yaml import load_recipe, save_recipe

    recipe = load_recipe(RECIPE)
    encoder = recipe.modules["encoder"]
    assert encoder.width == 128
    assert {block.dropout for block in encoder.blocks} == {0.1}
    assert recipe.modules["mel"] == MelSpectrogram(length="floor")
    assert recipe.graphs["infer"].modules["encoder"] is encoder
    save_recipe(recipe, tmp_path / "again.yaml")
    again = load_recipe(tmp_path / "again.yaml")
    assert again.modules["encoder"] == encoder
    assert again.graphs["infer"] == recipe.graphs["infer"]


def test_the_data_layer_reads_what_it_says(tmp_path):
    for name, seconds in (("a", 0.5), ("b", 0.25)):
        soundfile.write(tmp_path / f"{name}.wav", np.full(int(8000 * seconds), 0.1, np.float32), 8000)
    (tmp_path / "list.jsonl").write_text(
        '{"audio_filepath": "a.wav", "duration": 0.5, "text": "yes"}\n'
        '{"audio_filepath": "b.wav", "duration": 0.25, "text": "no"}\n'
    )
    spec = SpeechData(tmp_path / "list.jsonl", vocab=LETTERS, batch_size=2, shuffle=False)
    source = spec.open(seed=1)
    batch = source.collate([source.item(index, 0) for index in source.batches(0)[0]])
    assert list(batch) == list(spec.signature().gives)
    assert batch["audio"].shape == (2, 8000)
    assert sorted(batch["audio_len"].tolist()) == [4000, 8000]
    assert batch["text"].shape == (2, 3)


def test_without_a_vocabulary_there_are_no_texts():
    assert list(SpeechData("list.jsonl").signature().gives) == ["audio", "audio_len", "item"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0},
        {"on_bad": "ignore"},
        {"channels": "left"},
        {"cache": "disk"},
        {"max_bad_share": 2.0},
    ],
)
def test_data_settings_that_cannot_be_meant_are_refused(wrong):
    with pytest.raises(ConfigError):
        SpeechData("list.jsonl", **wrong)


def test_the_specifications_need_no_framework():
    code = "import sys, neumo.asr; assert not {'torch', 'numpy'} & set(sys.modules), 'loaded'"
    subprocess.run([sys.executable, "-c", code], check=True)
