"""Wrong graphs of language models, as users write them."""

from __future__ import annotations

from neumo import (
    B,
    DialogueState,
    F,
    Graph,
    Hypotheses,
    Ids,
    Lengths,
    Logits,
    LogProbs,
    Mask,
    Positions,
    Probs,
    Score,
    Strings,
    Struct,
    T,
    Text,
    U,
    V,
    Vocab,
    inputs,
)
from neumo.graph.adapters import Append, Concat, Default, Reframe, Repad
from neumo.graph.rules import check_rules

from .language import (
    CASED,
    DEUTSCH,
    HOTEL,
    INTENTS,
    LARGER,
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
    Cut,
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
from .mistakes import wrong
from .small import OptionalMask
from .speech import ClassLoss


@wrong("vocab", "TaggedTexts.ids", "BertLike.ids", "other labels", "'the'", "'The'")
def uncased_texts_into_cased_encoder() -> object:
    batch = TaggedTexts(PIECES, TAGS)()
    return BertLike(CASED)(ids=batch.ids, mask=batch.mask)


@wrong("vocab", "TaggedTexts.ids", "BertLike.ids", "'dog'", "'ran'")
def more_pieces_than_the_encoder_has() -> object:
    batch = TaggedTexts(LARGER, TAGS)()
    return BertLike(PIECES)(ids=batch.ids, mask=batch.mask)


@wrong(
    "facet",
    "inputs.ids",
    "BertLike.ids",
    "frame is none, not bos..eos",
    "Reframe(none -> bos..eos)",
)
def texts_without_marks_into_encoder() -> object:
    opened = inputs(ids=Ids(PIECES, pad=0, frame="none")[B, T], mask=Mask(T, true="keep")[B, T])
    return BertLike(PIECES)(ids=opened.ids, mask=opened.mask)


@wrong("mask", "inputs.mask", "BertLike.mask", "It is 2 too short", "LengthsToMask")
def mask_of_before_the_marks() -> object:
    opened = inputs(
        ids=Ids(PIECES, pad=0, frame="none")[B, T],
        ids_len=Lengths(T)[B],
        mask=Mask(T, true="keep")[B, T],
    )
    marked = Reframe("none", "bos..eos", PIECES)(ids=opened.ids, ids_len=opened.ids_len)
    return BertLike(PIECES)(ids=marked.ids, mask=opened.mask)


@wrong(
    "vocab",
    "TaggedTexts.tags",
    "SequenceLoss.targets",
    "another order",
    "RemapIds(tags -> tags-sorted)",
)
def tags_in_another_order() -> object:
    batch = TaggedTexts(PIECES, TAGS)()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask)
    scores = TagHead(TAGS_SORTED)(hidden=hidden.hidden)
    return SequenceLoss(TAGS_SORTED)(logits=scores.logits, targets=batch.tags)


@wrong(
    "facet",
    "TaggedTexts.tags",
    "SequenceLoss.targets",
    "pad is 0, not -100",
    "TaggedTexts with pad=-100",
)
def tags_padded_with_a_tag() -> object:
    batch = TaggedTexts(PIECES, TAGS, pad=0)()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask)
    scores = TagHead(TAGS)(hidden=hidden.hidden)
    return SequenceLoss(TAGS)(logits=scores.logits, targets=batch.tags)


@wrong("missing", "Repad needs ids_len", "ids_len=batch.ids_len")
def padding_replaced_where_it_is_a_label_too() -> object:
    batch = TaggedTexts(PIECES, TAGS, pad=0)()
    return Repad(0, -100)(ids=batch.tags)


@wrong("size", "BertLike.hidden", "TagHead.hidden", "1024", "768", "TagHead with width=1024")
def large_encoder_with_base_head() -> object:
    batch = TaggedTexts(PIECES, TAGS)()
    hidden = BertLike(PIECES, width=1024)(ids=batch.ids, mask=batch.mask)
    return TagHead(TAGS)(hidden=hidden.hidden)


@wrong("facet", "BertLike.hidden", "TopicHead.hidden", "space is roberta, not bert")
def head_of_another_encoder() -> object:
    batch = TopicTexts(PIECES, TOPICS)()
    hidden = BertLike(PIECES, space="roberta")(ids=batch.ids, mask=batch.mask)
    return TopicHead(TOPICS)(hidden=hidden.hidden)


@wrong("axes", "TagHead.logits", "ClassLoss.logits", "3 axes, not 2")
def token_scores_into_loss_of_texts() -> object:
    batch = TopicTexts(PIECES, TOPICS)()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask)
    scores = TagHead(TOPICS)(hidden=hidden.hidden)
    return ClassLoss(TOPICS)(logits=scores.logits, labels=batch.topic)


