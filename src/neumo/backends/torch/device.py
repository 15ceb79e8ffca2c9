"""Devices and precisions: what is asked for is what is used, or the reason why not is said."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

import torch

from neumo.backends.torch.float32 import float32_products
from neumo.engine.updates.precision import WORDS, read_precision
from neumo.types.errors import BackendError, did_you_mean

PRECISIONS: Final = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp64": torch.float64,
    "pure-bf16": torch.bfloat16,
}
_BF16_UNITS: Final = ("avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16", "arm_bf16", "sve_bf16")


@dataclass(frozen=True)
class Place:
    """Where and how to compute: trainable modules compute in `compute`, everything outside them in
    `weights`. `others` are the precisions of modules that have one of their own.
    """

    device: torch.device
    precision: str
    notes: tuple[str, ...] = ()
    others: frozenset[str] = frozenset()

    @property
    def compute(self) -> torch.dtype:
        """The dtype of the products of trainable modules."""
        return PRECISIONS[self.precision]

    @property
    def weights(self) -> torch.dtype:
        """The dtype of everything outside trainable modules; theirs, too, but for pure-bf16."""
        return torch.float64 if self.precision == "fp64" else torch.float32

    @property
    def mixed(self) -> bool:
        """Whether trainable modules compute in a lower precision than everything outside them."""
        return self.compute != self.weights

    @property
    def scales_loss(self) -> bool:
        """Whether gradients would vanish without loss scaling."""
        return self.precision == "fp16" or "fp16" in self.others

    def autocast(self) -> AbstractContextManager[object]:
        """Enter the lower precision."""
        return torch.autocast(self.device.type, self.compute) if self.mixed else nullcontext()

    def float32(self) -> AbstractContextManager[object]:
        """Compute float32 products as the precision says, whatever the process was set to."""
        return float32_products(self.device, "tf32" if self.precision == "tf32" else "ieee")


def choose_place(
    device: str, precision: str, allow: Collection[str] = (), others: Iterable[str] = ()
) -> Place:
    """Check that a device exists and really computes in a precision; raises `BackendError` with the reason
    if not.

    >>> place = choose_place("cpu", "fp32")
    >>> place.device.type, place.mixed
    ('cpu', False)

    `others` are the precisions of modules that have one of their own.
    """
    precision, meant = read_precision(precision)
    chosen = _device(device)
    also = frozenset(others) - {precision}
    notes = [note for each in (precision, *sorted(also)) for note in check_precision(chosen, each, allow)]
    if meant:
        notes.insert(0, meant)
    return Place(chosen, precision, (f"{_name(chosen)}, {WORDS[precision]}", *dict.fromkeys(notes)), also)


def check_precision(device: torch.device, precision: str, allow: Collection[str] = ()) -> list[str]:
    """Say what must be known of a precision on a device; raises `BackendError` if it has not got it."""
    if precision == "tf32":
        _check_tf32(device)
    if device.type == "cuda":
        return _check_cuda(device, precision, allow)
    if device.type == "cpu":
        return _check_cpu(precision, allow)
    return [f"device {device.type}: precision {precision} is not verified by neumo"]


def supported(device: torch.device, allow: Collection[str] = ()) -> dict[str, str]:
    """Say of each precision why this device has not got it, "" if it has.

    >>> [name for name, why in supported(torch.device("cpu")).items() if not why]
    ['fp32', 'bf16', 'fp64', 'pure-bf16']
    """
    found: dict[str, str] = {}
    for precision in PRECISIONS:
        try:
            check_precision(device, precision, allow)
            found[precision] = ""
        except BackendError as error:
            found[precision] = error.what
    return found


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


def _check_tf32(device: torch.device) -> None:
    why = ""
    if device.type != "cuda" or torch.version.hip is not None:
        kind = device.type if device.type != "cuda" else "an AMD GPU"
        why = f"it is a mode of NVIDIA GPUs, and this is {kind}"
    elif (capability := torch.cuda.get_device_capability(device)) < (8, 0):
        why = f"its compute capability is {capability[0]}.{capability[1]}, and tf32 needs 8.0"
    if why:
        raise BackendError(
            f"{_name(device)} has no tf32",
            code="precision",
            details=[why],
            fixes=["precision='fp32' is exact and runs everywhere"],
        )


def _check_cuda(device: torch.device, precision: str, allow: Collection[str]) -> list[str]:
    capability = torch.cuda.get_device_capability(device)
    if precision == "fp16" and capability < (7, 0):
        return ["this GPU has no tensor cores: fp16 saves memory here, not time"]
    if precision not in ("bf16", "pure-bf16"):
        return []
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
    if precision == "fp16":
        return ["fp16 on a CPU is slow: it is for tests"]
    if precision in ("bf16", "pure-bf16") and not _has_bf16_units():
        return ["this CPU has no bf16 instructions: bf16 saves memory here, not time"]
    return []


def _has_bf16_units() -> bool:
    """Whether a CPU computes in bf16; where torch cannot tell, nothing is said against it."""
    ask: Any = getattr(torch.cpu, "get_capabilities", None)
    if ask is not None:
        known: dict[str, Any] = ask()
        return any(known.get(flag) for flag in _BF16_UNITS) or not any(flag in known for flag in _BF16_UNITS)
    try:  # private queries of older versions, for x86 only
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    except AttributeError:
        return True


def _name(device: torch.device) -> str:
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)} ({device})"
    if device.type != "cpu":
        return f"device {device.type}"
    threads = torch.get_num_threads()
    return f"CPU {platform.machine()}, {threads} thread{'s' if threads != 1 else ''}"
