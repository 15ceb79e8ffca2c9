"""What is written down of a step that is not finite: its batches, number by number, and its gradients."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neumo.engine.checkpoints.writing import replace_text

if TYPE_CHECKING:
    import numpy as np

FILE: Final = "nonfinite.jsonl"


def describe_batch(feeds: Mapping[str, Any], names: Sequence[str], loss: float) -> dict[str, Any]:
    """Describe a batch: its loss, figures of each feed (numpy arrays), and utterances that are not finite.

    >>> import numpy as np
    >>> row = describe_batch({"x": np.array([[1.0, 3.0], [np.nan, 2.0]])}, ["a", "b"], math.nan)
    >>> row["loss"], row["feeds"]["x"]
    ('nan', {'shape': [2, 2], 'min': 1.0, 'max': 3.0, 'mean': 2.0, 'not_finite': 0.25})
    >>> row["not_finite"]
    {'b': ['x']}
    """
    broken: dict[str, list[str]] = {}
    for port, array in feeds.items():
        for name in _broken(array, names):
            broken.setdefault(name, []).append(port)
    return {
        "items": list(names),
        "loss": plain(loss),
        "feeds": {port: _figures(array) for port, array in feeds.items()},
        "not_finite": broken,
    }


def _figures(array: np.ndarray) -> dict[str, Any]:
    """Shape, and range and mean of the finite numbers, of which `not_finite` is the share of the others."""
    import numpy as np

    found: dict[str, Any] = {"shape": list(array.shape)}
    if not array.size or array.dtype.kind not in "biuf":
        return found
    finite = np.isfinite(array)
    good = array[finite]
    if good.size:
        found |= {
            "min": float(good.min()),
            "max": float(good.max()),
            "mean": float(good.mean(dtype=np.float64)),
        }
    return {**found, "not_finite": float(1.0 - finite.mean())}


def _broken(array: np.ndarray, names: Sequence[str]) -> list[str]:
    """The utterances of which a feed has a number that is not finite; the first axis is that of the batch."""
    import numpy as np

    if array.dtype.kind != "f" or array.ndim < 1 or len(array) != len(names):
        return []
    good = np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    return [names[row] for row in np.flatnonzero(~good).tolist()]


def plain(number: float) -> float | str:
    """Write a number for JSON, which knows neither NaN nor infinity.

    >>> plain(0.5), plain(math.inf)
    (0.5, 'inf')
    """
    return number if math.isfinite(number) else str(number)


def forget_later(folder: Path, step: int) -> None:
    """Take steps behind this one out of the file: a training that goes on from here does them anew."""
    path = folder / FILE
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if _step_of(line) <= step]
    if len(kept) < len(lines):
        replace_text(path, "".join(kept))


def _step_of(line: str) -> float:
    try:
        return json.loads(line)["step"]
    except (ValueError, KeyError, TypeError):
        return math.inf  # half written