@wrong("vocab", "IntentSlotHead.intent", "SequenceLoss.logits", "logits=scores.slots")
def intent_scores_with_slots() -> object:
    batch = CommandTexts()()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask)
    scores = IntentSlotHead()(hidden=hidden.hidden)
    loss = ClassLoss(INTENTS)
    return loss(logits=scores.intent, labels=batch.intent), SequenceLoss(SLOTS)(
        logits=scores.intent, targets=batch.slots
    )


@wrong("vocab", "CommandTexts.slots", "ClassLoss.labels", "labels=batch.intent")
def slots_where_the_intent_is_wanted() -> object:
    batch = CommandTexts()()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask)
    scores = IntentSlotHead()(hidden=hidden.hidden)
    return ClassLoss(INTENTS)(logits=scores.intent, labels=batch.slots)


@wrong("lengths", "QuestionTexts.start_character", "SpanLoss.start", "start=batch.start")
def place_in_characters_for_place_in_tokens() -> object:
    batch = QuestionTexts()()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask, segments=batch.segments)
    scores = SpanHead()(hidden=hidden.hidden)
    return SpanLoss()(
        start_logits=scores.start,
        end_logits=scores.end,
        start=batch.start_character,
        end=batch.end,
        mask=batch.mask,
    )


@wrong("element", "Probs", "SpanLoss.start_logits")
def probabilities_of_places_into_loss_of_logits() -> object:
    opened = inputs(
        start=Probs(over="T")[B, T],
        end=Logits(over="T")[B, T],
        places=Positions(T)[B],
        mask=Mask(T, true="keep")[B, T],
    )
    return SpanLoss()(
        start_logits=opened.start,
        end_logits=opened.end,
        start=opened.places,
        end=opened.places,
        mask=opened.mask,
    )


@wrong(
    "facet",
    "PlainTexts.ids",
    "SequenceLoss.targets",
    "pad is 0, not -100",
    "shifted is False, not True",
    "targets=batch.labels",
)
def language_model_told_what_it_says_now() -> object:
    batch = PlainTexts(PIECES)()
    scores = CausalLM(PIECES)(ids=batch.ids)
    return SequenceLoss(PIECES, shifted=True)(logits=scores.logits, targets=batch.ids)


@wrong("facet", "PlainTexts.labels", "CausalLM.ids", "shifted is True, not False", "ids=batch.ids")
def labels_into_language_model() -> object:
    batch = PlainTexts(PIECES)()
    return CausalLM(PIECES)(ids=batch.labels)


@wrong("vocab", "ParallelTexts.source", "SourceEncoder.ids", "deutsch", "pieces")
def sides_of_a_translation_swapped() -> object:
    batch = ParallelTexts(DEUTSCH, PIECES)()
    return SourceEncoder(PIECES)(ids=batch.source, mask=batch.source_mask)


@wrong(
    "mask",
    "ParallelTexts.target_mask",
    "TargetDecoder.memory_mask",
    "memory_mask=batch.source_mask",
)
def mask_of_the_target_for_the_memory() -> object:
    batch = ParallelTexts(DEUTSCH, PIECES)()
    memory = SourceEncoder(DEUTSCH)(ids=batch.source, mask=batch.source_mask)
    embedded = PieceEmbedding(PIECES)(ids=batch.target)
    return TargetDecoder()(embedded=embedded.embedded, memory=memory.memory, memory_mask=batch.target_mask)


@wrong(
    "mask", "TaggedTexts.mask", "TorchAttention.key_padding_mask", "True means keep, not pad", "Invert(mask)"
)
def hugging_face_mask_into_torch() -> object:
    batch = TaggedTexts(PIECES, TAGS)()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask)
    return TorchAttention()(query=hidden.hidden, key=hidden.hidden, key_padding_mask=batch.mask)


@wrong(
    "facet", "BertLike.hidden", "TargetDecoder.memory", "space is bert, not source", "memory=memory.memory"
)
def memory_that_is_no_encoded_source() -> object:
    opened = inputs(source=Ids(DEUTSCH)[B, T], target=Ids(PIECES)[B, U], mask=Mask(T, true="keep")[B, T])
    memory = SourceEncoder(DEUTSCH)(ids=opened.source, mask=opened.mask)
    hidden = BertLike(DEUTSCH, width=512)(ids=opened.source, mask=opened.mask)
    embedded = PieceEmbedding(PIECES)(ids=opened.target)
    return memory, TargetDecoder()(embedded=embedded.embedded, memory=hidden.hidden, memory_mask=opened.mask)


@wrong(
    "size", "PieceEmbedding.embedded", "TargetDecoder.embedded", "256", "512", "PieceEmbedding with width=512"
)
def embedding_of_another_width_than_the_decoder() -> object:
    batch = ParallelTexts(DEUTSCH, PIECES)()
    memory = SourceEncoder(DEUTSCH)(ids=batch.source, mask=batch.source_mask)
    embedded = PieceEmbedding(PIECES, width=256)(ids=batch.target)
    return TargetDecoder()(embedded=embedded.embedded, memory=memory.memory, memory_mask=batch.source_mask)


