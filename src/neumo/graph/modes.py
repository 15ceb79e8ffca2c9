"""Modes: what a graph is for, and which graphs may be part of which.

=============  ==================  ==================  ==================
a graph for    in one for "both"   in one for "train"  in one for "infer"
=============  ==================  ==================  ==================
"both"         may be part         may be part         may be part
"train"        refused             may be part         refused
"infer"        refused             refused             may be part
=============  ==================  ==================  ==================

A call of a module or of a graph knows nothing of modes: values belong to no graph until one is made of them.
So the steps of a nested graph remember it, and the graph that is made of them is where modes are compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from neumo.graph.value import Step
from neumo.types import GraphError
from neumo.types.errors import did_you_mean

Mode = Literal["both", "train", "infer"]
MODES: Final = ("both", "train", "infer")
_PURPOSE: Final = {
    "both": "both training and inference",
    "train": "training",
    "infer": "inference",
}
_WHY: Final = {
    "train": "It holds what only a training may do, such as augmenting or reading the targets.",
    "infer": "It holds what only inference may do, such as searching for the best text.",
}


def check_mode(mode: object) -> Mode:
    """Give a mode back, or raise `GraphError` if it is none.

    >>> check_mode("train")
    'train'
    """
    if isinstance(mode, str) and mode in MODES:
        return mode
    if not isinstance(mode, str):
        raise GraphError(
            f"a graph has no mode of type {type(mode).__name__}",
            code="mode",
            fixes=["mode is both, train or infer", "write outputs=... if these are the outputs"],
        )
    raise GraphError(
        f"a graph has no mode {mode!r}",
        code="mode",
        fixes=[*did_you_mean(mode, MODES), "mode is both, train or infer"],
    )


def may_nest(inner: Mode, outer: Mode) -> bool:
    """Say whether a graph of one mode may be part of a graph of another.

    >>> may_nest("both", "train"), may_nest("train", "both")
    (True, False)
    """
    return inner in ("both", outer)


def check_nesting(name: str, mode: Mode, steps: Iterable[Step]) -> None:
    """Raise `GraphError` if a step comes from a nested graph that is for something else than this one."""
    for step in steps:
        if not step.within:
            continue
        call = step.within[0]
        if not may_nest(call.graph.mode, mode):
            inner = call.graph
            raise GraphError(
                f"graph {inner.name!r} is for {_PURPOSE[inner.mode]}, "
                f"so it cannot be part of {name!r}, which is for {_PURPOSE[mode]}",
                code="mode",
                where=None if call.location is None else call.location.place,
                why=_WHY[inner.mode],
                fixes=[
                    f"make {name!r} with mode {inner.mode!r}",
                    f"make {inner.name!r} with mode 'both', if all of its steps are right in both",
                ],
            )
