"""N-gram language models: ARPA files, Kneser-Ney estimation, scores of many words at once. Needs numpy."""

from neumo.lm.arpa import read_arpa as read_arpa
from neumo.lm.arpa import shared_arpa as shared_arpa
from neumo.lm.arpa import write_arpa as write_arpa
from neumo.lm.counts import Counts as Counts
from neumo.lm.counts import count as count
from neumo.lm.estimate import Discounts as Discounts
from neumo.lm.estimate import Estimated as Estimated
from neumo.lm.estimate import estimate as estimate
from neumo.lm.ngram import BOS as BOS
from neumo.lm.ngram import EOS as EOS
from neumo.lm.ngram import ROOT as ROOT
from neumo.lm.ngram import UNK as UNK
from neumo.lm.ngram import Grams as Grams
from neumo.lm.ngram import NGramModel as NGramModel
from neumo.lm.perplexity import Perplexity as Perplexity
from neumo.lm.perplexity import perplexity as perplexity
from neumo.lm.text import SPACE as SPACE
from neumo.lm.text import text_lines as text_lines
from neumo.lm.text import units_of as units_of

__all__ = [
    "BOS",
    "EOS",
    "ROOT",
    "SPACE",
    "UNK",
    "Counts",
    "Discounts",
    "Estimated",
    "Grams",
    "NGramModel",
    "Perplexity",
    "count",
    "estimate",
    "perplexity",
    "read_arpa",
    "shared_arpa",
    "text_lines",
    "units_of",
    "write_arpa",
]
