"""Graphs that break rules and graphs that keep them: padding, losses, normalised scores."""

from __future__ import annotations

from collections.abc import Callable

from neumo.graph.adapters import MaskToLengths
from neumo.graph.assume import assume
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.types import (
    Any_,
    Audio,
    B,
    F,
    Features,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Mel,
    Probs,
    Scores,
    T,
    U,
    V,
)

from .rule_specs import (
    LABELS,
    OTHERS,
    WIDTH,
    Alignments,
    Attention,
    BareConv,
    Best,
    Crops,
    CrossEntropy,
    Dense,
    Embed,
    Encoder,
    Front,
    Group,
    Head,
    ListPool,
    MeanPool,
    Normalise,
    ProbHead,
    Rescore,
    Sentences,
    Sharpen,
    Smooth,
    Speech,
    ToOthers,
    Voices,
)
from .rule_specs_more import (
    Distance,
    EditLoss,
    FrameLoss,
    Measure,
    Reader,
    Search,
    Speaker,
    Speed,
    SumLoss,
    Vocoder,
)

WRONG: dict[str, tuple[str, str, Callable[[], Graph]]] = {}
RIGHT: dict[str, Callable[[], Graph]] = {}
Build = Callable[[], Graph]


def wrong(rule: str, about: str) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        WRONG[build.__name__] = (rule, about, build)
        return build

    return add


def right(build: Build) -> Build:
    RIGHT[build.__name__] = build
    return build


# Parts that several graphs have in common.


def scored(batch: object) -> tuple[object, object]:
    """Log-probabilities of a recogniser with all its lengths, and the lengths."""
    mel = Front()(audio=batch.audio, audio_len=batch.audio_len)
    states = Encoder()(mel=mel.mel, mel_len=mel.mel_len)
    return ProbHead()(x=states.encoded).log_probs, states.encoded_len


def recognised(batch: object) -> object:
    scores, n = scored(batch)
    return Alignments()(
        log_probs=scores, log_probs_len=n, targets=batch.text, targets_len=batch.text_len
    ).loss


def full(batch: object) -> object:
    """The lengths of sentences that have a mask."""
    return MaskToLengths()(mask=batch.mask).lengths


# padding


@wrong("padding", "Encoder.mel")
def an_encoder_without_lengths() -> Graph:
    batch = Speech()()
    mel = Front()(audio=batch.audio, audio_len=batch.audio_len)
    return Graph(outputs={"x": Encoder()(mel=mel.mel).encoded})


@wrong("padding", "Front.audio")
def a_front_end_without_lengths() -> Graph:
    batch = Speech()()
    mel = Front()(audio=batch.audio)
    return Graph(outputs={"x": mel.mel, "n": batch.audio_len})


@wrong("padding", "BareConv.x")
def a_convolution_that_takes_no_lengths() -> Graph:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B])
    return Graph(outputs={"x": BareConv()(x=given.x).x, "n": given.x_len})


@wrong("padding", "Attention.memory")
def an_attention_over_a_padded_memory() -> Graph:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B], q=Features()[B, F(WIDTH), U])
    attended = Attention()(query=given.q, memory=given.x)
    return Graph(outputs={"x": attended.x, "n": given.x_len})


@wrong("padding", "MeanPool.x")
def a_mean_over_padded_words() -> Graph:
    batch = Sentences()()
    words = Embed()(ids=batch.ids)
    return Graph(outputs={"x": MeanPool()(x=words.x).x})


@wrong("padding", "CrossEntropy.logits")
def a_loss_that_counts_padding() -> Graph:
    given = inputs(ids=Ids(LABELS)[B, T], ids_len=Lengths(T)[B], tags=Ids(LABELS)[B, T])
    logits = Head()(x=Embed()(ids=given.ids).x).logits
    loss = CrossEntropy()(logits=logits, targets=given.tags)
    return Graph("train", "train", {"loss": loss.loss, "n": given.ids_len})


