"""Compiles calls of a plan with torch.compile: neighbours become one function, and nothing falls back unsaid.

Names of weights stay as they are, since functions are compiled and not modules. Inductor, the compiler
behind it: Ansel et al. 2024, PyTorch 2, https://doi.org/10.1145/3620665.3640366.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import shutil
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from neumo.backends.torch.device import Place
from neumo.engine.plan import SPARE, Plan, PlanStep
from neumo.engine.updates.compile import Compile
from neumo.types.errors import BackendError

Function: TypeAlias = Callable[..., Any]
Call: TypeAlias = tuple[Function, tuple[int, ...], "int | tuple[int, ...]", tuple[int, ...]]

BREAKS = "graph-breaks"  # what `allow` has to have, so that parts of a module may run uncompiled


@dataclass(frozen=True)
class Joined:
    """The calls of a plan with neighbours compiled together, and the place in the plan where each begins."""

    calls: tuple[Call, ...]
    starts: tuple[int, ...]


class Compiler:
    """Compiles calls for one session; the same calls of the same modules are compiled once.

    Raises `BackendError` where the device, or the machine, cannot do what is asked for.
    """

    def __init__(
        self, settings: Compile, place: Place, allow: Collection[str] = (), *, sharded: bool = False
    ) -> None:
        _check_machine(settings, place)
        if sharded:
            raise BackendError(
                "compile and FSDP do not go together",
                code="compile",
                why="Code that torch.compile cannot follow gathers weights before each layer and frees them.",
                fixes=["strategy=DDP() trains compiled modules", "compile=False"],
            )
        self.settings = settings
        self.records = settings.records
        self._whole = BREAKS not in allow
        self._known: dict[Any, Function] = {}
        self._seen: dict[str, None] = {}  # names of modules so far, in order

    def join(self, plan: Plan, modules: Sequence[nn.Module], calls: Sequence[Call]) -> Joined:
        """Compile the calls of the chosen modules. `modules` has that of each call.

        Raises `GraphError` for a name that no module has, `BackendError` for one that cannot be compiled.
        """
        self._seen.update(dict.fromkeys(step.name for step in plan.steps))
        self.settings.check(list(self._seen))
        chosen = [self._means(step, module) for step, module in zip(plan.steps, modules, strict=True)]
        joined: list[Call] = []
        starts: list[int] = []
        for first, end in _spans(chosen):
            starts.append(first)
            joined.append(self._region(plan, calls, first, end) if chosen[first] else calls[first])
        return Joined(tuple(joined), tuple(starts))

    def _means(self, step: PlanStep, module: nn.Module) -> bool:
        able = getattr(module, "compiles", True)
        if self.settings.patterns is None:
            return able and step.module.role != "decoder"
        if not self.settings.means(step.name):
            return False
        if not able:
            raise BackendError(
                f"{step.name} cannot be compiled: {type(module).__name__} says so with compiles = False",
                code="compile",
                why="What its code does depends on the numbers in its tensors.",
                fixes=["leave it out of compile=..., which names the modules that are compiled"],
            )
        return True

    def _region(self, plan: Plan, calls: Sequence[Call], first: int, end: int) -> Call:
        steps, own = plan.steps[first:end], calls[first:end]
        made = {slot for step in steps for slot in step.targets}
        freed = {slot for step in steps for slot in step.release}
        sources = tuple(dict.fromkeys(slot for call in own for slot in call[1] if slot not in made))
        targets = tuple(sorted(made - freed - {SPARE}))
        shape = tuple((id(step.module), tuple(step.sources.items()), step.targets) for step in steps)
        key = (shape, sources, targets)
        if key not in self._known:
            name = "_".join(dict.fromkeys(step.name for step in steps))
            self._known[key] = self._compile(_joined(own, sources, targets), name)
        return self._known[key], sources, targets, tuple(sorted(freed - made))

    def _compile(self, function: Function, name: str) -> Function:
        settings = self.settings
        mode = "max-autotune-no-cudagraphs" if settings.mode == "max-autotune" else "default"
        options = dict(_mode_options(mode))
        options |= {"triton.cudagraphs": settings.records, "fallback_random": settings.same_random}
        compiled = torch.compile(
            _with_own_code(function, name),
            fullgraph=self._whole,
            dynamic=settings.dynamic,
            options=options,
        )
        return compiled if self._whole else _saying_breaks(compiled, name)

    def begin(self) -> None:
        """Start a run: what recorded work has written in the one before may be overwritten."""
        if self.records:
            torch.compiler.cudagraph_mark_step_begin()

    def kept(self, values: list[Any]) -> list[Any]:
        """Return what the next run of recorded work does not overwrite."""
        if not self.records:
            return values
        return [value.clone() if isinstance(value, Tensor) else value for value in values]

    @staticmethod
    def is_at_fault(error: Exception) -> bool:
        """Say whether an error comes from compiling."""
        from torch._dynamo.exc import TorchDynamoException  # pyright: ignore[reportPrivateUsage]

        return isinstance(error, TorchDynamoException)

    def refuse(self, error: Exception, names: Sequence[str], unfit: Sequence[str]) -> BackendError:
        """Say what could not be compiled. `names` are the modules that were to be, `unfit` those at fault."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        if type(error).__name__ == "FailOnRecompileLimitHit":
            return self._too_many(names)
        rest = [name for name in names if name not in unfit]
        fixes = [f"compile={rest!r} leaves {' and '.join(unfit)} out"] if unfit and rest else []
        fixes += ["a torch module that says `compiles = False` runs as it is"] if unfit else []
        fixes += [f"allow={{'{BREAKS}'}} runs the parts that cannot be compiled as they are"] if unfit else []
        reason = lines[0] if lines else type(error).__name__
        told = [line for line in lines[1:] if line.startswith(("Explanation:", "Caused by:", "File"))]
        return BackendError(
            f"{' and '.join(unfit or names)} cannot be compiled: {reason}",
            code="compile",
            details=told[:3],
            fixes=[*fixes, "compile=False"],
        )

    def _too_many(self, names: Sequence[str]) -> BackendError:
        way = ["Compile(dynamic=True) compiles once for all sizes"] if not self.settings.dynamic else []
        return BackendError(
            f"{' and '.join(names)} would be compiled again and again: shapes or settings keep changing",
            code="compile",
            details=["TORCH_LOGS=recompiles shows what changes"],
            fixes=[*way, "compile=False"],
        )


