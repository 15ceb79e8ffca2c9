"""What is said when a module is larger than the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from neumo.types.errors import BackendError

if TYPE_CHECKING:
    from neumo.graph.module import NeuralModule

_SIGNS: Final = ("allocate memory", "out of memory", "overflow", "invalid size", "too large")


def is_about_memory(error: Exception) -> bool:
    """Say whether an error comes of asking for more memory than there is, or than can be counted.

    >>> is_about_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    True
    >>> is_about_memory(TypeError("Linear() takes 2 arguments"))
    False
    """
    return isinstance(error, MemoryError) or any(sign in str(error).lower() for sign in _SIGNS)


def too_large(name: str, spec: NeuralModule, error: Exception) -> BackendError:
    """Say which module is too large."""
    return BackendError(
        f"{name} cannot be built: it is larger than the memory",
        code="memory",
        details=[repr(spec)[:300], (str(error).splitlines() or [type(error).__name__])[0][:200]],
        fixes=["check the sizes among its settings"],
    )
