"""Steps are parsed as calls with named arguments; everything else is refused, never evaluated."""

from __future__ import annotations

import pytest

from neumo.graph.yaml.read import read_yaml
from neumo.graph.yaml.steps import LONGEST_STEP, Call, parse_reference, parse_step
from neumo.types import ConfigError


def step(text: str) -> Call:
    return parse_step(read_yaml(f"s: {text}", "r.yaml").children["s"])


def test_a_step_is_a_call_with_named_arguments() -> None:
    call = step("mel(audio=batch.audio, audio_len=lens)")
    assert call.module == "mel"
    assert [(a.port, str(a.values[0]), a.many) for a in call.arguments] == [
        ("audio", "batch.audio", False),
        ("audio_len", "lens", False),
    ]


def test_a_list_of_values_feeds_a_port_that_takes_many() -> None:
    (argument,) = step("total(losses=[ctc.loss, aux.loss])").arguments
    assert argument.many
    assert [str(value) for value in argument.values] == ["ctc.loss", "aux.loss"]


@pytest.mark.parametrize("quote", ["", '"', "'"])
def test_each_argument_has_its_columns(quote: str) -> None:
    call = step(f"{quote}mel(audio=batch.audio, audio_len=b.n){quote}")
    for argument, text in zip(call.arguments, ["audio=batch.audio", "audio_len=b.n"], strict=True):
        place = argument.place
        assert place.text[place.start : place.end] == text
    assert call.place.text[call.place.start : call.place.end] == "mel"


def test_columns_hold_behind_letters_of_several_bytes() -> None:
    call = step("größe(höhe=batch.ä, x=y)")
    place = call.arguments[1].place
    assert place.text[place.start : place.end] == "x=y"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (">-\n  mel(audio=batch.audio,\n  audio_len=batch.n)\n", ["2:7", "3:3"]),
        (">-\n\n  mel(audio=batch.audio,\n  audio_len=batch.n)\n", ["3:7", "4:3"]),
        ("|\n  mel(audio=batch.audio,\n  audio_len=batch.n)\n", ["2:7", "3:3"]),
        ("mel(audio=batch.audio,\n  audio_len=batch.n)\n", ["1:8", "2:3"]),
        ("'mel(audio=batch.audio,\n  audio_len=batch.n)'\n", ["1:9", "2:3"]),
        ('"mel(audio=batch.audio,\n\n  audio_len=batch.n)"\n', ["1:9", "3:3"]),
        ('"mel(\\x61udio=batch.audio,\n  audio_len=batch.n)"\n', ["1:4", "1:4"]),  # escapes move all places
    ],
)
def test_a_step_over_several_lines_is_read_with_the_place_of_each_argument(
    text: str, places: list[str]
) -> None:
    tree = read_yaml(f"s: {text}t: a", "r.yaml")
    call = parse_step(tree.children["s"])
    assert [argument.port for argument in call.arguments] == ["audio", "audio_len"]
    assert [str(argument.place) for argument in call.arguments] == [f"r.yaml:{place}" for place in places]


def test_an_argument_that_goes_on_in_the_next_line_is_marked_to_the_end_of_its_own() -> None:
    tree = read_yaml("s: |-\n  sum(losses=[a.loss,\n  b.loss])", "r.yaml")
    (argument,) = parse_step(tree.children["s"]).arguments
    assert argument.place.render().splitlines()[2].strip() == "^"
    assert str(argument.values[1].place) == "r.yaml:3:3"
    tree = read_yaml("s: >-\n  sum(losses=[a.loss,\n  b.loss])", "r.yaml")
    (argument,) = parse_step(tree.children["s"]).arguments
    assert argument.place.render().splitlines()[2].strip() == "^" * len("losses=[a.loss,")


@pytest.mark.parametrize(
    ("text", "reason", "column"),
    [
        ("batch.audio", "a step is one call", 4),
        ("3", "a step is a call", 4),
        ("[a, b]", "a step is a call", 4),
        ("mel(batch.audio)", "arguments are named", 8),
        ("mel(*batch)", "arguments are named", 8),
        ("mel(**batch)", "`**` is refused", 8),
        ("mel(x=batch['a'])", "written step.port", 10),
        ("mel(x=a.b.c)", "written step.port", 10),
        ("mel(x=f(y=z))", "a call inside a call", 10),
        ("mel(x=3)", "3 is no value of the graph", 10),
        ("mel(x='t')", "'t' is no value of the graph", 10),
        ("mel(x=a + b)", "written step.port", 10),
        ("'mel(x=lambda: 0)'", "written step.port", 11),
        ("mel(x=[a, [b]])", "written step.port", 14),
        ("a.b(x=y)", "calls one module", 4),
        ("'(lambda: 0)()'", "calls one module", 6),
        ("__import__('os').system(x=y)", "calls one module", 4),
        ("mel(x=a", "cannot read the step", 7),
        ("mel(x=a, x=b)", "the port x is given twice", 13),
        ("mel(x=a); mel(x=b)", "cannot read the step", 12),
        ("y = mel(x=a)", "cannot read the step", 6),
    ],
)
def test_everything_else_is_refused_at_its_column(text: str, reason: str, column: int) -> None:
    with pytest.raises(ConfigError) as caught:
        step(text)
    assert reason in caught.value.what
    assert caught.value.code == "recipe-step"
    assert str(caught.value.where) == f"r.yaml:1:{column}"


def test_a_step_of_enormous_length_or_depth_is_refused() -> None:
    with pytest.raises(ConfigError, match="characters"):
        step("m(" + "a" * LONGEST_STEP + "=b)")
    with pytest.raises(ConfigError, match="cannot read the step"):
        step("(" * 3000 + "a" + ")" * 3000)


def test_a_broken_step_over_several_lines_is_refused_where_it_breaks() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_step(read_yaml("s: >-\n  mel(audio=\n  batch.audio", "r.yaml").children["s"])
    assert str(caught.value.where) == "r.yaml:2:6"


def test_an_output_names_a_step_or_a_port_of_it() -> None:
    tree = read_yaml("a: loss.loss\nb: loss\nc: f(x=y)", "r.yaml")
    assert str(parse_reference(tree.children["a"])) == "loss.loss"
    assert parse_reference(tree.children["b"]).port is None
    with pytest.raises(ConfigError, match="a call inside a call"):
        parse_reference(tree.children["c"])
