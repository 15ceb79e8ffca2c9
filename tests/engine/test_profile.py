"""Profiles: what is written, and that they change nothing."""

import json

import pytest

from neumo.engine import NeuralFactory
from neumo.engine.callbacks import Callback, Profile
from neumo.types import ConfigError

from .toys import Line, line_graphs, refused


def factory(**options):
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "off", **options})


def graph():
    return line_graphs(line=Line(norm=True, dropout=0.5))[0]


def test_a_trace_and_a_table_are_written_and_nothing_changes(tmp_path):
    expected = factory().train(graph(), max_steps=6).losses
    maker, trained = factory(folder=tmp_path), graph()
    result = maker.train(trained, max_steps=6, callbacks=[Profile(start=2, steps=2)])
    assert result.losses == expected
    assert sorted(path.name for path in (tmp_path / "profile").iterdir()) == [
        "step-00000004.json",
        "step-00000004.txt",
    ]
    trace = json.loads((tmp_path / "profile" / "step-00000004.json").read_text())
    names = [event["name"] for event in trace["traceEvents"] if "name" in event]
    assert names.count("neumo: line.linear") == 2
    table = (tmp_path / "profile" / "step-00000004.txt").read_text().splitlines()
    rows = {line.split()[-1]: line.split() for line in table if line}
    assert float(rows["line.linear"][2]) == 1.0
    assert 0 < float(rows["line.linear"][0]) <= float(rows["line"][0])
    assert "aten::addmm" in rows
    assert any("profile of 2 steps" in note for note in result.notes)
    module = maker.session.implementation(trained["line"])
    assert not module._forward_hooks
    assert not module.linear._forward_pre_hooks


def test_a_profile_that_is_cut_short_is_written(tmp_path):
    factory(folder=tmp_path).train(graph(), max_steps=3, callbacks=[Profile(start=1, steps=9)])
    assert (tmp_path / "profile" / "step-00000003.txt").is_file()


def test_a_profile_that_never_began_is_said(tmp_path):
    result = factory(folder=tmp_path).train(graph(), max_steps=3, callbacks=[Profile(start=5)])
    assert any("ended before step 6" in note for note in result.notes)
    assert not (tmp_path / "profile").exists()


def test_a_profile_ends_with_a_training_that_fails(tmp_path):
    class Fail(Callback):
        def on_step_end(self, run):
            raise RuntimeError("a bug")

    maker, trained = factory(folder=tmp_path), graph()
    with pytest.raises(RuntimeError, match="a bug"):
        maker.train(trained, max_steps=3, callbacks=[Profile(start=0), Fail()])
    assert not maker.session.implementation(trained["line"])._forward_hooks


def test_profiles_need_a_folder_and_a_step():
    with refused(ConfigError, "profiles need a folder"):
        factory().train(graph(), max_steps=1, callbacks=[Profile()])
    with refused(ConfigError, "steps=0"):
        Profile(steps=0)
