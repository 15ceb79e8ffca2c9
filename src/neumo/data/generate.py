"""Example batches made from types: valid input for any module, for tests, dry runs and export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neumo.data import example_sizes
from neumo.data.example_rows import Rows
from neumo.data.example_sizes import solve_sizes
from neumo.data.example_values import Maker
from neumo.types import ConfigError, NeuralType, Size, Struct, parse


def example_batch(
    types: Mapping[str, NeuralType | str],
    sizes: Mapping[str, int] | None = None,
    seed: int = 0,
    *,
    lengths: Mapping[str, Sequence[int]] | None = None,
    optional: bool = True,
    also: Sequence[Size] = (),
) -> dict[str, Any]:
    """Make a valid batch for ports of any types: numpy arrays by port name.

    >>> from neumo.types import Audio, B, Ids, Lengths, T, U, Vocab
    >>> types = {
    ...     "audio": Audio(rate=16000, peak=1.0)[B, T],
    ...     "audio_len": Lengths(T)[B],
    ...     "text": Ids(Vocab("ab"))[B, U],
    ...     "text_len": Lengths(U)[B],
    ... }
    >>> batch = example_batch(types, {"B": 2, "T": 400})
    >>> batch["audio"].shape, batch["audio"].dtype, int(batch["audio_len"].max())
    ((2, 400), dtype('float32'), 400)

    One symbol is one number in all ports. `sizes` fixes some by name, the others are small: half a second of
    audio, a few labels. `lengths` fixes how much of a symbol each row uses; else each row uses half or more,
    and one row all. Lengths of an expression, such as `T//160 + 1`, follow from those of its symbols, masks
    agree with the lengths of the same size, and behind the end stand zeros, or the pad of the ids. Ids are
    labels of their vocabulary with its bos and eos where `frame` says so, probabilities sum to one, durations
    to the size that they expand to.

    A type may be a text, as in recipes: `"Audio[B, T]"`. A port that takes `many` gets a tuple of two values,
    a struct a dict, a list axis a list. With `optional=False` ports that may be left out are. `also` lists
    further sizes that must be at least 1, such as those behind an encoder. The same arguments give the same
    batch. Raises `ConfigError` for a size that no type mentions, where the given sizes leave an axis less
    than nothing, and where a row that has both a bos and an eos would be one id long.
    """
    known = {name: _type(name, type) for name, type in types.items()}
    wanted = {name: type for name, type in known.items() if optional or not type.optional}
    numbers = solve_sizes(_all_types(wanted.values()), sizes, also)
    rng = np.random.default_rng(seed)
    rows = Rows(_all_types(wanted.values()), numbers, rng, lengths or {})
    maker = Maker(rows, rng)
    return {name: maker.make(type) for name, type in wanted.items()}


def free_sizes(types: Mapping[str, NeuralType]) -> dict[str, int]:
    """The usual number of each symbol of some ports that no facet tells, by name: what `sizes` may change.

    >>> from neumo.types import B, F, Mel, T
    >>> free_sizes({"mel": Mel(n_mels=64)[B, F, T]})
    {'B': 3, 'T': 19}
    """
    return example_sizes.free_sizes(_all_types(types.values()))


def _type(name: str, type: Any) -> NeuralType:
    found = parse(type) if isinstance(type, str) else type
    if isinstance(found, NeuralType):
        return found
    raise ConfigError(
        f"the port {name} is {type!r}, which is not a neural type",
        code="signature",
        fixes=("write the element with its axes, such as Audio(rate=16000)[B, T]",),
    )


def _all_types(types: Any) -> list[NeuralType]:
    """The types, and those of the fields of structs."""
    found: list[NeuralType] = []
    for type in types:
        found.append(type)
        if isinstance(type.element, Struct):
            found += _all_types(type.element.fields.values())
    return found
