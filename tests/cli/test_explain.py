"""`neumo explain` lists the codes of errors and explains each."""

from __future__ import annotations

import json

import pytest

from neumo.graph.explain import all_pages

from .runner import expect, neumo


def test_all_codes_are_listed_by_topic(capsys: pytest.CaptureFixture[str]) -> None:
    out = neumo(capsys, "explain").out
    for code, page in all_pages().items():
        assert f"  {code}" in out
        assert page.title in out
    topics = [line for line in out.splitlines() if line and line[0] != " "][:-1]
    assert topics == sorted({page.topic for page in all_pages().values()})


def test_a_code_is_explained_by_examples(capsys: pytest.CaptureFixture[str]) -> None:
    expect("explain_lengths", neumo(capsys, "explain", "PortError[lengths]").out)


def test_pages_are_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    page = json.loads(neumo(capsys, "explain", "lengths", "--json").out)
    assert set(page) == {"code", "topic", "title", "text"}
    assert len(json.loads(neumo(capsys, "explain", "--json").out)) == len(all_pages())


def test_an_unknown_code_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "explain", "lenghts")
    assert result.code == 1
    assert "did you mean 'lengths'?" in result.err
