"""How good it is: error rates of a corpus and the metrics that gather them."""

from neumo.metrics.edit import ErrorCounts as ErrorCounts
from neumo.metrics.edit import align as align
from neumo.metrics.edit import edit_distance as edit_distance
from neumo.metrics.edit import error_counts as error_counts
from neumo.metrics.error_rate import CorpusErrors as CorpusErrors
from neumo.metrics.error_rate import Utterance as Utterance
from neumo.metrics.error_rate import char_error_rate as char_error_rate
from neumo.metrics.error_rate import word_error_rate as word_error_rate
from neumo.metrics.normalise import NORMALISERS as NORMALISERS
from neumo.metrics.normalise import Normaliser as Normaliser
from neumo.metrics.normalise import find_normaliser as find_normaliser
from neumo.metrics.wer import Accumulator as Accumulator
from neumo.metrics.wer import CharErrorRate as CharErrorRate
from neumo.metrics.wer import ErrorRateAccumulator as ErrorRateAccumulator
from neumo.metrics.wer import WordErrorRate as WordErrorRate
