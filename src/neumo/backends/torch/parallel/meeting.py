"""Meeting the other processes in a store that still holds what earlier ones have written.

torchrun gives processes that it starts again the store of those before. An address that a dead process has
left there looks like that of its successor, and whoever reads it too early waits for nobody. So the processes
of one start agree on a room of their own in the store first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from datetime import timedelta
from uuid import uuid4

from torch.distributed import PrefixStore, Store  # pyright: ignore[reportPrivateImportUsage]

_PAUSE = 0.01  # seconds between two looks


def is_shared(environment: Mapping[str, str] | None = None) -> bool:
    """Say whether the store is one that torchrun keeps over restarts.

    >>> is_shared({"TORCHELASTIC_USE_AGENT_STORE": "True"}), is_shared({})
    (True, False)
    """
    given = os.environ if environment is None else environment
    return given.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def own_room(store: Store, rank: int, size: int, timeout: timedelta) -> Store:
    """Agree on a room with the other processes of this start, whatever is in the store; all of them call it.

    Each process says hello with a word that was never used before. The first one answers every hello that it
    finds with the name of the room, those of dead processes too, until all the others have entered.

    >>> from torch.distributed import HashStore
    >>> own_room(HashStore(), 0, 1, timedelta(seconds=1)).num_keys() >= 0
    True
    """
    word = uuid4().hex
    if rank:
        store.set(f"hello/{rank}", word)
        store.wait([f"welcome/{word}"], timeout)
        room = store.get(f"welcome/{word}").decode()
        store.set(f"entered/{room}/{rank}", "")
        return PrefixStore(room, store)
    until = time.monotonic() + timeout.total_seconds()
    missing = set(range(1, size))
    while missing:
        for other in list(missing):
            if store.check([f"hello/{other}"]):
                store.set(f"welcome/{store.get(f'hello/{other}').decode()}", word)
            if store.check([f"entered/{word}/{other}"]):
                missing.discard(other)
        if missing and time.monotonic() > until:
            raise RuntimeError(f"process {', '.join(map(str, sorted(missing)))} did not come")
        time.sleep(_PAUSE if missing else 0)
    return PrefixStore(word, store)
