"""YAML text becomes plain values with places, and nothing in it can run code or fill the memory."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from neumo.graph.yaml.read import DEEPEST, LARGEST_FILE, node_of, read_text, read_yaml
from neumo.types import ConfigError, NeumoError


def refused(text: str) -> NeumoError:
    with pytest.raises(ConfigError) as caught:
        read_yaml(text, "recipe.yaml")
    assert caught.value.code == "recipe-yaml"
    return caught.value


def test_values_keep_their_places() -> None:
    tree = read_yaml('a: 1\nb:\n  - x\n  - {c: "yes"}\n', "recipe.yaml")
    assert tree.plain() == {"a": 1, "b": ["x", {"c": "yes"}]}
    inner = tree.children["b"].items[1].children["c"]
    assert str(inner.place) == "recipe.yaml:4:9"
    assert str(inner.key) == "recipe.yaml:4:6"
    assert inner.place.text == '  - {c: "yes"}'


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r", "\x85", "\u2028"])
def test_lines_are_counted_as_yaml_counts_them(line_break: str) -> None:
    tree = read_yaml(line_break.join(["a: 1", "b: [x, y]", ""]), "recipe.yaml")
    place = tree.children["b"].items[1].place
    assert (place.line, place.text[place.start : place.end]) == (2, "y")


def test_columns_count_characters_not_bytes() -> None:
    place = read_yaml("größe: [ä, 7]", "recipe.yaml").children["größe"].items[1].place
    assert place.text[place.start : place.end] == "7"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("3E5", 300000.0),
        (".5", 0.5),
        ("-1.", -1.0),
        (".inf", float("inf")),
        ("-.INF", float("-inf")),
        ("+12", 12),
        ("0x1F", 31),
        ("0o17", 15),
        ("007", 7),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("1_000", "1_000"),
        ("12:30:00", "12:30:00"),
        ("2024-01-01", "2024-01-01"),
        ("~", None),
        ("null", None),
        ("", None),
        ("'1'", "1"),
        ("!!str 1", "1"),
        ("!!float 1", 1.0),
        ("=", "="),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    found = read_yaml(f"a: {text}", "-").plain()["a"]
    assert (found, type(found)) == (value, type(value))


def test_not_a_number_is_read() -> None:
    found = read_yaml("a: .nan", "-").plain()["a"]
    assert found != found


def test_a_merge_key_takes_what_is_not_said() -> None:
    tree = read_yaml("base: &b {a: 1, c: 2}\nmore: &m {d: 4}\nuse:\n  <<: [*b, *m]\n  a: 9\n", "-")
    assert tree.plain()["use"] == {"a": 9, "c": 2, "d": 4}


def test_a_merge_key_refuses_what_is_no_mapping() -> None:
    assert "<< merges mappings, not 3" in str(refused("a: {<<: 3}"))


@pytest.mark.parametrize(
    "tag",
    [
        "!!python/object/apply:os.system ['touch canary']",
        "!!python/object:os.system {}",
        "!!python/name:os.system ''",
        "!!python/module:os ''",
        "!!python/object/new:subprocess.Popen [['touch', 'canary']]",
        "!!python/tuple [1]",
        "!custom {a: 1}",
        "!<tag:yaml.org,2002:python/object/apply:os.system> ['touch canary']",
        "!!binary aGk=",
        "!!timestamp 2024-01-01",
        "!!set {a, b}",
        "!!int yes",
    ],
)
def test_tags_are_refused_and_run_nothing(tag: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = refused(f"modules:\n  mel: {tag}\n")
    assert str(error.where).startswith("recipe.yaml:2:8")
    assert list(tmp_path.iterdir()) == []


def test_a_tag_on_a_key_is_refused() -> None:
    refused("!!python/name:os.system x: 1")


def test_a_key_that_is_no_word_is_refused() -> None:
    assert "a key must be a word" in str(refused("? [a, b]\n: 1"))


def test_a_key_that_stands_twice_is_refused() -> None:
    error = refused("mel: 1\nhead: 2\nmel: 3\n")
    assert error.what == "recipe.yaml: the key 'mel' stands twice; first in line 1"
    assert str(error.where) == "recipe.yaml:3:1"


def test_a_tab_is_named() -> None:
    error = refused("modules:\n\tmel: 1\n")
    assert error.details == ("YAML indents with spaces, and here is a tab",)
    assert str(error.where) == "recipe.yaml:2:1"


@pytest.mark.parametrize(
    "text",
    [
        "a: [1, 2",
        "a: {b: 1",
        "a: 'open",
        "a: b: c",
        "- a\nb: 1",
        "a: *nowhere",
        "--- a\n--- b\n",
        "%YAML 9",
        "a: @x",
    ],
)
def test_broken_yaml_is_refused_with_its_place(text: str) -> None:
    error = refused(text)
    assert error.what == "recipe.yaml is not valid YAML"
    assert str(error.where).startswith("recipe.yaml:")
    assert error.details


def test_an_anchor_that_contains_itself_is_refused() -> None:
    assert "contains itself" in str(refused("a: &x [1, *x]"))


def test_an_anchors_bomb_is_refused_at_once() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    start = time.perf_counter()
    error = refused("\n".join(levels))
    print(f"anchors bomb refused in {time.perf_counter() - start:.2f} s")
    assert "once its anchors are followed" in error.what


def test_nesting_has_a_limit_that_is_not_the_stack() -> None:
    assert "nested deeper" in str(refused("[" * 5000))
    assert "nested deeper" in str(refused("a: " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)))
    assert sys.getrecursionlimit() >= 1000


def test_deep_nesting_through_anchors_is_refused() -> None:
    lines = ["a0: &a0 [[[[[[[[x]]]]]]]]"]
    lines += [f"a{n}: &a{n} [[[[[[[[*a{n - 1}]]]]]]]]" for n in range(1, 7)]
    assert "nested deeper" in str(refused("\n".join(lines)))


def test_a_text_that_is_too_large_is_refused() -> None:
    with pytest.raises(ConfigError, match="too large"):
        read_yaml("#" * (LARGEST_FILE + 1), "recipe.yaml")


def test_an_integer_of_too_many_digits_is_refused() -> None:
    assert "integer" in str(refused(f"a: {'9' * 5000}"))


def test_empty_texts_are_read_as_nothing() -> None:
    for text in ("", "   \n", "# only a comment\n", "---\n"):
        assert read_yaml(text, "-").data is None


def test_control_characters_are_called_binary() -> None:
    assert "binary" in str(refused("a: \x00\x01\x02"))


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "an4.yaml").write_text("neumo: 1")
    with pytest.raises(ConfigError) as caught:
        read_text(tmp_path / "an4.yml")
    assert caught.value.code == "recipe-file"
    assert "an4.yaml?" in caught.value.fixes[0].text


def test_a_missing_file_without_neighbours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file") as caught:
        read_text(tmp_path / "nowhere" / "an4.yaml")
    assert caught.value.fixes == ()


def test_a_folder_is_no_recipe(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_text(tmp_path)
    assert caught.value.what == f"cannot read {tmp_path}: it is a folder"


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_text("a\0b")


def test_a_binary_file_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes(b"neumo: 1\n\xff\xfe\x00\x80")
    with pytest.raises(ConfigError) as caught:
        read_text(path)
    assert caught.value.where == f"{path}:2"
    assert "0xff" in str(caught.value.details[0])


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_bytes(b"\xef\xbb\xbfneumo: 1")
    assert read_text(path)[0] == "neumo: 1"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing (null)"),
        (3, "3"),
        (True, "True"),
        ("a", "the text 'a'"),
        ([], "an empty list"),
        ([1], "a list"),
        ({}, "an empty mapping"),
        ({"a": 1}, "a mapping"),
    ],
)
def test_values_are_described_in_words(value: object, words: str) -> None:
    assert node_of(value, "-").describe() == words


def test_values_that_were_not_written_have_a_place_too() -> None:
    node = node_of({"a": (1, 2)}, "a call")
    assert node.plain() == {"a": [1, 2]}
    assert str(node.children["a"].place) == "a call"
    assert node.children["a"].children == {}
    assert node.items == []
