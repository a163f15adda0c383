"""Files are read and written inside of the artifacts folder only, whatever is in it."""

import os
import socket
import stat
import unicodedata
from contextlib import suppress
from pathlib import Path

import pytest

from pyoco_server.worker.artifacts.artifact_folder import (
    Unreadable,
    new_artifact,
    open_artifact,
    remove_artifacts,
    scan,
)

NFC = unicodedata.normalize("NFC", "é.txt")
NO_FOLDER = "its path leads through a symbolic link or a file, where a folder is expected"
NFD = unicodedata.normalize("NFD", "é.txt")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The working directory of a run, with an empty folder."""
    (tmp_path / "run" / "artifacts").mkdir(parents=True)
    return tmp_path / "run"


@pytest.fixture
def folder(run: Path) -> Path:
    return run / "artifacts"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "outside" / "secret"
    file.parent.mkdir()
    file.write_text("secret")
    return file


def names(run: Path) -> list[str]:
    return [file.name for file in scan(str(run)).files]


def reasons(run: Path) -> dict[str, str]:
    return dict(scan(str(run)).skipped)


def test_files_of_all_levels_are_found_by_name(run: Path, folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    for name in ("z.txt", "a/b/c.txt", "a/empty"):
        (folder / name).write_text("")
    assert names(run) == ["a/b/c.txt", "a/empty", "z.txt"]
    assert reasons(run) == {}


def test_a_run_without_a_folder_has_no_files(tmp_path: Path) -> None:
    assert names(tmp_path) == []
    assert reasons(tmp_path) == {}


def test_a_symbolic_link_is_not_followed(run: Path, folder: Path, secret: Path) -> None:
    (folder / "file").symlink_to(secret)
    (folder / "folder").symlink_to(secret.parent)
    assert names(run) == []
    assert reasons(run) == dict.fromkeys(("file", "folder"), "it is a symbolic link, not a regular file")


def test_what_became_a_link_after_it_was_listed_is_not_followed(
    run: Path, folder: Path, secret: Path
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "secret").write_text("mine")
    (folder / "file").write_text("mine")
    assert names(run) == ["file", "sub/secret"]
    (folder / "file").unlink()
    (folder / "file").symlink_to(secret)
    os.rename(folder / "sub", folder / "moved")
    (folder / "sub").symlink_to(secret.parent)
    for path in ("file", "sub/secret"):
        with pytest.raises(Unreadable, match="leads through a symbolic link"), open_artifact(str(run), path):
            pass


@pytest.mark.parametrize("which", ["run", "artifacts"])
def test_a_folder_that_is_a_link_is_not_read(run: Path, folder: Path, tmp_path: Path, which: str) -> None:
    other = tmp_path / "other"
    (other / "artifacts").mkdir(parents=True)
    (other / "artifacts" / "foreign").write_text("foreign")
    replaced = {"run": run, "artifacts": folder}[which]
    os.rename(replaced, tmp_path / "moved")
    replaced.symlink_to(other if which == "run" else other / "artifacts")
    assert names(run) == []
    assert reasons(run) == {"artifacts/": NO_FOLDER}


def test_a_file_in_place_of_the_folder_is_not_called_a_link(run: Path, folder: Path) -> None:
    folder.rmdir()
    folder.write_text("")
    assert names(run) == []
    assert reasons(run) == {"artifacts/": NO_FOLDER}


def test_pipes_sockets_and_devices_are_not_opened(run: Path, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
    expected = {"pipe": "a pipe", "socket": "a socket"}
    if os.geteuid() == 0:
        os.mknod(folder / "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        expected["device"] = "a device"
    assert names(run) == []
    assert reasons(run) == {name: f"it is {kind}, not a regular file" for name, kind in expected.items()}
    for name in expected:
        # It does not wait for the other end of a pipe.
        with pytest.raises(Unreadable, match="not a regular file"), open_artifact(str(run), name):
            pass


def test_a_hard_link_to_a_file_outside_is_left_out(run: Path, folder: Path, secret: Path) -> None:
    (folder / "hard").hardlink_to(secret)
    (folder / "one").write_text("of this run")
    (folder / "two").hardlink_to(folder / "one")
    assert names(run) == ["one", "two"]
    assert list(reasons(run)) == ["hard"]
    assert "hard link" in reasons(run)["hard"]


def test_names_that_not_every_system_has_are_left_out(run: Path, folder: Path) -> None:
    (folder / "back\\slash").write_text("")
    (folder / "new\nline").write_text("")
    (Path(os.fsdecode(os.fsencode(folder) + b"/\xff"))).write_text("")
    assert names(run) == []
    assert len(reasons(run)) == 3
    assert reasons(run)[os.fsdecode(b"\xff")] == "its name is not valid UTF-8"


def test_a_name_is_stored_in_normal_form_c_once(run: Path, folder: Path) -> None:
    (folder / NFD).write_text("")
    assert names(run) == [NFC]
    (folder / NFC).write_text("")
    assert names(run) == [NFC]
    assert list(reasons(run).values()) == ["another file has the same name in Unicode's normal form C"]


def test_very_deep_folders_are_left_out_with_a_reason(run: Path, folder: Path) -> None:
    deep = folder.joinpath(*["d"] * 40)
    deep.mkdir(parents=True)
    (deep / "file").write_text("")
    assert names(run) == []
    assert list(reasons(run).values()) == ["folders are read 32 levels deep"]


def test_a_new_file_appears_as_a_whole(run: Path, folder: Path) -> None:
    with new_artifact(str(run), "sub/file.txt") as file:
        file.write(b"a")
        file.flush()
        assert names(run) == []
    assert names(run) == ["sub/file.txt"]
    with suppress(RuntimeError), new_artifact(str(run), "sub/file.txt") as file:
        file.write(b"half")
        raise RuntimeError
    assert (folder / "sub" / "file.txt").read_text() == "a"
    assert os.listdir(folder / "sub") == ["file.txt"]


def test_only_our_own_unfinished_files_are_passed_over(run: Path, folder: Path) -> None:
    (folder / ".pyoco-unfinished-1").write_text("of a task")
    os.mkfifo(folder / f".pyoco-unfinished-{'1' * 32}")
    # A process that was killed has left it.
    (folder / f".pyoco-unfinished-{'2' * 32}").write_text("half")
    assert names(run) == []
    assert reasons(run) == {
        ".pyoco-unfinished-1": "names that begin with '.pyoco-unfinished-' are those of unfinished files",
        f".pyoco-unfinished-{'1' * 32}": "it is a pipe, not a regular file",
    }


def test_a_new_file_replaces_a_link_and_is_not_written_through_a_folder_that_is_one(
    run: Path, folder: Path, secret: Path
) -> None:
    (folder / "file").symlink_to(secret)
    (folder / "sub").symlink_to(secret.parent)
    with new_artifact(str(run), "file") as file:
        file.write(b"mine")
    with pytest.raises(NotADirectoryError), new_artifact(str(run), "sub/secret") as file:
        file.write(b"mine")
    assert secret.read_text() == "secret"
    assert (folder / "file").read_text() == "mine"


def test_only_unchanged_files_are_removed(run: Path, folder: Path) -> None:
    (folder / "sub").mkdir()
    for name in ("sub/kept", "sub/stored", "stored"):
        (folder / name).write_text("as stored")
    marks = {file.path: file.mark for file in scan(str(run)).files}
    (folder / "sub" / "kept").write_text("changed since")
    remove_artifacts(str(run), marks)
    assert names(run) == ["sub/kept"]
    marks = {file.path: file.mark for file in scan(str(run)).files}
    remove_artifacts(str(run), marks)
    assert not run.exists()
