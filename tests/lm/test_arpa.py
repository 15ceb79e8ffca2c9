"""ARPA files: what is read, what is written, and what is refused with the number of the line."""

import gzip
import re

import numpy as np
import pytest

from neumo.lm import ROOT, estimate, read_arpa, write_arpa
from neumo.lm.arpa import shared_arpa
from neumo.types import DataError

FIVE = r"""
some words about the file
\data\
ngram 1=4
ngram 2=2

\1-grams:
-99	<s>	-0.3
-0.6	</s>
-0.4	yes	-0.2
-0.7	<unk>

\2-grams:
-0.1	<s> yes
-0.2	yes </s>

\end\
"""
LOG = np.log(10)


@pytest.fixture
def written(tmp_path):
    def write(text, name="lm.arpa"):
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


def test_probabilities_back_off_as_the_format_says(written):
    model = read_arpa(written(FIVE))
    assert model.order == 2
    assert model.counts == (4, 2)
    np.testing.assert_allclose(model.sentence(["yes"]) / LOG, [-0.1, -0.2])
    np.testing.assert_allclose(model.sentence(["yes", "yes"]) / LOG, [-0.1, -0.2 - 0.4, -0.2])
    np.testing.assert_allclose(model.sentence(["no"]) / LOG, [-0.3 - 0.7, -0.6])
    assert model.score(ROOT, "yes")[0] == pytest.approx(-0.4 * LOG)
    assert "MiB" in repr(model)


