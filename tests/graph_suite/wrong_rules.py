"""Wrong graphs whose every connection fits: modes, rules of whole graphs, assumptions."""

from __future__ import annotations

from typing import Any

from neumo import (
    Acoustic,
    Audio,
    B,
    F,
    Graph,
    Ids,
    Lengths,
    Mel,
    T,
    Text,
    U,
    assume,
    inputs,
    relax,
)
from neumo.asr import (
    ConvEncoder,
    CTCHead,
    GreedyCTC,
    MelSpectrogram,
    SpeechData,
)
from neumo.graph.adapters import Resample, Softmax
from neumo.graph.learned import check_learned, set_learned
from neumo.graph.rules import check_rules

from .language import (
    DEUTSCH,
    PIECES,
    TAGS,
    BertLike,
    SequenceLoss,
    TaggedTexts,
    TagHead,
)
from .mistakes import wrong
from .small import AnyEmbedding, JoinedTexts, MeanOfFrames, Rescorer, SpellOut
from .speech import (
    GERMAN,
    LETTERS,
    AddLosses,
    Listener,
    Recogniser,
    spoken,
)
from .synthesis import (
    DurationPredictor,
    MelError,
    ReadSpeech,
    RoundDurations,
    Tacotron2Encoder,
    Tacotron2Speaks,
    WaveGlowLike,
    WholeError,
    with_facets,
)


def checked(graph: Graph, strict: bool = False) -> object:
    """Raise what the rules find in a graph; with `strict` warnings too."""
    return check_rules(graph, strict=strict)


def training(model: Recogniser) -> Graph:
    """Compose the training graph of a recogniser."""
    batch, _, states, scores = model.compose()
    loss = model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return Graph("train", "train", {"loss": loss.loss})


@wrong("padding", "Resample", "audio_len", "audio_len=batch.audio_len")
def resampling_without_lengths() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    slow = Resample(16000, 8000)(audio=batch.audio)
    return checked(Graph("slow", outputs={"audio": slow.audio}))


@wrong("padding", "MeanOfFrames", "has no port for lengths", "ConvEncoder.encoded_len")
def pooling_with_no_lengths_declared() -> object:
    _batch, _frames, states, _scores = Recogniser().compose()
    mean = MeanOfFrames()(encoded=states.encoded)
    return checked(Graph("voice", outputs={"voice": mean.voice, "n": states.encoded_len}))


@wrong("loss-reaches-weights compared-with-itself", "MelError.loss", "no weights")
def loss_of_the_data_alone() -> object:
    batch = ReadSpeech()()
    loss = MelError()(said=batch.mel, target=batch.mel, target_len=batch.mel_len)
    return checked(Graph("train", "train", {"loss": loss.loss}))


@wrong("loss-reaches-weights compared-with-itself", "WholeError.loss", "before RoundDurations")
def loss_behind_rounding() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    lasts = DurationPredictor()(encoded=memory.encoded, encoded_len=batch.text_len)
    whole = RoundDurations()(durations=lasts.durations)
    loss = WholeError()(predicted=whole.durations, target=whole.durations, text_len=batch.text_len)
    return checked(Graph("train", "train", {"loss": loss.loss}))


@wrong("softmax-twice", "CTCHead", "Rescorer", "Softmax")
def softmax_of_log_probabilities_through_a_module() -> object:
    _batch, _frames, _states, scores = Recogniser().compose()
    again = Rescorer(LETTERS.with_blank())(scores=scores.log_probs)
    probs = Softmax()(logits=again.logits)
    return checked(Graph("infer", "infer", {"probs": probs.probs}))


@wrong("softmax-twice", "Softmax.probs", "SequenceLoss", "take Softmax out", "!let Softmax give")
def cross_entropy_of_probabilities_through_a_module() -> object:
    batch = TaggedTexts(PIECES, TAGS)()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask)
    scores = TagHead(TAGS)(hidden=hidden.hidden)
    probs = Softmax()(logits=scores.logits)
    again = Rescorer(TAGS)(scores=probs.probs)
    loss = SequenceLoss(TAGS)(logits=again.logits, targets=batch.tags)
    return checked(Graph("train", "train", {"loss": loss.loss}))


