"""Decoders of transducers against definition, enumeration and what the original found."""

import itertools
import math

import pytest
import torch

from neumo.asr import JointNetwork, PredictionNetwork, TransducerBeam, TransducerGreedy
from neumo.asr.torch.transducer_loss import Objective, transducer_losses
from neumo.backends.torch.registry import build
from neumo.nn.scorer import LabelScorer
from neumo.types import ConfigError, Vocab

AB, ABCDE = Vocab("ab"), Vocab("abcde")
TDT = (0, 1, 2)
SEARCHES = ["time", "alignment", "token", "adaptive", "best_first"]


def lattice(vocab, encoded, *, durations=(), kind="lstm", sharp=4.0, seed=0):
    """A lattice of random networks that are sure enough of something to have labels."""
    torch.manual_seed(seed)
    prediction = build(PredictionNetwork(vocab, width=6, network=kind)).double().eval()
    joint = build(JointNetwork(vocab, encoded.shape[1], 6, 7, durations=durations)).double().eval()
    with torch.no_grad():
        for layer in (joint.enc, joint.pred, joint.out):
            layer.weight *= sharp
    return joint(encoded, prediction())


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rows(ids, lengths):
    return [row[:length].tolist() for row, length in zip(ids, lengths, strict=True)]


def defined_greedy(scored, frames, most, durations):
    """Greedy decoding of one utterance by its definition, one node after the other."""
    labels, read, at, here = [], [], 0, 0
    predicted, state = scored.predictor.start(1)
    projected = scored.frames()
    while at < frames:
        tokens, lasting = scored.log_probs(projected[0, at : at + 1], predicted)
        token = int(tokens.argmax())
        lasts = durations[int(lasting.argmax())] if durations else int(token == scored.blank)
        if token != scored.blank:
            labels.append(token)
            read.append(at)
            predicted, state = scored.predictor.step(torch.tensor([token]), state)
            here += 1
        lasts = max(lasts, 1) if token == scored.blank or here >= most else lasts
        here = 0 if lasts else here
        at += lasts
    return labels, read


@pytest.mark.parametrize("durations", [(), TDT])
@pytest.mark.parametrize("kind", ["lstm", "stateless"])
@pytest.mark.parametrize("most", [1, 3])
def test_greedy_decoding_of_a_batch_is_what_is_defined_for_each_utterance(durations, kind, most):
    encoded, lengths = random(5, 4, 12), torch.tensor([12, 7, 1, 0, 9])
    found = build(TransducerGreedy(ABCDE, max_symbols=most))(
        lattice(ABCDE, encoded, durations=durations, kind=kind), lengths
    )
    assert found.ids_len.sum() > 5
    for row in range(5):
        alone = lattice(ABCDE, encoded[row : row + 1, :, : lengths[row]], durations=durations, kind=kind)
        labels, read = defined_greedy(alone, int(lengths[row]), most, durations)
        count = int(found.ids_len[row])
        assert found.ids[row, :count].tolist() == labels
        assert found.frames[row, :count].tolist() == read
        assert (found.log_probs[row, :count] < 0).all()
        for beyond in (found.ids, found.frames, found.log_probs):
            assert not beyond[row, count:].any()
    assert torch.allclose(found.score, found.log_probs.sum(1))


@pytest.mark.parametrize(
    "spec", [TransducerGreedy(AB), *(TransducerBeam(AB, search=each) for each in SEARCHES)]
)
def test_silence_and_utterances_without_frames_have_no_labels(spec):
    """Frames and confidences of an empty result are empty, too: NeMo#14427, NeMo#8451, NeMo#9549."""
    scored = lattice(AB, random(3, 4, 6))
    with torch.no_grad():
        scored.module.out.bias[-1] += 1000.0
    ids, ids_len, frames, *_ = build(spec)(scored, torch.tensor([6, 0, 3]))
    assert ids_len.tolist() == [0, 0, 0]
    assert ids.shape == frames.shape == (3, 0)
    empty = build(spec)(lattice(AB, random(2, 4, 0)), torch.tensor([0, 0]))
    assert empty[0].shape == (2, 0)


def test_silence_of_a_lattice_with_durations_has_no_labels():
    scored = lattice(AB, random(2, 4, 6), durations=TDT)
    with torch.no_grad():
        scored.module.out.bias[2] += 1000.0
    for spec in (
        TransducerGreedy(AB),
        TransducerBeam(AB),
        TransducerBeam(AB, search="best_first"),
        TransducerBeam(AB, search="token"),
    ):
        ids, ids_len, frames, *_ = build(spec)(scored, torch.tensor([6, 4]))
        assert ids_len.tolist() == [0, 0]
        assert ids.shape == frames.shape == (2, 0)


def test_labels_that_take_no_time_end_all_the_same():
    scored = lattice(AB, random(1, 4, 3))
    with torch.no_grad():
        scored.module.out.bias[0] += 1000.0
    found = build(TransducerGreedy(AB, max_symbols=4))(scored, torch.tensor([3]))
    assert found.ids_len.tolist() == [12]
    assert found.frames.tolist() == [[0] * 4 + [1] * 4 + [2] * 4]


