"""Files that are replaced as a whole, and folders that stay in their repository."""

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from pyoco_server.agent.agent_errors import AgentCode, AgentError


def write_atomically(path: Path, content: str) -> None:
    """Write a temporary file beside it, then rename: a reader sees the old content or the new one."""
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
    return open(os.open(path, flags, 0o644), "a", encoding="utf-8", errors="backslashreplace")


def checked_folder(root: Path, folder: Path) -> Path:
    """The folder, created if needed; AgentError if a link leads out of the root, or a file is in its place.

    A repository may contain a link under any name: what is written there must stay in the repository.
    """
    if not folder.resolve().is_relative_to(root.resolve()):
        raise AgentError(
            AgentCode.INVALID_REQUEST,
            f"{folder} leads out of the repository {root}.",
            hint=f"Replace the link by a folder: rm {folder} && mkdir {folder}",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise AgentError(
            AgentCode.INVALID_REQUEST,
            f"{error.filename} is not a folder.",
            hint=f"Move it away, or choose another folder in .aiflowrc.json (paths): mv {error.filename} ...",
        ) from error
    return folder
