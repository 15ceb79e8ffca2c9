"""The command finds its verb, loads nothing else, and turns every failure into a message and an exit code."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from neumo.cli import main
from neumo.types import DataError

from .runner import COMMAND, HERE, ROOT, neumo, process

RIGHT = str(HERE / "recipes" / "right.yaml")


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """A verb `fail` that raises what is put into the list."""
    import types

    box: list[BaseException | None] = [None]

    def fail() -> None:
        """Fail."""
        if box[0] is not None:
            raise box[0]

    module = types.ModuleType("failing")
    module.fail = fail  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "failing", module)
    monkeypatch.setitem(main.VERBS, "fail", ("failing", "Fail."))
    return box


def test_help_lists_every_verb_without_loading_it() -> None:
    code = (
        "import sys, atexit\n"
        "from neumo.cli.main import run, VERBS\n"
        "loaded = lambda: [m for m, _ in VERBS.values() if m in sys.modules]\n"
        "atexit.register(lambda: print(loaded(), 'torch' in sys.modules))\n"
        "run(['--help'])"
    )
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"neumo --help: {time.perf_counter() - start:.2f} s in a new process")
    assert done.returncode == 0
    for name, (_, line) in main.VERBS.items():
        assert name in done.stdout
        assert " ".join(line.split()[:4]) in done.stdout
    assert done.stdout.rstrip().endswith("[] False")


@pytest.mark.parametrize("name", main.VERBS)
def test_every_verb_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    start = time.perf_counter()
    result = neumo(capsys, name, "--help")
    print(f"neumo {name} --help: {time.perf_counter() - start:.2f} s")
    assert result.code == 0
    assert result.out.startswith("Usage: neumo")


def test_no_words_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys)
    assert "Commands:" in result.out + result.err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "--version")
    assert result.code == 0
    assert result.out.startswith("neumo ")


def test_an_unknown_verb_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "chek", "recipe.yaml")
    assert result.code == 2
    assert "check" in result.err


def test_an_error_is_its_message_on_stderr(
    verb: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    verb[0] = DataError("line 3 is no JSON", code="manifest")
    result = neumo(capsys, "fail")
    assert (result.code, result.out, result.err) == (1, "", "DataError[manifest]: line 3 is no JSON\n")


def test_an_error_is_json_where_json_is_asked_for(
    verb: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    verb[0] = DataError("line 3 is no JSON", code="manifest")
    import typer

    def fail(json: bool = typer.Option(False, "--json")) -> None:
        raise verb[0]

    sys.modules["failing"].fail = fail  # type: ignore[attr-defined]
    result = neumo(capsys, "fail", "--json")
    assert result.code == 1
    assert json.loads(result.out)["what"] == "line 3 is no JSON"
    assert json.loads(result.out)["ok"] is False


def test_debug_shows_where_an_error_was_raised(
    verb: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    verb[0] = DataError("line 3 is no JSON", code="manifest")
    for words in (["--debug", "fail"], ["fail", "--debug"]):
        result = neumo(capsys, *words)
        assert result.code == 1
        assert "Traceback" in result.err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (FileNotFoundError(2, "No such file or directory", "a.wav"), 1, "neumo: [Errno 2] No such file"),
        (PermissionError(13, "Permission denied", "a.wav"), 1, "neumo: [Errno 13] Permission denied"),
        (
            ZeroDivisionError("division by zero"),
            70,
            "neumo: ZeroDivisionError: division by zero\nThis is a bug",
        ),
        (RecursionError("too deep"), 70, "neumo: RecursionError: too deep"),
    ],
)
def test_every_failure_is_a_line_and_an_exit_code(
    error: BaseException,
    code: int,
    message: str,
    verb: list[BaseException],
    capsys: pytest.CaptureFixture[str],
) -> None:
    verb[0] = error
    result = neumo(capsys, "fail")
    assert result.code == code
    assert result.err.startswith(message)
    assert "Traceback" not in result.err


def test_a_verb_that_works_exits_with_zero(
    verb: list[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    assert neumo(capsys, "fail").code == 0


def test_a_missing_package_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(main.VERBS, "needy", ("needs_torch", "Need torch."))
    monkeypatch.setitem(sys.modules, "torch", None)

    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(main.importlib, "import_module", missing)
    result = neumo(capsys, "needy")
    assert result.code == 1
    assert result.err.startswith("BackendError[missing-package]: `neumo needy` needs the package torch")
    assert 'pip install "neumo[torch]"' in result.err


def test_a_verb_that_is_not_installed_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(main.VERBS, "later", ("neumo.cli.later", "Later."))
    result = neumo(capsys, "later")
    assert result.code == 1
    assert result.err.startswith("ConfigError[verb]: this installation has no `neumo later`")


@pytest.mark.parametrize(
    "words", [["--import", "{}", "describe", "OwnVocoder"], ["describe", "OwnVocoder", "--import={}"]]
)
def test_modules_of_ones_own_are_imported_from_a_file(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(HERE / "recipes" / "my_modules.py")
    assert neumo(capsys, *(word.format(file) for word in words)).code == 0


def test_modules_of_ones_own_are_imported_by_name_from_here(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text((HERE / "recipes" / "my_modules.py").read_text())
    result = process("describe", "OwnVocoder", "--import", "own", folder=tmp_path)
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize("name", ["nowhere", "nowhere.py", "broken.py", "no/such.module"])
def test_a_module_that_cannot_be_imported_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    result = neumo(capsys, "check", RIGHT, "--import", name)
    assert result.code == 1
    assert result.err.startswith(f"ConfigError[import]: --import {name} failed")


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    writer = subprocess.Popen(
        [*COMMAND, "describe", "--json"],
        env={"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.read(1)
    writer.stdout.close()
    errors = writer.stderr.read()
    writer.stderr.close()
    writer.wait()
    assert errors == b""


def test_the_verb_is_the_first_word_that_is_no_option() -> None:
    assert main.verb_of(["--debug", "check", "x"]) == "check"
    assert main.verb_of(["--help"]) is None