@wrong("padding", "Distance.reference")
def a_metric_that_reads_padding_of_the_reference() -> Graph:
    batch = Speech()()
    scores, n = scored(batch)
    ids = Search()(scores=scores, scores_len=n)
    score = Distance()(hypothesis=ids.ids, hypothesis_len=ids.ids_len, reference=batch.text)
    return Graph("test", "infer", {"score": score.score})


@wrong("padding", "Distance.hypothesis")
def a_metric_that_reads_padding_of_what_was_found() -> Graph:
    batch = Speech()()
    scores, n = scored(batch)
    ids = Search()(scores=scores, scores_len=n)
    score = Distance()(hypothesis=ids.ids, reference=batch.text, reference_len=batch.text_len)
    return Graph("test", "infer", {"score": score.score})


@wrong("padding", "Encoder.mel")
def lengths_that_a_module_makes_are_left_out() -> Graph:
    given = inputs(audio=Audio(rate=16000)[B, T], audio_len=Lengths(T)[B])
    faster = Speed()(audio=given.audio, audio_len=given.audio_len)
    mel = Front()(audio=faster.audio, audio_len=faster.audio_len)
    return Graph(outputs={"x": Encoder()(mel=mel.mel).encoded, "n": mel.mel_len})


@right
def a_recogniser_with_all_its_lengths() -> Graph:
    return Graph("train", "train", {"loss": recognised(Speech()())})


@right
def a_recogniser_of_crops_of_one_size() -> Graph:
    mel = Front()(audio=Crops()().audio)
    return Graph(outputs={"x": Encoder()(mel=mel.mel).encoded})


@right
def a_recogniser_of_one_request() -> Graph:
    given = inputs(audio=Audio(rate=16000)[B(1), T], audio_len=Lengths(T)[B(1)])
    mel = Front()(audio=given.audio)
    return Graph("infer", "infer", {"x": Encoder()(mel=mel.mel).encoded, "n": given.audio_len})


@right
def a_recogniser_of_batches_of_one() -> Graph:
    mel = Front()(audio=Speech(batch_size=1)().audio)
    return Graph(outputs={"x": Encoder()(mel=mel.mel).encoded})


@right
def an_encoder_of_frames_whose_lengths_nobody_knows() -> Graph:
    given = inputs(mel=Mel()[B, F(80), T])
    return Graph(outputs={"x": Encoder()(mel=given.mel).encoded})


@right
def lengths_that_were_measured_afterwards() -> Graph:
    given = inputs(mel=Mel()[B, F(80), T])
    full = Measure()(mel=given.mel)
    return Graph(outputs={"x": Encoder()(mel=given.mel).encoded, "n": full.mel_len})


@right
def a_dense_layer_that_passes_lengths_on() -> Graph:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B])
    return Graph(outputs={"x": Dense()(x=given.x).x, "n": given.x_len})


@right
def a_pooling_that_is_masked() -> Graph:
    batch = Sentences()()
    words = Embed()(ids=batch.ids)
    return Graph(outputs={"x": MeanPool()(x=words.x, mask=batch.mask).x})


@right
def an_attention_with_lengths_in_the_place_of_a_mask() -> Graph:
    given = inputs(x=Features()[B, F(WIDTH), T], x_len=Lengths(T)[B], q=Features()[B, F(WIDTH), U])
    attended = Attention()(query=given.q, memory=given.x, memory_len=given.x_len)
    return Graph(outputs={"x": attended.x})


@right
def a_list_of_sequences_that_are_not_padded() -> Graph:
    given = inputs(x=Features()[B.list(), T], x_len=Lengths(T)[B])
    return Graph(outputs={"x": ListPool()(x=given.x).x, "n": given.x_len})


# loss-reaches-weights and untrained-module


@wrong("loss-reaches-weights", "Alignments.loss")
def a_loss_of_scores_that_come_from_outside() -> Graph:
    given = inputs(
        scores=LogProbs(LABELS)[B, T, V(LABELS)], n=Lengths(T)[B], text=Ids(LABELS)[B, U], m=Lengths(U)[B]
    )
    loss = Alignments()(
        log_probs=given.scores, log_probs_len=given.n, targets=given.text, targets_len=given.m
    )
    return Graph("train", "train", {"loss": loss.loss})


