"""The modules around beam search: signatures, frames, language models by path, rescoring, whole recipes."""

import itertools

import numpy as np
import pytest
import torch

from neumo.asr import BeamCTC, GreedyCTC, Rescore
from neumo.asr.search import best_frames
from neumo.asr.word_times import find_clock
from neumo.backends.torch.registry import build
from neumo.engine import NeuralFactory
from neumo.graph.inputs import inputs
from neumo.graph.yaml import load_recipe
from neumo.hub.bundle import load_model, save_model
from neumo.lm import estimate, units_of, write_arpa
from neumo.types import B, ConfigError, DataError, Lengths, LogProbs, T, V, Vocab

from .test_beam_search import collapse

LETTERS = Vocab.english()
AB = Vocab(" ab")
LENGTHS = torch.tensor([20, 7, 0, 1])


def scores(*shape, sharp=3.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=generator) * sharp).log_softmax(-1)


@pytest.fixture
def arpa(tmp_path):
    path = tmp_path / "words.arpa"
    texts = ["a b ab", "ab a", "bb ab a", "b a", "ab"]
    write_arpa(estimate([units_of(text, "word") for text in texts], order=2).model, path)
    return path


@pytest.mark.parametrize("n_best", [1, 3])
@pytest.mark.parametrize("with_lm", [True, False])
def test_the_signature_is_what_the_code_does(n_best, with_lm, arpa):
    spec = BeamCTC(AB, beam=5, n_best=n_best, lm=arpa if with_lm else None)
    found = build(spec)(scores(4, 20, 4), LENGTHS)
    gives = spec.signature().gives
    assert found._fields == tuple(gives)
    for value, port in zip(found, gives.values(), strict=True):
        assert value.dim() == len(port.axes)
        assert value.is_floating_point() == (port.element.dtype == "float")
        assert len(value) == 4
    assert found.ids.shape == (4, 20)
    if n_best > 1:
        assert found.best_ids.shape == (4, n_best, 20)
        assert torch.equal(found.best_ids[:, 0], found.ids)
        assert torch.equal(found.best_score[:, 0], found.score)
        there = found.best_score.isfinite()
        assert torch.allclose(
            found.best_score[there], (found.best_acoustic + found.best_lm)[there], atol=1e-5
        )