@wrong(
    "facet",
    "ParallelTexts.target",
    "SmoothedLoss.targets",
    "..eos",
    "shifted is False, not True",
    "!then Shift",
    "targets=batch.labels",
)
def decoder_input_for_labels() -> object:
    batch = ParallelTexts(DEUTSCH, PIECES)()
    embedded = PieceEmbedding(PIECES)(ids=batch.target)
    scores = OutputLayer(PIECES)(hidden=embedded.embedded)
    return SmoothedLoss(PIECES)(
        log_probs=scores.log_probs, targets=batch.target, targets_mask=batch.target_mask
    )


@wrong("element", "CausalLM.logits", "SmoothedLoss.log_probs", "LogSoftmax")
def logits_into_label_smoothing() -> object:
    batch = PlainTexts(PIECES)()
    scores = CausalLM(PIECES)(ids=batch.ids)
    padded = Repad(-100, 0)(ids=batch.labels, ids_len=batch.ids_len)
    return SmoothedLoss(PIECES)(log_probs=scores.logits, targets=padded.ids, targets_mask=batch.mask)


@wrong("element", "OutputLayer.log_probs", "SequenceLoss.logits", "LogProbs", "Logits")
def log_probabilities_into_cross_entropy() -> object:
    batch = PlainTexts(PIECES)()
    embedded = PieceEmbedding(PIECES)(ids=batch.ids)
    scores = OutputLayer(PIECES)(hidden=embedded.embedded)
    return SequenceLoss(PIECES, shifted=True)(logits=scores.log_probs, targets=batch.labels)


@wrong(
    "general",
    "ParallelTexts.labels",
    "Overlap.hypotheses",
    "Ids",
    "Hypotheses",
    "hypotheses=found.ids",
)
def references_measured_against_themselves() -> object:
    batch = ParallelTexts(DEUTSCH, PIECES)()
    memory = SourceEncoder(DEUTSCH)(ids=batch.source, mask=batch.source_mask)
    found = BeamOfTranslations(PIECES)(memory=memory.memory, memory_mask=batch.source_mask)
    return Overlap(PIECES)(
        hypotheses=batch.labels,
        hypotheses_len=batch.labels_len,
        references=batch.labels,
        references_len=batch.labels_len,
    ), found


@wrong(
    "lengths",
    "BeamOfTranslations.ids_len",
    "Overlap.references_len",
    "references_len=batch.labels_len",
)
def lengths_found_for_lengths_of_references() -> object:
    batch = ParallelTexts(DEUTSCH, PIECES)()
    memory = SourceEncoder(DEUTSCH)(ids=batch.source, mask=batch.source_mask)
    found = BeamOfTranslations(PIECES)(memory=memory.memory, memory_mask=batch.source_mask)
    return Overlap(PIECES)(
        hypotheses=found.ids,
        hypotheses_len=found.ids_len,
        references=batch.labels,
        references_len=found.ids_len,
    )


@wrong(
    "facet", "RawTexts.texts", "WordPieces.texts", "form is spoken, not written", "RawTexts with form=written"
)
def spoken_texts_into_written_pieces() -> object:
    return WordPieces(PIECES)(texts=RawTexts(form="spoken")().texts)


@wrong("list", "inputs.texts", "WordPieces.texts", "list")
def tensor_where_a_list_is_wanted() -> object:
    return WordPieces(PIECES)(texts=inputs(texts=Strings(form="written")[B]).texts)


@wrong("element", "RawTexts.texts", "BertLike.ids", "Strings", "Ids")
def texts_into_encoder_of_ids() -> object:
    texts, batch = RawTexts()(), TaggedTexts(PIECES, TAGS)()
    return BertLike(PIECES)(ids=texts.texts, mask=batch.mask)


@wrong("optional", "inputs.prompt", "Reframe.ids", "may be absent", "Default(0")
def optional_prompt_where_they_are_needed() -> object:
    prompt = Ids(PIECES, frame="none")
    opened = inputs(prompt=prompt.optional()[B, T], ids=prompt[B, T], n=Lengths(T)[B])
    return Reframe("none", "bos..eos", PIECES)(ids=opened.prompt, ids_len=opened.n)


@wrong("dtype", "Default", "int", "float")
def a_real_default_for_ids() -> object:
    opened = inputs(segments=Ids(PIECES).optional()[B, T], hidden=Text()[B, T], hidden_len=Lengths(T)[B])
    return Default(0)(value=opened.segments, like=opened.hidden)


