"""What a training leaves for people: logs, displays, trackers, and a record of what was run."""

from neumo.engine.tracking.metrics import LOG as LOG
from neumo.engine.tracking.metrics import LossLogger as LossLogger
from neumo.engine.tracking.metrics import read_log as read_log
from neumo.engine.tracking.mlflow import MLflow as MLflow
from neumo.engine.tracking.progress import Progress as Progress
from neumo.engine.tracking.provenance import RUN as RUN
from neumo.engine.tracking.provenance import Provenance as Provenance
from neumo.engine.tracking.provenance import read_starts as read_starts
from neumo.engine.tracking.table import CSV as CSV
from neumo.engine.tracking.table import TABLE as TABLE
from neumo.engine.tracking.tensorboard import TensorBoard as TensorBoard
from neumo.engine.tracking.tracker import Tracker as Tracker
from neumo.engine.tracking.wandb import WandB as WandB
