"""Corpora are fetched, checked, unpacked and written as manifests; what is hostile or damaged is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from neumo.cli.main import run
from neumo.data import read_manifest
from neumo.data.corpora import CORPORA, find_corpus
from neumo.data.download import Checksum, download
from neumo.data.prepare import prepare
from neumo.data.unpack import Limits, unpack
from neumo.types.errors import ConfigError, DataError

from . import corpora


class Server(ThreadingHTTPServer):
    """Serves bytes by path, with ranges; `cut` breaks the next answer off behind so many bytes."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.etag = '"one"'
        self.cut: int | None = None
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = self.server.files.get(self.path)
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        if body is None:
            self.send_error(404)
            return
        start = 0
        if wanted and self.headers.get("If-Range", self.server.etag) == self.server.etag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if start >= len(body):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(body)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.send_header("ETag", self.server.etag)
        self.end_headers()
        stop = len(body) if self.server.cut is None else start + self.server.cut
        self.server.cut = None
        self.wfile.write(body[start:stop])
        self.close_connection = True

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def md5(data: bytes) -> Checksum:
    return Checksum("md5", hashlib.md5(data).hexdigest())


def neumo(capsys, *words):
    capsys.readouterr()
    with pytest.raises(SystemExit) as done:
        run([str(word) for word in words])
    said = capsys.readouterr()
    return int(done.value.code or 0), said.out, said.err


def test_a_download_that_broke_off_goes_on_where_it_stopped(server, tmp_path):
    body = bytes(range(256)) * 4000
    server.files["/a.bin"], server.cut = body, 300_000
    download(f"{server.url}/a.bin", tmp_path / "a.bin", checksum=md5(body))
    assert (tmp_path / "a.bin").read_bytes() == body
    assert server.asked == [None, "bytes=300000-"]
    assert [path.name for path in tmp_path.iterdir()] == ["a.bin"]


def test_a_download_of_another_process_is_taken_up(server, tmp_path):
    body = b"x" * 1000
    server.files["/a.bin"] = body
    (tmp_path / "a.bin.part").write_bytes(body[:400])
    (tmp_path / "a.bin.part.from").write_text(f'{server.url}/a.bin\n"one"')
    download(f"{server.url}/a.bin", tmp_path / "a.bin", checksum=md5(body))
    assert server.asked == ["bytes=400-"]


def test_a_part_that_was_whole_is_not_fetched_again(server, tmp_path):
    body = b"x" * 1000
    server.files["/a.bin"] = body
    (tmp_path / "a.bin.part").write_bytes(body)
    (tmp_path / "a.bin.part.from").write_text(f'{server.url}/a.bin\n"one"')
    download(f"{server.url}/a.bin", tmp_path / "a.bin", checksum=md5(body))
    assert (tmp_path / "a.bin").read_bytes() == body


@pytest.mark.parametrize("known", ['{url}/other\n"one"', '{url}/a.bin\n"zero"'])
def test_a_part_of_another_file_or_version_is_not_mixed_in(server, tmp_path, known):
    body = b"new" * 1000
    server.files["/a.bin"] = body
    (tmp_path / "a.bin.part").write_bytes(b"old" * 100)
    (tmp_path / "a.bin.part.from").write_text(known.format(url=server.url))
    download(f"{server.url}/a.bin", tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == body


def test_a_wrong_checksum_is_refused_and_the_file_thrown_away(server, tmp_path):
    server.files["/a.bin"] = b"something else"
    with pytest.raises(DataError) as caught:
        download(f"{server.url}/a.bin", tmp_path / "a.bin", checksum=md5(b"as published"))
    assert caught.value.code == "checksum"
    assert md5(b"something else").digest in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_absent_file_and_an_absent_server_say_the_way_out(server, tmp_path):
    with pytest.raises(DataError, match="404") as caught:
        download(f"{server.url}/a.bin", tmp_path / "a.bin")
    assert any("--archives" in fix.text for fix in caught.value.fixes)
    server.server_close()
    with pytest.raises(DataError) as caught:
        download(f"{server.url}/a.bin", tmp_path / "a.bin")
    assert caught.value.code == "download"
    assert any("no_proxy" in fix.text for fix in caught.value.fixes)


def test_only_addresses_of_the_web_are_fetched(tmp_path):
    (tmp_path / "secret").write_text("x")
    with pytest.raises(DataError, match=r"no\s+address"):
        download(f"file://{tmp_path}/secret", tmp_path / "a.bin")


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def plain(name: str, size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    return info


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (plain("../out.txt"), "leads out"),
        (plain("a/../../out.txt"), "leads out"),
        (plain("/tmp/out.txt"), "leads out"),
        (plain("..\\out.txt"), "leads out"),
        (plain("C:/out.txt"), "leads out"),
        (link("a", "/etc/passwd"), "a link"),
        (link("a", "inside"), "a link"),
        (link("a", "/etc/passwd", tarfile.LNKTYPE), "a link"),
        (link("a", "", tarfile.FIFOTYPE), "neither a file nor a folder"),
        (link("a", "", tarfile.CHRTYPE), "neither a file nor a folder"),
    ],
)
def test_a_hostile_member_is_refused(tmp_path, member, reason):
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as file:
        file.addfile(plain("good.txt"))
        file.addfile(member, io.BytesIO(b""))
    with pytest.raises(DataError) as caught:
        unpack(tmp_path / "a.tar.gz", tmp_path / "inner")
    assert caught.value.code == "archive"
    assert reason in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "inner"]


