"""The artifacts folder of a run, read and written without following a link out of it.

Tasks may put anything into it, while it is read: links, devices, folders that become links. So every folder
and every file is opened relative to the one above it, and never through a link. What is opened is checked,
not what was listed before.
"""

import errno
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Final, NamedTuple
from uuid import uuid4

from pyoco_server.records.runs.artifact_models import (
    ARTIFACTS,
    UNFINISHED,
    InvalidArtifactName,
    artifact_name,
)

# Each level keeps a descriptor open.
_MAX_DEPTH: Final = 32
# Files and folders of the whole tree; the rest is not read.
_MAX_ENTRIES: Final = 20_000
# The names of files that are being written by `new_artifact`.
_UNFINISHED: Final = re.compile(re.escape(UNFINISHED) + "[0-9a-f]{32}")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without waiting for the other end of a fifo.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}
_LINKED: Final = "another file outside of the folder is the same (a hard link)"


class FileMark(NamedTuple):
    """Identifies one state of a file; differs after each change."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class Unreadable(Exception):
    """The file cannot be read, or not safely; the text says why."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    # In NFC, which may differ from the path.
    name: str
    path: str
    size: int
    mark: FileMark


@dataclass(slots=True)
class FolderContent:
    files: list[FoundFile] = field(default_factory=list)
    # Path and reason of what is no artifact.
    skipped: list[tuple[str, str]] = field(default_factory=list)


def scan(run_folder: str) -> FolderContent:
    """The regular files in the folder, and what else is in it; empty if there is no folder."""
    content = FolderContent()
    found: list[tuple[FoundFile, int]] = []
    links: Counter[tuple[int, int]] = Counter()
    try:
        with _root(run_folder) as root:
            for path, status in _walk(root, content.skipped):
                name = _name_of(path, status, content.skipped)
                if name is not None:
                    links[status.st_dev, status.st_ino] += 1
                    found.append((FoundFile(name, path, status.st_size, mark_of(status)), status.st_nlink))
    except FileNotFoundError:
        return content
    except OSError as error:
        content.skipped.append((f"{ARTIFACTS}/", _why(error)))
    names: set[str] = set()
    for file, count in sorted(found, key=lambda each: each[0].path):
        if links[file.mark.device, file.mark.inode] < count:
            content.skipped.append((file.path, _LINKED))
        elif file.name in names:
            content.skipped.append((file.path, "another file has the same name in Unicode's normal form C"))
        else:
            names.add(file.name)
            content.files.append(file)
    return content


@contextmanager
def open_artifact(run_folder: str, path: str) -> Iterator[tuple[int, FileMark]]:
    """A descriptor of a regular file of the folder, and its mark; Unreadable otherwise."""
    try:
        with _parent(run_folder, path) as (parent, last):
            descriptor = os.open(last, _FILE, dir_fd=parent)
    except OSError as error:
        raise Unreadable(_why(error)) from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"it is {_kind(status.st_mode)}, not a regular file")
        yield descriptor, mark_of(status)
    finally:
        os.close(descriptor)


