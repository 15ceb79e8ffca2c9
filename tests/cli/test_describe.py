"""`neumo describe` lists the modules and shows ports and fields of each."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from neumo.graph.catalogue import describe_module, public_kinds
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature

from .runner import HERE, expect, neumo


def test_all_modules_are_listed_by_collection(capsys: pytest.CaptureFixture[str]) -> None:
    lines = neumo(capsys, "describe").out.splitlines()
    assert [line for line in lines if line in {"adapters", "asr", "metrics"}] == [
        "adapters",
        "asr",
        "metrics",
    ]
    assert any(line.startswith("  ConvEncoder ") for line in lines)
    assert max(map(len, lines)) <= 100


def test_one_module_is_described_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    expect("describe_ctc_head", neumo(capsys, "describe", "CTCHead").out)


def test_all_modules_are_described_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = {
        each["kind"]: each
        for each in json.loads(neumo(capsys, "describe", "--json").out)["modules"]
        if each["collection"] in {"asr", "metrics"}
    }
    encoder = found["ConvEncoder"]
    assert encoder["trainable"] is True
    assert encoder["takes"]["mel_len"] == {
        "type": "Lengths(T)[B]",
        "element": "Lengths",
        "axes": ["B"],
        "optional": False,
        "many": False,
        "when": None,
    }
    assert "quartznet_15x5" in encoder["presets"]
    data = found["SpeechData"]
    assert data["takes"] == {}
    fields = {field["name"]: field for field in data["fields"]}
    assert fields["manifest"]["required"] is True
    assert fields["batch_size"] == {
        "name": "batch_size",
        "type": "int",
        "words": "an integer",
        "required": False,
        "default": 16,
    }
    assert json.loads(neumo(capsys, "describe", "ConvEncoder", "--json").out) == encoder


@pytest.mark.parametrize("cls", [cls for cls in public_kinds() if cls.__module__.startswith("neumo.")])
def test_every_module_of_ours_shows_its_ports_and_has_a_doc(cls: type) -> None:
    found = describe_module(cls)
    assert found["ports_unknown"] == ""
    assert found["gives"]
    assert found["summary"].endswith(".")


def test_modules_of_ones_own_are_described_once_imported(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "--import", str(HERE / "recipes" / "my_modules.py"), "describe", "OwnVocoder")
    assert result.code == 0
    assert result.out.startswith("OwnVocoder (my_modules, module)\n\n  Was trained on mels of one kind.\n")
    assert "mel     an element such as 'Mel(rate=16000, n_mels=64)' = Mel(scale=log10)" in result.out


def test_an_unknown_module_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    result = neumo(capsys, "describe", "ConvEncodr")
    assert result.code == 1
    assert "did you mean ConvEncoder?" in result.err


def test_a_class_that_fails_is_described_without_its_ports() -> None:
    @dataclass(frozen=True)
    class Failing(NeuralModule):
        width: int

        def signature(self) -> Signature:
            raise ZeroDivisionError("width")

    unknown = describe_module(Failing)["ports_unknown"]
    assert unknown == "its ports depend on its fields (ZeroDivisionError: width)"
    assert describe_module(Failing)["doc"] == ""
