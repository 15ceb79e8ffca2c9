"""Finding the torch code of a specification."""

import subprocess
import sys

import pytest
from torch import nn

from neumo.asr import ConvEncoder
from neumo.backends.torch.registry import build, implementation, implements
from neumo.types import BackendError


class Widen:
    """A specification outside of any package."""


class WidenMore(Widen):
    """One that derives from it."""


def test_a_specification_without_code_is_refused_with_a_way_out():
    with pytest.raises(BackendError) as caught:
        build(Widen())
    assert caught.value.code == "no-implementation"
    assert "@implements(Widen)" in str(caught.value)


def test_a_derived_specification_is_built_by_the_code_of_its_parent():
    class Parent:
        """A specification."""

    class Child(Parent):
        """Another with the same code."""

    @implements(Parent)
    class Layer(nn.Module):
        def __init__(self, spec):
            super().__init__()
            self.spec = spec

    child = Child()
    assert implementation(Child) is Layer
    assert build(child).spec is child


def test_a_module_that_is_its_own_code_is_returned():
    layer = nn.Identity()
    assert build(layer) is layer


def test_equal_specifications_get_weights_of_their_own():
    first, second = build(ConvEncoder.preset("digits")), build(ConvEncoder.preset("digits"))
    assert first.blocks[0].units[0].depthwise.weight is not second.blocks[0].units[0].depthwise.weight


def test_the_room_of_a_collection_is_imported_on_first_use():
    code = (
        "import sys; from neumo.asr import CTCHead; from neumo.types import Vocab;"
        "assert 'torch' not in sys.modules;"
        "from neumo.backends.torch.registry import build; assert 'neumo.asr.torch' not in sys.modules;"
        "print(type(build(CTCHead(Vocab('ab'), 4))).__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "neumo.asr.torch.ctc"


def test_an_error_inside_the_room_of_a_collection_is_shown(tmp_path, monkeypatch):
    room = tmp_path / "roomy"
    room.mkdir()
    (room / "__init__.py").write_text("")
    (room / "modules.py").write_text("class Spec: pass\n")
    (room / "torch.py").write_text("import a_package_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    from roomy.modules import Spec

    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_there"):
        build(Spec())


def test_a_package_without_a_room_for_torch_is_refused(tmp_path, monkeypatch):
    room = tmp_path / "roomless"
    room.mkdir()
    (room / "__init__.py").write_text("")
    (room / "modules.py").write_text("class Spec: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    from roomless.modules import Spec

    with pytest.raises(BackendError, match=r"roomless\.torch"):
        build(Spec())
