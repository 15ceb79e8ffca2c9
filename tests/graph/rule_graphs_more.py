"""More graphs for the rules: targets, modules under two vocabularies, masks, unused outputs."""

from __future__ import annotations

from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.multi import MultiData
from neumo.types import (
    B,
    C,
    Durations,
    F,
    Features,
    H,
    Ids,
    Image,
    Lengths,
    LogProbs,
    Mask,
    Probs,
    T,
    U,
    V,
    W,
)

from .rule_graphs import full, right, scored, wrong
from .rule_specs import (
    LABELS,
    OTHERS,
    WIDTH,
    Alignments,
    Attention,
    Best,
    Causal,
    CrossEntropy,
    Dense,
    Embed,
    Encoder,
    Front,
    Halve,
    Head,
    Image2D,
    MeanPool,
    Norm,
    Pairs,
    Rescore,
    Sentence,
    Sentences,
    Speech,
    Speller,
    Spread,
    Translator,
    Voices,
)
from .rule_specs_more import (
    Aligner,
    Distance,
    FrameLoss,
    Prosody,
    Reader,
    Search,
    Spaced,
    Speaker,
    Vision,
    Vocoder,
)

# target-in-inference


@wrong("target-in-inference", "logits")
def a_speller_that_is_fed_the_text() -> Graph:
    batch = Speech()()
    mel = Front()(audio=batch.audio, audio_len=batch.audio_len)
    states = Encoder()(mel=mel.mel, mel_len=mel.mel_len)
    spelt = Speller()(encoded=states.encoded, encoded_len=states.encoded_len, said=batch.text)
    return Graph("infer", "infer", {"logits": spelt.logits})


@wrong("target-in-inference", "mel")
def a_speaker_that_is_fed_the_frames() -> Graph:
    batch = Voices()()
    said = Reader()(text=batch.text, text_len=batch.text_len)
    spoken = Speaker()(encoded=said.encoded, encoded_len=said.encoded_len, heard=batch.mel)
    return Graph("infer", "infer", {"mel": spoken.mel})


@wrong("target-in-inference", "logits")
def a_translation_from_open_inputs_that_knows_the_answer() -> Graph:
    given = inputs(
        x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B], said=Ids(LABELS)[B, U], said_len=Lengths(U)[B]
    )
    logits = Speller()(encoded=given.x, encoded_len=given.x_len, said=given.said).logits
    loss = CrossEntropy()(logits=logits, targets=given.said, targets_len=given.said_len)
    return Graph("test", "infer", {"loss": loss.loss, "logits": logits})


@wrong("target-in-inference", "audio")
def audio_of_frames_that_were_given_away() -> Graph:
    batch = Voices()()
    said = Reader()(text=batch.text, text_len=batch.text_len)
    spoken = Speaker()(encoded=said.encoded, encoded_len=said.encoded_len, heard=batch.mel)
    return Graph("infer", "infer", {"audio": Vocoder()(mel=spoken.mel).audio})


@right
def a_speller_that_finds_the_text() -> Graph:
    batch = Speech()()
    mel = Front()(audio=batch.audio, audio_len=batch.audio_len)
    states = Encoder()(mel=mel.mel, mel_len=mel.mel_len)
    spelt = Speller()(encoded=states.encoded, encoded_len=states.encoded_len)
    return Graph("infer", "infer", {"logits": spelt.logits, "text": batch.text})


@right
def an_evaluation_that_uses_texts_as_it_should() -> Graph:
    batch = Speech()()
    scores, n = scored(batch)
    ids = Search()(scores=scores, scores_len=n)
    score = Distance()(
        hypothesis=ids.ids, hypothesis_len=ids.ids_len, reference=batch.text, reference_len=batch.text_len
    )
    loss = Alignments()(log_probs=scores, log_probs_len=n, targets=batch.text, targets_len=batch.text_len)
    return Graph("test", "infer", {"score": score.score, "loss": loss.loss, "ids": ids.ids})


@right
def an_alignment_of_a_text_that_is_known() -> Graph:
    batch = Speech()()
    scores, n = scored(batch)
    found = Aligner()(scores=scores, scores_len=n, text=batch.text, text_len=batch.text_len)
    return Graph("align", "infer", {"path": found.path, "found": found.found})


@right
def a_language_model_that_predicts_its_input() -> Graph:
    given = inputs(ids=Ids(LABELS)[B, T], ids_len=Lengths(T)[B])
    logits = Head()(x=Embed()(ids=given.ids).x).logits
    loss = CrossEntropy()(logits=logits, targets=given.ids, targets_len=given.ids_len)
    return Graph("test", "infer", {"loss": loss.loss, "logits": logits})


