"""How modules meet: specifications, typed calls, graphs, and what is said when two do not fit."""

from neumo.graph.assume import Assume as Assume
from neumo.graph.assume import assume as assume
from neumo.graph.collect import collect as collect
from neumo.graph.graph import Assumption as Assumption
from neumo.graph.graph import Graph as Graph
from neumo.graph.graph import SymbolOrigin as SymbolOrigin
from neumo.graph.inputs import GraphInputs as GraphInputs
from neumo.graph.inputs import inputs as inputs
from neumo.graph.loss_sum import LossSum as LossSum
from neumo.graph.module import DataLayer as DataLayer
from neumo.graph.module import Metric as Metric
from neumo.graph.module import NeuralModule as NeuralModule
from neumo.graph.module import label_of as label_of
from neumo.graph.module import module_fields as module_fields
from neumo.graph.module import name_of as name_of
from neumo.graph.module import signature_of as signature_of
from neumo.graph.multi import MultiData as MultiData
from neumo.graph.registry import known_kinds as known_kinds
from neumo.graph.registry import lookup as lookup
from neumo.graph.registry import register as register
from neumo.graph.relax import relax as relax
from neumo.graph.signature import Signature as Signature
from neumo.graph.value import Record as Record
from neumo.graph.value import Step as Step
from neumo.graph.value import Value as Value

__all__ = [
    "Assume",
    "Assumption",
    "DataLayer",
    "Graph",
    "GraphInputs",
    "LossSum",
    "Metric",
    "MultiData",
    "NeuralModule",
    "Record",
    "Signature",
    "Step",
    "SymbolOrigin",
    "Value",
    "assume",
    "collect",
    "inputs",
    "known_kinds",
    "label_of",
    "lookup",
    "module_fields",
    "name_of",
    "register",
    "relax",
    "signature_of",
]
