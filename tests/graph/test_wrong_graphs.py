"""Wrong graphs, each refused with the whole message as it is kept in tests/messages."""

# ruff: noqa: RUF059 - the names of the steps are part of the messages

from __future__ import annotations

import pytest

from neumo.types import Mel

from .snapshots import refused
from .specs import (
    DE,
    EN,
    EN_SORTED,
    TAGS,
    TAGS_SORTED,
    WORDS,
    Add,
    BertEncoder,
    ConvEncoder,
    CTCHead,
    CTCLoss,
    Down,
    LinearHead,
    Measure,
    MelSpectrogram,
    OptionalText,
    SpeechData,
    SpeedPerturb,
    Tacotron2Decoder,
    TaggingLoss,
    TextData,
    TextEncoder,
    TimeMajorEncoder,
    TokenClassifier,
    Up,
    WaveGlow,
)


def test_audio_of_another_rate_is_refused_and_resampling_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = SpeechData(EN, rate=22050)()
        mel = MelSpectrogram(rate=16000)
        mel(audio=batch.audio, audio_len=batch.audio_len)

    error = refused("01_rate", build, monkeypatch)
    assert any("Resample(22050 -> 16000)" in fix.text for fix in error.fixes)


def test_another_number_of_mels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = SpeechData(EN)()
        feats = MelSpectrogram(n_mels=80)(audio=batch.audio, audio_len=batch.audio_len)
        encoder = ConvEncoder(n_mels=64)
        encoder(mel=feats.mel, mel_len=feats.mel_len)

    error = refused("02_n_mels", build, monkeypatch)
    assert len(error.data["reasons"]) == 2


def asr(vocab=EN, head_vocab=EN, **fields):
    batch = SpeechData(vocab)()
    feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
    enc = ConvEncoder()(mel=feats.mel, mel_len=feats.mel_len)
    lp = CTCHead(head_vocab, **fields)(encoded=enc.encoded)
    return batch, feats, enc, lp


def test_a_narrower_decoder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        _, _, enc, _ = asr()
        CTCHead(EN, width=512)(encoded=enc.encoded)

    refused("03_width", build, monkeypatch)


def test_logits_are_refused_by_a_ctc_loss_and_log_softmax_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch, feats, enc, _ = asr()
        head = LinearHead(EN)(encoded=enc.encoded)
        CTCLoss(EN)(
            log_probs=head.logits,
            log_probs_len=enc.encoded_len,
            targets=batch.text,
            targets_len=batch.text_len,
        )

    error = refused("04_logits", build, monkeypatch)
    assert any("LogSoftmax(over=V)" in fix.text for fix in error.fixes)


def test_mel_lengths_after_a_stride_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch, mel, enc, lp = asr()
        ctc = CTCLoss(EN)
        ctc(log_probs=lp.log_probs, log_probs_len=mel.mel_len, targets=batch.text, targets_len=batch.text_len)

    error = refused("05_stride", build, monkeypatch)
    assert error.fixes[0].text == "log_probs_len=enc.encoded_len"
    assert "It is 2 times too long: ConvEncoder (stride 2) stands between the two." in error.why


def test_lengths_in_samples_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch, mel, enc, lp = asr()
        CTCLoss(EN)(
            log_probs=lp.log_probs,
            log_probs_len=batch.audio_len,
            targets=batch.text,
            targets_len=batch.text_len,
        )

    error = refused("06_samples", build, monkeypatch)
    assert error.fixes[0].text == "log_probs_len=enc.encoded_len"


def test_the_same_labels_in_another_order_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch, mel, enc, lp = asr(vocab=EN_SORTED)
        CTCLoss(EN)(
            log_probs=lp.log_probs,
            log_probs_len=enc.encoded_len,
            targets=batch.text,
            targets_len=batch.text_len,
        )

    error = refused("07_label_order", build, monkeypatch)
    assert any("RemapIds(en-sorted -> en)" in fix.text for fix in error.fixes)


def test_another_language_of_equal_size_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch, mel, enc, lp = asr(vocab=DE)
        CTCLoss(EN)(
            log_probs=lp.log_probs,
            log_probs_len=enc.encoded_len,
            targets=batch.text,
            targets_len=batch.text_len,
        )

    refused("08_language", build, monkeypatch)


def test_the_blank_at_the_other_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch, mel, enc, lp = asr()
        CTCLoss(EN, blank="start")(
            log_probs=lp.log_probs,
            log_probs_len=enc.encoded_len,
            targets=batch.text,
            targets_len=batch.text_len,
        )

    refused("09_blank", build, monkeypatch)


def test_another_order_of_entity_labels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = TextData(WORDS, TAGS_SORTED)()
        hidden = BertEncoder(WORDS)(ids=data.ids, mask=data.mask)
        tags = TokenClassifier(TAGS)(hidden=hidden.hidden)
        TaggingLoss(TAGS)(logits=tags.logits, labels=data.labels)

    refused("10_tag_order", build, monkeypatch)


def test_labels_padded_with_a_real_label_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = TextData(WORDS, TAGS, label_pad=0)()
        hidden = BertEncoder(WORDS)(ids=data.ids, mask=data.mask)
        tags = TokenClassifier(TAGS)(hidden=hidden.hidden)
        TaggingLoss(TAGS)(logits=tags.logits, labels=data.labels)

    error = refused("11_label_pad", build, monkeypatch)
    assert any("Repad(0 -> -100)" in fix.text for fix in error.fixes)


