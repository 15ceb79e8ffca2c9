"""What the recipes that come with neumo say about themselves is so."""

from pathlib import Path

import neumo.asr
from neumo.engine import NeuralFactory
from neumo.graph.yaml import load_recipe


def test_the_recipe_of_digits_says_how_many_weights_it_has() -> None:
    path = Path(neumo.asr.__file__).parent / "recipes" / "digits.yaml"
    counted = NeuralFactory(device="meta", progress=False).count_parameters(load_recipe(path).graph("train"))
    assert f" {counted:,} weights" in path.read_text(encoding="utf-8").splitlines()[0]
