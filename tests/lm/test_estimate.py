"""Kneser-Ney estimation: against figures by hand, against a slow formula, and sums that are one."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from neumo.lm import ROOT, count, estimate, perplexity, units_of
from neumo.lm.estimate import Discounts
from neumo.types import ConfigError, DataError

SMALL = [["so", "be", "it"], ["so", "it", "be"]]


def zipf(sentences=300, words=40, seed=0):
    rng = np.random.default_rng(seed)
    follow = rng.integers(0, words, (words, 3))
    found = []
    for _ in range(sentences):
        at, said = int(rng.zipf(1.5)) % words, []
        for _ in range(int(rng.integers(1, 9))):
            said.append(f"w{at}")
            at = int(follow[at, rng.integers(3)]) if rng.random() < 0.6 else int(rng.zipf(1.5)) % words
        found.append(said)
    return found


def slow_model(sentences, order):
    """Probabilities as Chen and Goodman write them, n-gram by n-gram, with dictionaries."""
    raw = [Counter() for _ in range(order + 1)]
    for sentence in sentences:
        padded = ["<s>", *sentence, "</s>"]
        for n in range(1, order + 1):
            raw[n].update(tuple(padded[i : i + n]) for i in range(len(padded) - n + 1))
    adjusted = [Counter() for _ in range(order + 1)]
    for n in range(1, order + 1):
        before = Counter(gram[1:] for gram in raw[n + 1]) if n < order else raw[n]
        for gram, times in raw[n].items():
            adjusted[n][gram] = times if gram[0] == "<s>" else before[gram]
    del adjusted[1]["<s>",]
    vocabulary = {gram[0] for gram in raw[1]} - {"<s>"} | {"<unk>"}
    discounts = [None, *(Discounts.of(np.array(list(adjusted[n].values()))) for n in range(1, order + 1))]
    followers = [defaultdict(dict) for _ in range(order + 1)]
    for n in range(1, order + 1):
        for gram, times in adjusted[n].items():
            followers[n][gram[:-1]][gram[-1]] = times

    def prob(history, word):
        n = len(history) + 1
        lower = 1 / len(vocabulary) if n == 1 else prob(history[1:], word)
        seen = followers[n].get(history)
        if not seen:
            return lower
        total = sum(seen.values())
        off = discounts[n].off
        rest = sum(float(off(np.array(times))) for times in seen.values()) / total
        own = seen.get(word, 0)
        return (own - float(off(np.array(own)))) / total + rest * lower

    return prob, vocabulary


def test_probabilities_are_those_by_hand():
    """Bigrams: 7 with the counts 2, 1 x 6, so the discounts are 0.5, 1 and 1.5.

    Words follow so: 1, be: 2, it: 2, </s>: 2 different ones; 7 in all, 5 words with <unk>. What is left of 7
    for the uniform distribution is 0.5 + 1 + 1 + 1 = 3.5.
    """
    model = estimate(SMALL, order=2).model
    uniform = 3.5 / 7 / 5
    so, be = 0.5 / 7 + uniform, 1 / 7 + uniform
    expected = {
        ("<s>", "so"): (2 - 1) / 2 + 1 / 2 * so,
        ("<s>", "be"): 1 / 2 * be,
        ("so", "be"): 0.5 / 2 + 1 / 2 * be,
        ("be", "it"): 0.5 / 2 + 1 / 2 * be,
        ("be", "so"): 1 / 2 * so,
        ("it", "<unk>"): 1 / 2 * uniform,
    }
    for (before, word), probability in expected.items():
        state = model.start if before == "<s>" else model.score(ROOT, before)[1]
        assert np.exp(model.score(state, word)[0]) == pytest.approx(probability)
    assert np.exp(model.sentence(["so"], eos=False)).tolist() == pytest.approx([expected["<s>", "so"]])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_probabilities_are_those_of_the_formula(order):
    sentences = zipf(order * 100)
    model = estimate(sentences, order=order).model
    prob, _ = slow_model(sentences, order)
    for sentence in [*sentences[:30], ["w1", "never", "w2"], ["w3"] * 5]:
        words = [word if word in model else "<unk>" for word in sentence]
        padded = ["<s>", *words, "</s>"]
        expected = [
            np.log(prob(tuple(padded[max(0, i - order + 1) : i]), padded[i])) for i in range(1, len(padded))
        ]
        np.testing.assert_allclose(model.sentence(sentence), expected, atol=1e-9)


@pytest.mark.parametrize("prune", [(), (0, 1), (1,), (1, 2, 3)])
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_probabilities_behind_every_state_sum_to_one(order, prune):
    made = estimate(zipf(200, 15), order=order, prune=prune)
    model = made.model
    words = np.array([n for n, word in enumerate(model.words) if word != "<s>"])
    for state in range(model.levels[-2]):
        logp, _ = model.score_many(np.full(len(words), state), words)
        assert np.exp(logp).sum() == pytest.approx(1, abs=1e-9)
    if prune and order > 2:
        assert sum(made.pruned) > 0


def test_words_that_follow_one_word_only_count_less_than_their_number():
    """`francisco` is as frequent as `london` and follows nothing but `san`."""
    sentences = [["san", "francisco"]] * 20 + [[place, "london"] for place in "abcdefghijklmnopqrst"]
    model = estimate(sentences, order=2).model
    assert model.score(ROOT, "london")[0] > model.score(ROOT, "francisco")[0] + 1


def test_rare_words_become_unknown():
    sentences = [["a", "b"], ["a", "c"], ["a"]]
    assert estimate(sentences, order=1, min_count=2).model.words == ("<unk>", "<s>", "</s>", "a")
    often = estimate(sentences, order=1, min_count=2).model.score(ROOT, "b")[0]
    assert often > estimate(sentences, order=1).model.score(ROOT, "never")[0]


def test_pruning_leaves_out_what_was_seen_rarely():
    sentences = zipf(400, 20)
    whole, pruned = estimate(sentences, order=3), estimate(sentences, order=3, prune=(0, 1))
    assert whole.model.counts[:2] == pruned.model.counts[:2]
    assert whole.model.counts[2] == pruned.model.counts[2] + pruned.pruned[2]
    assert (count(sentences, order=3).levels[2].raw > 1).sum() == pruned.model.counts[2]
    assert perplexity(pruned.model, sentences).value > perplexity(whole.model, sentences).value


def test_discounts_are_those_of_the_counts_of_counts():
    counts = np.repeat([1, 2, 3, 4], [10, 5, 3, 2])
    found, y = Discounts.of(counts), 10 / (10 + 2 * 5)
    assert (found.one, found.two, found.more) == (1 - 2 * y * 5 / 10, 2 - 3 * y * 3 / 5, 3 - 4 * y * 2 / 3)
    assert found.off(np.array([0, 1, 2, 3, 9])).tolist() == [0, found.one, found.two, found.more, found.more]
    assert not Discounts.of(np.array([1, 1, 2])).measured
    assert not Discounts.of(np.repeat([1, 2, 3, 4], [10, 10, 1, 50])).measured


def test_a_text_shorter_than_the_order_gives_a_lower_order():
    assert estimate([["a"]], order=5).model.order == 3  # <s> a </s>
    assert estimate([["a"], []], order=1).sentences == 1


def test_nothing_and_nonsense_are_refused():
    with pytest.raises(DataError, match="no words"):
        estimate([[], []], order=2)
    with pytest.raises(DataError, match="sentence 2 of the text has </s> in it"):
        estimate([["a"], ["b", "</s>"]], order=2)
    for wrong in ({"order": 0}, {"order": 17}, {"min_count": 0}, {"prune": (2, 1)}, {"prune": (-1,)}):
        with pytest.raises(ConfigError):
            estimate(SMALL, **{"order": 2, **wrong})


def test_perplexity_is_the_exponential_of_the_mean():
    model = estimate(zipf(), order=3).model
    texts = [["w1", "w2"], ["never"], [], ["w0"] * 7]
    scores = np.concatenate([model.sentence(text) for text in texts if text])
    found = perplexity(model, texts)
    assert found.value == pytest.approx(float(np.exp(-scores.mean())))
    known = np.delete(scores, 3)  # w1 w2 </s> never
    assert found.known == pytest.approx(float(np.exp(-known.mean())))
    assert (found.sentences, found.tokens, found.unknown) == (3, 13, 1)
    with pytest.raises(DataError, match="no words"):
        perplexity(model, [[]])


def test_texts_are_cut_into_words_or_characters():
    assert units_of("  so  be\tit ", "word") == ["so", "be", "it"]
    assert units_of(" so  b ", "char") == ["s", "o", "<space>", "b"]
    assert units_of("", "char") == []
