"""Graphs that must be accepted: a refusal here is a bug of the type system."""

from __future__ import annotations

from dataclasses import dataclass

from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import (
    Acoustic,
    Any_,
    Audio,
    B,
    C,
    F,
    Features,
    Ids,
    Lengths,
    Loss,
    Mask,
    Mel,
    Size,
    T,
    U,
    V,
    Var,
)

from .specs import (
    EN,
    TAGS,
    WORDS,
    Add,
    BertEncoder,
    ConvEncoder,
    CTCHead,
    CTCLoss,
    Down,
    Gain,
    Linear2d,
    Measure,
    MelSpectrogram,
    SpecAugment,
    SpeechData,
    SpeedPerturb,
    SumLoss,
    Tacotron2Decoder,
    TaggingLoss,
    TextData,
    TextEncoder,
    TokenClassifier,
    TransformerDecoder,
    UntypedSource,
    Up,
    WaveGlow,
)


def recogniser(augment: bool = False):
    batch = SpeechData(EN)()
    feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    mel = SpecAugment()(mel=feats.mel, mel_len=feats.mel_len).mel if augment else feats.mel
    enc = ConvEncoder()(mel=mel, mel_len=feats.mel_len)
    lp = CTCHead(EN)(encoded=enc.encoded)
    loss = CTCLoss(EN)(
        log_probs=lp.log_probs, log_probs_len=enc.encoded_len, targets=batch.text, targets_len=batch.text_len
    )
    return batch, enc, lp, loss


def test_the_whole_recogniser_is_accepted() -> None:
    _, _, lp, loss = recogniser()
    assert str(loss.loss.type) == "Loss[]"
    assert str(lp.log_probs.type.axes) == "(B, T//320 + 1 at 50 Hz, V=en+blank[29]#040063b9)"


def test_spectrogram_augmentation_keeps_the_facets() -> None:
    _, enc, _, _ = recogniser(augment=True)
    augmented = enc.encoded.step.inputs["mel"].type.element
    assert (augmented.rate, augmented.hop, augmented.scale, augmented.n_mels) == (16000, 160, "ln", 64)
    assert Graph(outputs={"encoded": enc.encoded}).assumptions() == []


def test_an_augmentation_works_at_every_rate() -> None:
    gain = Gain()
    for rate in (8000, 16000, 44100):
        batch = SpeechData(EN, rate=rate)()
        assert gain(audio=batch.audio).audio.type.element.rate == rate


def test_a_speed_perturbation_makes_its_own_time() -> None:
    batch = SpeechData(EN)()
    fast = SpeedPerturb()(audio=batch.audio, audio_len=batch.audio_len)
    feats = MelSpectrogram()(audio=fast.audio, audio_len=fast.audio_len)
    assert str(feats.mel_len.type) == "Lengths(T2//160 + 1)[B]"


def test_two_perturbations_behind_one_another_are_two_sizes() -> None:
    batch = SpeechData(EN)()
    fast = SpeedPerturb()
    once = fast(audio=batch.audio, audio_len=batch.audio_len)
    twice = fast(audio=once.audio, audio_len=once.audio_len)
    assert once.audio.type.axes[1].size != twice.audio.type.axes[1].size
    MelSpectrogram()(audio=twice.audio, audio_len=twice.audio_len)


def test_an_untyped_source_is_accepted_and_recorded() -> None:
    batch = UntypedSource()()
    feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    graph = Graph(outputs={"mel": feats.mel})
    assert [str(each) for each in graph.assumptions()] == [
        "MelSpectrogram.audio: rate = 16000",
        "MelSpectrogram.audio: peak = 1.0",
    ]
    port, obligation = graph.assumptions()[0]
    assert (port, obligation.facet, obligation.value) == ("MelSpectrogram.audio", "rate", 16000)


def test_an_obligation_passes_through_a_polymorphic_module() -> None:
    batch = UntypedSource()()
    louder = Gain()(audio=batch.audio)
    feats = MelSpectrogram()(audio=louder.audio, audio_len=batch.audio_len)
    assert len(Graph(outputs={"mel": feats.mel}).assumptions()) == 2


