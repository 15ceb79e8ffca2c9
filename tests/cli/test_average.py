import json

import pytest

from neumo.cli.main import run
from neumo.engine import Checkpoint, NeuralFactory

from ..engine.toys import line_graphs


@pytest.fixture
def folder(tmp_path):
    maker = NeuralFactory(device="cpu", progress=False, folder=tmp_path)
    maker.train(line_graphs()[0], max_steps=4, checkpoint=Checkpoint(every_steps=1, keep_last=3))
    return tmp_path


def neumo(capsys, *words):
    with pytest.raises(SystemExit) as done:
        run([str(word) for word in words])
    said = capsys.readouterr()
    return done.value.code, said.out, said.err


def test_checkpoints_are_averaged_from_the_command_line(folder, tmp_path, capsys):
    code, out, _ = neumo(capsys, "average", folder, "--last", 2)
    assert (code, out) == (
        0,
        f"the mean of step-00000003, step-00000004 is in {folder / 'averaged.safetensors'}\n",
    )
    code, out, _ = neumo(
        capsys, "average", folder, "--last", 3, "-o", tmp_path / "mean.safetensors", "--json"
    )
    assert code == 0
    assert json.loads(out)["checkpoints"] == ["step-00000002", "step-00000003", "step-00000004"]
    assert (tmp_path / "mean.safetensors").is_file()


def test_fewer_checkpoints_than_asked_for_are_an_error(folder, capsys):
    code, out, err = neumo(capsys, "average", folder, "--last", 9)
    assert (code, out) == (1, "")
    assert "the average of 9 checkpoints was asked for" in err
