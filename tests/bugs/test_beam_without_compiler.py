"""Beam search with a language model needed a C++ build that failed; only an import error was seen."""

import subprocess
import sys

import numpy as np
import torch

from neumo.asr import BeamCTC
from neumo.backends.torch.registry import build
from neumo.lm import read_arpa
from neumo.types import Vocab

LETTERS = Vocab.english()
FIVE_LINES = "\\data\\\nngram 1=2\n\\1-grams:\n-0.1\tyes\n-0.7\tyet\n\\end\\\n"


def between_s_and_t():
    """`ye` and then s or t, which is a little likelier."""
    log_probs = torch.full((1, 6, 29), -12.0)
    for frame, label in enumerate("ye"):
        log_probs[0, 2 * frame, LETTERS.index(label)] = 0.0
        log_probs[0, 2 * frame + 1, 28] = 0.0
    log_probs[0, 4, LETTERS.index("s")] = np.log(0.45)
    log_probs[0, 4, LETTERS.index("t")] = np.log(0.55)
    log_probs[0, 5, 28] = 0.0
    return log_probs.log_softmax(-1), torch.tensor([6])


def text(decoder):
    found = decoder(*between_s_and_t())
    return LETTERS.decode(found.ids[0, : found.ids_len[0]].tolist())


def test_a_file_of_a_few_lines_is_enough(tmp_path):
    (tmp_path / "lm.arpa").write_text(FIVE_LINES)
    assert read_arpa(tmp_path / "lm.arpa").counts == (2,)
    assert text(build(BeamCTC(LETTERS))) == "yet"
    assert text(build(BeamCTC(LETTERS, lm=tmp_path / "lm.arpa", alpha=1.0))) == "yes"


def test_nothing_but_numpy_is_loaded_to_search(tmp_path):
    """No package with code of its own: what decodes here decodes wherever numpy is installed."""
    (tmp_path / "lm.arpa").write_text(FIVE_LINES)
    program = """
import sys
import numpy as np
import numpy.random
before = {name.partition(".")[0] for name in sys.modules}
from neumo.asr.search import fuse, prefix_beam_search
from neumo.lm import read_arpa
from neumo.types import Vocab
letters = Vocab.english()
fusion = fuse(read_arpa(sys.argv[1]), letters, alpha=1.0)
log_probs = np.log(np.full((1, 3, 29), 1 / 29))
print(len(prefix_beam_search(log_probs, np.array([3]), fusion=fusion)))
loaded = {name.partition(".")[0] for name in sys.modules} - before - set(sys.stdlib_module_names)
print(sorted(loaded))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "lm.arpa")], capture_output=True, text=True, check=True
    )
    count, loaded = done.stdout.split("\n")[:2]
    assert count == "1"
    assert loaded == "['neumo']"
