"""What is done with a graph: train, evaluate, infer. No framework is imported here; a backend is found by
name.
"""

from neumo.engine.backend import find_backend as find_backend
from neumo.engine.callbacks import Callback as Callback
from neumo.engine.callbacks import Checkpoint as Checkpoint
from neumo.engine.callbacks import EarlyStop as EarlyStop
from neumo.engine.callbacks import Evaluate as Evaluate
from neumo.engine.callbacks import Keep as Keep
from neumo.engine.callbacks import Profile as Profile
from neumo.engine.callbacks import Ramp as Ramp
from neumo.engine.callbacks import Sample as Sample
from neumo.engine.callbacks import Samples as Samples
from neumo.engine.callbacks import ScheduleValue as ScheduleValue
from neumo.engine.callbacks import TimeLimit as TimeLimit
from neumo.engine.callbacks import Unfreeze as Unfreeze
from neumo.engine.callbacks import on_action_end as on_action_end
from neumo.engine.callbacks import on_action_start as on_action_start
from neumo.engine.callbacks import on_batch_end as on_batch_end
from neumo.engine.callbacks import on_batch_start as on_batch_start
from neumo.engine.callbacks import on_epoch_end as on_epoch_end
from neumo.engine.callbacks import on_epoch_start as on_epoch_start
from neumo.engine.callbacks import on_step_end as on_step_end
from neumo.engine.callbacks import on_step_start as on_step_start
from neumo.engine.checkpoints.average import average_checkpoints as average_checkpoints
from neumo.engine.checkpoints.store import CheckpointStore as CheckpointStore
from neumo.engine.factory import NeuralFactory as NeuralFactory
from neumo.engine.loop.phases import Phase as Phase
from neumo.engine.loop.run import Run as Run
from neumo.engine.loop.train import TrainResult as TrainResult
from neumo.engine.passes.evaluate import Evaluation as Evaluation
from neumo.engine.plan import Plan as Plan
from neumo.engine.plan import compile_plan as compile_plan
from neumo.engine.processes.strategies import DDP as DDP
from neumo.engine.processes.strategies import FSDP as FSDP
from neumo.engine.processes.workers import Workers as Workers
from neumo.engine.tracking import CSV as CSV
from neumo.engine.tracking import LossLogger as LossLogger
from neumo.engine.tracking import MLflow as MLflow
from neumo.engine.tracking import Progress as Progress
from neumo.engine.tracking import Provenance as Provenance
from neumo.engine.tracking import TensorBoard as TensorBoard
from neumo.engine.tracking import Tracker as Tracker
from neumo.engine.tracking import WandB as WandB
from neumo.engine.tracking import read_log as read_log
from neumo.engine.tracking import read_starts as read_starts
from neumo.engine.updates.compile import Compile as Compile
from neumo.engine.updates.optimizers import EMA as EMA
from neumo.engine.updates.optimizers import LAMB as LAMB
from neumo.engine.updates.optimizers import LARC as LARC
from neumo.engine.updates.optimizers import SGD as SGD
from neumo.engine.updates.optimizers import Adafactor as Adafactor
from neumo.engine.updates.optimizers import Adam as Adam
from neumo.engine.updates.optimizers import AdamW as AdamW
from neumo.engine.updates.optimizers import Group as Group
from neumo.engine.updates.optimizers import Muon as Muon
from neumo.engine.updates.optimizers import NovoGrad as NovoGrad
from neumo.engine.updates.precision import LossScale as LossScale
from neumo.engine.updates.schedules import WSD as WSD
from neumo.engine.updates.schedules import Constant as Constant
from neumo.engine.updates.schedules import Cosine as Cosine
from neumo.engine.updates.schedules import CosineRestarts as CosineRestarts
from neumo.engine.updates.schedules import InverseSquareRoot as InverseSquareRoot
from neumo.engine.updates.schedules import Linear as Linear
from neumo.engine.updates.schedules import Noam as Noam
from neumo.engine.updates.schedules import Plateau as Plateau
from neumo.engine.updates.schedules import Polynomial as Polynomial
from neumo.engine.updates.schedules import Schedule as Schedule
from neumo.engine.updates.schedules import Square as Square
from neumo.engine.updates.schedules import SquareRoot as SquareRoot
from neumo.engine.updates.schedules import Step as Step
from neumo.engine.updates.schedules import WarmupHold as WarmupHold

__all__ = [
    "CSV",
    "DDP",
    "EMA",
    "FSDP",
    "LAMB",
    "LARC",
    "SGD",
    "WSD",
    "Adafactor",
    "Adam",
    "AdamW",
    "Callback",
    "Checkpoint",
    "CheckpointStore",
    "Compile",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "EarlyStop",
    "Evaluate",
    "Evaluation",
    "Group",
    "InverseSquareRoot",
    "Keep",
    "Linear",
    "LossLogger",
    "LossScale",
    "MLflow",
    "Muon",
    "NeuralFactory",
    "Noam",
    "NovoGrad",
    "Phase",
    "Plan",
    "Plateau",
    "Polynomial",
    "Profile",
    "Progress",
    "Provenance",
    "Ramp",
    "Run",
    "Sample",
    "Samples",
    "Schedule",
    "ScheduleValue",
    "Square",
    "SquareRoot",
    "Step",
    "TensorBoard",
    "TimeLimit",
    "Tracker",
    "TrainResult",
    "Unfreeze",
    "WandB",
    "WarmupHold",
    "Workers",
    "average_checkpoints",
    "compile_plan",
    "find_backend",
    "on_action_end",
    "on_action_start",
    "on_batch_end",
    "on_batch_start",
    "on_epoch_end",
    "on_epoch_start",
    "on_step_end",
    "on_step_start",
    "read_log",
    "read_starts",
]
