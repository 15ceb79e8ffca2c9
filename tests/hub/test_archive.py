"""The container of a model: what comes out is what went in, and nothing else comes in."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile

import pytest

from neumo.hub.archive import Archive, write_archive
from neumo.types.errors import CheckpointError

MEMBERS = {
    "recipe.yaml": b"neumo: 1\n",
    "weights.safetensors": struct.pack("<Q", 2) + b"{}" + bytes(range(256)) * 8,
    "card.json": json.dumps({"format": 1, "name": "digits", "neumo": "0.1.0"}).encode(),
}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.neumo"
    write_archive(path, MEMBERS)
    return path


def rebuilt(path, change=None, *, add=(), drop=(), raw=False):
    """Write a copy of the file with some members changed, and checksums that agree unless `raw`."""
    import hashlib

    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members.update(change or {})
    for name in drop:
        del members[name]
    if not raw:
        digests = {n: hashlib.sha256(c).hexdigest() for n, c in members.items() if n != "checksums.json"}
        digests |= {n: hashlib.sha256(c).hexdigest() for n, c in add if isinstance(n, str)}
        members["checksums.json"] = json.dumps({"sha256": digests}).encode()
    bad = path.with_name("changed.neumo")
    with zipfile.ZipFile(bad, "w") as archive:
        for name, content in [*members.items(), *add]:
            archive.writestr(name, content)
    return bad


def refusal(path):
    with pytest.raises(CheckpointError) as caught:
        Archive(path)
    assert str(path) in caught.value.what
    return str(caught.value)


def test_what_comes_out_is_what_went_in(model, tmp_path):
    archive = Archive(model)
    assert archive.names == [*MEMBERS, "checksums.json"]
    assert {name: archive.read(name) for name in MEMBERS} == MEMBERS
    assert archive.text("recipe.yaml") == "neumo: 1\n"
    assert archive.card()["name"] == "digits"
    assert archive.copy("weights.safetensors", tmp_path / "w").read_bytes() == MEMBERS["weights.safetensors"]


def test_a_member_may_come_from_a_file(model, tmp_path):
    (tmp_path / "w").write_bytes(MEMBERS["weights.safetensors"])
    other = tmp_path / "other.neumo"
    digest = write_archive(other, {**MEMBERS, "weights.safetensors": tmp_path / "w"})
    assert other.read_bytes() == model.read_bytes()
    assert len(digest) == 64


def test_equal_content_gives_equal_files(model, tmp_path):
    other = tmp_path / "other.neumo"
    assert write_archive(other, MEMBERS) == write_archive(model, MEMBERS)


def test_assets_are_carried(tmp_path):
    path = tmp_path / "model.neumo"
    write_archive(path, {**MEMBERS, "assets/tokenizer.model": b"abc"})
    assert Archive(path).read("assets/tokenizer.model") == b"abc"


def test_a_model_is_not_written_in_the_place_of_a_folder(tmp_path):
    with pytest.raises(CheckpointError, match=r"a\s+model\s+is\s+written\s+to\s+a\s+file") as caught:
        write_archive(tmp_path, MEMBERS)
    assert [fix.text for fix in caught.value.fixes] == [f"save_model('{tmp_path}/model.neumo', ...)"]
    assert list(tmp_path.iterdir()) == []


def test_a_failed_save_leaves_the_old_file(model):
    before = model.read_bytes()
    with pytest.raises(FileNotFoundError):
        write_archive(model, {**MEMBERS, "weights.safetensors": model.with_name("nothing")})
    assert model.read_bytes() == before
    assert list(model.parent.iterdir()) == [model]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"hello world, this is text", "a text file"),
        (pickle.dumps({"a": 1}, protocol=2), "a pickle"),
        (pickle.dumps({"a": 1}, protocol=5), "a pickle"),
        (struct.pack("<Q", 40) + b'{"a":1}', "a safetensors file"),
        (b"RIFF\0\0\0\0WAVE", "an audio file"),
        (b"\x1f\x8b\x08\0\0", "gzip"),
        (b"\0" * 257 + b"ustar" + b"\0" * 250, "tar archive"),
        (bytes(range(200, 240)) * 10, "no zip archive"),
    ],
)
def test_another_kind_of_file_is_called_what_it_is(tmp_path, content, words):
    path = tmp_path / "model.neumo"
    path.write_bytes(content)
    assert words in refusal(path)


def test_a_torch_checkpoint_is_refused_as_a_pickle_and_not_read(tmp_path):
    canary = tmp_path / "canary"

    class Canary:
        def __reduce__(self):
            return (open, (str(canary), "w"))

    path = tmp_path / "model.neumo"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Canary()))
    assert "a torch checkpoint" in refusal(path)
    assert not canary.exists()


def test_a_missing_file_names_its_neighbours(model):
    text = refusal(model.with_name("modle.neumo"))
    assert "model.neumo" in text


def test_a_folder_is_refused(tmp_path):
    assert "it is a folder" in refusal(tmp_path)


def test_a_file_cut_anywhere_is_refused(model):
    whole = model.read_bytes()
    cut = model.with_name("cut.neumo")
    for size in [5, 40, len(whole) // 2, len(whole) - 30, len(whole) - 1]:
        cut.write_bytes(whole[:size])
        refusal(cut)


def test_every_changed_byte_of_a_member_is_noticed(model):
    whole = model.read_bytes()
    changed = model.with_name("changed.neumo")
    for name in MEMBERS:
        start = whole.index(MEMBERS[name])
        for offset in (0, len(MEMBERS[name]) // 2, len(MEMBERS[name]) - 1):
            data = bytearray(whole)
            data[start + offset] ^= 1
            changed.write_bytes(data)
            refusal(changed)


def test_a_wrong_checksum_names_the_member(model):
    bad = rebuilt(model, {"recipe.yaml": b"neumo: 1\n# changed\n"}, raw=True)
    text = refusal(bad)
    assert "CheckpointError[model-checksum]" in text
    assert "recipe.yaml is not what was written" in text


def test_a_member_without_a_checksum_is_refused(model):
    assert "assets/x.txt is not what was written" in refusal(rebuilt(model, {"assets/x.txt": b"x"}, raw=True))


def test_a_newer_format_asks_for_an_upgrade(model):
    card = json.dumps({"format": 2, "neumo": "9.0"}).encode()
    text = refusal(rebuilt(model, {"card.json": card, "graph.bin": b"new"}))
    assert "CheckpointError[model-version]" in text
    assert "format 2 (of neumo 9.0)" in text
    assert "pip install -U neumo" in text


@pytest.mark.parametrize("card", [b"[]", b"{}", b'{"format": "1"}', b"not json", b"[" * 100_000, b"\xff\xfe"])
def test_a_card_that_is_none_is_refused(model, card):
    refusal(rebuilt(model, {"card.json": card}))


@pytest.mark.parametrize("name", ["recipe.yaml", "weights.safetensors", "card.json"])
def test_a_missing_member_is_refused(model, name):
    refusal(rebuilt(model, drop=[name]))


@pytest.mark.parametrize(
    "name",
    [
        "../evil.txt",
        "assets/../../evil.txt",
        "assets/..",
        "assets/a..b",
        "/etc/passwd",
        "C:\\evil.txt",
        "C:/evil.txt",
        "assets\\evil.txt",
        "assets/sub/evil.txt",
        "assets/",
        "assets/.hidden",
        "assets-evil/x",
        "weights.pkl",
        "evil.py",
        "Recipe.yaml",
    ],
)
def test_a_member_of_another_name_is_refused(model, name):
    refusal(rebuilt(model, add=[(name, b"x")]))


def test_a_name_with_a_zero_byte_is_refused(model):
    bad = rebuilt(model, add=[("assets/xXevil.txt", b"x")])
    bad.write_bytes(bad.read_bytes().replace(b"assets/xXevil.txt", b"assets/x\0evil.txt"))
    refusal(bad)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["recipe.yaml", "card.json", "weights.safetensors", "checksums.json"])
def test_a_member_that_is_there_twice_is_refused(model, name):
    refusal(rebuilt(model, add=[(name, b"other")]))


@pytest.mark.parametrize("kind", [0o120777, 0o060644, 0o020644, 0o010644, 0o040755])
def test_links_devices_pipes_and_folders_are_refused(model, kind):
    info = zipfile.ZipInfo("assets/x")
    info.create_system = 3
    info.external_attr = kind << 16
    assert "link or a device" in refusal(rebuilt(model, add=[(info, b"/etc/passwd")]))


def test_a_compressed_member_is_refused(model):
    info = zipfile.ZipInfo("assets/bomb")
    info.compress_type = zipfile.ZIP_DEFLATED
    bad = model.with_name("bomb.neumo")
    with zipfile.ZipFile(model) as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
        new.writestr(info, b"\0" * 50_000_000)
    assert "is compressed" in refusal(bad)


def test_a_text_that_is_too_large_is_refused(model):
    assert "is too large" in refusal(rebuilt(model, {"recipe.yaml": b"#" * (5 << 20)}))


def test_members_that_claim_more_than_the_file_has_are_refused(model):
    """Ten gigabytes on paper: sizes are patched in the directory of the file."""
    data = bytearray(model.read_bytes())
    at = data.index(b"PK\x01\x02")
    at = data.index(b"PK\x01\x02", at + 1)  # the second entry: weights
    data[at + 20 : at + 28] = struct.pack("<II", 0xF0000000, 0xF0000000)
    bad = model.with_name("sparse.neumo")
    bad.write_bytes(data)
    refusal(bad)


def test_any_file_of_random_bytes_behind_the_magic_is_refused(tmp_path):
    import random

    draw = random.Random(1)
    path = tmp_path / "model.neumo"
    for _ in range(50):
        path.write_bytes(b"PK\x03\x04" + draw.randbytes(draw.randint(0, 400)))
        refusal(path)


def test_no_byte_of_the_file_can_be_flipped_into_a_crash(model):
    """Whatever is changed, the answer is either the model or a CheckpointError."""
    whole = model.read_bytes()
    changed = model.with_name("changed.neumo")
    end = whole.index(MEMBERS["weights.safetensors"]) + len(MEMBERS["weights.safetensors"])
    for position in [*range(60), *range(end, len(whole))]:
        data = bytearray(whole)
        data[position] ^= 0xFF
        changed.write_bytes(data)
        try:
            archive = Archive(changed)
            assert archive.read("recipe.yaml") == MEMBERS["recipe.yaml"]
        except CheckpointError:
            pass


def test_the_file_is_a_plain_zip(model):
    with zipfile.ZipFile(io.BytesIO(model.read_bytes())) as archive:
        assert archive.testzip() is None
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
