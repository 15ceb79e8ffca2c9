"""What a search asks for the next label: the value behind the type `Scorer`.

A decoder or a language model makes one in its call and keeps its weights to itself; a search calls it. So the
two meet as a value of the graph, and no module holds another.

Shapes: B rows, N hypotheses (`copies` of each row, one behind the other), V labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from neumo.backends.torch.lengths import at_least_float32

Start = Callable[[int], Any]
Step = Callable[[Tensor, Any], tuple[Tensor, Any]]


class LabelScorer:
    """Tells the log-probability of each label to be next, for many hypotheses at once.

    >>> step = lambda labels, state: (torch.zeros(len(labels), 4), state)
    >>> even = LabelScorer(2, "cpu", start=lambda copies: (), step=step)
    >>> log_probs, state = even.score(torch.tensor([0, 0]), even.start(copies=1))
    >>> log_probs.exp()
    tensor([[0.2500, 0.2500, 0.2500, 0.2500],
            [0.2500, 0.2500, 0.2500, 0.2500]])

    `start` takes how many hypotheses each row has and gives a state for them that has read nothing; `step`
    takes the last label of each (`<bos>` at first) and the state, and gives scores before a softmax and the
    next state. A state is made of tensors whose first axis is N, in tuples and lists; `pick` chooses from it.
    It computes in the precision that its module computes in, wherever it is called.
    """

    dtype = "scorer"  # with `shape`, what a value has that is checked against its type

    def __init__(self, rows: int, device: torch.device | str, start: Start, step: Step) -> None:
        self.rows, self.device = rows, torch.device(device)
        kind = self.device.type
        self._autocast = torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)
        self._start, self._step = start, step

    @property
    def shape(self) -> tuple[int]:
        """One for each row of a batch."""
        return (self.rows,)

    def start(self, copies: int) -> Any:
        """Make the state of `copies` hypotheses of each row that have read nothing yet."""
        with self._precision():
            return self._start(copies)

    def score(self, labels: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Read one label of each hypothesis and tell what may come next: (N,) -> (N, V) in float32."""
        with self._precision():
            scores, state = self._step(labels, state)
            return at_least_float32(scores).log_softmax(dim=-1), state

    def _precision(self) -> torch.autocast:
        enabled, dtype = self._autocast
        return torch.autocast(self.device.type, dtype=dtype, enabled=enabled)


def pick(state: Any, rows: Tensor) -> Any:
    """Choose hypotheses from a state, by their numbers; one may be chosen many times.

    >>> pick((torch.tensor([5, 6]), [torch.tensor([7, 8])], None), torch.tensor([1, 1]))
    (tensor([6, 6]), [tensor([8, 8])], None)
    """
    if isinstance(state, Tensor):
        return state.index_select(0, rows)
    if isinstance(state, tuple) and hasattr(state, "_fields"):
        return cast("Any", type(state))(*(pick(part, rows) for part in cast("Any", state)))
    if isinstance(state, tuple | list):
        kind: Any = tuple if isinstance(state, tuple) else list
        return kind(pick(part, rows) for part in cast("Any", state))
    return state
