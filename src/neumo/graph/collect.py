"""Gathering the errors of many calls: all mistakes of a file are told at once, none of their consequences."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from neumo.graph.compose import collected
from neumo.graph.value import Doubt, Record, Step, Value
from neumo.types import Any_, GraphError, NeumoError, NeuralType, PortError


@contextmanager
def collect(*, raises: bool = True) -> Generator[list[NeumoError]]:
    """Gather the errors of all calls inside, and raise them together at the end.

    A call that was refused still returns a record, so that what follows is judged as well: what it gives has
    its declared types, sizes and facets that cannot be known are left open, and no mistake is told twice. An
    output that there is not, such as `feats.mle`, is gathered, too. With `raises=False` the caller judges the
    list; a graph that a refused call is part of cannot be run or saved.

    >>> from neumo.graph.adapters import Resample
    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Audio, B, T
    >>> with collect(raises=False) as errors:
    ...     slow = Resample(22050, 16000)(audio=inputs(audio=Audio(rate=8000)[B, T]).audio)
    >>> [error.what for error in errors]
    ['inputs.audio cannot feed Resample.audio: rate is 8000, not 22050']
    """
    errors: list[NeumoError] = []
    token = collected.set(errors)
    try:
        yield errors
    except NeumoError as error:
        if not errors:
            raise
        raise together([*errors, error]) from error
    except BaseException as error:
        for each in errors:  # what stopped the block is not why they are wrong: say both
            error.add_note(each.render())
        raise
    finally:
        collected.reset(token)
    if errors and raises:
        raise together(errors)


def together(errors: Sequence[NeumoError]) -> NeumoError:
    """Make one error of several; a single one stays as it is.

    >>> print(together([PortError("a is left out"), GraphError("there is a cycle")]))
    GraphError[collect]: 2 mistakes
    <BLANKLINE>
    PortError[port]: a is left out
    <BLANKLINE>
    GraphError[graph]: there is a cycle
    """
    flat = [part for error in errors for part in (error.also if error.code == "collect" else (error,))]
    if len(flat) == 1:
        return flat[0]
    kind = PortError if all(isinstance(error, PortError) for error in flat) else GraphError
    return kind(f"{len(flat)} mistakes", code="collect", also=flat)


def unknown_value(name: str, port: str, refusal: Sequence[NeumoError] = ()) -> Value:
    """Make a value that stands for what a mistake left unknown; no connection of it is judged."""
    return unknown_record(name, [port], refusal)[port]


def unknown_record(name: str, ports: Iterable[str], refusal: Sequence[NeumoError] = ()) -> Record:
    """Make a record of such values, by name."""
    from neumo.graph.inputs import GraphInputs

    step = Step(GraphInputs().named(name) if name.isidentifier() else GraphInputs(), {})
    step.doubt, step.refusal = Doubt.ALL, tuple(refusal)
    step.outputs = {port: Value(step, port, NeuralType(Any_())) for port in ports}
    return Record(name, step.outputs)


def refused_steps(steps: Iterable[Step]) -> list[Step]:
    """List the steps that were refused, or that stand for what a mistake left unknown."""
    return [step for step in steps if step.refusal or step.doubt is Doubt.ALL]


def check_runnable(name: str, steps: Iterable[Step], action: str = "run") -> None:
    """Raise `GraphError` if a call among the steps was refused: what it gives means nothing."""
    wrong = refused_steps(steps)
    if wrong:
        errors = {id(error): error for step in wrong for error in step.refusal}
        calls = "1 call that was" if len(wrong) == 1 else f"{len(wrong)} calls that were"
        raise GraphError(
            f"graph {name!r} has {calls} refused: it cannot be {action}",
            code="refused",
            fixes=["put the calls right; collect(raises=False) only defers what they raise"],
            also=list(errors.values()),
        )
