"""`neumo show` draws the graphs of a recipe in four formats."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from .runner import HERE, ROOT, expect, neumo

RIGHT = str(HERE / "recipes" / "right.yaml")


def test_all_graphs_are_listed_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "show", RIGHT)
    assert result.code == 0
    assert [line for line in result.out.splitlines() if line.startswith("graph ")] == [
        "graph train (train): 6 modules, 6 steps, 11 connections",
        "graph validate (both): 6 modules, 6 steps, 11 connections",
        "graph infer (infer): 4 modules, 5 steps, 7 connections",
    ]


def test_one_graph_is_listed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE / "recipes")
    expect("show_infer", neumo(capsys, "show", "right.yaml", "--graph", "infer").out)


@pytest.mark.parametrize(
    ("words", "file", "start"),
    [
        (["--format", "mermaid"], "a.txt", "flowchart TD"),
        ([], "a.mmd", "flowchart TD"),
        ([], "a.svg", "<svg "),
        ([], "a.html", "<!doctype html>"),
        ([], "a.htm", "<!doctype html>"),
        ([], "a", "graph train"),
        (["--format", "svg"], "a", "<svg "),
    ],
)
def test_a_file_gets_the_format_of_its_suffix(
    words: list[str], file: str, start: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / file
    result = neumo(capsys, "show", RIGHT, "--graph", "train", "-o", str(path), *words)
    assert (result.code, result.out, result.err) == (0, "", "")
    assert path.read_text(encoding="utf-8").startswith(start)


def test_a_page_holds_all_graphs(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "show", RIGHT, "--format", "html")
    assert result.out.count("<svg") == 3


def test_svg_on_stdout_is_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    ET.fromstring(neumo(capsys, "show", RIGHT, "--graph", "validate", "--format", "svg").out)


def test_the_picture_of_the_readme_is_what_its_command_draws(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = ROOT / "src" / "neumo" / "asr" / "recipes" / "digits.yaml"
    picture = neumo(capsys, "show", str(recipe), "--graph", "train", "--format", "svg").out
    file = ROOT / "docs" / "pictures" / "quickstart.svg"
    if os.environ.get("NEUMO_SNAPSHOT") == "write":
        file.write_text(picture, encoding="utf-8")
    assert picture == file.read_text(encoding="utf-8")
    assert len(picture) < 60_000


def test_modules_that_graphs_share_have_one_number_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    page = neumo(capsys, "show", RIGHT, "--format", "html").out
    assert (
        page.count("one module, with one set of weights: train.encoder, validate.encoder, infer.encoder") == 3
    )


def test_a_picture_holds_one_graph(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "show", RIGHT, "--format", "svg")
    assert result.code == 1
    assert "add --graph, one of train, validate, infer" in result.err


def test_an_unknown_graph_or_format_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "show", RIGHT, "--graph", "trian")
    assert result.code == 1
    assert "did you mean 'train'?" in result.err
    assert neumo(capsys, "show", RIGHT, "--format", "png").code == 2


def test_a_folder_that_is_not_there_is_a_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "show", RIGHT, "-o", str(tmp_path / "no" / "a.txt"))
    assert result.code == 1
    assert "a.txt: No such file or directory" in " ".join(result.err.split())
    assert "Traceback" not in result.err


def test_a_wrong_recipe_is_not_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "show", RIGHT, "modules.mel.n_mels=80")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("ConfigError[recipe]: 3 mistakes in")


def test_a_file_of_no_kind_of_drawing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "show", RIGHT, "--graph", "train", "-o", str(tmp_path / "a.png"))
    assert result.code == 2
    assert "ConfigError[option]: `neumo show` does not draw .png files" in result.err
    assert "write to a file that ends in .svg, .html, .htm, .mmd, .txt" in result.err
    assert neumo(capsys, "show", RIGHT, "-o", str(tmp_path / "a.log"), "--format", "text").code == 0
