"""Two open inputs with a symbol of one name: the file gave the second a name that its ports had already."""

from __future__ import annotations

from neumo.graph.graph import Graph
from neumo.graph.inputs import inputs
from neumo.graph.yaml import load_recipe, recipe_text
from neumo.types import Acoustic, Audio, B, F, T, parse


def test_a_renamed_symbol_takes_no_name_of_its_neighbours() -> None:
    first = inputs(x=Audio(rate=8000)[B, T])
    second = inputs(y=Acoustic()[B, T, F], z=parse("Acoustic[B, T2, F]"))
    graph = Graph("apart", outputs={"x": first.x, "y": second.y, "z": second.z})
    read = load_recipe(recipe_text(graph)).graph().outputs
    assert read["y"].type.axes[1].size != read["z"].type.axes[1].size
    assert read["x"].type.axes[1].size not in {read[name].type.axes[1].size for name in "yz"}
