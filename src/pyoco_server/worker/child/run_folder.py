"""The working directory of one run after another.

Each attempt of a run has a folder of its own name; one that was left empty is renamed and used again,
since renaming a folder costs an eighth of making and removing one.
"""

import os
from contextlib import suppress

from pyoco_server.worker.engine.server_engine import ARTIFACTS


class RunFolder:
    def __init__(self) -> None:
        # A descriptor, since the folder itself may be removed or renamed, as a deployment does with old code.
        self._home = os.open(".", os.O_PATH | os.O_DIRECTORY)
        self._current: str | None = None
        self._spare: str | None = None
        # Beside the first run's folder, as all of them are.
        self._spare_path = ""

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
        os.fchdir(self._home)
        if path is not None and _is_unused(path):
            if not self._spare_path:
                self._spare_path = _spare_path(path, os.getpid())
            if _renamed(path, self._spare_path):
                self._spare = self._spare_path
            else:
                _remove(path)

    def close(self) -> None:
        """This process ends, perhaps in the middle of a run."""
        for path in (self._spare, self._current):
            if path is not None:
                _remove_unused(path)


def remove_left_behind(path: str, pid: int) -> None:
    """The executor with this process id has crashed in this folder: remove what it would have removed."""
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
        # Somebody tidied up, or the name is taken: the folder is made as if there were none to use again.
        return False
    return True


def _is_unused(path: str) -> bool:
    """Whether nothing was left in it, not even something else that is called as the folder for artifacts."""
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name != ARTIFACTS or not entry.is_dir(follow_symlinks=False):
                    return False
        return not os.listdir(f"{path}/{ARTIFACTS}")
    except OSError:
        # Another has removed it, or nobody may look into it.
        return False
