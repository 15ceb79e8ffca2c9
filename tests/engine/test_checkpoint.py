import errno
import json
import shutil

import pytest

from neumo.engine import CheckpointStore
from neumo.types import CheckpointError


def text(content):
    def write(path):
        path.write_text(content)

    return write


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "checkpoints")


def test_what_was_written_is_read_back(store):
    saved = store.write(7, {"epoch": 2}, {"a.txt": text("alpha"), "b.txt": text("beta")})
    again = store.read(saved.path)
    assert again.state["epoch"] == 2
    assert (again.path / "b.txt").read_text() == "beta"
    assert set(again.state["files"]) == {"a.txt", "b.txt"}


def test_the_newest_comes_first(store):
    for step in (5, 120, 40):
        store.write(step, {}, {})
    assert [path.name for path in store.paths()] == ["step-00000120", "step-00000040", "step-00000005"]


def test_no_checkpoint_is_no_error(store):
    assert store.newest() == (None, [])


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "state", "state-bit", "no-state"])
def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(store, damage):
    store.write(1, {"epoch": 0}, {"a.bin": text("x" * 1000)})
    path = store.write(2, {"epoch": 1}, {"a.bin": text("y" * 1000)}).path
    if damage == "flip":
        (path / "a.bin").write_text("y" * 999 + "z")
    elif damage == "cut":
        (path / "a.bin").write_text("y" * 10)
    elif damage == "remove":
        (path / "a.bin").unlink()
    elif damage == "state":
        (path / "state.json").write_text("{")
    elif damage == "state-bit":
        state = json.loads((path / "state.json").read_text())
        (path / "state.json").write_text(json.dumps({**state, "epoch": 7}))
    else:
        (path / "state.json").unlink()
    saved, notes = store.newest()
    assert saved.state["epoch"] == 0
    assert len(notes) == 1
    assert "step-00000002" in notes[0]
    assert [path.name for path in store.paths()] == ["step-00000001"]
    assert (store.folder / "damaged-step-00000002").is_dir()


def test_a_renamed_checkpoint_is_passed_over_and_nothing_is_deleted_for_it(store):
    """Taken as the newest, it would send a training back, and the steps made since would be deleted."""
    renamed = store.folder / "step-00000099"
    store.write(16, {"step": 16}, {"a": text("a")}).path.rename(renamed)
    store.write(18, {"step": 18}, {"a": text("b")})
    saved, notes = store.newest()
    assert saved.path.name == "step-00000018"
    assert notes == ["step-00000099 holds step 16: its folder has been renamed"]
    store.keep([saved.path])
    aside = store.folder / "damaged-step-00000099"
    assert sorted(store.folder.iterdir()) == [aside, saved.path]
    with pytest.raises(CheckpointError, match="step-00000016"):
        store.read(aside.rename(renamed))


def test_starting_anew_is_not_decided_for_the_user(store):
    path = store.write(1, {}, {"a": text("a")}).path
    (path / "a").write_text("b")
    with pytest.raises(CheckpointError, match="none of the 1 checkpoints") as caught:
        store.newest()
    assert "resume='never'" in str(caught.value)


def test_a_full_disk_leaves_the_checkpoints_before(store):
    store.write(1, {"epoch": 0}, {"a": text("a")})

    def full(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CheckpointError, match="No space left") as caught:
        store.write(2, {"epoch": 1}, {"a": text("a"), "b": full})
    assert "keep_last=1" in str(caught.value)
    saved, notes = store.newest()
    assert (saved.state["epoch"], notes) == (0, [])
    assert [path.name for path in store.folder.iterdir()] == ["step-00000001"]


def test_a_kill_at_any_moment_of_a_rewrite_leaves_a_whole_one(store):
    """Every state that the folder passes through while step 2 is written anew."""
    store.write(1, {"epoch": 0}, {})
    store.write(2, {"epoch": 1}, {})
    folder = store.folder
    hidden, final, aside = (
        folder / ".writing-step-00000002",
        folder / "step-00000002",
        folder / ".replaced-step-00000002",
    )
    hidden.mkdir()  # killed while it was being written
    assert store.newest()[0].state["epoch"] == 1
    assert not hidden.exists()
    final.rename(aside)  # killed between the two renames
    assert store.newest()[0].state["epoch"] == 1
    shutil.copytree(final, aside)  # killed before the old one was removed
    assert store.newest()[0].state["epoch"] == 1
    assert not aside.exists()


def test_rewriting_a_step_replaces_it(store):
    store.write(2, {"epoch": 1}, {"a": text("old")})
    store.write(2, {"epoch": 9}, {"a": text("new")})
    saved, _ = store.newest()
    assert saved.state["epoch"] == 9
    assert (saved.path / "a").read_text() == "new"
    assert len(list(store.folder.iterdir())) == 1


def test_only_the_wanted_ones_are_kept(store):
    paths = [store.write(step, {}, {}).path for step in (1, 2, 3)]
    store.keep([paths[0], paths[2]])
    assert store.paths() == [paths[2], paths[0]]


def test_nothing_in_a_checkpoint_is_pickle(store):
    path = store.write(3, {"where": "runs/x"}, {}).path
    assert all(not file.read_bytes().startswith(b"\x80") for file in path.iterdir())


def test_who_only_reads_does_not_tidy_up_behind_a_training(store):
    store.write(1, {}, {"a.txt": text("a")})
    (store.write(2, {}, {"a.txt": text("b")}).path / "a.txt").write_text("c")
    for name in (".writing-step-00000003", ".parts"):
        (store.folder / name).mkdir()
    before = sorted(path.name for path in store.folder.iterdir())
    saved, passed = store.newest(repair=False)
    assert saved is not None
    assert (saved.path.name, len(passed)) == ("step-00000001", 1)
    assert sorted(path.name for path in store.folder.iterdir()) == before
