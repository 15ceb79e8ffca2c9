"""What values mean: sizes, axes, elements, vocabularies, comparison, notation, errors; standard library."""

from neumo.types.axis import ANY as ANY
from neumo.types.axis import ONE as ONE
from neumo.types.axis import Axis as Axis
from neumo.types.axis import B as B
from neumo.types.axis import C as C
from neumo.types.axis import F as F
from neumo.types.axis import H as H
from neumo.types.axis import Kind as Kind
from neumo.types.axis import T as T
from neumo.types.axis import U as U
from neumo.types.axis import V as V
from neumo.types.axis import W as W
from neumo.types.axis import kind_of_name as kind_of_name
from neumo.types.axis import kind_of_size as kind_of_size
from neumo.types.compare import CODES as CODES
from neumo.types.compare import Comparison as Comparison
from neumo.types.compare import Obligation as Obligation
from neumo.types.compare import Outcome as Outcome
from neumo.types.compare import Reason as Reason
from neumo.types.compare import compare as compare
from neumo.types.domain import DialogueState as DialogueState
from neumo.types.domain import Durations as Durations
from neumo.types.domain import Hypotheses as Hypotheses
from neumo.types.domain import Image as Image
from neumo.types.domain import LogDet as LogDet
from neumo.types.domain import Pitch as Pitch
from neumo.types.domain import Positions as Positions
from neumo.types.domain import Scorer as Scorer
from neumo.types.domain import Speaker as Speaker
from neumo.types.domain import State as State
from neumo.types.domain import Strings as Strings
from neumo.types.domain import Values as Values
from neumo.types.element import MFCC as MFCC
from neumo.types.element import Acoustic as Acoustic
from neumo.types.element import Alignment as Alignment
from neumo.types.element import Any_ as Any_
from neumo.types.element import Audio as Audio
from neumo.types.element import Element as Element
from neumo.types.element import Facet as Facet
from neumo.types.element import Features as Features
from neumo.types.element import Flags as Flags
from neumo.types.element import Ids as Ids
from neumo.types.element import Item as Item
from neumo.types.element import Latent as Latent
from neumo.types.element import Lengths as Lengths
from neumo.types.element import Logits as Logits
from neumo.types.element import LogProbs as LogProbs
from neumo.types.element import Loss as Loss
from neumo.types.element import Mask as Mask
from neumo.types.element import Mel as Mel
from neumo.types.element import Probs as Probs
from neumo.types.element import Score as Score
from neumo.types.element import Scores as Scores
from neumo.types.element import Spectrogram as Spectrogram
from neumo.types.element import Text as Text
from neumo.types.element import Var as Var
from neumo.types.element import element_class as element_class
from neumo.types.element import facet as facet
from neumo.types.element import facets_of as facets_of
from neumo.types.environment import Binding as Binding
from neumo.types.environment import Environment as Environment
from neumo.types.errors import BackendError as BackendError
from neumo.types.errors import CheckpointError as CheckpointError
from neumo.types.errors import ConfigError as ConfigError
from neumo.types.errors import DataError as DataError
from neumo.types.errors import Fix as Fix
from neumo.types.errors import GraphError as GraphError
from neumo.types.errors import NeumoError as NeumoError
from neumo.types.errors import PortError as PortError
from neumo.types.errors import Row as Row
from neumo.types.errors import Source as Source
from neumo.types.errors import did_you_mean as did_you_mean
from neumo.types.errors import nearest as nearest
from neumo.types.gap import SizeGap as SizeGap
from neumo.types.gap import gap as gap
from neumo.types.gap import same_size as same_size
from neumo.types.normalise import Normalise as Normalise
from neumo.types.notation import element_text as element_text
from neumo.types.notation import facet_text as facet_text
from neumo.types.notation import parse as parse
from neumo.types.notation import parse_element as parse_element
from neumo.types.notation import parse_size as parse_size
from neumo.types.notation import type_text as type_text
from neumo.types.scheme import Instance as Instance
from neumo.types.scheme import Scheme as Scheme
from neumo.types.scheme import rigid_scope as rigid_scope
from neumo.types.scheme import solve_order as solve_order
from neumo.types.size import Size as Size
from neumo.types.size import Symbol as Symbol
from neumo.types.structs import Struct as Struct
from neumo.types.type import NeuralType as NeuralType
from neumo.types.type import clock_of as clock_of
from neumo.types.vocab import AtLeast as AtLeast
from neumo.types.vocab import Encoding as Encoding
from neumo.types.vocab import Relation as Relation
from neumo.types.vocab import Vocab as Vocab
from neumo.types.vocab import VocabDifference as VocabDifference
from neumo.types.vocab import find_vocab as find_vocab

__all__ = [
    "ANY",
    "CODES",
    "MFCC",
    "ONE",
    "Acoustic",
    "Alignment",
    "Any_",
    "AtLeast",
    "Audio",
    "Axis",
    "B",
    "BackendError",
    "Binding",
    "C",
    "CheckpointError",
    "Comparison",
    "ConfigError",
    "DataError",
    "DialogueState",
    "Durations",
    "Element",
    "Encoding",
    "Environment",
    "F",
    "Facet",
    "Features",
    "Fix",
    "Flags",
    "GraphError",
    "H",
    "Hypotheses",
    "Ids",
    "Image",
    "Instance",
    "Item",
    "Kind",
    "Latent",
    "Lengths",
    "LogDet",
    "LogProbs",
    "Logits",
    "Loss",
    "Mask",
    "Mel",
    "NeumoError",
    "NeuralType",
    "Obligation",
    "Outcome",
    "Pitch",
    "PortError",
    "Positions",
    "Probs",
    "Reason",
    "Relation",
    "Row",
    "Scheme",
    "Score",
    "Scorer",
    "Scores",
    "Size",
    "SizeGap",
    "Source",
    "Speaker",
    "Spectrogram",
    "State",
    "Strings",
    "Struct",
    "Symbol",
    "T",
    "Text",
    "U",
    "V",
    "Values",
    "Var",
    "Vocab",
    "VocabDifference",
    "W",
    "clock_of",
    "compare",
    "did_you_mean",
    "element_class",
    "element_text",
    "facet",
    "facet_text",
    "facets_of",
    "find_vocab",
    "gap",
    "kind_of_name",
    "kind_of_size",
    "nearest",
    "parse",
    "parse_element",
    "parse_size",
    "rigid_scope",
    "same_size",
    "solve_order",
    "type_text",
]
