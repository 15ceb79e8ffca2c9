"""Callbacks out of functions: a decorator for each event."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from neumo.engine.callback import EVENTS, Callback

if TYPE_CHECKING:
    from neumo.engine.loop.run import Run

Heard: TypeAlias = "Callable[[Run], None]"


class FunctionCallback(Callback):
    """A callback that calls one function at some events; `on_step_end` and the others make it."""

    function: Heard

    def __call__(self, run: Run) -> None:
        """Call the function, as if it had never been decorated."""
        type(self).function(run)


class Listening:
    """Makes a callback of a function that takes the run: what `on_step_end` and the others are.

    >>> @on_step_end
    ... def stop_at_small_loss(run):
    ...     if run.loss < 0.1:
    ...         run.stop("the loss is small")
    >>> stop_at_small_loss
    stop_at_small_loss (on_step_end)

    Decorators may be stacked, for a function that several events call. `order` and `only_first` are those of
    `Callback`: `@on_epoch_end(order=85, only_first=True)`.
    """

    def __init__(self, event: str) -> None:
        self.event = event

    @overload
    def __call__(self, function: Heard, /) -> FunctionCallback: ...

    @overload
    def __call__(
        self, /, *, order: int = 15, only_first: bool = False
    ) -> Callable[[Heard], FunctionCallback]: ...

    def __call__(
        self, function: Heard | None = None, /, *, order: int = 15, only_first: bool = False
    ) -> FunctionCallback | Callable[[Heard], FunctionCallback]:
        """Make a callback that calls the function at this event, and at those it has heard of before."""
        if function is None:
            return lambda function: self._callback(function, order, only_first)
        return self._callback(function, order, only_first)

    def _callback(self, function: Heard, order: int, only_first: bool) -> FunctionCallback:
        if isinstance(function, FunctionCallback):
            told = {self.event: _told(type(function).function)}
            return type(type(function).__name__, (type(function),), told)()
        more: dict[str, Any] = {self.event: _told(function)}
        name = getattr(function, "__name__", type(function).__name__)
        more |= {"function": staticmethod(function), "order": order, "only_first": only_first}
        more["__doc__"] = function.__doc__
        return type(name, (FunctionCallback,), {**more, "__repr__": _text})()


def _told(function: Heard) -> Callable[[Callback, Run], None]:
    def told(_: Callback, run: Run) -> None:
        function(run)

    return told


def _text(callback: FunctionCallback) -> str:
    heard = [event for event in EVENTS if getattr(type(callback), event) is not getattr(Callback, event)]
    return f"{type(callback).__name__} ({', '.join(heard)})"


on_action_start = Listening("on_action_start")
on_action_end = Listening("on_action_end")
on_epoch_start = Listening("on_epoch_start")
on_epoch_end = Listening("on_epoch_end")
on_step_start = Listening("on_step_start")
on_step_end = Listening("on_step_end")
on_batch_start = Listening("on_batch_start")
on_batch_end = Listening("on_batch_end")
