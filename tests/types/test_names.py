"""The public surface: sorted, complete, light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import neumo
import neumo.types


def test_names_of_the_room_are_sorted_and_there():
    def key(name):  # constants, classes, functions: the order that ruff keeps
        return not (len(name) > 1 and name.isupper()), not name[0].isupper(), name

    assert sorted(neumo.types.__all__, key=key) == list(neumo.types.__all__)
    assert all(hasattr(neumo.types, name) for name in neumo.types.__all__)


def test_top_level_names_are_sorted_and_load_from_their_rooms():
    names = [name for name in neumo.__all__ if name != "__version__"]
    assert names == sorted(names)
    assert neumo.Mel is neumo.types.Mel
    assert {"Mel", "asr"} <= set(dir(neumo))
    with pytest.raises(AttributeError, match="no attribute 'Mell'"):
        neumo.Mell  # noqa: B018


@pytest.mark.parametrize("name", neumo.__all__)
def test_every_public_name_can_be_loaded(name):
    assert getattr(neumo, name) is not None


def test_rooms_load_on_first_use():
    code = (
        "import sys, neumo\n"
        "assert 'neumo.graph' not in sys.modules\n"
        "assert neumo.graph.Graph is neumo.Graph\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_importing_neumo_loads_neither_numpy_nor_a_framework():
    code = (
        "import sys, neumo, neumo.types\n"
        "heavy = {'numpy', 'torch', 'yaml', 'typer', 'rich', 'jax', 'onnxruntime'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
