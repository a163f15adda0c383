"""The working directory of one run after another.

Each attempt of a run has a folder of its own name; one that was left empty is renamed and used again,
since renaming a folder costs an eighth of making and removing one.
"""

import os
from contextlib import suppress

from pyoco_server.worker.engine import ARTIFACTS


class RunFolder:
    def __init__(self) -> None:
        self._home = os.getcwd()
        self._current: str | None = None
        self._spare: str | None = None

    def enter(self, path: str | None) -> None:
        """Have the folder, and work in it; None is for a run that works where this process was started."""
        self._current = path
        if path is None:
            os.makedirs(ARTIFACTS, exist_ok=True)
            return
        if self._spare is None or not _renamed(self._spare, path):
            os.makedirs(os.path.join(path, ARTIFACTS), exist_ok=True)
        self._spare = None
        os.chdir(path)

    def leave(self) -> None:
        """A run that left no files leaves no folder either."""
        path, self._current = self._current, None
        os.chdir(self._home)
        if path is not None and _is_unused(path):
            spare = os.path.join(os.path.dirname(path), f".spare-{os.getpid()}")
            if _renamed(path, spare):
                self._spare = spare
            else:
                _remove(path)

    def close(self) -> None:
        if self._spare is not None:
            _remove(self._spare)


def _remove(folder: str) -> None:
    for empty in (os.path.join(folder, ARTIFACTS), folder):
        with suppress(OSError):
            os.rmdir(empty)


def _renamed(old: str, new: str) -> bool:
    try:
        os.rename(old, new)
    except OSError:
        # Somebody tidied up, or the name is taken: the folder is made as if there were none to use again.
        return False
    return True


def _is_unused(path: str) -> bool:
    return _names_in(path) == [ARTIFACTS] and not _names_in(os.path.join(path, ARTIFACTS))


def _names_in(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
