import gzip
import json

import pytest

from neumo.data import Manifest, read_manifest
from neumo.types.errors import DataError

LINE = '{"audio_filepath": "a.wav", "duration": 1.5, "text": "yes"}'


def write(folder, content, name="train.jsonl"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def problems_of(path, **options):
    with pytest.raises(DataError) as caught:
        read_manifest(path, **options)
    return [(p["where"].removeprefix(f"{path}:"), p["reason"]) for p in caught.value.data["problems"]]


def test_a_byte_order_mark_crlf_and_blank_lines_are_fine(tmp_path):
    """And lines keep the numbers that an editor shows."""
    path = write(tmp_path, b"\xef\xbb\xbf" + f"{LINE}\r\n\r\n  \t\r\n{LINE}\r\n".encode())
    manifest = read_manifest(path)
    assert [entry.where for entry in manifest] == [f"{path}:1", f"{path}:4"]
    assert manifest[1].text == "yes"


def test_all_bad_lines_are_reported_together(tmp_path):
    """Trailing commas, and whatever else; good lines in between do not matter."""
    lines = [
        LINE,
        LINE + ",",
        LINE.replace("}", ",}"),
        "",
        "no json",
        '["a.wav"]',
        "{'audio_filepath': 'a.wav'}",
    ]
    lines += [
        LINE[:30],
        '{"audio_filepath": "C:\\data\\a.wav"}',
        '{"audio_filepath": "a.wav", "text": None}',
        LINE,
    ]
    assert problems_of(write(tmp_path, "\r\n".join(lines))) == [
        (
            f"2:{len(LINE) + 1}",
            "a comma after the object; objects stand on lines of their own, without commas",
        ),
        (f"3:{len(LINE) + 1}", "a comma before the closing brace"),
        ("5:1", "not JSON; a manifest has one JSON object a line"),
        ("6:1", "a JSON array, not an object in braces"),
        ("7:2", "single quotes; JSON wants double quotes"),
        ("8:31", "the object does not end on this line"),
        ("9:23", "a lone backslash; write \\\\ or / in paths"),
        ("10:37", "None is Python; JSON writes null, true, false"),
    ]


def test_the_first_twenty_are_shown_and_the_rest_counted(tmp_path):
    path = write(tmp_path, "\n".join([LINE, "{"] * 25))
    with pytest.raises(DataError) as caught:
        read_manifest(path)
    assert caught.value.what == f"25 of 50 lines of {path} cannot be read"
    assert len(caught.value.details) == 21
    assert caught.value.details[-1] == "... and 5 more"
    assert len(caught.value.data["problems"]) == 25


def test_two_objects_on_a_line_are_shown_with_column_and_snippet(tmp_path):
    """File:line:column and the snippet with a caret."""
    path = write(tmp_path, f"{LINE}\n{LINE}{LINE}\n")
    assert problems_of(path) == [(f"2:{len(LINE) + 1}", "a second object on the line")]
    with pytest.raises(DataError) as caught:
        read_manifest(path)
    text, caret = caught.value.details[0].split("\n")[1:]
    assert text[caret.index("^")] == "{"


def test_a_pretty_printed_object_is_one_problem_with_its_lines(tmp_path):
    """Not one problem per line."""
    pretty = json.dumps(json.loads(LINE), indent=2)
    path = write(tmp_path, f"{LINE}\n{pretty}\n{LINE}\n{pretty}")
    reasons = [reason for _, reason in problems_of(path)]
    assert reasons == [
        f"the object is spread over lines {a} to {b}; write one object a line" for a, b in ((2, 6), (8, 12))
    ]


@pytest.mark.parametrize("indent", [None, 1])
def test_a_json_array_is_read(tmp_path, indent):
    """It is told by its first character."""
    content = json.dumps(
        [json.loads(LINE), {"wav": "ü.wav", "text": "ja"}], indent=indent, ensure_ascii=False
    )
    manifest = read_manifest(write(tmp_path, content, "x.jsonl"))
    assert [entry.audio_filepath for entry in manifest] == ["a.wav", "ü.wav"]
    assert manifest.record(1) == {"wav": "ü.wav", "text": "ja"}


def test_a_broken_array_names_line_and_column(tmp_path):
    path = write(tmp_path, f"[\n{LINE},\n{LINE}\n{LINE}]")
    ((place, reason),) = problems_of(path)
    assert place == "4:1"
    assert "the array is broken here" in reason


def test_elements_of_an_array_that_are_no_objects_are_problems(tmp_path):
    path = write(tmp_path, f'[\n"a.wav",\n{LINE}, 3]')
    assert problems_of(path) == [
        ("2", "a JSON string in the array, not an object in braces"),
        ("3", "a JSON number in the array, not an object in braces"),
    ]


def test_bytes_that_are_not_utf8_are_named(tmp_path):
    path = write(tmp_path, LINE.replace("yes", "café").encode("latin-1"))
    ((_, reason),) = problems_of(path)
    assert reason == "byte 0xe9 is not UTF-8; save the manifest as UTF-8"


def test_a_key_that_is_there_twice_is_refused(tmp_path):
    assert problems_of(write(tmp_path, '{"text": "a", "audio": "a.wav", "text": "b"}')) == [
        ("1", "the key 'text' is there twice")
    ]


def test_utf16_and_gzip_are_read(tmp_path):
    assert read_manifest(write(tmp_path, LINE.encode("utf-16")))[0].text == "yes"
    assert read_manifest(write(tmp_path, gzip.compress(LINE.encode())))[0].text == "yes"
    with pytest.raises(DataError, match="damaged"):
        read_manifest(write(tmp_path, gzip.compress(LINE.encode())[:20]))


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", "[]", " [ ] "])
def test_an_empty_manifest_is_refused(tmp_path, content):
    with pytest.raises(DataError, match=r"no\s+entries") as caught:
        read_manifest(write(tmp_path, content))
    assert caught.value.code == "manifest-empty"


@pytest.mark.parametrize(
    ("content", "words"), [(b"fLaC" + bytes(99), "holds FLAC"), (bytes(99), "zero bytes")]
)
def test_a_file_that_is_no_manifest_is_told_by_what_it_holds(tmp_path, content, words):
    with pytest.raises(DataError) as caught:
        read_manifest(write(tmp_path, content))
    assert words in caught.value.what


def test_a_manifest_that_is_not_there_has_a_nearest_match(tmp_path):
    write(tmp_path, LINE, "train.jsonl")
    with pytest.raises(DataError) as caught:
        read_manifest(tmp_path / "trian.jsonl")
    assert caught.value.fixes[0].text == "did you mean 'train.jsonl'?"
    with pytest.raises(DataError, match=r"a\s+folder\s+without\s+a\s+wav.scp"):
        read_manifest(tmp_path)


def test_problems_of_several_manifests_come_together(tmp_path):
    one, two = write(tmp_path, "{", "a.jsonl"), write(tmp_path, f"{LINE}\n[", "b.jsonl")
    with pytest.raises(DataError, match="2 of 3 lines of 2 manifests") as caught:
        read_manifest([one, two])
    assert [p["where"] for p in caught.value.data["problems"]] == [f"{one}:1:2", f"{two}:2:2"]


def test_entries_in_memory_are_checked_alike():
    with pytest.raises(DataError) as caught:
        Manifest.of([{"audio_filepath": "a.wav"}, {"audio_filepath": "a.wav", "duration": float("nan")}])
    assert caught.value.data["problems"] == [{"where": "entries:2", "reason": "duration is nan"}]