@wrong("target-in-inference", "SpeechData.text", "SpellOut", "said")
def text_given_away_in_inference() -> object:
    batch, _frames, states, _scores = Recogniser().compose()
    spelt = SpellOut(LETTERS)(encoded=states.encoded, encoded_len=states.encoded_len, said=batch.text)
    return checked(Graph("infer", "infer", {"logits": spelt.logits}))


@wrong("target-in-inference", "ReadSpeech.mel")
def reading_given_to_a_decoder_in_inference() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    said = Tacotron2Speaks()(encoded=memory.encoded, encoded_len=batch.text_len, target=batch.mel)
    return checked(Graph("infer", "infer", {"mel": said.mel}))


@wrong("when", "Listener", "text", "infer", "train")
def teacher_in_a_graph_for_inference() -> object:
    opened = inputs(encoded=Acoustic()[B, F(256), T], n=Lengths(T)[B], text=Ids(PIECES, frame="bos..")[B, U])
    spelt = Listener(PIECES)(encoded=opened.encoded, encoded_len=opened.n, text=opened.text)
    return Graph("infer", "infer", {"log_probs": spelt.log_probs})


@wrong("when", "Listener", "text", "train")
def no_teacher_in_a_graph_for_training() -> object:
    opened = inputs(encoded=Acoustic()[B, F(256), T], n=Lengths(T)[B])
    spelt = Listener(PIECES)(encoded=opened.encoded, encoded_len=opened.n)
    return Graph("train", "train", {"log_probs": spelt.log_probs})


@wrong("mode", "train", "infer", "recognise")
def training_graph_inside_inference() -> object:
    opened = spoken()
    frames = MelSpectrogram()(audio=opened.audio, audio_len=opened.audio_len)
    augmented = Graph("recognise", "train", {"mel": frames.mel, "mel_len": frames.mel_len})
    batch = SpeechData("dev.jsonl", vocab=LETTERS)()
    again = augmented(audio=batch.audio, audio_len=batch.audio_len)
    return Graph("outer", "infer", {"mel": again.mel})


@wrong("mode", "decode", "infer", "train")
def inference_graph_inside_training() -> object:
    opened = inputs(encoded=Acoustic()[B, F(256), T], n=Lengths(T)[B])
    scores = CTCHead(LETTERS, width=256)(encoded=opened.encoded)
    best = GreedyCTC(LETTERS)(log_probs=scores.log_probs, log_probs_len=opened.n)
    decode = Graph("decode", "infer", {"ids": best.ids, "ids_len": best.ids_len})
    _batch, _frames, states, _ = Recogniser().compose()
    found = decode(encoded=states.encoded, n=states.encoded_len)
    return Graph("outer", "train", {"ids": found.ids})


@wrong("facet", "SpeechData.audio", "rate is 16000, not 8000")
def nested_graph_of_another_rate() -> object:
    opened = spoken(rate=8000)
    slow = Resample(8000, 16000)(audio=opened.audio, audio_len=opened.audio_len)
    widen = Graph("widen", outputs={"audio": slow.audio, "audio_len": slow.audio_len})
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    return widen(audio=batch.audio, audio_len=batch.audio_len)


@wrong("missing", "widen", "audio_len")
def nested_graph_without_lengths() -> object:
    opened = spoken(rate=16000)
    slow = Resample(16000, 8000)(audio=opened.audio, audio_len=opened.audio_len)
    widen = Graph("widen", outputs={"audio": slow.audio, "audio_len": slow.audio_len})
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    return widen(audio=batch.audio)


@wrong("one-module-two-vocabularies", "ConvEncoder", "hop", "200", "160")
def one_encoder_on_frames_of_two_front_ends() -> object:
    opened = spoken()
    encoder = ConvEncoder.preset("an4")
    one = MelSpectrogram()(audio=opened.audio, audio_len=opened.audio_len)
    two = MelSpectrogram(hop=200)(audio=opened.audio, audio_len=opened.audio_len)
    first = encoder(mel=one.mel, mel_len=one.mel_len)
    second = encoder(mel=two.mel, mel_len=two.mel_len)
    return checked(Graph("both", outputs={"one": first.encoded, "two": second.encoded}))


