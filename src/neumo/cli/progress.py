"""A progress bar on the error stream of a terminal; nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(title: str, total: int | None, *, shown: bool = True) -> Iterator[Callable[[int], None]]:
    """Show how far a verb is; what is yielded takes the number of things done.

    >>> with progress_bar("reading", 3) as done:
    ...     done(1)
    """
    if not shown or not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)