def unfit(function: Function, values: Sequence[Any]) -> bool:
    """Say whether a function of these values cannot be followed by torch.compile from end to end."""
    try:
        with torch.no_grad():
            torch.compile(_with_own_code(_direct(function), "probe"), backend="eager", fullgraph=True)(
                *values
            )
    except Exception:  # whatever it is: the function itself has just run with these values
        return True
    return False


def _direct(function: Function) -> Function:
    return lambda *values: function(*values)


def _check_machine(settings: Compile, place: Place) -> None:
    kind = place.device.type
    if kind == "cpu":
        if settings.records:
            raise BackendError(
                "CUDA graphs were asked for, and the device is a CPU",
                code="compile",
                why="They spare a GPU the launch of each operation; a CPU launches none.",
                fixes=["compile=True compiles for the CPU", "device='cuda' on a machine with a GPU"],
            )
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            raise BackendError(
                f"compile needs a C++ compiler, and there is no {compiler!r}",
                code="compile",
                fixes=["install g++ (Debian: apt install g++)", "CXX=clang++ names another", "compile=False"],
            )
    elif kind == "cuda" and importlib.util.find_spec("triton") is None:
        raise BackendError(
            "compile needs triton on a GPU, and it is not installed",
            code="compile",
            fixes=["pip install triton", "compile=False"],
        )
    elif kind == "meta":
        raise BackendError("device 'meta' computes nothing, so there is nothing to compile", code="compile")


def _mode_options(mode: str) -> dict[str, Any]:
    with warnings.catch_warnings():  # inductor imports what torch itself has deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch import _inductor as inductor  # pyright: ignore[reportPrivateUsage]

        importlib.import_module("torch._inductor.compile_fx")
    from torch._dynamo import config  # pyright: ignore[reportPrivateUsage]

    # Inside of DistributedDataParallel it would cut graphs between buckets of gradients, and refuses some.
    config.optimize_ddp = False
    return cast("dict[str, Any]", inductor.list_mode_options(mode))


def _spans(chosen: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Neighbours that are chosen together, and every other one alone: (first, end)."""
    at = 0
    while at < len(chosen):
        end = at + 1
        while chosen[at] and end < len(chosen) and chosen[end]:
            end += 1
        yield at, end
        at = end


def _joined(calls: Sequence[Call], sources: tuple[int, ...], targets: tuple[int, ...]) -> Function:
    """Make one plain function out of calls: the values of some slots to those of others."""
    steps = tuple((function, read, written) for function, read, written, _ in calls)

    def region(*values: Any) -> tuple[Any, ...]:
        slots = dict(zip(sources, values, strict=True))
        for function, read, written in steps:
            given = function(*[slots[slot] for slot in read])
            if isinstance(written, int):
                slots[written] = given
            else:
                for slot, value in zip(written, given, strict=True):
                    slots[slot] = value
        return tuple(slots[slot] for slot in targets)

    return region


def _with_own_code(function: Function, name: str) -> Function:
    """Copy a function together with its code: torch.compile counts its translations by code object."""
    plain = cast("FunctionType", function)
    code = plain.__code__.replace(co_name=name)
    return FunctionType(code, plain.__globals__, name, plain.__defaults__, plain.__closure__)


def _saying_breaks(compiled: Function, name: str) -> Function:
    """Warn, once, where a part of the code runs uncompiled."""
    from torch._dynamo.utils import counters  # pyright: ignore[reportPrivateUsage]

    state = {"said": False}

    def run(*values: Any) -> Any:
        if state["said"]:
            return compiled(*values)
        before = dict(counters["graph_break"])
        given = compiled(*values)
        fresh = [reason for reason, count in counters["graph_break"].items() if count > before.get(reason, 0)]
        if fresh:
            state["said"] = True
            first = str(fresh[0]).strip().splitlines()[0]
            logging.getLogger("neumo").warning(
                "compile: %s runs in parts, of which some are not compiled: %s", name, first
            )
        return given

    return run