@contextmanager
def new_artifact(run_folder: str, name: str) -> Iterator[BinaryIO]:
    """A file to write to, which replaces the one of this name when the block ends without an error.

    OSError when it cannot be written, also where its path leads through a link.
    """
    with _parent(run_folder, name, create=True) as (parent, last):
        unfinished = f"{UNFINISHED}{uuid4().hex}"
        descriptor = os.open(unfinished, _NEW_FILE, 0o666, dir_fd=parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
            # This replaces a link, and does not follow it.
            os.rename(unfinished, last, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished, dir_fd=parent)
            raise


def remove_artifacts(run_folder: str, marks: Mapping[str, FileMark]) -> None:
    """Remove the files that are as they were, by their paths, and what is empty then, the folder included."""
    for path, mark in marks.items():
        with suppress(OSError), _parent(run_folder, path) as (parent, last):
            if mark_of(os.stat(last, dir_fd=parent, follow_symlinks=False)) == mark:
                os.unlink(last, dir_fd=parent)
    folders = {path[:end] for path in marks for end, char in enumerate(path) if char == "/"}
    for folder in sorted(folders, key=len, reverse=True):
        with suppress(OSError), _parent(run_folder, folder) as (parent, last):
            os.rmdir(last, dir_fd=parent)
    for empty in (os.path.join(run_folder, ARTIFACTS), run_folder):
        with suppress(OSError):
            os.rmdir(empty)


def mark_of(status: os.stat_result) -> FileMark:
    times = status.st_mtime_ns, status.st_ctime_ns
    return FileMark(status.st_dev, status.st_ino, status.st_size, *times)


@contextmanager
def _root(run_folder: str) -> Iterator[int]:
    with _opened(run_folder, None) as outer, _opened(ARTIFACTS, outer) as root:
        yield root


@contextmanager
def _opened(folder: str, within: int | None) -> Iterator[int]:
    descriptor = os.open(folder, _FOLDER, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _parent(run_folder: str, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """The folder that the file is in, and its last part."""
    *folders, last = path.split("/")
    if create:
        os.makedirs(os.path.join(run_folder, ARTIFACTS), exist_ok=True)
    with _root(run_folder) as root:
        current = os.dup(root)
        try:
            for folder in folders:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(folder, dir_fd=current)
                below = os.open(folder, _FOLDER, dir_fd=current)
                os.close(current)
                current = below
            yield current, last
        finally:
            os.close(current)


def _walk(root: int, skipped: list[tuple[str, str]]) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below it but folders, by its path; not through links."""
    left = _MAX_ENTRIES
    device = os.fstat(root).st_dev

    def below(folder: int, prefix: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
        nonlocal left
        with os.scandir(folder) as entries:
            for entry in entries:
                if left <= 0:
                    return
                left -= 1
                path = prefix + entry.name
                try:
                    status = entry.stat(follow_symlinks=False)
                    if not stat.S_ISDIR(status.st_mode):
                        yield path, status
                    elif depth >= _MAX_DEPTH:
                        skipped.append((f"{path}/", f"folders are read {_MAX_DEPTH} levels deep"))
                    elif status.st_dev != device:
                        skipped.append((f"{path}/", "it is on another file system"))
                    else:
                        with _opened(entry.name, folder) as inner:
                            yield from below(inner, f"{path}/", depth + 1)
                except FileNotFoundError:
                    # Its task has removed it meanwhile.
                    continue
                except OSError as error:
                    skipped.append((path, _why(error)))

    yield from below(root, "", 1)
    if left <= 0:
        skipped.append((f"{ARTIFACTS}/", f"no more than {_MAX_ENTRIES} files and folders are read"))


def _name_of(path: str, status: os.stat_result, skipped: list[tuple[str, str]]) -> str | None:
    """The name of a file that may be an artifact."""
    if not stat.S_ISREG(status.st_mode):
        skipped.append((path, f"it is {_kind(status.st_mode)}, not a regular file"))
        return None
    if _UNFINISHED.fullmatch(path.rpartition("/")[2]):
        return None
    try:
        return artifact_name(path)
    except InvalidArtifactName as error:
        skipped.append((path, str(error)))
        return None


def _kind(mode: int) -> str:
    return "a folder" if stat.S_ISDIR(mode) else _KINDS.get(stat.S_IFMT(mode), "something else")


def _why(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "it was removed before it was read"
    if error.errno == errno.ELOOP:
        return "its path leads through a symbolic link"
    if error.errno == errno.ENOTDIR:
        return "its path leads through a symbolic link or a file, where a folder is expected"
    if error.errno in (errno.ENXIO, errno.ENODEV):
        return "it is a device, a pipe or a socket, not a regular file"
    return error.strerror or type(error).__name__
