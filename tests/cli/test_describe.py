"""`neumo describe` lists the modules and shows ports and fields of each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from neumo.graph.adapters import Transpose
from neumo.graph.catalogue import describe_module, public_kinds
from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.module import NeuralModule
from neumo.graph.signature import Signature
from neumo.types import Acoustic, Audio, B, Element, F, T, U, Vocab, parse

from .runner import HERE, ROOT, expect, neumo, process


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


def test_what_can_go_to_a_port_of_the_catalogue_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    expect("describe_fits", process("describe", "--fits", "ConvEncoder.mel").out)


def test_what_can_go_to_a_port_of_a_recipe_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = str(HERE / "recipes" / "right.yaml")
    expect("describe_fits_recipe", process("describe", "--fits", "train.ctc.targets", "--recipe", recipe).out)
    words = ("describe", "--fits", "train.ctc.log_probs_len", "--recipe", recipe, "--json")
    found = json.loads(neumo(capsys, *words).out)
    assert found["port"] == "train.ctc.log_probs_len"
    assert found["wanted"] == "Lengths(T//320 + 1)[B]"  # beside the scores that are connected
    assert "SpeechData.audio_len" not in {each["from"] for each in found["fed_by"]}
    (value,) = found["values"]
    assert value["value"] == "encoder.encoded_len"
    assert value["connected"] is True
    assert value["type"].startswith("Lengths(T//320 + 1)")
    scores = json.loads(neumo(capsys, *words[:2], "train.ctc.log_probs", *words[3:]).out)
    assert "CTCHead.log_probs" in {each["from"] for each in scores["fed_by"]}


def test_an_output_tells_which_ports_it_can_feed(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(neumo(capsys, "describe", "--fits", "CTCHead.log_probs", "--json").out)
    assert found["fed_by"] == []
    ours = [each for each in found["feeds"] if each["to"] in {"CTCLoss.log_probs", "GreedyCTC.log_probs"}]
    assert [each["outcome"] for each in ours] == ["bound"] * len(ours)


def test_adapters_and_settings_that_make_it_fit_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    @dataclass(frozen=True)
    class HalfRate(NeuralModule):
        """Gives audio of another rate."""

        def signature(self) -> Signature:
            return Signature(gives={"audio": Audio(rate=8000, peak=1.0)[B, T]})

    lines = neumo(capsys, "describe", "--fits", "HalfRate.audio").out.splitlines()
    assert any(
        line.split() == ["MelSpectrogram.audio", "through", "Resample(8000", "->", "16000)"] for line in lines
    )
    lines = neumo(capsys, "describe", "--fits", "ConvEncoder.encoded").out.splitlines()
    assert "  CTCHead.encoded" in " ".join(lines)


def test_a_port_that_nothing_fits_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    @dataclass(frozen=True)
    class Lonely(NeuralModule):
        """Takes what nobody gives."""

        def signature(self) -> Signature:
            return Signature(takes={"x": Lonesome()[B]})

    out = neumo(capsys, "describe", "--fits", "Lonely.x").out
    assert out == "Lonely.x\n\nNo module of the catalogue fits.\n"


@dataclass(frozen=True)
class Lonesome(Element):
    """Is given by no module."""


@pytest.mark.parametrize(
    ("words", "what", "fix"),
    [
        (("--recipe", "x.yaml"), "--recipe says where to look for the port of --fits", "add --fits"),
        (("--fits", "ctc.targets"), "no module kind is called 'ctc'", ""),
        (("--fits", "CTCLoss.target"), "CTCLoss has no port 'target'", "did you mean 'targets'?"),
    ],
)
def test_a_port_that_cannot_be_found_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], what: str, fix: str
) -> None:
    result = neumo(capsys, "describe", *words)
    assert result.code == (2 if "--recipe" in words else 1)
    assert what in result.err
    assert fix in result.err


def test_the_graph_has_to_be_named_where_there_are_several(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = str(HERE / "recipes" / "right.yaml")
    result = neumo(capsys, "describe", "--fits", "ctc.targets", "--recipe", recipe)
    assert result.code == 1
    assert "write train.ctc.targets" in result.err
    assert "write infer.ctc.targets" not in result.err


def test_a_single_graph_need_not_be_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    data = inputs(x=Acoustic()[B, F(4), T], late=Acoustic()[B, F(4), U])
    turned = Transpose("B F T", "B T F").named("turn")(value=data.x)
    Graph("only", outputs={"x": turned.value, "late": data.late}).save(tmp_path / "only.yaml")
    words = ("describe", "--fits", "turn.value", "--recipe", str(tmp_path / "only.yaml"), "--json")
    found = json.loads(neumo(capsys, *words).out)
    assert [each["value"] for each in found["values"]] == ["inputs.late", "inputs.x"]


def test_the_catalogue_tells_which_connections_are_valid(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(process("describe", "--json").out)
    assert found["version"] == 1
    kinds = [each["kind"] for each in found["modules"]]
    assert kinds == [
        each["kind"] for each in sorted(found["modules"], key=lambda m: (m["collection"], m["kind"]))
    ]
    assert set(found["modules"][0]) == {
        "kind", "collection", "role", "trainable", "summary", "doc", "fields", "takes", "gives",
        "example", "ports_unknown", "presets",
    }  # fmt: skip
    ports = {f"{each['kind']}.{port}" for each in found["modules"] for port in each["takes"] | each["gives"]}
    assert {each[end] for each in found["connections"] for end in ("from", "to")} <= ports
    assert json.loads(process("describe", "--json").out) == found


def test_every_type_of_the_catalogue_can_be_read_back() -> None:
    found = json.loads(process("describe", "--json").out)
    vocabs = {name: Vocab.from_data(data) for name, data in found["vocabs"].items()}
    for module in found["modules"]:
        for about in (module["takes"] | module["gives"]).values():
            assert str(parse(about["type"], names=vocabs)) == about["type"]


def test_the_reference_of_the_modules_is_what_the_command_prints() -> None:
    page = (ROOT / "docs" / "modules.md").read_text(encoding="utf-8")
    assert page == process("describe", "--markdown").out, "neumo describe --markdown > docs/modules.md"


def test_every_module_of_ours_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "modules.md").read_text(encoding="utf-8")
    for cls in public_kinds():
        if cls.__module__.startswith("neumo."):
            assert f"\n### {cls.__name__}\n" in page
