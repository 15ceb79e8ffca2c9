import pytest
import torch
from safetensors import SafetensorError
from torch import nn

from neumo.backends.torch.save import count, load_state, read_tensors, state_of, write_tensors
from neumo.types import CheckpointError


def test_tensors_come_back(tmp_path):
    tied = torch.randn(3, 2)
    tensors = {"a": tied, "b": tied, "part": torch.randn(4, 4)[1:3], "n": torch.tensor(3), "turned": tied.t()}
    write_tensors(tmp_path / "x.safetensors", tensors)
    again = read_tensors(tmp_path / "x.safetensors")
    assert all(torch.equal(again[name], value) for name, value in tensors.items())


def test_a_path_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    with pytest.raises(CheckpointError, match=r"is\s+a\s+folder") as caught:
        write_tensors(tmp_path, {"a": torch.zeros(1)})
    assert [fix.text for fix in caught.value.fixes] == [
        f"factory.save(graph, '{tmp_path}/weights.safetensors')"
    ]
    with pytest.raises(CheckpointError, match=r"there\s+is\s+no\s+folder"):
        write_tensors(tmp_path / "none" / "x.safetensors", {"a": torch.zeros(1)})

    def full(*_: object, **__: object) -> None:
        raise SafetensorError("No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(CheckpointError, match=r"written\s+to\s+x.safetensors:\s+No") as caught:
        write_tensors(tmp_path / "x.safetensors", {"a": torch.zeros(1)})
    assert caught.value.code == "checkpoint-path"


@pytest.mark.parametrize("content", [b"", b"\x80\x04pickle", b"x" * 100])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "x.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        read_tensors(path)
    with pytest.raises(CheckpointError, match="no such file"):
        read_tensors(tmp_path / "none")


def test_everything_that_differs_is_in_the_table():
    modules = {"head": nn.Linear(4, 3)}
    given = {"head.weight": torch.zeros(5, 4), "head.scale": torch.zeros(2)}
    with pytest.raises(CheckpointError, match="another model: 3 of 2 entries differ") as caught:
        load_state(modules, given)
    text = str(caught.value)
    assert "missing    head.bias 3" in text
    assert "left over  head.scale 2" in text
    assert "shape      head.weight is 5x4 in the file, 3x4 in the model" in text
    assert "partial=True" in text


def test_a_long_table_is_cut_and_counted():
    modules = {"m": nn.Linear(1, 1)}
    with pytest.raises(CheckpointError) as caught:
        load_state(modules, {f"x{n}": torch.zeros(1) for n in range(100)})
    assert "and 90 more" in str(caught.value)
    assert len(caught.value.data["differences"]) == 102


def test_a_partial_load_takes_what_fits_and_says_the_rest():
    modules = {"head": nn.Linear(4, 3)}
    rest = load_state(modules, {"head.weight": torch.zeros(5, 4), "head.bias": torch.ones(3)}, partial=True)
    assert modules["head"].bias.tolist() == [1, 1, 1]
    assert rest == ["shape      head.weight is 5x4 in the file, 3x4 in the model"]


def test_names_are_module_and_weight():
    assert list(state_of({"norm": nn.BatchNorm1d(2)})) == [
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    ]


def test_a_shared_tensor_is_counted_once():
    weight = nn.Parameter(torch.zeros(3, 2))
    assert count([weight, weight, torch.zeros(4)]) == 10
