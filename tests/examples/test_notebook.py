"""The notebook is valid, holds no outputs, and its cells run in order on a few made-up utterances."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .speech import ROOT, write_utterances

NOTEBOOK = ROOT / "notebooks" / "speech_recognition.ipynb"


def cells() -> list[dict[str, Any]]:
    return json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


def test_the_notebook_is_one_of_format_4_without_outputs() -> None:
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert book["nbformat"] == 4
    assert book["nbformat_minor"] >= 5  # cells have ids
    assert set(book) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert len({cell["id"] for cell in cells()}) == len(cells())
    for cell in cells():
        wanted = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            wanted |= {"execution_count", "outputs"}
            assert cell["outputs"] == []
            assert cell["execution_count"] is None
        assert set(cell) == wanted
        assert all(isinstance(line, str) for line in cell["source"])


@pytest.mark.slow
def test_the_cells_run_in_order(tmp_path: Path) -> None:
    write_utterances(tmp_path / "data", ("yes", "go on", "one two", "it's"))
    code = "\n\n".join("".join(cell["source"]) for cell in cells() if cell["cell_type"] == "code")
    drawn = (
        'assert Picture(first["mel"][0])._repr_png_()[1:4] == b"PNG" and "svg" in Curve(curve)._repr_svg_()'
    )
    program = tmp_path / "notebook.py"
    program.write_text(f"{code}\n{drawn}\n", encoding="utf-8")
    small = {
        "NEUMO_AN4": str(tmp_path / "data"),
        "NEUMO_TRAIN": "train.jsonl",
        "NEUMO_DEV": "train.jsonl",
        "NEUMO_EPOCHS": "1",
        "NEUMO_WIDTH": "16",
        "NEUMO_RUN": str(tmp_path / "run"),
    }
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, **small, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "PortError[lengths]" in done.stdout or "lengths" in done.stdout
    assert "heard:" in done.stdout