@right
def a_synthesis_of_the_texts_of_speech_data() -> Graph:
    batch = Speech()()
    said = Reader()(text=batch.text, text_len=batch.text_len)
    spoken = Speaker()(encoded=said.encoded, encoded_len=said.encoded_len)
    return Graph("infer", "infer", {"mel": spoken.mel, "n": spoken.mel_len})


@right
def a_training_that_feeds_the_text() -> Graph:
    batch = Speech()()
    mel = Front()(audio=batch.audio, audio_len=batch.audio_len)
    states = Encoder()(mel=mel.mel, mel_len=mel.mel_len)
    logits = Speller()(encoded=states.encoded, encoded_len=states.encoded_len, said=batch.text).logits
    loss = CrossEntropy()(logits=logits, targets=batch.text, targets_len=batch.text_len)
    return Graph("train", "train", {"loss": loss.loss, "logits": logits})


@wrong("target-in-inference", "logits")
def a_speller_that_is_fed_the_text_of_two_layers() -> Graph:
    both = MultiData(layers=(Sentences(), Speech()), names={"text": "said"})()
    mel = Front()(audio=both.audio, audio_len=both.audio_len)
    states = Encoder()(mel=mel.mel, mel_len=mel.mel_len)
    spelt = Speller()(encoded=states.encoded, encoded_len=states.encoded_len, said=both.said)
    return Graph("infer", "infer", {"logits": spelt.logits})


@right
def two_layers_without_targets() -> Graph:
    both = MultiData(layers=(Sentences(), Pairs()))()
    words = Embed()(ids=both.ids).x
    attended = Attention()(query=words, memory=Embed()(ids=both.source).x, memory_len=both.source_len)
    return Graph("infer", "infer", {"x": attended.x})


@right
def two_layers_of_which_the_first_gives_one_row() -> Graph:
    both = MultiData(layers=(Speech(batch_size=1), Pairs()))()
    return Graph("infer", "infer", {"x": Encoder()(mel=Front()(audio=both.audio).mel).encoded})


# one-module-two-vocabularies


@wrong("one-module-two-vocabularies", "Embed.ids")
def one_embedding_of_two_vocabularies() -> Graph:
    batch, embed = Pairs()(), Embed()
    return Graph(outputs={"one": embed(ids=batch.source).x, "two": embed(ids=batch.target).x})


@wrong("one-module-two-vocabularies", "Dense.x")
def one_layer_for_two_spaces() -> Graph:
    batch, dense = Sentences()(), Dense()
    one, two = Spaced("bert")(ids=batch.ids).x, Spaced("wav2vec")(ids=batch.ids).x
    return Graph(outputs={"one": dense(x=one).x, "two": dense(x=two).x})


@wrong("one-module-two-vocabularies", "Encoder.mel")
def one_encoder_of_two_frame_rates() -> Graph:
    batch, encoder = Speech()(), Encoder()
    slow, fast = (Front(hop)(audio=batch.audio, audio_len=batch.audio_len) for hop in (200, 160))
    one, two = (encoder(mel=mel.mel, mel_len=mel.mel_len).encoded for mel in (slow, fast))
    return Graph(outputs={"one": one, "two": two})


@wrong("one-module-two-vocabularies", "Vision.image")
def one_network_over_images_of_two_ranges() -> Graph:
    given = inputs(
        a=Image(channels="rgb", peak=1.0)[B, C(3), H, W], b=Image(channels="rgb", peak=255.0)[B, C(3), H, W]
    )
    vision = Vision()
    return Graph(outputs={"a": vision(image=given.a).x, "b": vision(image=given.b).x})


@wrong("one-module-two-vocabularies", "Rescore.scores")
def one_network_over_two_sets_of_scores() -> Graph:
    given = inputs(a=Probs(LABELS)[B, T, V(LABELS)], b=Probs(OTHERS)[B, T, V(OTHERS)])
    rescore = Rescore()
    return Graph(outputs={"a": rescore(scores=given.a).log_probs, "b": rescore(scores=given.b).log_probs})


@right
def one_encoder_called_twice_on_the_same_frames() -> Graph:
    batch, encoder, front = Speech()(), Encoder(), Front()
    mels = [front(audio=batch.audio, audio_len=batch.audio_len) for _ in range(2)]
    one, two = (encoder(mel=mel.mel, mel_len=mel.mel_len).encoded for mel in mels)
    return Graph(outputs={"one": one, "two": two})


