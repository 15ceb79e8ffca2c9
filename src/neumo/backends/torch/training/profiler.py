"""Where the time of training steps goes: a trace, and the time of each module."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

from neumo.engine.callbacks.profile import Timed

_MARK = "neumo: "  # what stands before the name of a module in a trace


class TorchProfiler:
    """Profiles the steps between its making and `finish`.

    Each call of a module and of every layer in it is marked in the trace by its name. The hooks that do this
    are gone afterwards, and change no number.
    """

    def __init__(self, modules: Mapping[str, nn.Module], device: torch.device) -> None:
        self._handles: list[Any] = []
        for name, module in modules.items():
            for path, layer in module.named_modules():
                self._mark(f"{name}.{path}" if path else name, layer)
        activities = [ProfilerActivity.CPU]
        if device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        self._device = device
        self._profile = profile(activities=activities, acc_events=True)
        self._profile.start()

    def _mark(self, name: str, layer: nn.Module) -> None:
        opened: list[Any] = []  # a layer may call itself

        def begin(*_: Any) -> None:
            opened.append(record_function(_MARK + name))
            opened[-1].__enter__()

        def end(*_: Any) -> None:
            opened.pop().__exit__(None, None, None)

        self._handles.append(layer.register_forward_pre_hook(begin))
        self._handles.append(layer.register_forward_hook(end, always_call=True))

    def step(self) -> None:
        """Say that a step has ended."""
        self._profile.step()

    def finish(self, trace: Path | None) -> tuple[list[Timed], list[Timed]]:
        """Write the trace, and return the times of modules and of operations."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._profile.stop()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if trace is None:
            return [], []
        self._profile.export_chrome_trace(str(trace))
        modules: list[Timed] = []
        operations: list[Timed] = []
        for event in self._profile.key_averages():
            marked = event.key.startswith(_MARK)
            device = event.device_time_total if marked else event.self_device_time_total
            host = event.cpu_time_total if marked else event.self_cpu_time_total
            row = Timed(event.key.removeprefix(_MARK), event.count, host / 1e3, device / 1e3)
            (modules if marked else operations).append(row)
        return modules, operations