@dataclass(frozen=True)
class Mix(NeuralModule):
    def signature(self) -> Signature:
        audio = Audio(rate=Var("rate"))[B, T]
        return Signature(takes={"a": audio, "b": audio}, gives={"mixed": audio})


def test_a_rate_that_one_of_two_inputs_knows_is_assumed_of_the_other_in_either_order() -> None:
    for first, second in ((Audio(rate=16000), Audio()), (Audio(), Audio(rate=16000))):
        two = inputs(a=first[B, T], b=second[B, T])
        mixed = Mix()(a=two.a, b=two.b)
        assert mixed.mixed.type.element.rate == 16000
        assert [str(o) for _, o in mixed.mixed.step.assumptions] == ["rate = 16000"]


def test_text_to_speech_is_accepted() -> None:
    batch = SpeechData(EN, rate=22050)()
    target = MelSpectrogram(rate=22050, hop=256, n_mels=80)(audio=batch.audio, audio_len=batch.audio_len)
    text = TextEncoder(EN)(text=batch.text, text_len=batch.text_len)
    mel = Tacotron2Decoder()(
        encoded=text.encoded, encoded_len=text.encoded_len, target=target.mel, target_len=target.mel_len
    )
    speech = WaveGlow()(mel=mel.mel)
    assert str(speech.audio.type) == "Audio(rate=22050, peak=1.0)[B, 256*(T//256) + 256]"


def test_synthetic_speech_feeds_a_recogniser_of_its_rate() -> None:
    spoken = inputs(mel=Mel(rate=22050, hop=256, scale="ln", n_mels=80)[B, F(80), T])
    speech = WaveGlow()(mel=spoken.mel)
    length = Measure()(audio=speech.audio)
    feats = MelSpectrogram(rate=22050)(audio=speech.audio, audio_len=length.audio_len)
    assert str(feats.mel_len.type) == "Lengths(T + (3*T)//5 + 1)[B]"


def test_a_tagger_is_accepted_with_and_without_its_optional_port() -> None:
    data = TextData(WORDS, TAGS)()
    bert = BertEncoder(WORDS)
    for segments in ({}, {"segments": None}, {"segments": data.ids}):
        hidden = bert(ids=data.ids, mask=data.mask, **segments)
        tags = TokenClassifier(TAGS)(hidden=hidden.hidden)
        TaggingLoss(TAGS)(logits=tags.logits, labels=data.labels)
        assert ("segments" in hidden.hidden.step.inputs) == bool(segments.get("segments") is data.ids)


def test_a_decoder_attends_to_another_length() -> None:
    data = inputs(
        ids=Ids(WORDS)[B, U],
        memory=Acoustic()[B, T.ceildiv(4), F(512)],
        mask=Mask(T.ceildiv(4), true="keep")[B, T.ceildiv(4)],
    )
    given = TransformerDecoder(WORDS)(ids=data.ids, memory=data.memory, memory_mask=data.mask)
    assert str(given.log_probs.type.axes[1]) == "U"


def test_even_sizes_survive_halving_and_doubling() -> None:
    two = inputs(x=Acoustic()[B, F(8), T * 2])
    down = Down()(x=two.x)
    up = Up()(x=down.x)
    assert str(Add()(a=two.x, b=up.x).x.type) == "Acoustic[B, F=8, 2*T]"


def test_strides_in_either_order_give_one_size() -> None:
    frames = inputs(x=Acoustic()[B, F(8), T])
    one = Down(3)(x=Down(2)(x=frames.x).x)
    two = Down(2)(x=Down(3)(x=frames.x).x)
    six = Down(6)(x=frames.x)
    Add()(a=one.x, b=two.x)
    Add()(a=two.x, b=six.x)


@dataclass(frozen=True)
class Concat(NeuralModule):
    def signature(self) -> Signature:
        return Signature(
            takes={"a": Features()[B, F("D"), T], "b": Features()[B, F("E"), T]},
            gives={"joined": Features()[B, F("D") + F("E"), T]},
        )