def test_a_zip_is_looked_at_as_closely(tmp_path):
    corpora.zipped(tmp_path / "a.zip", {"../out.txt": b"x"})
    with pytest.raises(DataError, match="allowed"):
        unpack(tmp_path / "a.zip", tmp_path / "inner")
    corpora.zipped(tmp_path / "b.zip", {"d/in.txt": b"x"})
    assert unpack(tmp_path / "b.zip", tmp_path / "inner") == 1
    assert (tmp_path / "inner" / "d" / "in.txt").read_bytes() == b"x"


def test_a_link_that_was_there_leads_nowhere(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "inner" / "d").symlink_to(tmp_path / "elsewhere")
    corpora.tar(tmp_path / "a.tar.gz", {"d/in.txt": b"x"})
    with pytest.raises(DataError, match="allowed"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "inner")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_sizes_are_bounded(tmp_path):
    corpora.tar(tmp_path / "a.tar.gz", {"zeros": bytes(80 << 20)})  # 80 KB packed
    with pytest.raises(DataError, match="larger"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "inner")
    corpora.tar(tmp_path / "b.tar.gz", {"a": b"", "b": b"", "c": b""})
    with pytest.raises(DataError, match="2 members"):
        unpack(tmp_path / "b.tar.gz", tmp_path / "inner", limits=Limits(members=2))


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_an_archive_that_is_cut_off_is_damaged(tmp_path, share):
    path = corpora.tar(tmp_path / "a.tar.gz", corpora.fsdd())
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(DataError) as caught:
        unpack(path, tmp_path / "inner")
    assert caught.value.code == "archive"


LAYOUTS = {
    "mini_librispeech": (
        {
            "train-clean-5.tar.gz": corpora.librispeech("train-clean-5", "19"),
            "dev-clean-2.tar.gz": corpora.librispeech("dev-clean-2", "84"),
        },
        {"train-clean-5": 2, "dev-clean-2": 2},
        "the text number 0",
    ),
    "an4": ({"an4_sphere.tar.gz": corpora.an4()}, {"train": 2, "test": 1}, "hello erase"),
    "commonvoice": (
        {"cv-corpus-99.0-cy.tar.gz": corpora.commonvoice()},
        {"train": 1, "test": 1},
        '"bore da," meddai.',
    ),
    "aishell1": ({"data_aishell.tgz": corpora.aishell1()}, {"train": 1, "dev": 1, "test": 1}, "而对楼市"),
    "aishell2": ({"AISHELL-2.tar.gz": corpora.aishell2()}, {"train": 1, "dev": 1}, "厨房用品"),
    "ljspeech": ({"LJSpeech-1.1.tar.bz2": corpora.ljspeech()}, {"all": 2}, 'in 1455, "printing"'),
    "fsdd": ({"v1.0.9.tar.gz": corpora.fsdd()}, {"train": 2, "test": 2}, "seven"),
    "speech_commands": (
        {"speech_commands_v0.02.tar.gz": corpora.speech_commands()},
        {"train": 1, "dev": 1, "test": 1},
        "yes",
    ),
}


def without_checksums(name: str):
    """The corpus as it is, but for the checksums, which a look-alike cannot have."""
    corpus = find_corpus(name)
    archives = tuple(dataclasses.replace(archive, md5="", sha256="") for archive in corpus.archives)
    return dataclasses.replace(corpus, archives=archives)


def put(folder: Path, archives: dict[str, dict[str, bytes]]) -> None:
    for name, members in archives.items():
        corpora.tar(folder / name, members, "w:bz2" if name.endswith("bz2") else "w:gz")


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_layout_of_each_corpus_becomes_manifests(tmp_path, name):
    archives, sets, first = LAYOUTS[name]
    put(tmp_path / "disk", archives)
    found = prepare(without_checksums(name), tmp_path / "root", archives=tmp_path / "disk")
    assert {split: made.entries for split, made in found.sets.items()} == sets
    for made in found.sets.values():
        manifest = read_manifest(made.manifest, needs_text=True)
        for entry in manifest:
            assert Path(entry.audio).is_file()
            assert not Path(entry.audio_filepath).is_absolute()
            assert entry.duration is not None
            assert entry.speaker
    entry = read_manifest(next(iter(found.sets.values())).manifest)[0]
    assert (entry.text or "").lower() == first


def test_several_languages_of_common_voice_have_manifests_of_their_own(tmp_path):
    members = corpora.commonvoice()
    put(tmp_path / "disk", {"cv-corpus-99.0-cy.tar.gz": members})
    other = {name.replace("/cy/", "/br/"): data for name, data in members.items()}
    put(tmp_path / "disk", {"cv-corpus-99.0-br.tar.gz": other})
    found = prepare(find_corpus("commonvoice"), tmp_path / "root", archives=tmp_path / "disk")
    assert list(found.sets) == ["br-train", "br-test", "cy-train", "cy-test"]