@pytest.mark.parametrize(
    ("search", "durations"),
    [
        ("time", ()),
        ("time", TDT),
        ("alignment", ()),
        ("adaptive", ()),
        ("best_first", ()),
        ("best_first", TDT),
        ("token", ()),
        ("token", TDT),
        ("adaptive", TDT),
        ("adaptive", (1, 2)),
    ],
)
@pytest.mark.parametrize("beam", [2, 5])
def test_a_beam_search_of_a_batch_is_that_of_each_utterance(search, durations, beam):
    encoded, lengths = random(4, 4, 8, seed=1), torch.tensor([8, 5, 0, 3])
    decoder = build(TransducerBeam(ABCDE, search=search, beam=beam, n_best=beam))
    scored = lattice(ABCDE, encoded, durations=durations, sharp=2.0)
    found = decoder(scored, lengths)
    assert found[5].sum() > 0
    for row, frames in enumerate(lengths):
        alone = decoder(
            lattice(ABCDE, encoded[row : row + 1, :, :frames], durations=durations, sharp=2.0), frames[None]
        )
        assert rows(found[0], found[1])[row] == rows(alone[0], alone[1])[0]
        assert rows(found[2], found[1])[row] == rows(alone[2], alone[1])[0]
        assert found[3][row].item() == pytest.approx(alone[3].item(), rel=1e-6)
        assert rows(found[4][row], found[5][row]) == rows(alone[4][0], alone[5][0])
        assert torch.allclose(found[6][row], alone[6][0])


def enumerated(scored, frames, longest, objective):
    """The log-probability of every text of at most so many labels, by the loss."""
    found = {}
    for count in range(longest + 1):
        for labels in itertools.product(range(2), repeat=count):
            target = torch.tensor([labels], dtype=torch.long).view(1, count)
            scores = scored.scores(target)[:, :frames]
            loss = transducer_losses(scores, target, torch.tensor([frames]), torch.tensor([count]), objective)
            found[labels] = -loss.item()
    return found


@pytest.mark.parametrize(
    ("search", "durations", "frames"),
    [("time", (), 3), ("time", TDT, 4), ("alignment", (), 3), ("time", (), 1), ("time", (1, 2), 5)],
)
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_that_holds_everything_finds_the_best_text_and_its_probability(
    search, durations, frames, seed
):
    scored = lattice(AB, random(1, 4, frames, seed=seed), durations=durations, sharp=2.0, seed=seed)
    with torch.no_grad():
        scored.module.out.bias[2] += 3.0  # texts that are longer than what is enumerated are improbable
    longest = 5
    expected = enumerated(scored, frames, longest, Objective(durations))
    beam = 150
    decoder = TransducerBeam(
        AB, search=search, beam=beam, n_best=4, max_symbols=longest, max_per_frame=3, length_norm=False
    )
    ids, ids_len, _, score, best, best_len, best_score = build(decoder)(scored, torch.tensor([frames]))
    order = sorted(expected, key=lambda labels: -expected[labels])
    assert tuple(rows(ids, ids_len)[0]) == order[0]
    assert score.item() == pytest.approx(expected[order[0]], abs=1e-6)
    assert [tuple(row) for row in rows(best[0], best_len[0])] == order[:4]
    assert best_score[0].tolist() == pytest.approx([expected[labels] for labels in order[:4]], abs=1e-6)


class Favours:
    """A language model that finds one label much more probable after itself, and the other elsewhere."""

    def __init__(self, rows):
        self.scorer = LabelScorer(rows, "cpu", start=self.start, step=self.step)
        self.rows, self.read = rows, []

    def start(self, copies):
        return (torch.zeros(self.rows * copies, dtype=torch.long),)

    def step(self, labels, state):
        self.read.append(labels.tolist())
        count = state[0] + 1
        scores = torch.zeros(len(labels), 4)
        scores[torch.arange(len(labels)), count % 2] = 50.0
        return scores, (count,)


@pytest.mark.parametrize("search", SEARCHES)
def test_a_language_model_of_large_weight_decides_the_labels(search):
    scored = lattice(AB, random(2, 4, 6, seed=2), sharp=1.0)
    model = Favours(2)
    spec = TransducerBeam(AB, search=search, beam=4, lm_weight=5.0, length_norm=False, length_bonus=3.0)
    ids, ids_len, *_ = build(spec)(scored, torch.tensor([6, 3]), model.scorer)
    assert model.read[0] == [2, 2]  # `<bos>` stands behind the labels
    for row in rows(ids, ids_len):
        assert row
        assert row == [(n + 1) % 2 for n in range(len(row))]  # 1, 0, 1, ...: what is favoured after n labels


def test_a_language_model_without_an_opinion_changes_no_order():
    encoded, lengths = random(2, 4, 6, seed=2), torch.tensor([6, 4])
    even = LabelScorer(2, "cpu", start=lambda copies: (torch.zeros(2 * copies, 1),), step=uniform)
    plain = build(TransducerBeam(AB, length_bonus=0.5))(lattice(AB, encoded), lengths)
    fused = build(TransducerBeam(AB, lm_weight=0.5, length_bonus=0.5 + 0.5 * math.log(4)))(
        lattice(AB, encoded), lengths, even
    )
    assert rows(plain[0], plain[1]) == rows(fused[0], fused[1])
    assert torch.allclose(plain[3], fused[3], atol=1e-5)


def uniform(labels, state):
    return torch.zeros(len(labels), 4), state


@pytest.mark.parametrize(
    "wrong",
    [{"search": "depth"}, {"beam": 0}, {"beam": 2, "n_best": 3}, {"gamma": -1.0}, {"lm_weight": -1.0}],
)
def test_settings_that_cannot_be_meant_are_refused(wrong):
    with pytest.raises(ConfigError):
        TransducerBeam(AB, **wrong)
    with pytest.raises(ConfigError):
        TransducerGreedy(AB, max_symbols=0)