@right
def one_embedding_of_a_vocabulary_and_its_extension() -> Graph:
    more, embed = LABELS.with_blank("end"), Embed()
    given = inputs(a=Ids(LABELS)[B, T], b=Ids(more)[B, U])
    return Graph(outputs={"a": embed(ids=given.a).x, "b": embed(ids=given.b).x})


@right
def a_module_without_weights_under_two_vocabularies() -> Graph:
    given = inputs(a=LogProbs(LABELS)[B, T, V(LABELS)], b=LogProbs(OTHERS)[B, T, V(OTHERS)])
    best = Best()
    return Graph(outputs={"a": best(scores=given.a).ids, "b": best(scores=given.b).ids})


@right
def one_layer_for_a_space_that_nobody_names() -> Graph:
    batch, dense = Sentences()(), Dense()
    one, two = Spaced("bert")(ids=batch.ids).x, Embed()(ids=batch.ids).x
    return Graph(outputs={"one": dense(x=one).x, "two": dense(x=two).x})


@right
def one_embedding_of_ids_that_nobody_names() -> Graph:
    given, embed = inputs(a=Ids()[B, T], b=Ids(LABELS)[B, U]), Embed()
    return Graph(outputs={"a": embed(ids=given.a).x, "b": embed(ids=given.b).x})


# padding-doubt


def padded_pair():
    return inputs(
        s=Features()[B, T, F(WIDTH)],
        s_pad=Mask(T, true="pad")[B, T],
        t=Features()[B, U, F(WIDTH)],
        t_len=Lengths(U)[B],
        t_pad=Mask(U, true="pad")[B, U],
        causal=Mask(U, true="pad")[U, U],
    )


@wrong("padding", "Translator.target")
def a_causal_mask_that_tells_nothing_of_rows() -> Graph:
    g = padded_pair()
    x = Translator()(source=g.s, target=g.t, source_pad=g.s_pad, memory_pad=g.s_pad, causal=g.causal).x
    return Graph("translate", outputs={"x": x, "n": g.t_len, "m": g.t_pad})


@wrong("padding-doubt", "Translator.memory_pad")
def one_mask_of_two() -> Graph:
    g = padded_pair()
    x = Translator()(source=g.s, target=g.t, source_pad=g.s_pad, target_pad=g.t_pad, causal=g.causal).x
    return Graph("translate", outputs={"x": x, "n": g.t_len})


@right
def both_masks_and_none_of_training() -> Graph:
    g = padded_pair()
    x = Translator()(
        source=g.s, target=g.t, source_pad=g.s_pad, memory_pad=g.s_pad, target_pad=g.t_pad, causal=g.causal
    ).x
    return Graph("translate", outputs={"x": x, "n": g.t_len})


@right
def a_causal_decoder_that_looks_back_only() -> Graph:
    g = inputs(x=Features()[B, U, F(WIDTH)], x_len=Lengths(U)[B], causal=Mask(U, true="pad")[U, U])
    return Graph("decode", outputs={"x": Causal()(x=g.x, causal=g.causal).x, "n": g.x_len})


@right
def masks_of_one_row_beside_each_other() -> Graph:
    g = inputs(
        s=Features()[B(1), T, F(WIDTH)], m=Mask(T, true="pad")[B(1), T], t=Features()[B(1), U, F(WIDTH)]
    )
    return Graph("translate", outputs={"x": Translator()(source=g.s, target=g.t, source_pad=g.m).x})


@wrong("padding-doubt", "Sentence.x")
def a_padded_axis_that_vanishes() -> Graph:
    g = inputs(x=Features()[B, T, F(WIDTH)], x_len=Lengths(T)[B])
    return Graph("pool", outputs={"x": Sentence()(x=g.x).x, "n": g.x_len})


@wrong("padding-doubt", "Halve.x")
def a_padded_axis_that_is_divided() -> Graph:
    g = inputs(x=Features()[B, T, F(WIDTH)], x_len=Lengths(T)[B])
    return Graph("halve", outputs={"x": Halve()(x=g.x).x, "n": g.x_len})


@right
def a_position_that_is_picked() -> Graph:
    g = inputs(x=Features()[B, T, F(WIDTH)], x_len=Lengths(T)[B])
    return Graph("pick", outputs={"x": Sentence(picks=True)(x=g.x).x, "n": g.x_len})


@right
def a_sum_over_what_is_not_padded() -> Graph:
    g = inputs(
        x=Features()[B, T, F(WIDTH)],
        y=Features()[B(1), U, F(WIDTH)],
        y_len=Lengths(U)[B],
        z=Features()[B, T(None), F(WIDTH)],
    )
    pool = Sentence()
    return Graph("pool", outputs={"x": pool(x=g.x).x, "y": pool(x=g.y).x, "n": g.y_len, "z": pool(x=g.z).x})


