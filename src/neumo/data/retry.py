"""Reading again where storage has failed for a moment, before a recording counts as bad."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import TypeVar

from neumo.types.errors import DataError

_PAUSE = 0.1  # seconds before the first repeat; each further one waits four times as long
_LASTING = frozenset(
    {
        errno.ENOENT,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EACCES,
        errno.EPERM,
        errno.ELOOP,
        errno.ENAMETOOLONG,
    }
)
Result = TypeVar("Result")


def read_patiently(read: Callable[[], Result], retries: int) -> Result:
    """Read, and again up to `retries` times while the system reports errors that may pass.

    Those are all errors of the system (such as EIO, ESTALE or ETIMEDOUT of a network drive) but that a file
    is not there or may not be read; what is wrong with the bytes of a file is never tried again.

    >>> read_patiently(lambda: 3, retries=2)
    3
    """
    for left in range(retries, -1, -1):
        try:
            return read()
        except DataError as error:
            if not left or not may_pass(error):
                raise
        time.sleep(_PAUSE * 4 ** (retries - left))
    raise AssertionError("the last try returns or raises")


def may_pass(error: DataError) -> bool:
    """Tell whether an error comes from the system and may be gone a moment later.

    >>> may_pass(DataError("a.wav is not audio"))
    False
    """
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno is not None and cause.errno not in _LASTING
