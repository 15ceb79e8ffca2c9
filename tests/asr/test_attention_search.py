"""Searches of attention decoders against all sequences, and CTC prefixes against all paths."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from neumo.asr import AttentionBeam, AttentionGreedy, RecurrentDecoder, TransformerDecoder
from neumo.asr.torch.ctc_prefix import CTCPrefix
from neumo.backends.torch.registry import build
from neumo.types import ConfigError, Vocab

ABC = Vocab("abc", name="abc")
FRAMES = torch.tensor([6, 3, 1, 0])
MOST = 3
DECODERS = {
    "lstm": RecurrentDecoder(ABC, width=5, hidden=8, embedding=4, attention=6, filters=2, kernel=3),
    "gru": RecurrentDecoder(
        ABC, width=5, hidden=8, layers=2, cell="gru", embedding=4, attention=6, smoothing=True, kernel=3
    ),
    "transformer": TransformerDecoder(
        ABC, width=5, hidden=8, layers=2, heads=2, feed_forward=12, dropout=0.0
    ),
    "post": TransformerDecoder(
        ABC,
        width=5,
        hidden=8,
        layers=2,
        heads=2,
        feed_forward=12,
        norm="post",
        positions="learned",
        longest=9,
    ),
}


def made(spec, seed=1, scale=3.0):
    """A decoder in float64 whose scores are far from even."""
    torch.manual_seed(seed)
    module = build(spec).double().eval()
    with torch.no_grad():
        module.output.weight.mul_(scale)
        module.output.bias.normal_()
    return module


def encoded(rows=4, seed=2):
    torch.manual_seed(seed)
    return torch.randn(rows, 5, 6, dtype=torch.float64)


def ctc_log_probs(seed=3):
    torch.manual_seed(seed)
    return (2 * torch.randn(4, 6, 4, dtype=torch.float64)).log_softmax(-1)


def every_sequence(most):
    return [seq for n in range(most + 1) for seq in itertools.product(range(3), repeat=n)]


def told_score(module, frames, length, sequence):
    """The log-probability of a sequence and its end, by teacher forcing."""
    targets = torch.tensor([list(sequence)], dtype=torch.long).reshape(1, -1)
    given = module(frames[None], length[None], targets, torch.tensor([len(sequence)])).log_probs[0]
    return given.gather(1, torch.tensor([*sequence, 4])[:, None]).sum().item()


def ctc_score(log_probs, length, sequence):
    if len(sequence) + sum(a == b for a, b in itertools.pairwise(sequence)) > length:
        return -torch.inf
    if not length:
        return 0.0
    return -F.ctc_loss(
        log_probs[:length, None], torch.tensor([sequence]), length[None], torch.tensor([len(sequence)]),
        blank=3, reduction="sum",
    ).item() if sequence else log_probs[:length, 3].sum().item()  # fmt: skip


def best_of_all(module, score, limits, count=1):
    """The best sequences of each utterance, among all of them."""
    found = []
    for row, (frames, length) in enumerate(zip(encoded(), FRAMES, strict=True)):
        scored = [(score(row, module, frames, length, seq), seq) for seq in every_sequence(int(limits[row]))]
        found.append(sorted(scored, key=lambda pair: -pair[0])[:count])
    return found


def texts(ids, lengths):
    return [tuple(row[:n].tolist()) for row, n in zip(ids, lengths, strict=True)]


LIMITS = FRAMES.clamp(max=MOST)
WIDE = 1 + 3 + 9 + 27 + 81


@pytest.mark.parametrize("kind", DECODERS)
def test_a_wide_beam_finds_the_best_of_all_sequences(kind):
    module = made(DECODERS[kind])
    wanted = best_of_all(module, lambda row, *given: told_score(*given), LIMITS)
    heard = build(AttentionBeam(ABC, beam=WIDE, max_labels=MOST))(module(encoded(), FRAMES), FRAMES)
    assert texts(heard.ids, heard.ids_len) == [row[0][1] for row in wanted]
    assert (heard.score - torch.tensor([row[0][0] for row in wanted])).abs().max() < 1e-5


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
@pytest.mark.parametrize(
    "settings",
    [
        {"length_bonus": 1.5},
        {"length_bonus": -0.5},
        {"length_penalty": 0.8},
        {"length_penalty": 1.0, "length_bonus": 1.0},
        {"ctc_weight": 0.4},
        {"ctc_weight": 1.0},
        {"lm_weight": 0.7},
        {"ctc_weight": 0.3, "lm_weight": 0.5, "length_bonus": 0.4},
    ],
    ids=str,
)
def test_each_setting_is_the_score_of_whole_sequences(kind, settings):
    spec = AttentionBeam(ABC, beam=WIDE, n_best=3, max_labels=MOST, **settings)
    module, lm, log_probs = made(DECODERS[kind]), made(DECODERS["gru"], seed=7), ctc_log_probs()

    def score(row, module, frames, length, sequence):
        total = (1 - spec.ctc_weight) * told_score(module, frames, length, sequence)
        if spec.ctc_weight:
            total += spec.ctc_weight * ctc_score(log_probs[row], length, sequence)
        if spec.lm_weight:
            total += spec.lm_weight * told_score(lm, frames, length, sequence)
        total += spec.length_bonus * len(sequence)
        return total / ((5 + len(sequence) + 1) / 6) ** spec.length_penalty

    given = {"log_probs": log_probs, "log_probs_len": FRAMES} if spec.ctc_weight else {}
    if spec.lm_weight:
        given["lm"] = lm(encoded(), FRAMES)
    heard = build(spec)(module(encoded(), FRAMES), FRAMES, **given)
    for row, wanted in enumerate(best_of_all(module, score, LIMITS, count=3)):
        known = [pair for pair in wanted if pair[0] > -torch.inf]
        assert texts(heard.best_ids[row], heard.best_len[row])[: len(known)] == [pair[1] for pair in known]
        scores = torch.tensor([pair[0] for pair in known])
        assert (heard.best_score[row][: len(known)] - scores).abs().max() < 1e-5
        assert (heard.best_score[row][len(known) :] == -torch.inf).all()
        assert (heard.best_len[row][len(known) :] == 0).all()
    assert torch.equal(heard.ids, heard.best_ids[:, 0])


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize("most", [1, 3, None])
def test_a_beam_of_one_is_the_greedy_search(kind, most):
    for seed in range(5):
        module = made(DECODERS[kind], seed)
        scorer = module(encoded(seed=seed), FRAMES)
        one = build(AttentionBeam(ABC, beam=1, max_labels=most))(scorer, FRAMES)
        greedy = build(AttentionGreedy(ABC, max_labels=most))(scorer, FRAMES)
        assert texts(one.ids, one.ids_len) == texts(greedy.ids, greedy.ids_len)
        assert (one.score - greedy.score).abs().max() < 1e-5
        assert greedy.ids_len[3] == 0


@pytest.mark.parametrize("kind", DECODERS)
@pytest.mark.parametrize(
    "spec",
    [
        AttentionGreedy(ABC),
        AttentionBeam(ABC, beam=4, n_best=2),
        AttentionBeam(ABC, beam=3, ctc_weight=0.3, length_bonus=0.3),
        AttentionBeam(ABC, beam=3, length_penalty=0.6, eos_threshold=1.5),
    ],
    ids=str,
)
def test_an_utterance_is_decoded_the_same_alone_and_in_a_batch(kind, spec):
    module, frames, log_probs = made(DECODERS[kind]), encoded(), ctc_log_probs()
    frames = frames.masked_fill(torch.arange(6) >= FRAMES[:, None, None], torch.nan)
    log_probs = log_probs.masked_fill(torch.arange(6)[:, None] >= FRAMES[:, None, None], torch.nan)
    search, with_ctc = build(spec), "log_probs" in spec.signature().takes

    def decoded(rows, size):
        lengths = FRAMES[rows]
        more = (log_probs[rows, :size], lengths) if with_ctc else ()
        return search(module(frames[rows, :, :size], lengths), lengths, *more)

    together = decoded(slice(None), 6)
    for row, length in enumerate(FRAMES.tolist()):
        alone = decoded(slice(row, row + 1), length)
        for name, mine in alone._asdict().items():
            theirs = getattr(together, name)[row : row + 1]
            if mine.is_floating_point():
                assert torch.allclose(mine, theirs, atol=1e-6, equal_nan=False), name
            else:
                used = mine.shape[-1] if mine.dim() > 1 and "len" not in name else None
                assert torch.equal(mine, theirs[..., :used] if used is not None else theirs), name
                assert used is None or not theirs[..., used:].any()


def test_ends_among_the_labels_are_never_written():
    """Vocabularies of pieces have <s> and </s> of their own, and CTC scores them as labels."""
    vocab = Vocab(["<s>", "</s>", "a", "b"], bos="<s>", eos="</s>")
    decoder = made(RecurrentDecoder(vocab, width=5, hidden=8, embedding=4, attention=6, filters=0))
    log_probs = (2 * torch.randn(4, 6, 5, dtype=torch.float64)).log_softmax(-1)
    scorer = decoder(encoded(), FRAMES)
    for heard in (
        build(AttentionGreedy(vocab))(scorer, FRAMES),
        build(AttentionBeam(vocab, beam=4, length_bonus=2.0))(scorer, FRAMES),
        build(AttentionBeam(vocab, beam=4, ctc_weight=0.5))(scorer, FRAMES, log_probs, FRAMES),
    ):
        assert all(label > 1 for text in texts(heard.ids, heard.ids_len) for label in text)
        assert torch.isfinite(heard.score).all()


@pytest.mark.parametrize(
    "spec", [AttentionGreedy(ABC), AttentionBeam(ABC, beam=2, n_best=2), AttentionBeam(ABC, ctc_weight=0.5)]
)
def test_a_batch_without_utterances_gives_none(spec):
    nothing = torch.zeros(0, dtype=torch.long)
    more = (
        (torch.zeros(0, 6, 4, dtype=torch.float64), nothing)
        if spec.signature().takes.keys() & {"log_probs"}
        else ()
    )
    for decoder in (DECODERS["lstm"], DECODERS["transformer"]):
        scorer = made(decoder)(torch.zeros(0, 5, 6, dtype=torch.float64), nothing)
        heard = build(spec)(scorer, nothing, *more)
        assert heard.ids.shape[0] == heard.ids_len.shape[0] == heard.score.shape[0] == 0


def test_an_end_below_the_threshold_is_not_taken():
    module = made(DECODERS["lstm"])
    with torch.no_grad():
        module.output.bias.copy_(torch.tensor([2.0, 0.0, 0.0, 0.0, 2.2]))  # <eos> is best, by little
        module.output.weight.mul_(0.01)
    scorer = module(encoded(), FRAMES)
    plain = build(AttentionBeam(ABC, beam=1))(scorer, FRAMES)
    strict = build(AttentionBeam(ABC, beam=1, eos_threshold=0.5))(scorer, FRAMES)
    assert plain.ids_len.tolist() == [0, 0, 0, 0]
    assert strict.ids_len.tolist() == FRAMES.tolist()


def collapsed(path, blank):
    return tuple(label for label, _ in itertools.groupby(path) if label != blank)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_ctc_prefixes_are_the_sum_over_all_paths(length):
    torch.manual_seed(length)
    log_probs = torch.randn(1, 7, 3, dtype=torch.float64).log_softmax(-1)
    paths = {
        path: sum(log_probs[0, t, label].item() for t, label in enumerate(path))
        for path in itertools.product(range(3), repeat=length)
    }

    def total(wanted):
        scores = [score for path, score in paths.items() if wanted(collapsed(path, 2))]
        return torch.tensor(scores, dtype=torch.float64).logsumexp(0)

    prefix = CTCPrefix(log_probs, torch.tensor([length]))
    states = {(): prefix.start(1)}
    for sequence in [seq for n in range(3) for seq in itertools.product(range(2), repeat=n)]:
        state = states[sequence]
        assert torch.allclose(state.ended[0], total(lambda text, s=sequence: text == s), atol=1e-9)
        for label, score in enumerate(prefix.next(state)[0]):
            longer = (*sequence, label)
            wanted = total(lambda text, s=longer: text[: len(s)] == s)
            assert torch.allclose(score, wanted, atol=1e-9), longer
            states[longer] = prefix.extend(state, torch.tensor([0]), torch.tensor([label]))


def test_ctc_prefixes_of_impossible_labels_and_long_audio_stay_finite():
    log_probs = torch.full((1, 800, 3), -40.0)
    log_probs[..., 2] = 0.0
    log_probs[0, 400] = torch.tensor([0.0, -torch.inf, -40.0])
    prefix = CTCPrefix(log_probs, torch.tensor([800]))
    state = prefix.start(1)
    assert prefix.next(state)[0, 0] > -1e-3
    state = prefix.extend(state, torch.tensor([0]), torch.tensor([0]))
    assert abs(state.ended.item()) < 1e-3
    assert not torch.isnan(prefix.next(state)).any()


@pytest.mark.parametrize(
    "wrong", [{"beam": 0}, {"n_best": 9}, {"ctc_weight": 1.5}, {"max_labels": 0}, {"length_penalty": -1.0}]
)
def test_settings_that_cannot_be_meant_are_refused(wrong):
    with pytest.raises(ConfigError):
        AttentionBeam(ABC, **wrong)