def test_widths_add_up_when_features_are_joined() -> None:
    two = inputs(a=Acoustic()[B, F(512), T], b=Acoustic()[B, F(256), T])
    joined = Concat()(a=two.a, b=two.b)
    assert joined.joined.type.axes[1].size == Size.of(768)


def test_a_number_may_stand_where_a_symbol_is_wanted() -> None:
    one = inputs(audio=Audio(rate=16000, peak=1.0)[B(1), T(16000)], audio_len=Lengths(T(16000))[B(1)])
    feats = MelSpectrogram()(audio=one.audio, audio_len=one.audio_len)
    assert str(feats.mel.type.axes) == "(B=1, F=64, T=101)"


def test_a_size_known_only_at_run_time_is_accepted_and_carried_on() -> None:
    open_ended = inputs(x=Acoustic()[B, F(8), T(None)])
    down = Down()(x=open_ended.x)
    assert down.x.type.axes[2].size is not None


def test_a_subclass_feeds_a_port_of_its_parent() -> None:
    mel = inputs(mel=Mel(rate=16000)[B, F(64), T])
    Linear2d()(x=mel.mel)


def test_a_port_of_anything_takes_anything() -> None:
    @dataclass(frozen=True)
    class Show(NeuralModule):
        def signature(self) -> Signature:
            return Signature(takes={"x": Any_()[B, T]}, gives={"x": Any_()[B, T]})

    data = inputs(ids=Ids(EN)[B, T], audio=Audio()[B, T])
    Show()(x=data.ids)
    Show()(x=data.audio)


def test_a_sum_takes_several_losses_of_several_graphs() -> None:
    _, _, _, one = recogniser()
    _, _, _, two = recogniser()
    total = SumLoss()(losses=[one.loss, two.loss])
    assert len(Graph(outputs={"loss": total.loss}).steps) == 11
    assert str(SumLoss()(losses=one.loss).loss.type) == "Loss[]"


def test_a_batch_of_two_sizes_may_be_shared_by_two_time_axes() -> None:
    data = inputs(x=Acoustic()[B, F(4), T], y=Acoustic()[B, F(4), U], n=Loss()[()])
    Concat()(a=data.x, b=data.x)
    assert data.y.type.axes[2].size != data.x.type.axes[2].size


def test_values_of_a_graph_that_was_given_up_still_compose() -> None:
    batch, enc, _, _ = recogniser()
    again = CTCHead(EN)(encoded=enc.encoded)
    assert Graph(outputs={"log_probs": again.log_probs}).steps[0] is batch.audio.step


def test_channels_and_pictures_have_axes_of_their_own() -> None:
    @dataclass(frozen=True)
    class Conv2d(NeuralModule):
        def signature(self) -> Signature:
            return Signature(
                takes={"x": Features()[B, C, F, T]},
                gives={"x": Features()[B, C(32), F.ceildiv(2), T.ceildiv(2)]},
            )

    data = inputs(x=Features()[B, C(1), F(80), T])
    once = Conv2d()(x=data.x)
    assert str(Conv2d()(x=once.x).x.type) == "Features[B, F=32, F=20, ceil(T/4)]"


def test_a_vocabulary_is_passed_on_by_a_module_that_takes_any() -> None:
    @dataclass(frozen=True)
    class Sharpen(NeuralModule):
        def signature(self) -> Signature:
            from neumo.types import Logits

            scores = Logits(Var("vocab"))[B, T, V]
            return Signature(takes={"logits": scores}, gives={"logits": scores})

    data = TextData(WORDS, TAGS)()
    hidden = BertEncoder(WORDS)(ids=data.ids, mask=data.mask)
    tags = TokenClassifier(TAGS)(hidden=hidden.hidden)
    sharp = Sharpen()(logits=tags.logits)
    TaggingLoss(TAGS)(logits=sharp.logits, labels=data.labels)
    assert sharp.logits.type == tags.logits.type
