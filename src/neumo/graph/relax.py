"""Relaxing facets: some differences warn where they would refuse, for a reason that is kept and shown."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager

from neumo.graph.compose import relaxed
from neumo.types import ConfigError
from neumo.types.element import Element, facets_of
from neumo.types.errors import did_you_mean


@contextmanager
def relax(*facets: str, reason: str) -> Generator[None]:
    """Let facets differ in the calls inside: what would be refused for them is a warning, with the reason.

    >>> from neumo.graph.adapters import Resample
    >>> from neumo.graph.inputs import inputs
    >>> from neumo.types import Audio, B, T
    >>> with relax("rate", reason="the header of these files is wrong"):
    ...     slow = Resample(22050, 16000)(audio=inputs(audio=Audio(rate=44100)[B, T]).audio)
    >>> print(slow.audio.step.warnings[0][1])
    rate is 44100, not 22050 (relaxed: the header of these files is wrong)

    `graph.warnings()` and `neumo check` list them. Raises `ConfigError` for a facet that no element has, with
    the nearest match, and for an empty reason.
    """
    with relaxing(dict.fromkeys(check_facets(facets), check_reason(reason))):
        yield


@contextmanager
def relaxing(more: Mapping[str, str]) -> Generator[None]:
    """Relax checked facets, each for its own reason, beside those that are relaxed already."""
    token = relaxed.set({**relaxed.get(), **more})
    try:
        yield
    finally:
        relaxed.reset(token)


def check_facets(facets: Collection[str]) -> Collection[str]:
    """Give the facets back; raises `ConfigError` where there are none, or one that no element has.

    >>> check_facets(["floor", "window"])
    ['floor', 'window']
    """
    known = known_facets()
    if not facets:
        raise ConfigError(
            "nothing is relaxed", code="relax", fixes=['name facets: relax("floor", reason=...)']
        )
    for facet in facets:
        if facet not in known:
            near = did_you_mean(str(facet), known)
            raise ConfigError(
                f"no element has a facet {facet!r} that could be relaxed",
                code="relax",
                details=() if near else [f"facets are {', '.join(sorted(known))}"],
                fixes=near,
            )
    return facets


def check_reason(reason: str) -> str:
    """Give the reason back; raises `ConfigError` if it says nothing."""
    if not isinstance(reason, str) or not reason.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(
            "facets are relaxed without a reason",
            code="relax",
            why="The reason is shown with each difference that is let pass.",
            fixes=['relax("floor", reason="both floors lie below the noise of the recordings")'],
        )
    return reason


def known_facets() -> set[str]:
    """Name the facets of all elements that may differ; what is measured is no such facet, a clock is.

    >>> "floor" in known_facets(), "of" in known_facets()
    (True, False)
    """
    every = (known for cls in _elements(Element) for known in facets_of(cls).values())
    return {known.name for known in every if known.kind != "size"} | {"clock"}


def _elements(cls: type[Element]) -> Iterator[type[Element]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _elements(sub)