@wrong("loss-reaches-weights", "EditLoss.loss")
def a_loss_behind_the_best_labels() -> Graph:
    batch = Speech()()
    scores, n = scored(batch)
    ids = Search()(scores=scores, scores_len=n).ids
    return Graph("train", "train", {"loss": EditLoss()(hypothesis=ids, reference=batch.text).loss})


@wrong("loss-reaches-weights", "SumLoss.loss")
def a_sum_of_losses_behind_the_best_words() -> Graph:
    batch = Sentences()()
    ids = Best()(scores=Head()(x=Embed()(ids=batch.ids).x).logits).ids
    losses = [EditLoss()(hypothesis=ids, reference=batch.ids).loss]
    return Graph("train", "train", {"loss": SumLoss()(losses=losses).loss})


@wrong("untrained-module", "ProbHead_2")
def a_second_head_that_only_predicts() -> Graph:
    batch = Speech()()
    mel = Front()(audio=batch.audio, audio_len=batch.audio_len)
    states = Encoder()(mel=mel.mel, mel_len=mel.mel_len)
    loss = Alignments()(
        log_probs=ProbHead()(x=states.encoded).log_probs,
        log_probs_len=states.encoded_len,
        targets=batch.text,
        targets_len=batch.text_len,
    )
    return Graph("train", "train", {"loss": loss.loss, "p": ProbHead()(x=states.encoded).log_probs})


@wrong("untrained-module", "chooser")
def a_chooser_of_words_that_are_embedded_again() -> Graph:
    given = inputs(x=Features()[B, F(WIDTH), T], tags=Ids(OTHERS)[B, T])
    words = Best()(scores=Head().named("chooser")(x=given.x).logits).ids
    logits = Head(OTHERS).named("tagger")(x=Embed()(ids=words).x).logits
    return Graph("train", "train", {"loss": CrossEntropy()(logits=logits, targets=given.tags).loss})


@wrong("untrained-module", "Vocoder")
def a_vocoder_beside_a_loss_of_frames() -> Graph:
    batch = Voices()()
    said = Reader()(text=batch.text, text_len=batch.text_len)
    spoken = Speaker()(encoded=said.encoded, encoded_len=said.encoded_len, heard=batch.mel)
    loss = FrameLoss()(given=spoken.mel, wanted=batch.mel, frames_len=batch.mel_len)
    outputs = {"loss": loss.loss, "audio": Vocoder()(mel=spoken.mel).audio, "stop": spoken.stop}
    return Graph("train", "train", outputs)


@right
def a_synthesis_that_trains_all_of_it() -> Graph:
    batch = Voices()()
    said = Reader()(text=batch.text, text_len=batch.text_len)
    spoken = Speaker()(encoded=said.encoded, encoded_len=said.encoded_len, heard=batch.mel)
    loss = FrameLoss()(given=spoken.mel, wanted=batch.mel, frames_len=batch.mel_len)
    return Graph("train", "train", {"loss": loss.loss, "stop": spoken.stop})


@right
def a_module_that_the_loss_reaches_in_one_of_two_calls() -> Graph:
    batch, embed = Sentences()(), Embed()
    again = embed(ids=batch.ids).x
    logits = Head(OTHERS)(x=embed(ids=batch.ids).x).logits
    loss = CrossEntropy()(logits=logits, targets=batch.tags, targets_len=full(batch)).loss
    return Graph("train", "train", {"loss": loss, "x": again})


@right
def a_loss_of_fixed_scores_that_is_only_looked_at() -> Graph:
    batch = Speech()()
    scores, n = scored(batch)
    ids = Search()(scores=scores, scores_len=n).ids
    return Graph("test", "infer", {"loss": EditLoss()(hypothesis=ids, reference=batch.text).loss})


@right
def a_training_whose_loss_is_made_elsewhere() -> Graph:
    batch = Speech()()
    scores, n = scored(batch)
    return Graph("train", "train", {"scores": scores, "n": n, "text": batch.text, "text_len": batch.text_len})


