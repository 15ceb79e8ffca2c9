"""The examples of the documentation do what they say."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent.parent / "docs"
GENERATED = "modules.md"  # its examples are those of docstrings, which run where they stand
PAGES = [
    page
    for page in sorted(DOCS.glob("*.md"))
    if ">>>" in page.read_text(encoding="utf-8") and page.name != GENERATED
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert found.attempted > 0
    assert found.failed == 0, f"{page.name}: the output above is not what the page says"
