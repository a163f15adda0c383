"""The working directory of one run after another."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pyoco_server.worker.child.run_folder import RunFolder


def _leave_a_file() -> None:
    Path("left").write_text("by a task")


def _leave_an_artifact() -> None:
    Path("artifacts/left").write_text("by a task")


def _leave_a_folder() -> None:
    Path("left").mkdir()


def _leave_a_hidden_file() -> None:
    Path(".left").touch()


def _leave_a_file_of_that_name() -> None:
    Path("artifacts").rmdir()
    Path("artifacts").write_text("by a task")


def _leave_a_link_of_that_name() -> None:
    elsewhere = Path("../../elsewhere").resolve()
    elsewhere.mkdir()
    Path("artifacts").rmdir()
    Path("artifacts").symlink_to(elsewhere)


def _leave_nothing_at_all() -> None:
    Path("artifacts").rmdir()


@pytest.mark.parametrize(
    "task",
    [
        _leave_a_file,
        _leave_an_artifact,
        _leave_a_folder,
        _leave_a_hidden_file,
        _leave_a_file_of_that_name,
        _leave_a_link_of_that_name,
        _leave_nothing_at_all,
    ],
)
def test_a_changed_folder_is_kept_and_the_next_run_gets_a_new_one(
    tmp_path: Path, task: Callable[[], None]
) -> None:
    runs = tmp_path / "runs"
    folder = RunFolder()
    folder.enter(str(runs / "before-1"))
    folder.leave()
    folder.enter(str(runs / "first-1"))
    task()
    left = sorted(os.listdir("."))
    # The clock of the file system may be too coarse to show a change.
    os.utime(".", (0, 0))
    folder.leave()
    folder.enter(str(runs / "second-1"))
    assert sorted(os.listdir(runs / "first-1")) == left
    assert Path.cwd() == runs / "second-1"
    assert os.listdir(".") == ["artifacts"]
    assert not Path("artifacts").is_symlink()
    assert os.listdir("artifacts") == []


def test_a_run_that_removes_its_folder_leaves_none(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    folder = RunFolder()
    for name in ("first-1", "second-1"):
        folder.enter(str(runs / name))
        assert Path.cwd() == runs / name
        _leave_an_artifact()
        Path("artifacts/left").unlink()
        folder.leave()
        assert not list(runs.glob("*-1"))
    folder.close()
    assert not list(runs.iterdir())
