"""Callbacks: what happens beside a training, at its start and end and at those of epochs, steps and
batches.
"""

from neumo.engine.callback import Callback as Callback
from neumo.engine.callbacks.checkpoint import Checkpoint as Checkpoint
from neumo.engine.callbacks.evaluate import Evaluate as Evaluate
from neumo.engine.callbacks.functions import FunctionCallback as FunctionCallback
from neumo.engine.callbacks.functions import on_action_end as on_action_end
from neumo.engine.callbacks.functions import on_action_start as on_action_start
from neumo.engine.callbacks.functions import on_batch_end as on_batch_end
from neumo.engine.callbacks.functions import on_batch_start as on_batch_start
from neumo.engine.callbacks.functions import on_epoch_end as on_epoch_end
from neumo.engine.callbacks.functions import on_epoch_start as on_epoch_start
from neumo.engine.callbacks.functions import on_step_end as on_step_end
from neumo.engine.callbacks.functions import on_step_start as on_step_start
from neumo.engine.callbacks.profile import Profile as Profile
from neumo.engine.callbacks.samples import Sample as Sample
from neumo.engine.callbacks.samples import Samples as Samples
from neumo.engine.callbacks.schedule_value import Keep as Keep
from neumo.engine.callbacks.schedule_value import Ramp as Ramp
from neumo.engine.callbacks.schedule_value import ScheduleValue as ScheduleValue
from neumo.engine.callbacks.stopping import EarlyStop as EarlyStop
from neumo.engine.callbacks.stopping import TimeLimit as TimeLimit
from neumo.engine.callbacks.unfreeze import Unfreeze as Unfreeze
