"""Wrong graphs of three collections are refused, with messages from which a user can repair them."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from neumo.graph import NeuralModule, adapters
from neumo.graph.rules import RULES
from neumo.graph.value import Value
from neumo.types import NeumoError

from ..graph import snapshots
from . import wrong_across, wrong_language, wrong_rules, wrong_speech, wrong_synthesis  # noqa: F401
from .mistakes import MISTAKES, Mistake

MESSAGES = Path(__file__).parent / "messages"

# What is judged or said wrongly so far: the name of the graph, and what is wrong. A graph that is mended
# is taken out here, and its message is written with NEUMO_SNAPSHOT=write.
KNOWN: dict[str, str] = {
    "pooling_with_no_lengths_declared": "names lengths of samples, not those of the encoded frames",
    "sequences_put_side_by_side": "does not say that Append is what is meant",
}

# Those among them that are not refused at all.
ACCEPTED: tuple[str, ...] = ()


def cases(known: Mapping[str, str] = KNOWN) -> list[Any]:
    """List all wrong graphs; those that are judged wrongly have to fail until they are mended."""
    marks = {name: [pytest.mark.xfail(strict=True, reason=reason)] for name, reason in known.items()}
    return [pytest.param(case, id=name, marks=marks.get(name, ())) for name, case in MISTAKES.items()]


def codes_of(error: NeumoError) -> list[str]:
    """Give the codes of an error and of those beside it."""
    return [error.code, *(code for other in error.also for code in codes_of(other))]


def unsaid(mistake: Mistake, text: str) -> list[str]:
    """List what a message lacks, and what it says ("!") and should not."""
    flat = " ".join(text.split())
    return [
        phrase
        for phrase in mistake.phrases
        if (phrase.removeprefix("!") in text or phrase.removeprefix("!") in flat) == phrase.startswith("!")
    ]


@pytest.mark.parametrize("mistake", cases())
def test_wrong_graph_is_refused_with_what_repairs_it(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(snapshots.ROOT)
    with pytest.raises(NeumoError) as caught:
        mistake.build()
    text = caught.value.render()
    assert sorted(codes_of(caught.value)) == sorted(mistake.codes), text
    assert not unsaid(mistake, text), text
    monkeypatch.setattr(snapshots, "MESSAGES", MESSAGES)
    snapshots.expect(mistake.name, text)


def test_there_are_many_wrong_graphs() -> None:
    assert len(MISTAKES) >= 70
    assert set(KNOWN) <= set(MISTAKES)


def test_every_snapshot_has_its_graph() -> None:
    assert {file.stem for file in MESSAGES.glob("*.txt")} == set(MISTAKES) - set(KNOWN)


# Ways out name things that exist.


def names_around(error: NeumoError) -> ChainMap[str, Any]:
    """Give all names that are known where the suite's functions were when an error was raised."""
    scopes: list[dict[str, Any]] = []
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if "graph_suite" in frame.f_code.co_filename:
            scopes = [frame.f_locals, frame.f_globals, *scopes]
        trace = trace.tb_next
    return ChainMap(*scopes)


def errors_of(error: NeumoError) -> Iterator[NeumoError]:
    """Give an error and those beside it."""
    yield error
    for other in error.also:
        yield from errors_of(other)


def has_setting(kind: type, dotted: str) -> bool:
    """Whether a module class has a setting, such as `rate`, or `mel.rate` in one that is an element."""
    first, _, rest = dotted.partition(".")
    found = [setting for setting in fields(kind) if setting.name == first] if is_dataclass(kind) else []
    return bool(found) and (not rest or "mel" in first)


def problems(fix: str, error: NeumoError, names: ChainMap[str, Any]) -> Iterator[str]:
    """Say what a way out names and what is not there."""
    for adapter in re.findall(r"(?:insert|then|from) (\w+)\(", fix):
        if not (isinstance(getattr(adapters, adapter, None), type)):
            yield f"{adapter} is no adapter"
    for port, source in re.findall(r"(\w+)=([a-z_]\w*(?:\.\w+)+)", fix):
        if fix.startswith(("write outputs", "if ")):
            continue
        try:
            value = eval(source, {}, names)  # names of the test itself
        except (NameError, AttributeError, NeumoError):
            yield f"{source} is not there"
            continue
        if not isinstance(value, Value):
            yield f"{source} is no value"
        if fix.startswith(f"{port}=") and port not in error.render().split("fix")[0]:
            yield f"{port} is no port that the message speaks of"
    for source in re.findall(r"behind ([a-z_]\w*(?:\.\w+)+)", fix):
        if not isinstance(eval(source, {}, names), Value):
            yield f"{source} is no value"
    for kind, settings in re.findall(r"build (\w+?)(?:_\d+)? with (.*)$", fix):
        if not (isinstance(names.get(kind), type) and issubclass(names[kind], NeuralModule)):
            yield f"{kind} is no module of the graph"
            continue
        for setting in re.findall(r"([\w.]+)=", settings):
            if not has_setting(names[kind], setting):
                yield f"{kind} has no setting {setting}"
    for rule in re.findall(r'silence={"([\w-]+)"', fix):
        if rule not in RULES:
            yield f"{rule} is no rule"
    for kind in re.findall(r"(?:let|take|make a second|freeze|give|before) ([A-Z]\w+?)(?:_\d+)?\b", fix):
        if not isinstance(names.get(kind), type) and not hasattr(adapters, kind):
            yield f"{kind} is no module"


@pytest.mark.parametrize("mistake", cases(dict.fromkeys(ACCEPTED, "the graph is accepted")))
def test_ways_out_name_things_that_exist(mistake: Mistake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(snapshots.ROOT)
    with pytest.raises(NeumoError) as caught:
        mistake.build()
    names = names_around(caught.value)
    wrong = [
        (fix.text, problem)
        for each in errors_of(caught.value)
        for fix in each.fixes
        for problem in problems(fix.text, each, names)
    ]
    assert not wrong, caught.value.render()
