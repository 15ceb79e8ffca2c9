"""Right graphs of language models."""

from __future__ import annotations

from typing import Any

from neumo import (
    B,
    F,
    Graph,
    Ids,
    Lengths,
    Mask,
    Struct,
    T,
    Text,
    U,
    V,
    inputs,
)
from neumo.graph.adapters import (
    Append,
    Concat,
    Default,
    Fallback,
    Invert,
    LengthsToMask,
    Pick,
    Reduce,
    Reframe,
    RemapIds,
    Repad,
    Shift,
)

from .language import (
    DEUTSCH,
    HOTEL,
    INTENTS,
    PIECES,
    SLOTS,
    TAGS,
    TAGS_SORTED,
    TOPICS,
    Answer,
    BeamOfTranslations,
    BertLike,
    CausalLM,
    CommandTexts,
    IntentSlotHead,
    OutputLayer,
    Overlap,
    ParallelTexts,
    PieceEmbedding,
    PlainTexts,
    PoolTexts,
    QuestionTexts,
    RawTexts,
    SequenceLoss,
    SlotTracker,
    SmoothedLoss,
    SourceEncoder,
    SpanHead,
    SpanLoss,
    TaggedTexts,
    TagHead,
    TargetDecoder,
    TopicHead,
    TopicTexts,
    TorchAttention,
    WordPieces,
)
from .matches import right
from .speech import (
    AddLosses,
    ClassLoss,
)


def hidden_of(batch: Any, **facets: Any) -> Any:
    """Encode tokens."""
    return BertLike(PIECES, **facets)(ids=batch.ids, mask=batch.mask).hidden


@right
def token_classifier() -> Graph:
    batch = TaggedTexts(PIECES, TAGS)()
    scores = TagHead(TAGS)(hidden=hidden_of(batch))
    loss = SequenceLoss(TAGS)(logits=scores.logits, targets=batch.tags)
    return Graph("train", "train", {"loss": loss.loss})


@right
def token_classifier_of_other_order_and_padding() -> Graph:
    batch = TaggedTexts(PIECES, TAGS, pad=0)()
    padded = Repad(0, -100)(ids=batch.tags, ids_len=batch.ids_len)
    tags = RemapIds(TAGS, TAGS_SORTED)(ids=padded.ids)
    scores = TagHead(TAGS_SORTED)(hidden=hidden_of(batch))
    loss = SequenceLoss(TAGS_SORTED)(logits=scores.logits, targets=tags.ids)
    return Graph("train", "train", {"loss": loss.loss})


@right
def topic_classifier() -> Graph:
    batch = TopicTexts(PIECES, TOPICS)()
    scores = TopicHead(TOPICS)(hidden=hidden_of(batch))
    loss = ClassLoss(TOPICS)(logits=scores.logits, labels=batch.topic)
    return Graph("train", "train", {"loss": loss.loss})


@right
def loss_of_each_row_reduced() -> Graph:
    batch = TopicTexts(PIECES, TOPICS)()
    scores = TopicHead(TOPICS)(hidden=hidden_of(batch))
    each = ClassLoss(TOPICS, reduction="none")(logits=scores.logits, labels=batch.topic)
    return Graph("train", "train", {"loss": Reduce("mean")(loss=each.loss).loss})


@right
def intent_and_slots() -> Graph:
    batch = CommandTexts()()
    scores = IntentSlotHead()(hidden=hidden_of(batch))
    intent = ClassLoss(INTENTS)(logits=scores.intent, labels=batch.intent)
    slots = SequenceLoss(SLOTS)(logits=scores.slots, targets=batch.slots)
    return Graph("train", "train", {"loss": AddLosses()(losses=[intent.loss, slots.loss]).loss})


@right
def span_of_an_answer() -> Graph:
    batch = QuestionTexts()()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask, segments=batch.segments)
    scores = SpanHead()(hidden=hidden.hidden)
    loss = SpanLoss()(
        start_logits=scores.start,
        end_logits=scores.end,
        start=batch.start,
        end=batch.end,
        mask=batch.mask,
    )
    return Graph("train", "train", {"loss": loss.loss})


