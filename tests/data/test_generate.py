"""Batches made from types are valid: the engine's own guards accept every one, at the strictest level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st
from tests.types import strategies

from neumo.asr.modules import SpeechData
from neumo.data.generate import example_batch, free_sizes
from neumo.engine.checks.verify import make_guards
from neumo.engine.plan import compile_plan
from neumo.graph import Graph, inputs
from neumo.graph.module import NeuralModule
from neumo.types import (
    MFCC,
    ONE,
    Alignment,
    Any_,
    Audio,
    B,
    C,
    ConfigError,
    DialogueState,
    Durations,
    F,
    Features,
    Flags,
    H,
    Ids,
    Image,
    Item,
    Latent,
    Lengths,
    Logits,
    LogProbs,
    Loss,
    Mask,
    Mel,
    NeuralType,
    Pitch,
    Positions,
    Probs,
    Score,
    Speaker,
    Spectrogram,
    State,
    Strings,
    Struct,
    T,
    U,
    V,
    Values,
    Var,
    Vocab,
    W,
)
from neumo.types.coherence import coherent
from neumo.types.vocab import AtLeast

from ..backends.module_examples import FULL, LETTERS, all_examples

BLANK = LETTERS.with_blank()
CASES = list(all_examples())


def accept(types: Mapping[str, NeuralType], batch: Mapping[str, Any]) -> None:
    """Raise unless the guards of the engine accept a batch, the values among them."""
    plain = {n: t for n, t in types.items() if not t.many and not _held(t)}
    opened = inputs(**{name: type for name, type in plain.items() if name in batch})
    plan = compile_plan(Graph(outputs={value.port: value for value in opened}))
    guards = make_guards(plan, "values", np.asarray)
    assert guards is not None
    guards.begin()
    for feed in plan.feeds:
        guards.made(feed.slot, batch[feed.port])


def _held(type: NeuralType) -> bool:
    return type.element.nested or type.element.dtype == "str" or any(axis.listed for axis in type.axes)


@pytest.mark.parametrize("spec", CASES, ids=[f"{type(s).__name__}-{n}" for n, s in enumerate(CASES)])
def test_the_guards_accept_a_batch_for_the_ports_of_every_module(spec: NeuralModule) -> None:
    signature = spec.signature()
    for ports in (signature.takes, signature.gives):
        for seed in range(3):
            batch = example_batch(ports, seed=seed)
            assert list(batch) == list(ports)
            if any(not t.many and not _held(t) for t in ports.values()):
                accept(ports, batch)


SPEECH = {
    "audio": Audio(rate=16000, peak=1.0, channels=1)[B, T],
    "audio_len": Lengths(T)[B],
    "mel": Mel(rate=16000, hop=160, n_mels=64, scale="ln", floor=1e-5)[B, F(64), T // 160 + 1],
    "mel_len": Lengths(T // 160 + 1)[B],
    "share": Lengths(T, unit="fraction")[B],
    "mask": Mask(T // 160 + 1, true="keep")[B, T // 160 + 1],
    "pads": Mask(T // 160 + 1, true="pad")[B, T // 160 + 1],
    "text": Ids(FULL, pad=-100, frame="bos..eos")[B, U],
    "text_len": Lengths(U)[B],
    "scores": LogProbs(BLANK)[B, (T // 160 + 1).ceildiv(2), V(BLANK)],
    "probs": Probs(over="T")[B, T("T2"), U],
}


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000), batch=st.integers(1, 5), samples=st.integers(1, 2000), text=st.integers(2, 9)
)
def test_the_guards_accept_batches_of_any_size(seed: int, batch: int, samples: int, text: int) -> None:
    accept(SPEECH, example_batch(SPEECH, {"B": batch, "T": samples, "U": text}, seed))


AXES = (
    B, T, U, T // 2 + 1, U.ceildiv(3) * 3, T + U, T - 10, 12 - U, F(4), F, V, V(FULL), ONE, H, T(None), B * U,
)  # fmt: skip


@st.composite
def any_types(draw: st.DrawFn) -> NeuralType:
    """Any element with any facets, over small axes; some may be lists, left out or several."""
    axes = draw(st.lists(st.sampled_from(AXES), max_size=3))
    lists = draw(st.sampled_from((0, 0, 0, 1)))
    found = Any_()[tuple(axis.list() if n < lists else axis for n, axis in enumerate(axes))]
    try:
        found = coherent(found.with_element(draw(strategies.elements())))
    except ConfigError:  # an element that contradicts its axes
        reject()
    found = found.as_optional() if draw(st.booleans()) else found
    return found.as_many() if draw(st.sampled_from((False, False, True))) else found


@settings(max_examples=200, deadline=None)
@given(st.lists(any_types(), min_size=1, max_size=4), st.integers(0, 9))
def test_the_guards_accept_a_batch_for_any_types(types: list[NeuralType], seed: int) -> None:
    ports = {f"port_{number}": type for number, type in enumerate(types)}
    size = {name: _largest(type) for name, type in ports.items()}
    assume(max(size.values()) < 5_000)  # what a facet measures may be any size
    assume(all(s.constant != 0 for t in types for s in t.element.sizes()))  # nothing is that short
    try:
        batch = example_batch(ports, seed=seed)
    except ConfigError:  # such as T and 3 - 2*T at once
        return
    assert batch.keys() == ports.keys()
    plain = {name: type for name, type in ports.items() if not type.many}
    if any(not _held(type) for type in plain.values()):
        accept(plain, batch)


def _largest(type: NeuralType) -> int:
    sizes = [size for size in type.element.sizes() if size.constant is None]
    return max((sum(abs(c) for _, c in size.terms) for size in sizes), default=0)


def test_an_example_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"would have 4,000,000,000 numbers"):
        example_batch({"x": Features()[B, T, F]}, {"B": 1000, "T": 1000, "F": 4000})


def test_a_batch_follows_from_its_seed() -> None:
    one, same, other = (example_batch(SPEECH, seed=seed) for seed in (1, 1, 2))
    for name in SPEECH:
        np.testing.assert_array_equal(one[name], same[name])
    assert any(not np.array_equal(one[name], other[name]) for name in SPEECH)


def test_one_symbol_is_one_number_and_expressions_follow() -> None:
    batch = example_batch(SPEECH, {"B": 4, "T": 1000})
    assert batch["audio"].shape == (4, 1000)
    assert batch["mel"].shape == (4, 64, 7)
    assert batch["scores"].shape == (4, 4, 29)
    assert batch["audio_len"].max() == 1000
    assert (batch["mel_len"] == batch["audio_len"] // 160 + 1).all()
    np.testing.assert_allclose(batch["share"], batch["audio_len"] / 1000, rtol=1e-6)


def test_masks_agree_with_lengths_and_with_one_another() -> None:
    batch = example_batch(SPEECH)
    assert (batch["mask"].sum(1) == batch["mel_len"]).all()
    assert (batch["mask"] == ~batch["pads"]).all()
    alone = example_batch({"mask": Mask(T, true="pad")[B, T], "x": Features()[B, T]})
    assert alone["mask"].any()
    assert not alone["mask"][:, 0].any()
    inner = example_batch({"mask": Mask(T, true="keep")[B, U, T], "x_len": Lengths(T)[B]})
    assert (inner["mask"].sum(-1) == inner["x_len"][:, None]).all()


def test_what_is_behind_the_end_is_silence_or_pad() -> None:
    batch = example_batch(SPEECH, {"B": 5}, seed=3)
    for row, length in enumerate(batch["audio_len"]):
        assert not batch["audio"][row, length:].any()
        assert batch["audio"][row, :length].any()
    for row, length in enumerate(batch["text_len"]):
        assert (batch["text"][row, length:] == -100).all()
        assert (batch["text"][row, :length] >= 0).all()


def test_ids_keep_to_their_frame_and_to_labels_without_a_role() -> None:
    batch = example_batch(SPEECH, {"B": 6, "U": 7}, seed=5)
    for row, length in zip(batch["text"], batch["text_len"], strict=True):
        assert (row[0], row[length - 1]) == (FULL.bos, FULL.eos)
        assert (row[1 : length - 1] > 3).all()
    half = example_batch({"ids": Ids(FULL, frame="bos..")[B, U], "mark": Ids(FULL, shifted=True)[B, U]})
    assert (half["ids"][:, 0] == FULL.bos).all()
    assert (half["ids"][:, 1:] > 3).all()
    assert (half["mark"][:, 0] == FULL.bos).all()
    assert example_batch({"ids": Ids(AtLeast(Vocab("ab")))[B, U]})["ids"].max() < 2
    assert example_batch({"ids": Ids(Var("v"))[B, U], "scores": Logits(Var("v"))[B, V]})["ids"].max() < 7
    assert example_batch({"ids": Ids(Vocab("a", pad=0))[B, U]})["ids"].max() == 0


def test_given_lengths_are_kept() -> None:
    batch = example_batch(SPEECH, {"B": 3, "T": 320}, lengths={"T": [320, 160, 159]})
    assert batch["audio_len"].tolist() == [320, 160, 159]
    assert batch["mel_len"].tolist() == [3, 2, 1]
    with pytest.raises(ConfigError, match="from 0 to 320"):
        example_batch(SPEECH, {"B": 1, "T": 320}, lengths={"T": [321]})


def test_sizes_are_solved_so_that_each_is_at_least_one() -> None:
    grown = example_batch({"x": Features()[B, (T - 100) // 3]})
    assert grown["x"].shape[1] >= 1
    shrunk = example_batch({"x": Features()[B, 12 - T], "y": Features()[B, T]})
    assert shrunk["x"].shape[1] == 12 - shrunk["y"].shape[1] >= 1
    product = example_batch({"x": Features()[B, T * U], "y": Features()[B, T, U]}, {"T": 3, "U": 4})
    assert product["x"].shape[1] == 12
    later = example_batch({"x": Features()[B, T]}, also=[((T - 500) // 2).size])
    assert later["x"].shape[1] > 500
    none = example_batch({"x": Features()[B, T // 100]}, {"T": 50})
    assert none["x"].shape[1] == 0


def test_sizes_that_cannot_be_are_refused() -> None:
    types = {"x": Features()[B, T - 100]}
    with pytest.raises(ConfigError, match="T - 100 is -50 with T=50"):
        example_batch(types, {"T": 50})
    with pytest.raises(ConfigError, match="no size of these types is called 'TT'"):
        example_batch(types, {"TT": 5})
    with pytest.raises(ConfigError, match="cannot be -1"):
        example_batch(types, {"T": -1})
    framed = {"text": Ids(Vocab(["<s>", "</s>", "a"], bos=0, eos=1), frame="bos..eos")[B, U]}
    with pytest.raises(ConfigError, match=r"has a bos and an eos, and\s+would be 1 long"):
        example_batch(framed, {"U": 1})
    assert example_batch(framed, {"B": 1, "U": 2})["text"].tolist() == [[0, 1]]


def test_types_may_be_texts_and_nothing_else() -> None:
    assert example_batch({"x": "Audio[B, T]"}, {"B": 2, "T": 5})["x"].shape == (2, 5)
    with pytest.raises(ConfigError, match="the port x is Audio, which is not a neural type"):
        example_batch({"x": Audio()})  # type: ignore[dict-item]


def test_facets_that_are_sizes_are_kept() -> None:
    shape = lambda type: example_batch({"x": type})["x"].shape  # noqa: E731
    assert shape(Mel(n_mels=80)[B, F, T])[1] == 80
    assert shape(MFCC(n_mfcc=13, n_mels=40)[B, F, T])[1] in (13, 40)
    assert shape(Audio(channels=2)[B, C, T])[1] == 2
    assert shape(Image(channels="rgb")[B, C, H, W])[1] == 3
    assert shape(Logits(BLANK)[B, T, V])[2] == 29
    assert shape(Logits(AtLeast(BLANK))[B, T, V])[2] == 29
    assert free_sizes({"x": Mel(n_mels=80)[B, F, T]}) == {"B": 3, "T": 19}


def test_numbers_are_of_their_element() -> None:
    make = lambda type, seed=0: example_batch({"x": type}, seed=seed)["x"]  # noqa: E731
    loud = make(Audio(peak=32768.0)[B, T])
    assert 1000 < abs(loud).max() <= 32768
    assert (make(Spectrogram(scale="linear")[B, F, T]) > 0).all()
    assert make(Spectrogram(scale="ln", floor=1e-5)[B, F, T]).min() >= np.log(1e-5) - 1e-4
    assert make(Spectrogram(scale="db", floor=1e-5)[B, F, T]).min() >= -50.1
    assert make(Spectrogram(scale="log10")[B, F, T]).max() < 5
    assert abs(make(Spectrogram(scale="ln", norm="per_feature")[B, F, T]).mean()) < 0.5
    np.testing.assert_allclose(make(Probs()[B, T, V]).sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.exp(make(LogProbs(over="T")[B, T, V])).sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(make(Alignment()[B, T, U]).sum(-1), 1, rtol=1e-5)
    assert 0 <= make(Probs()[()]) <= 1
    assert make(Loss()[()]) > 0
    assert make(Score()[()]).shape == ()
    assert make(Item()[B]).tolist() == [0, 1, 2]
    assert make(Flags()[B, T]).dtype == bool
    assert make(Latent("normal")[B, F]).dtype == np.float32
    assert make(Any_()[B, T(None)]).shape == (3, 19)
    assert make(Features()[B, ONE]).shape == (3, 1)
    assert make(DialogueState(Vocab("ab"))[B, V]).shape == (3, 2)
    assert (make(Latent(part="std")[B, F]) > 0).all()
    hard = make(Alignment(form="hard")[B, T, U])
    assert set(np.unique(hard)) == {0, 1}
    assert (hard.sum(-1) == 1).all()
    assert make(Image(peak=255.0)[B, C, H, W]).max() > 2
    assert make(Image(norm="imagenet")[B, C, H, W]).min() < 0
    hertz = make(Pitch(unit="hz")[B, T])
    assert ((hertz == 0) | (hertz >= 60)).all()
    assert make(Pitch(unit="ln_hz")[B, T]).max() < 7
    assert make(Pitch(unit="semitones")[B, T]).max() < 60
    assert make(Pitch(norm="per_speaker")[B, T]).min() < 0
    np.testing.assert_allclose(np.linalg.norm(make(Speaker(norm="l2")[B, F]), axis=1), 1, rtol=1e-5)
    assert make(Speaker()[B, F]).shape == (3, 6)
    assert make(Values("years")[B]).shape == make(State("encoder")[B]).shape == (3,)
    assert make(Lengths(None)[B]).tolist() == [1, 1, 1]


def test_durations_sum_to_what_they_expand_to() -> None:
    types = {
        "frames": Durations(T, unit="frames", scale="linear")[B, U],
        "log": Durations(T, unit="frames", scale="ln")[B, U],
        "seconds": Durations(T, unit="seconds", scale="linear")[B, U],
        "mel_len": Lengths(T)[B],
        "text_len": Lengths(U)[B],
        "free": Durations()[B, U],
    }
    batch = example_batch(types, {"B": 4})
    assert (batch["frames"].sum(1) == batch["mel_len"]).all()
    assert batch["frames"].dtype == np.int64
    np.testing.assert_allclose(batch["seconds"].sum(1), batch["mel_len"] / 100, rtol=1e-5)
    np.testing.assert_allclose(np.exp(batch["log"][0, 0]), batch["frames"][0, 0], rtol=1e-5)
    inside = np.arange(batch["frames"].shape[1]) < batch["text_len"][:, None]
    assert (batch["frames"][~inside] == 0).all()
    assert (batch["free"].sum(1) == 3 * batch["text_len"]).all()
    whole = example_batch({"frames": Durations(T, unit="frames", scale="linear")[B, U]}, {"T": 12})
    assert (whole["frames"].sum(1) == 12).all()


def test_positions_lie_inside_what_they_point_into() -> None:
    types = {
        "start": Positions(U)[B],
        "heads": Positions(U)[B, U],
        "len": Lengths(U)[B],
        "free": Positions()[B],
    }
    for seed in range(5):
        batch = example_batch(types, {"B": 6, "U": 9}, seed)
        assert (batch["start"] < batch["len"]).all()
        assert (batch["heads"] < batch["len"][:, None]).all()
        assert (batch["free"] >= 0).all()


def test_optional_many_lists_structs_and_texts() -> None:
    class Best(Struct):
        text = Ids(FULL)[B, U]
        text_len = Lengths(U)[B]

    types = {
        "left": Features().optional()[B, T],
        "losses": Loss().many()[()],
        "words": Strings(language="en")[B.list()],
        "one": Strings()[()],
        "frames": Features()[B.list(), T],
        "best": Best()[()],
        "tops": Best()[B.list()],
    }
    batch = example_batch(types, {"B": 2})
    assert "left" not in example_batch(types, {"B": 2}, optional=False)
    assert batch["left"].shape == (2, 19)
    assert isinstance(batch["losses"], tuple)
    assert len(batch["losses"]) == 2
    assert [type(word) for word in batch["words"]] == [str, str]
    assert type(batch["one"]) is str
    assert [frame.shape for frame in batch["frames"]] == [(19,), (19,)]
    assert batch["best"]["text"].shape[0] == 2
    assert (batch["best"]["text_len"] <= batch["best"]["text"].shape[1]).all()
    assert [list(top) for top in batch["tops"]] == [["text", "text_len"]] * 2


def test_what_a_speech_data_layer_gives_is_enough_for_a_loss() -> None:
    batch = example_batch(SpeechData("x.jsonl", vocab=LETTERS).signature().gives)
    encoded = (batch["audio_len"] // 160 + 1) // 4
    assert (encoded >= 2 * batch["text_len"]).all()
    assert batch["item"].tolist() == [0, 1, 2]
