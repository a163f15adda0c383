"""The working directory of the current run.

Each attempt of a run has its own folder. An empty one is renamed for the next run, since a rename costs an
eighth of creating and removing a folder.
"""

import os
from contextlib import suppress

from pyoco_server.records.runs.artifact_models import ARTIFACTS


class RunFolder:
    def __init__(self) -> None:
        # A descriptor, since a deployment may rename or remove the folder.
        self._home = os.open(".", os.O_PATH | os.O_DIRECTORY)
        self._current: str | None = None
        self._spare: str | None = None
        # A sibling of the first run's folder.
        self._spare_path = ""

    def enter(self, path: str | None) -> None:
        """Create the folder and change to it; None stays in the directory where this process was started."""
        self._current = path
        if path is None:
            os.makedirs(ARTIFACTS, exist_ok=True)
            return
        if self._spare is None or not _renamed(self._spare, path):
            os.makedirs(os.path.join(path, ARTIFACTS), exist_ok=True)
        self._spare = None
        os.chdir(path)

    def leave(self) -> bool:
        """Remove the folder of a run that left no files; returns whether it has left any."""
        path, self._current = self._current, None
        os.fchdir(self._home)
        if path is None:
            return False
        unused = _is_unused(path)
        if unused:
            if not self._spare_path:
                self._spare_path = _spare_path(path, os.getpid())
            if _renamed(path, self._spare_path):
                self._spare = self._spare_path
            else:
                _remove(path)
        return not unused

    def close(self) -> None:
        """This process exits, perhaps during a run."""
        for path in (self._spare, self._current):
            if path is not None:
                _remove_unused(path)


def remove_unused_folders(path: str, pid: int) -> None:
    """Remove what the executor with this process id would have removed, had it not crashed."""
    _remove_unused(path)
    _remove_unused(_spare_path(path, pid))


def _spare_path(path: str, pid: int) -> str:
    return os.path.join(os.path.dirname(path), f".spare-{pid}")


def _remove_unused(path: str) -> None:
    if _is_unused(path):
        _remove(path)


def _remove(folder: str) -> None:
    for empty in (os.path.join(folder, ARTIFACTS), folder):
        with suppress(OSError):
            os.rmdir(empty)


def _renamed(old: str, new: str) -> bool:
    try:
        os.rename(old, new)
    except OSError:
        # The folder was removed, or the name is taken: the caller creates a folder.
        return False
    return True


def _is_unused(path: str) -> bool:
    """Whether it contains nothing but an empty folder for artifacts."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name != ARTIFACTS or not entry.is_dir(follow_symlinks=False):
                    return False
        return not os.listdir(f"{path}/{ARTIFACTS}")
    except OSError:
        # Removed meanwhile, or not readable.
        return False
