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
    "alignment_lying_on_its_side": "both sides are said to run along inputs.path",
    "best_labels_into_loss": "a value and its lengths are not tried together",
    "crops_of_another_hop": "says that mel has 8192 samples; it has 32 frames",
    "cross_entropy_of_probabilities_through_a_module": "advises to let Softmax give logits",
    "decoder_input_for_labels": "offers two adapters that shift the labels twice",
    "durations_of_another_reading": "frames are called symbols",
    "free_speech_compared_with_a_reading": "says that the reading is from before Tacotron2Free",
    "german_head_with_english_loss": "does not find the setting behind a vocabulary with a blank",
    "hypothesis_and_reference_swapped": "a reference is taken for what a decoder found",
    "labels_of_the_same_name": "advises the name that both vocabularies have",
    "labels_with_two_blanks": "an error of a signature names no module and no line",
    "layer_that_was_not_called": "is a bare AttributeError",
    "lengths_of_symbols_for_expanded_frames": "says that RoundDurations makes a new number of symbols",
    "list_with_a_record_in_it": "the caret is under the wrong item",
    "mask_of_before_the_marks": "a value of the graph is not tried with an adapter",
    "mask_of_the_first_of_two_texts": "a value of the graph is not tried with an adapter",
    "module_called_where_it_is_made": "is a bare TypeError",
    "noise_of_a_second_loader": "does not say that MultiData joins two data layers",
    "normalised_frames_rescaled": "gives the purpose of the adapter as the reason",
    "pooling_with_no_lengths_declared": "names lengths of samples, not those of the encoded frames",
    "record_for_a_value": "prints fourteen open facets",
    "reference_measured_against_itself": "a reference is taken for what a decoder found",
    "references_measured_against_themselves": "a value and its lengths are not tried together",
    "samples_that_do_not_belong_to_the_frames": "says that mel has 256*T samples; it has T frames",
    "sequences_put_side_by_side": "does not say that Append is what is meant",
    "state_forgotten": "offers nothing where an open input is the way out",
    "state_of_another_size": "advises another setting for the other one of two modules",
    "sum_of_two_unknown_sizes": "says that a number differs that nobody knows",
    "text_of_a_layer_without_vocabulary": "guesses item for text",
    "texts_without_marks_into_encoder": "does not say why marks cannot be put in",
    "transducer_without_the_start": "says that targets has U + 1 symbols; it has U",
    "two_declarations_of_one_input": "shows no line",
    "two_modules_of_one_name": "shows no line, and all settings",
    "type_for_a_value": "a type is taken for data",
    "u_net_of_odd_length": "offers to leave the lower path out",
    "vocoder_of_another_hop_than_its_frames": "300 samples for each 256 are accepted",
    "voice_of_another_corpus": "does not say that MultiData joins two data layers",
}

# Those among them that are not refused at all.
ACCEPTED: tuple[str, ...] = (
    "hypothesis_and_reference_swapped",
    "layer_that_was_not_called",
    "module_called_where_it_is_made",
    "reference_measured_against_itself",
    "vocoder_of_another_hop_than_its_frames",
)


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
