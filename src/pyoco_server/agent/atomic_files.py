"""Files that are replaced as a whole, and folders that stay in their repository."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from pyoco_server.agent.agent_errors import AgentCode, AgentError


def write_atomically(path: Path, content: str) -> None:
    """Write a temporary file beside it, then rename: a reader sees the old content or the new one."""
    with writing(path):
        _replace(path, content)


def _replace(path: Path, content: str) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, _mode_of(path))
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _mode_of(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except FileNotFoundError:
        return 0o644


def append_to(path: Path) -> TextIO:
    """Open a file for appending; a repository may contain a link there, which is not followed."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with writing(path):
        return open(os.open(path, flags, 0o644), "a", encoding="utf-8", errors="backslashreplace")


def checked_folder(root: Path, folder: Path) -> Path:
    """The folder, created if needed; AgentError if a link leads out of the root.

    A repository may contain a link under any name: what is written there must stay in the repository.
    """
    if not folder.resolve().is_relative_to(root.resolve()):
        raise AgentError(
            AgentCode.INVALID_REQUEST,
            f"{folder} leads out of the repository {root}.",
            hint=f"Replace the link by a folder: rm {folder} && mkdir {folder}",
        )
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """AgentError FILE_NOT_WRITABLE if the block cannot write to this path."""
    try:
        yield
    except OSError as error:
        raise not_writable(path, error) from error


def not_writable(path: Path, error: OSError) -> AgentError:
    cures = {
        errno.ENOSPC: "Free some space on that disk.",
        errno.EDQUOT: "Free some space on that disk.",
        errno.EROFS: "It is on a file system that is mounted read-only.",
        errno.EEXIST: f"It must be a folder; move it away: mv {path} {path}.old",
        errno.ENOTDIR: "A part of its path is not a folder.",
    }
    return AgentError(
        AgentCode.FILE_NOT_WRITABLE,
        f"{path} cannot be written: {error.strerror or error}.",
        hint=cures.get(error.errno or 0, f"chmod u+rwx {path if path.is_dir() else path.parent}"),
    )