def test_packed_files_spaces_and_line_ends_of_windows_are_read(written):
    plain = read_arpa(written(FIVE))
    for name, text in (
        ("a.gz", gzip.compress(FIVE.encode())),
        ("b.arpa", gzip.compress(FIVE.encode())),
        ("c.arpa", FIVE.replace("\t", "   ").replace("\n", "\r\n")),
        ("d.arpa", FIVE.rstrip()),
    ):
        model = read_arpa(written(text, name))
        assert model.words == plain.words
        np.testing.assert_array_equal(model.sentence(["yes", "no"]), plain.sentence(["yes", "no"]))


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz"])
def test_what_is_written_reads_the_same(tmp_path, order, name):
    rng = np.random.default_rng(order)
    sentences = [[f"w{n}é" for n in rng.zipf(1.6, rng.integers(1, 8)) % 30] for _ in range(200)]
    model = estimate(sentences, order=order, prune=(0, 1)).model
    write_arpa(model, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    again = read_arpa(tmp_path / name)
    assert again.words == model.words
    assert again.counts == model.counts
    for sentence in [*sentences[:20], ["never"]]:
        np.testing.assert_allclose(again.sentence(sentence), model.sentence(sentence), rtol=1e-7)
    write_arpa(model, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first


def test_scores_of_many_are_those_of_one(written):
    model = read_arpa(written(FIVE))
    states, words = np.arange(5).repeat(5), np.tile(np.arange(-1, 4), 5)
    logp, after = model.score_many(states, words)
    for row, (state, word) in enumerate(zip(states, words, strict=True)):
        one, then = model.score_many(np.array([state]), np.array([word]))
        assert (one[0], then[0]) == (logp[row], after[row])


def test_beginnings_that_are_not_listed_are_filled_in(written):
    """Pruned models may have `a b c` without `a b`; its probability is that of backing off."""
    text = (
        "\\data\\\nngram 1=4\nngram 2=1\nngram 3=1\n\n"
        "\\1-grams:\n-99 <s> -0.5\n-0.5 a -0.25\n-0.75 b -0.125\n-1 c\n\n"
        "\\2-grams:\n-0.1 b c\n\n\\3-grams:\n-0.05 a b c\n\n\\end\\\n"
    )
    model = read_arpa(written(text))
    np.testing.assert_allclose(
        model.sentence(["a", "b", "c"], eos=False) / LOG, [-0.5 - 0.5, -0.25 - 0.75, -0.05]
    )
    np.testing.assert_allclose(model.sentence(["b", "c"], eos=False) / LOG, [-0.5 - 0.75, -0.1])
    np.testing.assert_allclose(model.sentence(["a", "b", "b"], eos=False) / LOG, [-1, -1, -0.125 - 0.75])


def test_the_words_of_a_sentence_are_the_longest_that_is_known(written):
    model = read_arpa(written(FIVE))
    assert model.score(model.start, "no")[1] == model.index("<unk>") + 1
    assert model.score(ROOT, "yes")[1] == model.score(model.start, "yes")[1]


def changed(old, new):
    assert old in FIVE
    return FIVE.replace(old, new)


BROKEN = {
    "empty": ("", r"the file ends before \\data\\"),
    "another kind": ("PK\x03\x04 something else\n" * 3, r"the file ends before \\data\\"),
    "no counts": (changed("ngram 1=4\nngram 2=2\n", ""), "counts no n-grams"),
    "order left out": (changed("ngram 2=2", "ngram 3=2"), r"lm.arpa:5[\s\S]*ngram 3=2"),
    "too few": (changed("ngram 2=2", "ngram 2=3"), "counts 3 2-grams, and there are 2"),
    "too many": (
        changed("ngram 2=2", "ngram 2=1"),
        r"counts 1 2-grams, and here is one more[\s\S]*lm.arpa:15",
    ),
    "cut off": (FIVE[: FIVE.index("-0.2\tyes </s>")], r"the file ends before \\end\\"),
    "no number": (changed("-0.4\tyes", "-O.4\tyes"), r"probability is '-O.4'[\s\S]*lm.arpa:10"),
    "not finite": (changed("-0.4\tyes", "nan\tyes"), "probability is 'nan'"),
    "above one": (changed("-0.4\tyes", "0.4\tyes"), "0.4, above 0"),
    "weight": (changed("yes\t-0.2", "yes\tinf"), "back-off weight is 'inf'"),
    "unknown word": (changed("<s> yes", "<s> no"), r"'no' is not among the 1-grams[\s\S]*lm.arpa:14"),
    "word twice": (changed("-0.7\t<unk>", "-0.7\tyes"), "'yes' is there twice"),
    "pair twice": (changed("yes </s>", "<s> yes"), "'<s> yes' is there twice"),
    "pieces": (changed("-0.1\t<s> yes", "-0.1\tyes"), "this has 2 pieces"),
    "sections swapped": (changed("\\2-grams:", "\\3-grams:"), r"\\2-grams: is wanted here"),
    "more sections": (
        changed("\\end\\", "\\3-grams:\n-1 yes yes yes\n\\end\\"),
        "orders 1 to 2, and more follows",
    ),
    "huge count": (changed("ngram 2=2", "ngram 2=999999999999"), "more than 200,000,000"),
    "long line": (changed("-0.4\tyes", "-0.4\t" + "y" * 70_000), "longer than 65,536 bytes"),
    "not UTF-8": (FIVE.encode().replace(b"yes", b"y\xffs"), "is not UTF-8"),
    "broken packing": (gzip.compress(FIVE.encode())[:-12], "packed with gzip, and broken"),
    "only said to be packed": (b"\x1f\x8b" + FIVE.encode(), "packed with gzip, and broken"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_with_their_line(written, name):
    text, message = BROKEN[name]
    with pytest.raises(DataError) as caught:
        read_arpa(written(text))
    assert re.search(message, " ".join(str(caught.value).split()))
    assert caught.value.code == "arpa"


def test_counts_that_promise_much_take_no_memory(written):
    with pytest.raises(DataError, match=r"counts\s+100,000,000\s+2-grams,\s+and\s+there\s+are\s+2"):
        read_arpa(written(changed("ngram 2=2", "ngram 2=100000000")))


def test_files_that_are_not_there_are_said(tmp_path):
    with pytest.raises(DataError, match=r"cannot\s+be\s+read:\s+No\s+such"):
        read_arpa(tmp_path / "nope.arpa")
    with pytest.raises(DataError, match=r"cannot\s+be\s+read:\s+Is\s+a"):
        shared_arpa(tmp_path)
    with pytest.raises(DataError, match=r"cannot\s+be\s+written"):
        write_arpa(estimate([["a"]], order=1).model, tmp_path / "no" / "lm.arpa")


def test_a_shared_file_is_read_once_until_it_changes(written):
    path = written(FIVE)
    first = shared_arpa(path)
    assert shared_arpa(path) is first
    written(FIVE.replace("-0.4\tyes", "-0.45\tyes"))
    assert shared_arpa(path) is not first


def test_progress_tells_how_far_it_is(tmp_path):
    sentences = [[f"w{n}" for n in range(i, i + 5)] for i in range(0, 60_000, 5)]
    write_arpa(estimate(sentences, order=2).model, tmp_path / "lm.arpa")
    seen = []
    read_arpa(tmp_path / "lm.arpa", progress=lambda done, total: seen.append((done, total)))
    assert seen
    assert all(done <= total for done, total in seen)