@right
def durations_that_show_the_padding() -> Graph:
    g = inputs(x=Features()[B, T, F(WIDTH)], n=Lengths(T)[B], lasts=Durations(unit="frames")[B, T])
    return Graph("spread", outputs={"x": Spread()(x=g.x, lasts=g.lasts).x, "n": g.n})


@right
def a_padded_axis_that_is_there_times_another() -> Graph:
    g = inputs(x=Features()[B, T, F(WIDTH)], n=Lengths(T)[B], y=Features()[B, H])
    return Graph("spread", outputs={"x": Image2D()(x=g.x, y=g.y).x, "n": g.n})


@right
def a_loss_over_all_positions() -> Graph:
    g = inputs(x=Features()[B, T, F(WIDTH)], n=Lengths(T)[B])
    return Graph("norm", outputs={"x": Norm()(x=g.x).loss, "n": g.n})


# unused-output


@wrong("unused-output", "inputs.x_len")
def declared_lengths_that_nothing_reads() -> Graph:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B])
    return Graph(outputs={"x": Dense()(x=given.x).x})


@wrong("unused-output", "inputs.mask")
def a_declared_mask_that_nothing_reads() -> Graph:
    given = inputs(ids=Ids(LABELS)[B, T], mask=Mask(T, true="keep")[B, T])
    return Graph(outputs={"x": Embed()(ids=given.ids).x})


@wrong("unused-output", "Speaker.stop")
def a_training_that_never_teaches_when_to_stop() -> Graph:
    batch = Voices()()
    said = Reader()(text=batch.text, text_len=batch.text_len)
    spoken = Speaker()(encoded=said.encoded, encoded_len=said.encoded_len, heard=batch.mel)
    loss = FrameLoss()(given=spoken.mel, wanted=batch.mel, frames_len=batch.mel_len)
    return Graph("train", "train", {"loss": loss.loss})


@wrong("unused-output", "Prosody.pitch")
def a_pitch_that_nothing_trains() -> Graph:
    batch = Voices()()
    said = Reader()(text=batch.text, text_len=batch.text_len)
    read = Prosody()(encoded=said.encoded)
    spoken = Speaker()(encoded=read.encoded, encoded_len=said.encoded_len, heard=batch.mel)
    loss = FrameLoss()(given=spoken.mel, wanted=batch.mel, frames_len=batch.mel_len)
    return Graph("train", "train", {"loss": loss.loss, "stop": spoken.stop})


@wrong("unused-output", "Speech.text")
def a_training_on_speech_without_the_texts() -> Graph:
    batch = Speech()()
    scores, n = scored(batch)
    return Graph("train", "train", {"scores": scores, "n": n})


@wrong("unused-output", "CrossEntropy.loss")
def a_loss_of_which_only_the_flags_are_used() -> Graph:
    batch = Sentences()()
    logits = Head(OTHERS)(x=Embed()(ids=batch.ids).x).logits
    loss = CrossEntropy()(logits=logits, targets=batch.tags, targets_len=full(batch))
    return Graph("train", "train", {"wrong": loss.wrong})


@right
def open_inputs_that_two_graphs_share() -> Graph:
    given = inputs(
        x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B], text=Ids(LABELS)[B, U], text_len=Lengths(U)[B]
    )
    attended = Attention()(query=given.x, memory=given.x, memory_len=given.x_len)
    return Graph("infer", "infer", {"x": attended.x})


@right
def open_inputs_with_lengths_and_a_mask() -> Graph:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B], mask=Mask(T, true="keep")[B, T])
    return Graph(outputs={"x": MeanPool()(x=given.x, mask=given.mask).x})


@right
def a_speaker_that_nobody_asks_when_to_stop() -> Graph:
    batch = Voices()()
    said = Reader()(text=batch.text, text_len=batch.text_len)
    spoken = Speaker()(encoded=said.encoded, encoded_len=said.encoded_len)
    return Graph("infer", "infer", {"mel": spoken.mel})


@right
def a_training_on_speech_that_has_no_texts() -> Graph:
    scores, n = scored(Speech(with_text=False)())
    return Graph("train", "train", {"scores": scores, "n": n})


@right
def a_training_that_uses_one_of_two_results_of_a_loss() -> Graph:
    batch = Sentences()()
    logits = Head(OTHERS)(x=Embed()(ids=batch.ids).x).logits
    loss = CrossEntropy()(logits=logits, targets=batch.tags, targets_len=full(batch))
    return Graph("train", "train", {"loss": loss.loss})
