"""Devices and precisions: what is asked for is what is used, or the reason why not is said."""

from __future__ import annotations

import platform
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch

from neumo.types.errors import BackendError, did_you_mean

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64}


@dataclass(frozen=True)
class Place:
    """Where and how to compute: weights are kept in `weights` precision, trainable modules compute in
    `compute`.
    """

    device: torch.device
    precision: str
    notes: tuple[str, ...] = ()

    @property
    def compute(self) -> torch.dtype:
        """The dtype of the products of trainable modules."""
        return PRECISIONS[self.precision]

    @property
    def weights(self) -> torch.dtype:
        """The dtype of the weights and of everything outside trainable modules."""
        return torch.float64 if self.precision == "fp64" else torch.float32

    @property
    def mixed(self) -> bool:
        """Whether trainable modules compute in a lower precision than their weights have."""
        return self.compute != self.weights

    @property
    def scales_loss(self) -> bool:
        """Whether gradients would vanish without loss scaling."""
        return self.precision == "fp16"

    def autocast(self) -> AbstractContextManager[object]:
        """Enter the lower precision."""
        return torch.autocast(self.device.type, self.compute) if self.mixed else nullcontext()


def choose_place(device: str, precision: str, allow: Collection[str] = ()) -> Place:
    """Check that a device exists and really computes in a precision; raises `BackendError` with the reason
    if not.

    >>> place = choose_place("cpu", "fp32")
    >>> place.device.type, place.mixed
    ('cpu', False)
    """
    if precision not in PRECISIONS:
        raise BackendError(
            f"there is no precision {precision!r}",
            code="precision",
            details=[f"precisions: {', '.join(PRECISIONS)}"],
            fixes=did_you_mean(precision, PRECISIONS),
        )
    chosen = _device(device)
    if chosen.type == "cuda":
        notes = _check_cuda(chosen, precision, allow)
    elif chosen.type == "cpu":
        notes = _check_cpu(precision, allow)
    else:
        notes = [f"device {chosen.type}: precision {precision} is not verified by neumo"]
    return Place(chosen, precision, (f"{_name(chosen)}, {_words(precision)}", *notes))


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise BackendError(
            f"there is no device {name!r}",
            code="device",
            fixes=[*did_you_mean(name, ["auto", "cpu", "cuda"]), "use auto, cpu, cuda or cuda:1"],
        ) from error
    if device.type == "cuda":
        _require_cuda(name, device)
    elif device.type == "mps" and not torch.backends.mps.is_available():
        raise BackendError(
            "device 'mps' was asked for, but this machine has none", code="device", fixes=["device='cpu'"]
        )
    return device


def _require_cuda(name: str, device: torch.device) -> None:
    if not torch.cuda.is_available():
        built = torch.version.cuda
        reason = (
            "no GPU or driver is visible" if built else f"torch {torch.__version__} is built without CUDA"
        )
        raise BackendError(
            f"device {name!r} was asked for, but {reason}",
            code="device",
            fixes=["device='auto' takes a GPU where there is one", "device='cpu'"],
        )
    if device.index is not None and device.index >= torch.cuda.device_count():
        raise BackendError(
            f"device {name!r} was asked for, but the GPUs here are 0 to {torch.cuda.device_count() - 1}",
            code="device",
        )


def _check_cuda(device: torch.device, precision: str, allow: Collection[str]) -> list[str]:
    if precision != "bf16":
        return []
    capability = torch.cuda.get_device_capability(device)
    if capability >= (8, 0):  # Ampere and later have bf16 units; earlier ones emulate it
        return []
    if "emulated-bf16" in allow:
        return ["bf16 is emulated on this GPU, which is slow"]
    raise BackendError(
        f"{torch.cuda.get_device_name(device)} has no bf16 units",
        code="precision",
        details=[f"its compute capability is {capability[0]}.{capability[1]}, and bf16 needs 8.0"],
        fixes=[
            "precision='fp16' uses loss scaling and is fast here",
            "allow={'emulated-bf16'} accepts slow emulation",
        ],
    )


def _check_cpu(precision: str, allow: Collection[str]) -> list[str]:
    if precision == "fp16" and "fp16-on-cpu" not in allow:
        raise BackendError(
            "fp16 on a CPU is refused: it is 2 to 60 times slower than fp32, and recurrent layers fail in it",
            code="precision",
            fixes=[
                "precision='bf16' is faster than fp32 on recent CPUs",
                "allow={'fp16-on-cpu'} accepts it, for tests",
            ],
        )
    if precision == "bf16" and not _has_bf16_units():
        return ["this CPU has no bf16 instructions: bf16 saves memory here, not time"]
    return []


def _has_bf16_units() -> bool:
    flags = torch.backends.cpu.get_cpu_capability()
    if flags in ("AVX512", "AVX2", "DEFAULT", "NO AVX"):
        try:
            return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
        except AttributeError:  # a private query, absent from some versions: then nothing is said
            return True
    return True


def _name(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)} ({device})"
    threads = torch.get_num_threads()
    return f"CPU {platform.machine()}, {threads} thread{'s' if threads != 1 else ''}"


def _words(precision: str) -> str:
    return {
        "fp32": "fp32",
        "fp64": "fp64",
        "bf16": "bf16 products, fp32 weights and losses",
        "fp16": "fp16 products with dynamic loss scaling, fp32 weights and losses",
    }[precision]