def test_results_do_not_depend_on_the_batch(arpa):
    log_probs = scores(4, 20, 4)
    decoder = build(BeamCTC(AB, beam=8, n_best=4, lm=arpa))
    together = decoder(log_probs, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = decoder(log_probs[row : row + 1, : max(length, 1)], LENGTHS[row : row + 1])
        for name, one, all_of_them in zip(alone._fields, alone, together, strict=True):
            other = all_of_them[row : row + 1]
            if one.dim() > 1 and name not in ("best_len", "best_score", "best_acoustic", "best_lm"):
                assert not other[..., max(length, 1) :].any()
                other = other[..., : max(length, 1)]
            torch.testing.assert_close(one, other)


def test_a_wide_enough_search_of_clear_scores_finds_what_greedy_decoding_does():
    log_probs, lengths = scores(6, 30, 29, sharp=12), torch.tensor([30, 30, 11, 0, 1, 25])
    greedy, beam = build(GreedyCTC(LETTERS)), build(BeamCTC(LETTERS))
    one, other = greedy(log_probs, lengths), beam(log_probs, lengths)
    same = (one.ids == other.ids).all(dim=1)
    assert same.sum() >= 4
    assert torch.equal(one.frames[same], other.frames[same])
    at = other.label_log_probs[same]
    wanted = log_probs[same].gather(1, other.frames[same][:, :, None].expand(-1, -1, 29))
    wanted = wanted.gather(2, other.ids[same][:, :, None]).squeeze(2)
    counted = torch.arange(30) < other.ids_len[same][:, None]
    torch.testing.assert_close(at, wanted * counted)


@pytest.mark.parametrize("frames", [1, 2, 5, 7])
def test_frames_are_those_of_the_best_path(frames):
    log_probs = scores(5, frames, 3, sharp=1.0, seed=frames).double().numpy()
    lengths = np.array([frames, frames, max(frames - 1, 0), frames, 0])
    said, expected = [], []
    for utterance, length in zip(log_probs, lengths, strict=True):
        paths = {}
        for path in itertools.product(range(3), repeat=int(length)):
            score = float(utterance[np.arange(length), path].sum()) if length else 0.0
            labels = collapse(path, 2)
            if labels not in paths or score > paths[labels][0]:
                paths[labels] = (score, path)
        labels = max(paths, key=lambda each: (len(each), paths[each][0]))
        path = paths[labels][1]
        firsts = [n for n, label in enumerate(path) if label != 2 and (n == 0 or path[n - 1] != label)]
        said.append(np.array(labels, dtype=np.int64))
        expected.append(firsts)
    found = best_frames(log_probs, lengths, said)
    assert [row.tolist() for row in found] == expected


def test_bf16_scores_are_searched():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = build(BeamCTC(AB))(scores(2, 9, 4).bfloat16(), torch.tensor([9, 4]))
    assert found.score.dtype == torch.float32
    assert found.score.isfinite().all()


def test_settings_that_cannot_be_meant_are_refused():
    for wrong in (
        {"beam": 0},
        {"n_best": 0},
        {"n_best": 9, "beam": 8},
        {"alpha": -1.0},
        {"lm_unit": "words"},
        {"token_min_logp": 1.0},
        {"beam_prune_logp": float("nan")},
        {"unknown": 2.0},
        {"alpha": float("nan")},
        {"alpha": float("inf")},
        {"beta": float("nan")},
    ):
        with pytest.raises(ConfigError):
            BeamCTC(AB, **wrong)
    with pytest.raises(ConfigError):
        Rescore(AB, n_best=0)


def test_a_model_that_is_not_there_or_broken_is_said(tmp_path):
    with pytest.raises(DataError, match=r"nope\.arpa"):
        build(BeamCTC(AB, lm=tmp_path / "nope.arpa"))
    (tmp_path / "broken.arpa").write_text("\\data\\\nngram 1=1\n\n\\1-grams:\nx a\n\n\\end\\\n")
    with pytest.raises(DataError, match=r"broken\.arpa:5"):
        build(BeamCTC(AB, lm=tmp_path / "broken.arpa"))


def test_a_model_in_capitals_is_refused_by_name(tmp_path):
    write_arpa(estimate([["AB", "A"]], order=2).model, tmp_path / "upper.arpa")
    with pytest.raises(ConfigError, match="In lower case 100% of them") as caught:
        build(BeamCTC(AB, lm=tmp_path / "upper.arpa"))
    assert "upper.arpa" in caught.value.what


RECIPE = """
neumo: 1
vocabs:
  letters: {labels: " ab"}
modules:
  mel: {kind: MelSpectrogram, n_mels: 32}
  encoder: {kind: ConvEncoder, preset: digits, width: 16, n_mels: 32}
  head: {kind: CTCHead, vocab: letters, width: 16}
  decoder: {kind: BeamCTC, vocab: letters, beam: 8, lm: words.arpa, alpha: 0.4, beta: 1.0, n_best: 3}
  again: {kind: Rescore, vocab: letters, n_best: 3, weight: 0.0}
graphs:
  infer:
    mode: infer
    inputs: {audio: "Audio(rate=16000)[B, T]", audio_len: "Lengths(T)[B]"}
    steps:
      frames: mel(audio=audio, audio_len=audio_len)
      states: encoder(mel=frames.mel, mel_len=frames.mel_len)
      scores: head(encoded=states.encoded)
      heard: decoder(log_probs=scores.log_probs, log_probs_len=states.encoded_len)
      chosen: >-
        again(best_ids=heard.best_ids, best_len=heard.best_len, best_score=heard.best_score,
        log_probs=heard.best_lm)
    outputs: {ids: heard.ids, ids_len: heard.ids_len, again: chosen.ids, chosen: chosen.chosen}
"""


def test_a_recipe_decodes_with_a_model_beside_it(arpa, tmp_path):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    graph = load_recipe(tmp_path / "recipe.yaml").graph("infer")
    rng = np.random.default_rng(0)
    given = {
        "audio": 0.1 * rng.standard_normal((2, 8000)).astype(np.float32),
        "audio_len": np.array([8000, 3000]),
    }
    (found,) = NeuralFactory(device="cpu").infer(graph, given)
    assert found["ids_len"].shape == (2,)
    assert (found["again"] == found["ids"]).all()
    assert (found["chosen"] == 0).all()
    clock = find_clock(graph)
    assert (clock.frames.port, clock.log_probs.port) == ("frames", "label_log_probs")


def test_the_graph_of_a_beam_has_a_clock():
    labels = AB.with_blank("end")
    given = inputs(log_probs=LogProbs(labels)[B, T.at(25), V(labels)], log_probs_len=Lengths(T)[B])
    heard = BeamCTC(AB)(log_probs=given.log_probs, log_probs_len=given.log_probs_len)
    assert heard.ids.type.element.vocab == AB


def test_rescoring_takes_the_best_of_both():
    ids = torch.arange(12).view(1, 3, 4) % 3
    sizes, first = torch.tensor([[4, 2, 0]]), torch.tensor([[-1.0, -1.5, -torch.inf]])
    other = torch.tensor([[-9.0, -4.0, 0.0]])
    chosen = build(Rescore(AB, n_best=3, weight=0.5))(ids, sizes, first, other)
    assert chosen.chosen.tolist() == [1]
    assert chosen.ids.tolist() == ids[:, 1].tolist()
    assert chosen.ids_len.tolist() == [2]
    assert chosen.score.tolist() == [-3.5]
    kept = build(Rescore(AB, n_best=3, weight=0.0))(ids, sizes, first, other * torch.nan)
    assert kept.chosen.tolist() == [0]
    longer = build(Rescore(AB, n_best=3, weight=0.5, length_bonus=3.0))(ids, sizes, first, other)
    assert longer.chosen.tolist() == [0]


def test_a_model_file_names_the_language_model_that_it_misses(arpa, tmp_path, monkeypatch):
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    recipe = load_recipe(tmp_path / "recipe.yaml")
    factory = NeuralFactory(device="cpu")
    given = {"audio": np.zeros((1, 8000), dtype=np.float32), "audio_len": np.array([8000])}
    factory.infer(recipe.graph("infer"), given)
    save_model(tmp_path / "model.neumo", recipe, factory)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = load_model(tmp_path / "model.neumo", device="cpu").infer(given)
    assert found["ids_len"].shape == (1,)
    arpa.unlink()
    with pytest.raises(DataError, match=r"words\.arpa"):
        load_model(tmp_path / "model.neumo", device="cpu").infer(given)
