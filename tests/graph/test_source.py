"""The caret stands under the very argument, however the call is written."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest

from neumo.graph.compose import compose
from neumo.graph.source import CallSite, Place, TextSite, short_path
from neumo.types import PortError

from .specs import EN, MelSpectrogram, SpeechData

mel = MelSpectrogram()


def caught(call) -> PortError:
    with pytest.raises(PortError) as error:
        call()
    return error.value


def pointed(error: PortError) -> str:
    """The text above the carets."""
    place = error.where
    assert isinstance(place, Place)
    return place.text[place.start : place.end]


def test_a_call_on_one_line() -> None:
    batch = SpeechData(EN, rate=8000)()
    assert pointed(caught(lambda: mel(audio=batch.audio, audio_len=batch.audio_len))) == "audio=batch.audio"


def test_a_call_on_several_lines() -> None:
    batch = SpeechData(EN, rate=8000)()

    def build():
        return mel(
            audio_len=batch.audio_len,
            audio=batch.audio,
        )

    error = caught(build)
    assert pointed(error) == "audio=batch.audio"
    assert error.where.line == build.__code__.co_firstlineno + 3


def test_an_argument_on_several_lines_is_pointed_at_by_its_first() -> None:
    batch = SpeechData(EN, rate=8000)()

    def build():
        return mel(
            audio_len=batch.audio_len,
            audio=(
                batch
                .audio
            ),
        )  # fmt: skip

    assert pointed(caught(build)) == "audio=("


def test_a_call_inside_a_call() -> None:
    def build():
        return str(mel(audio=SpeechData(EN, rate=8000)().audio, audio_len=SpeechData(EN)().audio_len))

    assert pointed(caught(build)) == "audio=SpeechData(EN, rate=8000)().audio"


def test_a_chain_of_calls() -> None:
    batch = SpeechData(EN, rate=8000)()

    def build():
        return (
            MelSpectrogram()
            .named("front_end")(audio=batch.audio, audio_len=batch.audio_len)
            .mel
        )  # fmt: skip

    assert pointed(caught(build)) == "audio=batch.audio"


def test_two_calls_on_one_line() -> None:
    batch, wrong = SpeechData(EN)(), SpeechData(EN, rate=8000)()

    def build():
        return mel(audio=batch.audio, audio_len=batch.audio_len), mel(
            audio=wrong.audio, audio_len=wrong.audio_len
        )

    assert pointed(caught(build)) == "audio=wrong.audio"


def test_letters_beyond_ascii_do_not_shift_the_caret() -> None:
    batch = SpeechData(EN, rate=8000)()

    def build():
        größe = {"ä": "ö"}
        return größe["ä"], mel(audio=batch.audio, audio_len=batch.audio_len)

    assert pointed(caught(build)) == "audio=batch.audio"


def test_unpacked_arguments_point_at_the_call() -> None:
    batch = SpeechData(EN, rate=8000)()
    given = {"audio": batch.audio, "audio_len": batch.audio_len}
    assert pointed(caught(lambda: mel(**given))) == "mel(**given)"


def test_a_comprehension_sees_the_variables_around_it() -> None:
    batch = SpeechData(EN)()
    fast = SpeechData(EN)()
    error = caught(lambda: [mel(audio=batch.audio, audio_len=wrong) for wrong in (fast.audio_len,)])
    assert error.fixes[0].text == "audio_len=batch.audio_len"


def test_code_without_a_file_gets_file_and_line() -> None:
    code = "def build(mel, batch):\n    return mel(audio=batch.audio, audio_len=batch.audio_len)\n"
    scope: dict = {}
    exec(compile(code, "<generated>", "exec"), scope)
    error = caught(lambda: scope["build"](mel, SpeechData(EN, rate=8000)()))
    assert "\n  <generated>:2\n  given" in error.render()


def test_a_file_that_was_edited_since_gets_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"
    file.write_text("def build(mel, batch):\n    return mel(audio=batch.audio, audio_len=batch.audio_len)\n")
    scope: dict = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    file.write_text("def build(mel, batch:\n")
    linecache.checkcache()
    error = caught(lambda: scope["build"](mel, SpeechData(EN, rate=8000)()))
    assert f"{file}:2" in error.render()


def test_a_recipe_supplies_its_own_place_and_names() -> None:
    text = "      feats: mel(audio=batch.audio, audio_len=batch.audio_len)"
    site = TextSite(
        Place("recipe.yaml", 12, text, 13, len(text)), {"audio": Place("recipe.yaml", 12, text, 17, 34)}
    )
    batch = SpeechData(EN, rate=8000)()
    values = {"audio": batch.audio, "audio_len": batch.audio_len}
    error = caught(lambda: compose(mel, values, location=site, names={"data": batch}))
    assert error.render().splitlines()[2:5] == [
        "  recipe.yaml:12",
        "      feats: mel(audio=batch.audio, audio_len=batch.audio_len)",
        "                 ^^^^^^^^^^^^^^^^^",
    ]
    assert error.fixes[0].text.startswith("insert Resample(8000 -> 16000)")


def test_nothing_is_read_before_a_message_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise AssertionError("read")

    monkeypatch.setattr(linecache, "getline", refuse)
    monkeypatch.setattr(linecache, "getlines", refuse)
    batch = SpeechData(EN)()
    mel(audio=batch.audio, audio_len=batch.audio_len)
    assert isinstance(batch.audio.step.location, CallSite)


def test_paths_below_the_working_folder_are_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert short_path(str(tmp_path / "a" / "b.py")) == "a/b.py"
    assert short_path("/elsewhere/b.py") == "/elsewhere/b.py"
    assert short_path("<stdin>") == "<stdin>"


def test_a_place_prints_as_file_and_line() -> None:
    batch = SpeechData(EN)()
    assert str(batch.audio.step.location).endswith(
        f"test_source.py:{test_a_place_prints_as_file_and_line.__code__.co_firstlineno + 1}"
    )
    assert str(TextSite(Place("recipe.yaml", 3))) == "recipe.yaml:3"