@right
def two_losses_of_which_each_trains_a_head() -> Graph:
    batch = Speech()()
    return Graph("train", "train", {"one": recognised(batch), "two": recognised(batch)})


# softmax-twice


@wrong("softmax-twice", "Normalise.scores")
def probabilities_that_are_normalised_again() -> Graph:
    scores, n = scored(Speech()())
    return Graph("infer", "infer", {"p": Normalise()(scores=scores).probs, "n": n})


@wrong("softmax-twice", "Normalise.scores")
def probabilities_that_are_sharpened_and_normalised_again() -> Graph:
    given = inputs(p=Probs(LABELS)[B, T, V(LABELS)])
    return Graph(outputs={"p": Normalise()(scores=Sharpen()(scores=given.p).logits).probs})


@wrong("softmax-twice", "CrossEntropy.logits")
def log_probabilities_as_logits_of_a_loss() -> Graph:
    batch = Sentences()()
    scores = ProbHead(OTHERS)(x=Embed()(ids=batch.ids).x).log_probs
    logits = Sharpen()(scores=scores).logits
    loss = CrossEntropy()(logits=logits, targets=batch.tags, targets_len=full(batch))
    return Graph("train", "train", {"loss": loss.loss})


@wrong("softmax-twice", "Normalise.scores")
def probabilities_that_nobody_knows_to_be_some() -> Graph:
    given = inputs(p=Probs(LABELS)[B, T, V(LABELS)])
    smooth = Smooth()(x=Smooth()(x=given.p).x)
    scores = assume(smooth.x, Scores(LABELS)[B, T, V(LABELS)], reason="there is one for each label")
    return Graph(outputs={"p": Normalise()(scores=scores).probs})


@wrong("softmax-twice", "Normalise.scores")
def probabilities_of_labels_that_nobody_names() -> Graph:
    given = inputs(p=Probs()[B, T, V])
    return Graph(outputs={"p": Normalise()(scores=given.p).probs})


@right
def probabilities_of_groups_of_labels() -> Graph:
    given = inputs(p=Probs()[B, T, V])
    return Graph(outputs={"p": Group()(scores=given.p).probs})


@right
def logits_that_are_normalised_once() -> Graph:
    given = inputs(x=Features()[B, F(WIDTH), T])
    return Graph(outputs={"p": Normalise()(scores=Head()(x=given.x).logits).probs})


@right
def logits_that_are_sharpened_and_normalised() -> Graph:
    given = inputs(x=Features()[B, F(WIDTH), T])
    sharp = Sharpen()(scores=Head()(x=given.x).logits)
    return Graph(outputs={"p": Normalise()(scores=sharp.logits).probs})


@right
def scores_that_another_network_takes() -> Graph:
    given = inputs(p=Probs(LABELS)[B, T, V(LABELS)])
    return Graph(outputs={"p": Rescore()(scores=given.p).log_probs})


@right
def probabilities_of_other_labels() -> Graph:
    given = inputs(p=Probs(LABELS)[B, T, V(LABELS)])
    return Graph(outputs={"p": ToOthers()(scores=given.p).probs})


@right
def the_best_of_log_probabilities() -> Graph:
    scores, n = scored(Speech()())
    return Graph("infer", "infer", {"ids": Best()(scores=scores).ids, "n": n})


@right
def something_smoothed_that_was_no_probability() -> Graph:
    smooth = Smooth()(x=inputs(x=Any_()[B, T, V]).x)
    scores = assume(smooth.x, Scores(LABELS)[B, T, V(LABELS)], reason="there is one for each label")
    return Graph(outputs={"p": Normalise()(scores=scores).probs})


@right
def probabilities_that_somebody_says_are_logits() -> Graph:
    given = inputs(p=Probs(LABELS)[B, T, V(LABELS)])
    smooth = Smooth()(x=given.p)
    logits = assume(smooth.x, Logits(LABELS)[B, T, V(LABELS)], reason="this one takes the logarithm, too")
    return Graph(outputs={"p": Normalise()(scores=logits).probs})
