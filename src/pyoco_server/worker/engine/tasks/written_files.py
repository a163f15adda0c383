"""Notices the files that a run has written, for the cost of one `stat` per task that writes none."""

import os
import threading
import time
from collections.abc import Callable

from pyoco_server.records.runs.artifact_models import ARTIFACTS

# Called with a task and with which task has saved which file; returns when the files are stored.
StoreFiles = Callable[[str, dict[str, str]], None]

# The clock of file systems is coarse: a folder that was changed this recently may change again unseen.
_RECENT_NS = 50_000_000
# Inode and time of change of the last folder that was seen empty. An executor uses one folder for many runs.
_known_empty: tuple[int, int] = (0, 0)


def nothing_to_store(_task: str, _saved: dict[str, str]) -> None:
    """For runs whose files are not stored."""


class WrittenFiles:
    """The files of one run, before they are stored."""

    def __init__(self, run_folder: str | None, store: StoreFiles) -> None:
        # None: its files are in a folder of the program that it runs in.
        self.run_folder = run_folder
        self._folder = None if run_folder is None else os.path.join(run_folder, ARTIFACTS)
        self._store = store
        self._lock = threading.Lock()
        # By whom each file was saved, as long as that is not reported.
        self._saved: dict[str, str] = {}

    def saved(self, name: str, task: str) -> None:
        with self._lock:
            self._saved[name] = task

    def store(self, task: str) -> None:
        """Store what was written; called before the task, or a step of it, counts as finished."""
        if self._saved or (self._folder is not None and has_entries(self._folder)):
            self._report(task)

    def store_saved(self) -> None:
        """Store what was saved explicitly, at the end of the run; its worker finds the other files itself."""
        if self._saved:
            self._report(next(iter(self._saved.values())))

    def _report(self, task: str) -> None:
        with self._lock:
            saved, self._saved = self._saved, {}
        self._store(task, saved)


def has_entries(folder: str) -> bool:
    global _known_empty  # noqa: PLW0603 - of this process, whichever run it executes
    try:
        status = os.stat(folder)
        state = status.st_ino, status.st_mtime_ns
        if state == _known_empty:
            return False
        with os.scandir(folder) as entries:
            if next(entries, None) is not None:
                return True
    except OSError:
        # A task has removed it.
        return False
    if time.time_ns() - status.st_mtime_ns > _RECENT_NS:
        _known_empty = state
    return False
