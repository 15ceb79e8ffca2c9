"""What a run folder says of how it came about."""

import csv
import json
import subprocess
import sys
from xml.etree import ElementTree

import pytest

from neumo.engine import Callback, NeuralFactory, read_log
from neumo.engine.tracking import read_starts
from neumo.engine.tracking.provenance import git_state, repeat_command
from neumo.engine.tracking.table import write_table
from neumo.graph.graph import Graph

from .toys import line_graphs


def factory(**options):
    return NeuralFactory(**{"device": "cpu", "seed": 3, "progress": False, "verify": "always", **options})


def git(folder, *words):
    names = ["-c", "user.name=n", "-c", "user.email=e@x", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *names, "-C", str(folder), *words], check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    git(folder, "init", "-b", "trunk")
    (folder / "code.py").write_text("a = 1\n")
    git(folder, "add", "code.py")
    git(folder, "commit", "-m", "start")
    return folder


def test_the_record_says_what_was_run_and_how_it_ended(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    monkeypatch.setattr(sys, "orig_argv", ["/v/bin/python", "/v/bin/neumo", "train", "a recipe.yaml"])
    train, test = line_graphs()
    factory(folder=tmp_path / "run").train(train, epochs=1, evaluate=test)
    (start,) = read_starts(tmp_path / "run")
    assert start["command"] == "neumo train 'a recipe.yaml'"
    assert start["git"] == {
        "commit": git(repository, "rev-parse", "HEAD"),
        "branch": "trunk",
        "changed": False,
    }
    assert (start["seed"], start["processes"], start["step"], start["total_steps"]) == (3, 1, 0, 5)
    assert start["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"neumo", "torch", "numpy"} <= start["versions"].keys()
    assert any("cpu" in note.lower() for note in start["device"])
    assert (start["end"]["step"], start["end"]["stopped"]) == (5, "all epochs are done")
    assert start["end"]["metrics"].keys() == {"error", "points"}
    assert not (tmp_path / "run" / "changes.patch").exists()


def test_changes_without_a_commit_are_kept(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    (repository / "code.py").write_text("a = 2\n")
    factory(folder=tmp_path / "run").train(line_graphs()[0], max_steps=1)
    (start,) = read_starts(tmp_path / "run")
    assert start["git"]["changed"] is True
    git(repository, "checkout", "code.py")
    git(repository, "apply", str(tmp_path / "run" / "changes.patch"))
    assert (repository / "code.py").read_text() == "a = 2\n"


def test_a_resumed_run_adds_to_the_record(tmp_path):
    for steps in (3, 7):
        factory(folder=tmp_path).train(line_graphs()[0], max_steps=steps)
    first, second = read_starts(tmp_path)
    assert (first["step"], first["end"]["step"]) == (0, 3)
    assert (second["step"], second["end"]["step"]) == (3, 7)
    assert not (tmp_path / "graph-2.yaml").exists()


def test_a_run_that_fails_says_so(tmp_path):
    class Fail(Callback):
        def on_step_end(self, run):
            raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        factory(folder=tmp_path).train(line_graphs()[0], max_steps=3, callbacks=[Fail()])
    (start,) = read_starts(tmp_path)
    assert (start["end"]["step"], start["end"]["stopped"]) == (1, "it failed or was interrupted")


def test_the_graph_can_be_loaded_and_looked_at(tmp_path):
    train, _ = line_graphs()
    factory(folder=tmp_path).train(train, max_steps=1)
    assert Graph.load(tmp_path / "graph.yaml") == train
    assert ElementTree.fromstring((tmp_path / "graph.svg").read_text()).tag.endswith("svg")


def test_a_resumed_run_draws_the_same_graph_once(tmp_path):
    train, _ = line_graphs()
    factory(folder=tmp_path).train(train, max_steps=1)
    (tmp_path / "graph.svg").write_text("as it was drawn before anything was learned")
    factory(folder=tmp_path).train(train, max_steps=2)
    assert [path.name for path in sorted(tmp_path.glob("graph*"))] == ["graph.svg", "graph.yaml"]


def test_another_graph_in_the_folder_gets_another_name(tmp_path):
    train, _ = line_graphs()
    (tmp_path / "graph.yaml").write_text("another\n")
    factory(folder=tmp_path).train(train, max_steps=1)
    assert (tmp_path / "graph.yaml").read_text() == "another\n"
    assert Graph.load(tmp_path / "graph-2.yaml") == train
    assert (tmp_path / "graph-2.svg").is_file()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"starts": 3}', '{"starts": [3]}'])
def test_a_record_that_cannot_be_read_begins_anew(text, tmp_path):
    (tmp_path / "run.json").write_text(text)
    result = factory(folder=tmp_path).train(line_graphs()[0], max_steps=1)
    assert len(read_starts(tmp_path)) == 1
    assert (tmp_path / "broken-1-run.json").read_text() == text
    assert any("run.json cannot be read: it is kept as broken-1-run.json" in note for note in result.notes)


def test_without_a_repository_there_is_no_commit(tmp_path):
    assert git_state(tmp_path) is None


PLANTED = {
    "monitor": {"core.fsmonitor": "PROGRAM; false"},
    "filter": {"filter.ab.clean": "PROGRAM; cat", "filter.ab.required": "true"},
    "process": {"filter.ab.process": "PROGRAM"},
    "equals": {"filter.a=b.clean": "PROGRAM; cat"},
    "diff": {"diff.external": "PROGRAM", "diff.a.textconv": "PROGRAM", "diff.a.command": "PROGRAM"},
    "hook": {"core.hooksPath": "hooks"},
}


@pytest.mark.parametrize("way", PLANTED)
def test_a_repository_runs_nothing_of_its_own(way, repository, tmp_path, monkeypatch):
    """Its settings name programs: monitors of files, filters, and what shows differences."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    (repository / "hooks").mkdir()
    (repository / "hooks" / "post-index-change").write_text(program.read_text())
    (repository / "hooks" / "post-index-change").chmod(0o755)
    driver = "a=b" if way == "equals" else "ab"
    for name, value in PLANTED[way].items():
        git(repository, "config", name, value.replace("PROGRAM", str(program)))
    (repository / ".git" / "info" / "attributes").write_text(f"* filter={driver} diff=a\n")
    (repository / "code.py").write_text("a = 2\n")
    monkeypatch.chdir(repository)
    factory(folder=tmp_path / "run").train(line_graphs()[0], max_steps=1)
    assert not (tmp_path / "ran").exists()
    (start,) = read_starts(tmp_path / "run")
    assert start["git"]["changed"] is True
    assert "+a = 2" in (tmp_path / "run" / "changes.patch").read_text()


def test_a_planted_filter_would_run_without_the_settings(repository, tmp_path):
    """The test above can fail."""
    git(repository, "config", "filter.ab.clean", f"touch {tmp_path}/ran; cat")
    (repository / ".git" / "info" / "attributes").write_text("* filter=ab\n")
    (repository / "code.py").write_text("a = 3\n")
    git(repository, "status")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("words", "environment", "processes", "command"),
    [
        (["/v/python", "-m", "pytest", "-k", "a b"], {}, 1, "/v/python -m pytest -k 'a b'"),
        (
            ["/v/python", "/v/bin/neumo", "train", "r.yaml"],
            {},
            2,
            "torchrun --nnodes 1 --nproc-per-node 2 -m neumo train r.yaml",
        ),
        (["python"], {}, 1, "python"),
        ([], {}, 1, ""),
    ],
)
def test_commands_can_be_given_again(words, environment, processes, command):
    assert repeat_command(words, environment, processes) == command


def test_the_table_has_the_rows_of_the_log(tmp_path):
    train, test = line_graphs()
    factory(folder=tmp_path).train(train, epochs=2, evaluate=test)
    with (tmp_path / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    log = [row for row in read_log(tmp_path / "metrics.jsonl") if row.get("event") != "note"]
    assert len(rows) == len(log) == 10 + 2 + 1
    assert [row["event"] for row in rows].count("epoch") == 2
    assert [float(row["loss"]) for row in rows[:5]] == [row["loss"] for row in log[:5]]
    assert float(rows[-1]["error"]) == log[-1]["error"]


def test_a_table_ends_before_a_line_that_is_half_written(tmp_path):
    (tmp_path / "log").write_text('{"step": 1}\n{"step": 2, "lo')
    write_table(tmp_path / "log", tmp_path / "table")
    assert (tmp_path / "table").read_text() == "event,step\n,1\n"


def test_a_table_of_a_resumed_run_has_each_step_once(tmp_path):
    for steps in (3, 6):
        factory(folder=tmp_path).train(line_graphs()[0], max_steps=steps)
    with (tmp_path / "metrics.csv").open() as file:
        steps = [row["step"] for row in csv.DictReader(file) if not row["event"]]
    assert steps == ["1", "2", "3", "4", "5", "6"]


def test_nothing_secret_is_written_down(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_TOKEN", "abracadabra")
    factory(folder=tmp_path).train(line_graphs()[0], max_steps=1)
    assert "abracadabra" not in (tmp_path / "run.json").read_text()
    json.loads((tmp_path / "run.json").read_text())