def test_every_corpus_is_laid_out_by_a_test():
    assert set(LAYOUTS) | {"librispeech"} == set(CORPORA)  # which has the layout of its small sister


def test_published_checksums_are_hex_and_of_their_length():
    for corpus in CORPORA.values():
        for archive in corpus.archives:
            assert len(archive.md5) in (0, 32)
            assert len(archive.sha256) in (0, 64)
            assert set(archive.md5 + archive.sha256) <= set("0123456789abcdef")


def test_the_command_fetches_from_a_mirror_and_takes_up_its_work(server, tmp_path, capsys, monkeypatch):
    archives = LAYOUTS["fsdd"][0]
    put(tmp_path / "web", archives)
    body = (tmp_path / "web" / "v1.0.9.tar.gz").read_bytes()
    server.files["/mirror/v1.0.9.tar.gz"], server.cut = body, 100
    words = ["data", "prepare", "fsdd", "--root", tmp_path / "root", "--url", f"{server.url}/mirror"]
    code, out, _ = neumo(capsys, *words)
    assert code == 0
    assert "no checksum published here" in out
    assert f"{tmp_path}/root/train.jsonl  2 recordings" in out
    assert server.asked == [None, "bytes=100-"]
    code, out, _ = neumo(capsys, *words, "--json")  # everything is there
    assert code == 0
    assert json.loads(out)["sets"]["test"]["entries"] == 2
    assert len(server.asked) == 2


def test_a_local_archive_of_another_content_is_refused(tmp_path):
    put(tmp_path / "disk", LAYOUTS["ljspeech"][0])
    with pytest.raises(DataError) as caught:
        prepare(find_corpus("ljspeech"), tmp_path / "root", archives=tmp_path / "disk")
    assert caught.value.code == "checksum"
    assert not list((tmp_path / "root").glob("LJSpeech*"))


def test_one_part_is_enough(tmp_path):
    put(tmp_path / "disk", {"dev-clean-2.tar.gz": corpora.librispeech("dev-clean-2", "84")})
    corpus = without_checksums("mini_librispeech")
    found = prepare(corpus, tmp_path / "root", archives=tmp_path / "disk", parts=["dev-clean-2"])
    assert list(found.sets) == ["dev-clean-2"]
    with pytest.raises(DataError, match="train-clean-5"):
        prepare(corpus, tmp_path / "root", archives=tmp_path / "disk")
    with pytest.raises(ConfigError, match="'dev-clean'"):
        prepare(corpus, tmp_path / "root", parts=["dev-clean"])


def test_what_the_user_has_unpacked_is_taken(tmp_path):
    corpora.tar(tmp_path / "a.tar", corpora.an4(), "w")
    unpack(tmp_path / "a.tar", tmp_path / "root")
    assert prepare(find_corpus("an4"), tmp_path / "root").sets["train"].entries == 2


def test_unpacking_that_was_interrupted_is_done_again(tmp_path):
    put(tmp_path / "disk", LAYOUTS["an4"][0])
    (tmp_path / "root" / ".neumo").mkdir(parents=True)
    (tmp_path / "root" / ".neumo" / "an4_sphere.tar.gz.unpacking").touch()
    (tmp_path / "root" / "an4" / "etc").mkdir(parents=True)
    (tmp_path / "root" / "an4" / "etc" / "an4_train.transcription").write_text("HALF (")
    found = prepare(find_corpus("an4"), tmp_path / "root", archives=tmp_path / "disk")
    assert found.sets["train"].entries == 2


def test_recordings_that_cannot_be_read_are_named_and_left_out(tmp_path):
    members = corpora.fsdd()
    members["free-spoken-digit-dataset-1.0.9/recordings/7_theo_5.wav"] = b""
    put(tmp_path / "disk", {"v1.0.9.tar.gz": members})
    made = prepare(find_corpus("fsdd"), tmp_path / "root", archives=tmp_path / "disk").sets["train"]
    assert made.entries == 1
    assert "7_theo_5" in made.left_out[0]


def test_a_corpus_by_hand_says_how(tmp_path, capsys):
    code, _, err = neumo(capsys, "data", "prepare", "commonvoice", "--root", tmp_path / "root")
    assert code == 1
    assert "DataError[corpus-by-hand]" in err
    assert "accept its terms" in " ".join(err.split())


def test_names_are_listed_and_suggested(capsys, tmp_path):
    code, out, _ = neumo(capsys, "data", "prepare")
    assert code == 0
    assert all(name in out for name in CORPORA)
    code, _, err = neumo(capsys, "data", "prepare", "librispech", "--root", tmp_path)
    assert code == 1
    assert "librispeech" in err
    code, _, err = neumo(capsys, "data", "prepare", "an4")
    assert code == 2
    assert "--root DIR" in err