@right
def best_answer() -> Graph:
    opened = inputs(ids=Ids(PIECES, frame="bos..eos")[B, T], mask=Mask(T, true="keep")[B, T])
    scores = SpanHead()(hidden=hidden_of(opened))
    best = Answer()(start_logits=scores.start, end_logits=scores.end)
    return Graph("answer", "infer", {"start": Pick("start")(value=best.answer).value})


@right
def language_model() -> Graph:
    batch = PlainTexts(PIECES)()
    scores = CausalLM(PIECES)(ids=batch.ids)
    loss = SequenceLoss(PIECES, shifted=True)(logits=scores.logits, targets=batch.labels)
    return Graph("train", "train", {"loss": loss.loss})


@right
def language_model_whose_labels_are_shifted_in_the_graph() -> Graph:
    opened = inputs(ids=Ids(PIECES, pad=-100, frame="bos..", shifted=False)[B, T])
    labels = Shift(-100)(ids=opened.ids)
    scores = CausalLM(PIECES)(ids=opened.ids)
    loss = SequenceLoss(PIECES, shifted=True)(logits=scores.logits, targets=labels.ids)
    return Graph("train", "train", {"loss": loss.loss})


@right
def embedding_with_tied_width() -> Graph:
    batch = PlainTexts(PIECES)()
    embedded = PieceEmbedding(PIECES, width=256)(ids=batch.ids)
    scores = OutputLayer(PIECES, width=256)(hidden=embedded.embedded)
    labels = Repad(-100, 0)(ids=batch.labels, ids_len=batch.ids_len)
    loss = SmoothedLoss(PIECES)(log_probs=scores.log_probs, targets=labels.ids, targets_mask=batch.mask)
    return Graph("train", "train", {"loss": loss.loss})


def translate(batch: Any) -> tuple[Any, Any]:
    """Compose the scores of a translation, taught."""
    memory = SourceEncoder(DEUTSCH)(ids=batch.source, mask=batch.source_mask)
    embedded = PieceEmbedding(PIECES)(ids=batch.target)
    hidden = TargetDecoder()(embedded=embedded.embedded, memory=memory.memory, memory_mask=batch.source_mask)
    return memory, OutputLayer(PIECES)(hidden=hidden.hidden)


@right
def translation() -> Graph:
    batch = ParallelTexts(DEUTSCH, PIECES)()
    _, scores = translate(batch)
    loss = SmoothedLoss(PIECES)(
        log_probs=scores.log_probs, targets=batch.labels, targets_mask=batch.target_mask
    )
    return Graph("train", "train", {"loss": loss.loss})


@right
def translation_searched_and_measured() -> Graph:
    batch = ParallelTexts(DEUTSCH, PIECES)()
    memory = SourceEncoder(DEUTSCH)(ids=batch.source, mask=batch.source_mask)
    found = BeamOfTranslations(PIECES)(memory=memory.memory, memory_mask=batch.source_mask)
    overlap = Overlap(PIECES)(
        hypotheses=found.ids,
        hypotheses_len=found.ids_len,
        references=batch.labels,
        references_len=batch.labels_len,
    )
    return Graph("evaluate", "infer", {"overlap": overlap.score, "score": found.score})


@right
def cross_attention_over_another_length() -> Graph:
    opened = inputs(query=Text()[B, U, F(768)], key=Text()[B, T, F(768)], mask=Mask(T, true="keep")[B, T])
    attended = TorchAttention()(
        query=opened.query, key=opened.key, key_padding_mask=Invert()(mask=opened.mask).mask
    )
    return Graph("attend", outputs=attended)


@right
def self_attention_six_times() -> Graph:
    opened = inputs(hidden=Text()[B, T, F(768)], mask=Mask(T, true="pad")[B, T])
    hidden = opened.hidden
    for _ in range(6):
        hidden = TorchAttention()(query=hidden, key=hidden, key_padding_mask=opened.mask).attended
    return Graph("encode", outputs={"hidden": hidden})


@right
def texts_cut_into_pieces() -> Graph:
    cut = WordPieces(PIECES)(texts=RawTexts()().texts)
    pooled = PoolTexts()(hidden=hidden_of(cut), mask=cut.mask)
    return Graph("embed", "infer", {"pooled": pooled.pooled})


