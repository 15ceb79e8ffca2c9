"""Names of classes mean the same whatever was imported first, or they are refused."""

from __future__ import annotations

import subprocess
import sys

import pytest

from neumo.graph import registry
from neumo.graph.module import NeuralModule
from neumo.graph.registry import kind_of, lookup
from neumo.types import GraphError


def define(name: str, home: str, inside: str = "") -> type[NeuralModule]:
    body = {"__module__": home, "__qualname__": f"{inside}.{name}" if inside else name}
    return type(name, (NeuralModule,), body)


def test_two_classes_of_one_name_are_refused_in_any_order() -> None:
    for name, homes in (("Swopped", ("b_home", "a_home")), ("Unswopped", ("a_home", "b_home"))):
        one, two = (define(name, home) for home in homes)
        with pytest.raises(GraphError, match=f"2 classes are called {name}") as caught:
            lookup(name)
        assert {fix.text for fix in caught.value.fixes} == {f"write a_home.{name}", f"write b_home.{name}"}
        assert [kind_of(one), kind_of(two)] == [f"{home}.{name}" for home in homes]
        assert lookup(f"a_home.{name}") is (one if homes[0] == "a_home" else two)


def test_two_classes_of_one_file_are_told_apart_as_well() -> None:
    define("Inner", "one_home")
    outer = define("Inner", "one_home", inside="Outer")
    with pytest.raises(GraphError) as caught:
        lookup("Inner")
    assert [fix.text for fix in caught.value.fixes] == ["write one_home.Inner", "write one_home.Outer.Inner"]
    assert kind_of(outer) == "one_home.Outer.Inner"


def test_a_cell_of_a_notebook_that_runs_again_replaces_its_class() -> None:
    define("Cell", "__main__")
    again = define("Cell", "__main__")
    assert lookup("Cell") is again
    assert kind_of(again) == "Cell"


def test_a_class_of_ours_is_meant_even_before_its_room_is_open() -> None:
    code = (
        "import sys\n"
        "from neumo.graph.module import NeuralModule\n"
        "from neumo.graph.registry import kind_of, lookup\n"
        "own = type('WordErrorRate', (NeuralModule,), {'__module__': 'my_home'})\n"
        "assert 'neumo.metrics' not in sys.modules\n"
        "print(lookup('WordErrorRate').__module__, kind_of(own))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "neumo.metrics.wer my_home.WordErrorRate\n"


def test_a_room_that_is_not_installed_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "COLLECTIONS", ("neumo.nowhere.modules", "neumo.no_such_room"))
    with pytest.raises(GraphError, match="no module kind is called 'Nowhere'"):
        lookup("Nowhere")


def test_a_kind_that_is_not_known_is_refused_with_the_nearest() -> None:
    with pytest.raises(GraphError) as caught:
        lookup("Resampel")
    assert caught.value.fixes[0].text == "did you mean Resample?"


@pytest.mark.parametrize(
    ("kind", "fixes"),
    [
        ("CTCDecoder", ["did you mean BeamCTC?", "did you mean GreedyCTC?"]),  # decoders of CTC
        ("WER", ["did you mean WordErrorRate?"]),
        ("Nothing", []),
        ("mine.Nothing", []),
    ],
)
def test_a_kind_of_another_name_is_found_by_its_words_and_its_role(
    kind: str, fixes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.known_kinds()
    kinds = registry._kinds.items()
    ours = {name: found for name, found in kinds if next(iter(found)).startswith("neumo.")}
    monkeypatch.setattr(registry, "_kinds", ours)
    with pytest.raises(GraphError) as caught:
        lookup(kind)
    texts = [fix.text for fix in caught.value.fixes]
    assert [text for text in texts if text.startswith("did you mean")] == fixes
    assert "list the kinds: neumo describe" in texts