@wrong("one-module-two-vocabularies", "AnyEmbedding", "pieces", "deutsch")
def one_embedding_for_two_languages() -> object:
    shared = AnyEmbedding()
    opened = inputs(one=Ids(PIECES)[B, T], two=Ids(DEUTSCH)[B, U])
    one, two = shared(ids=opened.one), shared(ids=opened.two)
    return checked(Graph("both", outputs={"one": one.embedded, "two": two.embedded}))


@wrong("untrained-module", "CTCHead_2", "loss")
def second_head_without_a_loss() -> object:
    model = Recogniser()
    batch, _frames, states, scores = model.compose()
    other = CTCHead(GERMAN, width=256)(encoded=states.encoded)
    loss = model.ctc(
        log_probs=scores.log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return checked(Graph("train", "train", {"loss": loss.loss, "german": other.log_probs}), True)


@wrong("unused-output", "inputs.audio_len")
def lengths_declared_and_forgotten() -> object:
    opened = spoken(rate=22050)
    return checked(Graph("echo", "infer", {"audio": opened.audio}), True)


@wrong("unused-output", "Tacotron2Speaks.gate", "No loss depends on it")
def one_of_two_losses_forgotten() -> object:
    batch = ReadSpeech()()
    memory = Tacotron2Encoder()(text=batch.text, text_len=batch.text_len)
    said = Tacotron2Speaks()(encoded=memory.encoded, encoded_len=batch.text_len, target=batch.mel)
    loss = MelError()(said=said.mel, target=batch.mel, target_len=batch.mel_len)
    return checked(Graph("train", "train", {"loss": loss.loss}), True)


@wrong("assume", "Audio(rate=16000)[B, T]", "without a reason")
def assumption_without_a_reason() -> object:
    wave = inputs(wave=Audio()[B, T]).wave
    return assume(wave, Audio(rate=16000)[B, T], reason="")


@wrong("assume", "rate is 16000, not 8000", "insert a module that converts it")
def assumption_that_denies_the_type() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    return assume(batch.audio, Audio(rate=8000)[B, T], reason="it sounds like a telephone")


@wrong("assume", "axis 1 is 256 long, not 512")
def assumption_about_a_size_that_is_known() -> object:
    _batch, _frames, states, _scores = Recogniser().compose()
    return assume(states.encoded, Acoustic()[B, F(512), T], reason="the paper says so")


@wrong("relax", "flor", "floor")
def relaxed_facet_misspelt() -> object:
    with relax("flor", reason="both floors are below the noise"):
        batch = ReadSpeech(with_facets(floor=1e-9))()
        return WaveGlowLike()(mel=batch.mel)


@wrong("relax", "reason")
def relaxed_without_a_reason() -> object:
    with relax("floor", reason=" "):
        batch = ReadSpeech(with_facets(floor=1e-9))()
        return WaveGlowLike()(mel=batch.mel)


@wrong("facet", "scale is log10, not ln")
def something_else_relaxed() -> object:
    with relax("floor", reason="both floors are below the noise"):
        batch = ReadSpeech(with_facets(floor=1e-9, scale="log10"))()
        return WaveGlowLike()(mel=batch.mel)


@wrong("silence", "paddng", "padding")
def silenced_rule_misspelt() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    slow = Resample(16000, 8000)(audio=batch.audio)
    return Graph("slow", outputs={"audio": slow.audio}, silence={"paddng": "crops"})


@wrong(
    "facet", "MelSpectrogram.mel", "ConvEncoder.mel", "learned in training (de.neumo)", "hop is 200, not 160"
)
def weights_loaded_into_a_graph_of_other_frames() -> object:
    encoder = ConvEncoder.preset("an4")
    opened = spoken()
    frames = MelSpectrogram(hop=200)(audio=opened.audio, audio_len=opened.audio_len)
    states = encoder(mel=frames.mel, mel_len=frames.mel_len)
    set_learned(encoder, {"mel": Mel(hop=160, rate=16000, n_mels=64)}, source="de.neumo")
    return check_learned([states.encoded.step])


@wrong("name", "front", "MelSpectrogram", "ConvEncoder", "wrong_rules.py")
def two_modules_of_one_name() -> object:
    opened = spoken()
    frames = MelSpectrogram().named("front")(audio=opened.audio, audio_len=opened.audio_len)
    states = ConvEncoder.preset("an4").named("front")(mel=frames.mel, mel_len=frames.mel_len)
    return Graph("encode", outputs={"encoded": states.encoded})


@wrong("input", "audio", "speech.py")
def two_declarations_of_one_input() -> object:
    one, two = spoken(), spoken(rate=8000)
    wide = Resample(8000, 16000)(audio=two.audio, audio_len=two.audio_len)
    return Graph("both", outputs={"one": one.audio, "two": wide.audio})


@wrong("symbolic", "audio")
def value_used_as_data() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    return batch.audio.mean() if batch.audio else None


@wrong("output", "CTCLoss", "loss.loss")
def module_for_an_output() -> object:
    model = Recogniser()
    return Graph("again", "train", {"loss": model.ctc})


@wrong("immutable", "the outputs of graph 'train'", "graph.rename")
def graph_changed_after_it_was_made() -> object:
    graph = training(Recogniser())
    graph.outputs["other"] = graph.outputs["loss"]
    return graph


@wrong("when", "test", "train")
def port_for_the_mode_test() -> object:
    return Ids(LETTERS).only("test")[B, U]


@wrong("axis", "-1")
def width_below_zero() -> object:
    return Acoustic()[B, F(-1), T]


@wrong("clock", "100", "50")
def frames_that_contradict_their_hop() -> object:
    return Mel(rate=16000, hop=160)[B, F(64), T.at(50)]


@wrong("unsolved", "inputs.both", "JoinedTexts.both", "T + U", "!another number of frames")
def sum_of_two_unknown_sizes() -> object:
    opened = inputs(both=Text()[B, U, F(512)])
    return JoinedTexts()(both=opened.both)


@wrong("symbolic", "MelSpectrogram", "MelSpectrogram()(audio=")
def module_called_where_it_is_made() -> object:
    batch = SpeechData("train.jsonl", vocab=LETTERS)()
    ports: dict[str, Any] = {"audio": batch.audio, "audio_len": batch.audio_len}
    return MelSpectrogram(**ports)


@wrong("uncalled", "SpeechData", "audio", "()")
def layer_that_was_not_called() -> object:
    data: Any = SpeechData("train.jsonl", vocab=LETTERS)
    return MelSpectrogram()(audio=data.audio, audio_len=data.audio_len)


@wrong(
    "argument argument",
    "MelSpectrogram.audio",
    "inputs(audio=Audio(rate=16000)[B, T])",
    "!cannot take data",
)
def type_for_a_value() -> object:
    return MelSpectrogram()(audio=Audio(rate=16000)[B, T], audio_len=Lengths(T)[B])


@wrong("argument element", "AddLosses.losses", "BertLike.hidden", "Text is not Loss", "! ^^^\n")
def list_with_a_record_in_it() -> object:
    batch = TaggedTexts(PIECES, TAGS)()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask)
    scores = TagHead(TAGS)(hidden=hidden.hidden)
    one = SequenceLoss(TAGS)(logits=scores.logits, targets=batch.tags)
    return AddLosses()(losses=[one.loss, one, hidden.hidden])


@wrong("unknown-port", "'id'", "'msk'", "ids=batch.ids", "mask=batch.mask", "segments=batch.ids")
def three_ports_misspelt() -> object:
    batch = TaggedTexts(PIECES, TAGS)()
    return BertLike(PIECES)(id=batch.ids, msk=batch.mask, segmnts=batch.ids)


@wrong("lengths missing", "log_probs_len=states.encoded_len", "targets_len=batch.text_len")
def one_port_wrong_and_another_forgotten() -> object:
    model = Recogniser()
    batch, frames, states, scores = model.compose()  # noqa: RUF059
    return model.ctc(log_probs=scores.log_probs, log_probs_len=frames.mel_len, targets=batch.text)


@wrong("mode", "trian", "did you mean 'train'")
def mode_misspelt() -> object:
    return Graph("encode", "trian", {"audio": spoken().audio})  # type: ignore[arg-type]


@wrong("lengths", "inputs.n", "ConvEncoder.mel_len", "300")
def lengths_of_a_fixed_size() -> object:
    opened = inputs(mel=Mel(n_mels=64)[B, F(64), T(300)], n=Lengths(T)[B])
    return ConvEncoder.preset("an4")(mel=opened.mel, mel_len=opened.n)