@wrong("fields", "Answer.answer", "Cut.answer", "score")
def answer_without_its_score() -> object:
    batch = QuestionTexts()()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask)
    scores = SpanHead()(hidden=hidden.hidden)
    best = Answer()(start_logits=scores.start, end_logits=scores.end)
    return Cut()(ids=batch.ids, answer=best.answer)


@wrong("lengths", "inputs.answer", "Cut.answer", "Its start does not fit")
def answer_in_another_text() -> object:
    places = Struct(start=Positions(U)[B], end=Positions(U)[B], score=Score()[B])
    opened = inputs(ids=Ids(PIECES)[B, T], characters=Ids()[B, U], answer=places[()])
    return Cut()(ids=opened.ids, answer=opened.answer)


@wrong("vocab", "inputs.before", "SlotTracker.before", "another order")
def slots_of_a_dialogue_in_another_order() -> object:
    turned = Vocab(list(reversed(list(HOTEL))), "turned", unit="word")
    opened = inputs(hidden=Text()[B, T, F(768)], before=DialogueState(turned)[B, V(turned)])
    return SlotTracker(HOTEL)(hidden=opened.hidden, before=opened.before)


@wrong("batch", "TaggedTexts_2.tags", "SequenceLoss.targets", "targets=batch.tags")
def tags_of_another_corpus() -> object:
    batch, other = TaggedTexts(PIECES, TAGS)(), TaggedTexts(PIECES, TAGS)()
    hidden = BertLike(PIECES)(ids=batch.ids, mask=batch.mask)
    scores = TagHead(TAGS)(hidden=hidden.hidden)
    return SequenceLoss(TAGS)(logits=scores.logits, targets=other.tags)


@wrong("unknown-port", "BertLike", "attention_mask", "ids, mask, segments")
def mask_named_as_elsewhere() -> object:
    batch = TaggedTexts(PIECES, TAGS)()
    return BertLike(PIECES)(ids=batch.ids, attention_mask=batch.mask)


@wrong("axes", "inputs.hidden", "PoolTexts.hidden", "another order", "Transpose")
def features_before_time() -> object:
    opened = inputs(hidden=Text()[B, F(768), T], mask=Mask(T, true="keep")[B, T])
    return PoolTexts()(hidden=opened.hidden, mask=opened.mask)


@wrong("size", "inputs.user", "Concat.second", "another number")
def two_texts_of_unlike_length_side_by_side() -> object:
    opened = inputs(user=Text()[B, U, F(64)], system=Text()[B, T, F(64)])
    return Concat(axis=2)(first=opened.system, second=opened.user)


@wrong("lengths", "inputs.n", "Overlap.references_len")
def shares_for_counts_of_references() -> object:
    opened = inputs(
        found=Hypotheses(PIECES)[B, T],
        found_len=Lengths(T)[B],
        said=Ids(PIECES)[B, U],
        n=Lengths(U, unit="fraction")[B],
    )
    return Overlap(PIECES)(
        hypotheses=opened.found,
        hypotheses_len=opened.found_len,
        references=opened.said,
        references_len=opened.n,
    )


@wrong("facet", "inputs.log_probs", "over is T, not")
def normalised_over_time_instead_of_labels() -> object:
    opened = inputs(
        log_probs=LogProbs(PIECES, over="T")[B, U, V(PIECES)],
        targets=Ids(PIECES, pad=0, frame="..eos", shifted=True)[B, U],
        mask=Mask(U, true="keep")[B, U],
    )
    return SmoothedLoss(PIECES)(log_probs=opened.log_probs, targets=opened.targets, targets_mask=opened.mask)


@wrong("vocab", "inputs.ids", "BertLike.ids", "other roles", "pad=3", "pad=0")
def same_labels_with_other_roles() -> object:
    turned = Vocab(list(PIECES), "pieces", pad=3, bos=1, eos=2, unk=0, unit="word")
    opened = inputs(ids=Ids(turned, frame="bos..eos")[B, T], mask=Mask(T, true="keep")[B, T])
    return BertLike(PIECES)(ids=opened.ids, mask=opened.mask)


@wrong("padding", "OptionalMask", "mask is left out", "mask=batch.mask")
def optional_mask_left_out() -> object:
    batch = TaggedTexts(PIECES, TAGS)()
    hidden = OptionalMask()(ids=batch.ids)
    return check_rules(Graph("encode", outputs={"hidden": hidden.hidden, "tags": batch.tags}))


@wrong("mask", "inputs.mask", "BertLike.mask", "T + U", "LengthsToMask")
def mask_of_the_first_of_two_texts() -> object:
    row = Ids(PIECES, frame="bos..eos")
    opened = inputs(one=row[B, T], other=row[B, U], mask=Mask(T, true="keep")[B, T])
    joined = Append()(first=opened.one, second=opened.other)
    return BertLike(PIECES)(ids=joined.value, mask=opened.mask)
