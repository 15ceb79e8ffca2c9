"""Texts cut into pieces by the SentencePiece model of a vocabulary (Kudo and Richardson 2018)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

from neumo.types.errors import BackendError, ConfigError, DataError
from neumo.types.normalise import Normalise
from neumo.types.pieces import SPACE, read_pieces
from neumo.types.vocab import Encoding, Vocab

PieceKind = Literal["bpe", "unigram"]


def encode(vocab: Vocab, text: str) -> Encoding:
    """Turn a text into ids with any vocabulary: of characters, words or pieces.

    >>> encode(Vocab("ab"), "abc")
    Encoding(ids=(0, 1), unknown=('c',))

    The text is written as `vocab.normalise` says before. Unknown are the characters for which a model of
    pieces has nothing; they get the id of `unk`, if there is one. Raises `ConfigError` where a vocabulary of
    pieces has no model, `BackendError` where the package sentencepiece is missing.
    """
    if vocab.unit != "piece":
        return vocab.encode(text)
    if vocab.model is None:
        raise ConfigError(
            f"the vocabulary {vocab} lists pieces without the model that cuts texts into them",
            code="vocab",
            fixes=["sentencepiece: FILE.model in the place of its labels"],
        )
    text = text if vocab.normalise is None else vocab.normalise(text)
    processor = _processor(vocab.model)
    shift = vocab.labels.index(read_pieces(vocab.model).pieces[0])  # such as 1 behind a blank
    unknown_id = processor.unk_id()
    ids: list[int] = processor.encode(text, out_type=int)
    unknown: list[str] = []
    if unknown_id in ids:
        surfaces: list[str] = processor.encode(text, out_type=str)
        for index, surface in zip(ids, surfaces, strict=True):
            unknown.extend(surface.replace(SPACE, "").strip() if index == unknown_id else "")
        if vocab.unk is None:
            ids = [index for index in ids if index != unknown_id]
    return Encoding(tuple(index + shift for index in ids), tuple(unknown))


def train_pieces(
    texts: Iterable[str],
    size: int,
    *,
    kind: PieceKind = "unigram",
    normalise: Normalise | None = None,
    coverage: float = 1.0,
    name: str = "",
) -> Vocab:
    """Learn a vocabulary of `size` pieces from texts; the same texts in the same order give the same model.

    `kind` is "unigram" (Kudo 2018, https://arxiv.org/abs/1804.10959) or "bpe" (Sennrich et al. 2016,
    https://arxiv.org/abs/1508.07909). `coverage` is the share of characters that get a piece of their own:
    a little less than 1 for thousands of characters, as those of Mandarin. Texts are written as `normalise`
    says; the model itself rewrites nothing, so that ids give back what was put in. Raises `DataError` where
    the texts are too few or too uniform for `size` pieces.
    """
    sentencepiece = _library()
    written = [" ".join((normalise(text) if normalise else text).split()) for text in texts]
    written = [text for text in written if text]
    if not written:
        raise DataError("there is no text to learn pieces from", code="pieces")
    characters = len(set("".join(written)) - {" "})
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(written),
            model_writer=model,
            vocab_size=size,
            model_type=kind,
            character_coverage=coverage,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            byte_fallback=False,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            unk_id=0,
            max_sentence_length=1 << 20,
            num_threads=1,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        raise _too_many(size, characters, str(error)) from error
    return Vocab.of_pieces(model.getvalue(), name, normalise)


def _too_many(size: int, characters: int, reason: str) -> DataError:
    """Say why a model could not be learned: SentencePiece's own words are kept as a detail."""
    what = f"no vocabulary of {size} pieces can be learned from these texts"
    why = f"They have {characters} different characters; each needs a piece, and one more is for the unknown."
    most = re.search(r"a value <= (\d+)", reason)
    if most:
        fixes = [f"--size {most[1]} or less", "more texts"]
    else:
        fixes = [f"--size {characters + 2} or more", "--coverage 0.9995 gives rare characters no piece"]
    last = reason.strip().splitlines()[-1] if reason.strip() else ""
    return DataError(what, code="pieces", why=why, fixes=fixes, details=[last] if last else [])


@lru_cache(maxsize=8)
def _processor(model: bytes) -> Any:
    """Open a model once in each process."""
    processor = _library().SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ConfigError(f"the SentencePiece model cannot be used: {error}", code="vocab") from error
    return processor


def _library() -> Any:
    try:
        import sentencepiece
    except ModuleNotFoundError as error:
        raise BackendError(
            "texts are cut into pieces by the package sentencepiece, which is not installed",
            code="missing-package",
            fixes=["pip install 'neumo[asr]'"],
        ) from error
    return sentencepiece
