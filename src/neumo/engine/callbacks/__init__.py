"""Callbacks: what happens beside a training, at its start and end and at those of epochs, steps and
batches.
"""

from neumo.engine.callbacks.callback import Callback as Callback
from neumo.engine.callbacks.checkpoint import Checkpoint as Checkpoint
from neumo.engine.callbacks.evaluate import Evaluate as Evaluate
from neumo.engine.callbacks.stopping import EarlyStop as EarlyStop
from neumo.engine.callbacks.stopping import TimeLimit as TimeLimit
