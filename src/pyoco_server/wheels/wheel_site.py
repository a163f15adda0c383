"""The folder of one worker's wheels. Each wheel is installed into a folder of its own, named by its upload.

An installed folder never changes. The active wheels are those in `active.json`, which is replaced atomically:
a failed installation leaves an unused folder. Folders of stopped workers are removed, so that all of them are
in a folder `pyoco-workers`, which nothing else uses.
"""

import fcntl
import logging
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from pyoco_server.records.workers.worker_models import InstalledWheel

log = logging.getLogger(__name__)

_ACTIVE: Final = "active.json"
OWN_FOLDER: Final = "pyoco-workers"


class FolderLocked(Exception):
    """Another worker with the same id uses this folder."""


class WheelSite:
    """Blocking, for one thread at a time."""

    def __init__(self, parent: Path, worker_id: str) -> None:
        self._parent = parent.absolute() / OWN_FOLDER
        self._root = self._parent / worker_id
        self._lock_path = self._parent / f"{worker_id}.lock"
        self._lock: int | None = None

    @property
    def temporary(self) -> Path:
        return self._root / "tmp"

    def open(self) -> list[InstalledWheel]:
        """Lock the folder, remove those of stopped workers, and return what is installed."""
        self._parent.mkdir(parents=True, exist_ok=True)
        if self._lock is None:
            self._lock = _locked(self._lock_path)
        if self._lock is None:
            raise FolderLocked(f"another worker uses {self._root}; give each one its own id (--worker-id)")
        self._remove_others()
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir(parents=True)
        return [wheel for wheel in self._read_active() if self.code_folder(wheel.nuid).is_dir()]

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def code_folder(self, nuid: str) -> Path:
        return self._root / "installed" / nuid

    def new_folder(self, nuid: str) -> Path:
        """Where a wheel is installed before `commit`."""
        folder = self.temporary / nuid
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def download_path(self, nuid: str, file_name: str) -> Path:
        folder = self._root / "downloads" / nuid
        folder.mkdir(parents=True, exist_ok=True)
        return folder / file_name

    def commit(self, nuid: str, installed: Path) -> None:
        """Keep a successful installation; the wheel file is not needed any more."""
        target = self.code_folder(nuid)
        target.parent.mkdir(parents=True, exist_ok=True)
        # For a wheel without files, pip creates no folder.
        installed.mkdir(exist_ok=True)
        installed.rename(target)
        shutil.rmtree(self._root / "downloads" / nuid, ignore_errors=True)

    def activate(self, wheels: Iterable[InstalledWheel]) -> None:
        fresh = self._root / f"{_ACTIVE}.new"
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(list(wheels))))
        fresh.replace(self._root / _ACTIVE)

    def remove_except(self, nuids: Iterable[str]) -> None:
        """Uninstall all other wheels; nothing may run from them any more."""
        kept = set(nuids)
        for kind in ("installed", "downloads"):
            for folder in (self._root / kind).glob("*"):
                if folder.name not in kept:
                    shutil.rmtree(folder, ignore_errors=True)

    def _read_active(self) -> list[InstalledWheel]:
        try:
            return msgspec.json.decode((self._root / _ACTIVE).read_bytes(), type=list[InstalledWheel])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            log.warning("reinstalling the wheels in %s: %s", self._root, error)
            return []

    def _remove_others(self) -> None:
        """A worker id contains a process id by default, so that most ids are used once."""
        for path in self._parent.glob("*.lock"):
            if path == self._lock_path or (lock := _locked(path)) is None:
                continue
            shutil.rmtree(path.with_suffix(""), ignore_errors=True)
            path.unlink(missing_ok=True)
            os.close(lock)


def _locked(path: Path) -> int | None:
    """Lock the file until this process ends or closes it; None when it is locked."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _is_still(path, descriptor):
            return descriptor
        # Another worker has just removed the file of a stopped one.
        os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
