"""Temporary folders that several processes map files of, and that do not outlive a process that is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path

try:
    import fcntl
except ModuleNotFoundError:  # Windows: what a killed process leaves behind stays there
    fcntl = None

_LOCK = "lock"


def make_folder(kind: str, owner: object) -> str:
    """Make a folder that goes when its owner does; those of processes that were killed are removed now.

    A process holds a lock in its folders, and so do those that are forked from it, for as long as they live.

    >>> class Owner: ...
    >>> owner = Owner()
    >>> folder = make_folder("doctest", owner)
    >>> del owner
    >>> os.path.exists(folder)
    False
    """
    prefix = f"neumo-{kind}-"
    _sweep(prefix)
    folder = tempfile.mkdtemp(prefix=prefix)
    lock = os.open(os.path.join(folder, f".{_LOCK}"), os.O_CREAT | os.O_RDWR, 0o600)
    if fcntl is not None:
        fcntl.flock(lock, fcntl.LOCK_EX)
    os.rename(os.path.join(folder, f".{_LOCK}"), os.path.join(folder, _LOCK))  # there only once it is held
    weakref.finalize(owner, _remove, folder, lock, os.getpid())
    return folder


def _remove(folder: str, lock: int, maker: int) -> None:
    if os.getpid() == maker:  # a forked worker ends without taking the files away from the others
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _sweep(prefix: str) -> None:
    """Remove the folders of which no process holds the lock any more."""
    if fcntl is None:
        return
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*/{_LOCK}"):
        with contextlib.suppress(OSError):  # it is in use, somebody else's, or being removed
            lock = os.open(left, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left.parent, ignore_errors=True)
            finally:
                os.close(lock)
