"""What a training leaves for people: logs, displays, and a record of what was run."""

from neumo.engine.tracking.metrics import LOG as LOG
from neumo.engine.tracking.metrics import LossLogger as LossLogger
from neumo.engine.tracking.metrics import read_log as read_log
from neumo.engine.tracking.progress import Progress as Progress