def test_an_inverted_mask_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = TextData(WORDS, TAGS, mask_true="pad")()
        BertEncoder(WORDS)(ids=data.ids, mask=data.mask)

    error = refused("12_mask", build, monkeypatch)
    assert any("Invert(mask)" in fix.text for fix in error.fixes)


def vocoder_input(**fields):
    batch = SpeechData(EN, rate=22050)()
    return MelSpectrogram(rate=22050, hop=256, n_mels=80, **fields)(
        audio=batch.audio, audio_len=batch.audio_len
    )


def test_mels_of_another_scale_are_refused_by_a_vocoder(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        mel = vocoder_input(scale="ln")
        WaveGlow(Mel(rate=22050, hop=256, scale="log10", n_mels=80))(mel=mel.mel)

    error = refused("13_scale", build, monkeypatch)
    assert any("Rescale(ln -> log10)" in fix.text for fix in error.fixes)


def test_mels_of_another_floor_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        mel = vocoder_input(floor=1e-9)
        WaveGlow(Mel(rate=22050, hop=256, scale="ln", floor=1e-5, n_mels=80))(mel=mel.mel)

    refused("14_floor", build, monkeypatch)


def test_mels_of_another_band_are_refused_with_both_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        mel = vocoder_input(fmin=0.0, fmax=11025.0)
        WaveGlow(Mel(rate=22050, hop=256, n_mels=80, fmin=80.0, fmax=7600.0))(mel=mel.mel)

    error = refused("15_band", build, monkeypatch)
    assert len(error.data["reasons"]) == 2


def test_synthetic_speech_of_another_rate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        mel = vocoder_input()
        speech = WaveGlow()(mel=mel.mel)
        measure = Measure()(audio=speech.audio)
        MelSpectrogram(rate=16000)(audio=speech.audio, audio_len=measure.audio_len)

    error = refused("16_tts_into_asr", build, monkeypatch)
    assert any("Resample(22050 -> 16000)" in fix.text for fix in error.fixes)


def test_lengths_from_before_a_speed_perturbation_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = SpeechData(EN)()
        fast = SpeedPerturb()(audio=batch.audio, audio_len=batch.audio_len)
        MelSpectrogram()(audio=fast.audio, audio_len=batch.audio_len)

    error = refused("17_stale_lengths", build, monkeypatch)
    assert [fix.text for fix in error.fixes] == ["audio_len=fast.audio_len"]


def test_targets_of_a_second_data_layer_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        train, mel, enc, lp = asr()
        other = SpeechData(EN)()
        CTCLoss(EN)(
            log_probs=lp.log_probs,
            log_probs_len=enc.encoded_len,
            targets=other.text,
            targets_len=other.text_len,
        )

    error = refused("18_second_loader", build, monkeypatch)
    assert [fix.text.split(",")[0] for fix in error.fixes][1:] == ["read SpeechData and SpeechData_2 at once"]


def test_a_time_major_encoder_is_refused_and_transposition_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = SpeechData(EN)()
        feats = MelSpectrogram()(audio=batch.audio, audio_len=batch.audio_len)
        TimeMajorEncoder()(mel=feats.mel)

    error = refused("19_time_major", build, monkeypatch)
    assert [fix.text for fix in error.fixes] == ["insert Transpose(B F T -> T B F) before it"]


def test_mel_lengths_as_text_lengths_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = SpeechData(EN, rate=22050)()
        mel = MelSpectrogram(rate=22050, hop=256, n_mels=80)(audio=batch.audio, audio_len=batch.audio_len)
        text = TextEncoder(EN)(text=batch.text, text_len=batch.text_len)
        Tacotron2Decoder()(
            encoded=text.encoded, encoded_len=mel.mel_len, target=mel.mel, target_len=mel.mel_len
        )

    error = refused("20_text_lengths", build, monkeypatch)
    assert error.fixes[0].text == "encoded_len=text.encoded_len"


def test_a_misspelt_port_gets_the_nearest_match(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch = SpeechData(EN)()
        MelSpectrogram()(audoi=batch.audio, audio_len=batch.audio_len)

    error = refused("21_typo", build, monkeypatch)
    assert error.fixes[0].text == "did you mean audio=batch.audio?"


def test_a_port_that_is_left_out_gets_the_one_value_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        batch, mel, enc, lp = asr()
        CTCLoss(EN)(log_probs=lp.log_probs, targets=batch.text, targets_len=batch.text_len)

    error = refused("22_left_out", build, monkeypatch)
    assert [fix.text for fix in error.fixes] == ["log_probs_len=enc.encoded_len"]


def test_an_odd_length_does_not_survive_halving_and_doubling(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        _, _, enc, _ = asr()
        down = Down()(x=enc.encoded)
        up = Up()(x=down.x)
        Add()(a=enc.encoded, b=up.x)

    refused("23_u_net", build, monkeypatch)


def test_a_value_that_may_be_absent_cannot_feed_a_required_port(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> None:
        data = OptionalText(EN)()
        TextEncoder(EN)(text=data.text, text_len=data.text_len)

    refused("24_maybe_absent", build, monkeypatch)