@right
def marks_put_around_texts() -> Graph:
    opened = inputs(ids=Ids(PIECES, pad=0, frame="none")[B, T], n=Lengths(T)[B])
    marked = Reframe("none", "bos..eos", PIECES)(ids=opened.ids, ids_len=opened.n)
    mask = LengthsToMask()(lengths=marked.ids_len, like=marked.ids)
    hidden = BertLike(PIECES)(ids=marked.ids, mask=mask.mask)
    return Graph("encode", outputs=hidden)


@right
def prompt_and_text_in_one_row() -> Graph:
    opened = inputs(
        prompt=Ids(PIECES)[B, T], prompt_len=Lengths(T)[B], text=Ids(PIECES)[B, U], n=Lengths(U)[B]
    )
    joined = Append()(
        first=opened.prompt, second=opened.text, first_len=opened.prompt_len, second_len=opened.n
    )
    mask = LengthsToMask()(lengths=joined.length, like=joined.value)
    return Graph("encode", outputs=BertLike(PIECES)(ids=joined.value, mask=mask.mask))


@right
def optional_segments_filled_in() -> Graph:
    opened = inputs(
        ids=Ids(PIECES, frame="bos..eos")[B, T],
        mask=Mask(T, true="keep")[B, T],
        segments=Ids().optional()[B, T],
    )
    filled = Default(0)(value=opened.segments, like=opened.ids)
    one = BertLike(PIECES)(ids=opened.ids, mask=opened.mask, segments=filled.value)
    two = BertLike(PIECES)(ids=opened.ids, mask=opened.mask, segments=opened.segments)
    return Graph("encode", outputs={"one": one.hidden, "two": two.hidden})


@right
def optional_prompt_with_a_fallback() -> Graph:
    prompt = Ids(PIECES, frame="bos..eos")
    opened = inputs(prompt=prompt.optional()[B, T], ids=prompt[B, T], mask=Mask(T, true="keep")[B, T])
    chosen = Fallback()(value=opened.prompt, otherwise=opened.ids)
    return Graph("encode", outputs=BertLike(PIECES)(ids=chosen.value, mask=opened.mask))


@right
def dialogue_of_three_turns() -> Graph:
    from neumo import DialogueState

    opened = inputs(
        hidden=Text()[B, T, F(768)],
        n=Lengths(T)[B],
        start=DialogueState(HOTEL)[B, V(HOTEL)],
    )
    state, tracker = opened.start, SlotTracker(HOTEL)
    for _ in range(3):
        state = tracker(hidden=opened.hidden, before=state).state
    return Graph("track", "infer", {"state": state, "n": opened.n})


@right
def more_fields_than_wanted() -> Graph:
    opened = inputs(
        best=Struct(ids=Ids(PIECES)[B, U], n=Lengths(U)[B], more=Ids()[B])[()],
    )
    return Graph("pick", outputs=Pick("ids")(value=opened.best))


@right
def two_encoders_side_by_side() -> Graph:
    batch = TaggedTexts(PIECES, TAGS)()
    one, two = hidden_of(batch), hidden_of(batch, space="roberta", width=1024)
    joined = Concat(axis=2)(first=one, second=two)
    scores = TagHead(TAGS, width=1792)(hidden=joined.value)
    loss = SequenceLoss(TAGS)(logits=scores.logits, targets=batch.tags)
    return Graph("train", "train", {"loss": loss.loss})


@right
def masked_language_model_and_topic_together() -> Graph:
    words = inputs(
        ids=Ids(PIECES, frame="bos..eos")[B, T],
        mask=Mask(T, true="keep")[B, T],
        labels=Ids(PIECES, pad=-100)[B, T],
        topic=Ids(TOPICS)[B],
    )
    hidden = hidden_of(words)
    masked = SequenceLoss(PIECES)(logits=TagHead(PIECES)(hidden=hidden).logits, targets=words.labels)
    topic = ClassLoss(TOPICS)(logits=TopicHead(TOPICS)(hidden=hidden).logits, labels=words.topic)
    return Graph("train", "train", {"loss": AddLosses()(losses=[masked.loss, topic.loss]).loss})
