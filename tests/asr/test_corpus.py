"""The spoken corpus: what is planned, what is written, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from neumo.asr.corpus import DigitCorpus, generate_digits
from neumo.types.errors import BackendError, DataError

soundfile = pytest.importorskip("soundfile")
espeak = pytest.importorskip("espeakng_loader")

SMALL = DigitCorpus(train=6, evaluate=3)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return generate_digits(tmp_path_factory.mktemp("made") / "corpus", SMALL, workers=1)


def lines(manifest):
    return [json.loads(line) for line in manifest.read_text().splitlines()]


@pytest.mark.parametrize("seed", range(5))
def test_evaluation_has_other_strings_and_other_voices(seed):
    plan = DigitCorpus(seed=seed).plan()
    train, evaluate = plan["train"], plan["evaluate"]
    assert (len(train), len(evaluate)) == (1400, 200)
    assert not {u.text for u in train} & {u.text for u in evaluate}
    assert not {u.voice for u in train} & {u.voice for u in evaluate}
    assert len({u.text for u in train + evaluate}) == 1600
    assert len({u.voice for u in train}) > 30


def test_a_plan_follows_from_its_settings_alone():
    assert DigitCorpus(seed=7).plan() == DigitCorpus(seed=7).plan()
    assert DigitCorpus(seed=7).plan() != DigitCorpus(seed=8).plan()


def test_the_plan_keeps_to_the_ranges_of_the_settings():
    settings = DigitCorpus(train=300, evaluate=10)
    for utterance in settings.plan()["train"]:
        assert 3 <= len(utterance.text.split()) <= 7
        assert 130 <= utterance.speed <= 200
        assert 25 <= utterance.pitch <= 75


def test_a_voice_in_both_sets_is_refused():
    with pytest.raises(DataError, match="voices in both sets: m4"):
        DigitCorpus(train_variants=("m1", "m4")).plan()


def test_more_strings_than_there_are_is_refused():
    with pytest.raises(DataError, match="1000"):
        DigitCorpus(train=600, evaluate=10, shortest=3, longest=3).plan()


def test_files_are_mono_16_khz_and_as_long_as_the_manifest_says(corpus):
    for manifest, count in ((corpus.train, 6), (corpus.evaluate, 3)):
        entries = lines(manifest)
        assert len(entries) == count
        for entry in entries:
            info = soundfile.info(manifest.parent / entry["audio_filepath"])
            assert (info.samplerate, info.channels, info.subtype) == (16000, 1, "PCM_16")
            assert info.frames / 16000 == pytest.approx(entry["duration"], abs=1e-4)
            assert 0.5 < entry["duration"] < 5


def test_files_do_not_depend_on_the_number_of_processes(tmp_path, monkeypatch):
    monkeypatch.setattr("neumo.asr.corpus._CHUNK", 3)
    one = generate_digits(tmp_path / "one", SMALL, workers=1)
    two = generate_digits(tmp_path / "two", SMALL, workers=2)
    for path in sorted(one.folder.rglob("*.*")):
        assert path.read_bytes() == (two.folder / path.relative_to(one.folder)).read_bytes(), path


def test_a_whole_corpus_is_reused(corpus):
    before = {path: path.stat().st_mtime_ns for path in corpus.folder.rglob("*")}
    again = generate_digits(corpus.folder, SMALL)
    assert again.reused
    assert {path: path.stat().st_mtime_ns for path in corpus.folder.rglob("*")} == before


@pytest.mark.parametrize("harm", ["cut", "remove", "manifest"])
def test_a_damaged_corpus_is_made_again(tmp_path, harm):
    settings = DigitCorpus(train=2, evaluate=1)
    corpus = generate_digits(tmp_path / "corpus", settings, workers=1)
    audio = corpus.folder / lines(corpus.train)[0]["audio_filepath"]
    whole = audio.read_bytes()
    if harm == "cut":
        audio.write_bytes(whole[:100])
    elif harm == "remove":
        audio.unlink()
    else:
        corpus.train.write_text("")
    again = generate_digits(corpus.folder, settings, workers=1)
    assert not again.reused
    assert audio.read_bytes() == whole
    assert len(lines(again.train)) == 2


def test_an_interrupted_run_leaves_no_corpus(tmp_path):
    class Interrupt(Exception):
        pass

    def stop(done, total):
        raise Interrupt

    with pytest.raises(Interrupt):
        generate_digits(tmp_path / "corpus", SMALL, workers=1, progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_content_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match="holds no spoken corpus"):
        generate_digits(tmp_path, SMALL)
    assert (tmp_path / "thesis.txt").read_text() == "mine"


def test_a_corpus_of_other_settings_is_left_alone(corpus):
    with pytest.raises(DataError, match="seed: there 1, asked for 2"):
        generate_digits(corpus.folder, replace(SMALL, seed=2))
    assert generate_digits(corpus.folder, SMALL).reused


def test_progress_ends_at_all_utterances(tmp_path):
    seen = []
    generate_digits(tmp_path / "corpus", SMALL, workers=1, progress=lambda *now: seen.append(now))
    assert seen[-1] == (9, 9)


@pytest.mark.parametrize("voice", ["en-xx", "en-us+z9", "en-us+../../../../etc"])
def test_an_unknown_voice_is_named(voice):
    from neumo.asr.espeak import Espeak

    with pytest.raises(DataError, match=r"has no voice"):
        Espeak().say("one", voice=voice)


def test_every_accent_and_variant_speaks():
    from neumo.asr.espeak import ACCENTS, VARIANTS, Espeak

    engine = Espeak()
    for voice in [*ACCENTS, *(f"en-gb+{variant}" for variant in VARIANTS)]:
        samples = engine.say("one two", voice=voice)
        assert 8000 < len(samples) < 60000, voice
        assert abs(samples.astype(int)).max() > 3000, voice


def test_a_missing_package_is_one_line_with_the_command(monkeypatch):
    from neumo.asr.espeak import Espeak

    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(BackendError) as caught:
        Espeak()
    assert str(caught.value).splitlines() == [
        "BackendError[missing-package]: speech synthesis needs espeakng-loader: pip install 'neumo[tts]'"
    ]


def test_the_engine_starts_where_the_path_of_its_data_is_long(tmp_path, monkeypatch):
    """The library keeps the path in 160 bytes and would start without voices."""
    long = tmp_path / ("x" * 100) / ("y" * 100)
    long.mkdir(parents=True)
    data = long / "espeak-ng-data"
    data.symlink_to(espeak.get_data_path(), target_is_directory=True)
    code = (
        "import espeakng_loader, sys; espeakng_loader.get_data_path = lambda: sys.argv[1]\n"
        "from neumo.asr.espeak import Espeak; print(len(Espeak().say('one', voice='en-us+f2')) > 5000)"
    )
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))
    done = subprocess.run(
        [sys.executable, "-c", code, str(data)], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "True", done.stderr
