"""The file of an index: one per gateway, reused if it is valid, recreated if not.

It is written without fsync, so that a power failure may leave pages of different age. While it is in use its
lock file has the boot id of the system; a file that is found with another boot id is recreated.
"""

import fcntl
import logging
import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final
from uuid import uuid4

from pyoco_server.errors import ConfigError

log = logging.getLogger(__name__)

# More gateways than this with one folder are a configuration mistake.
_MOST_GATEWAYS: Final = 64
# KiB. Filling an index of a million entries needs much; single writes do not.
_FILLING_CACHE: Final = 64 * 1024
_WRITING_CACHE: Final = 512
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_BOOT_ID_BYTES: Final = 64


def _this_boot() -> str:
    """The boot id of this system; unique per process where the system has none."""
    try:
        return _BOOT_ID.read_text().strip() or uuid4().hex
    except OSError:
        return uuid4().hex


THIS_BOOT: Final = _this_boot()


@dataclass(frozen=True, slots=True)
class FileSchema:
    # Of the indexed entries, and the prefix of the file name.
    name: str
    # A file of another version is recreated.
    version: int
    tables: str
    # Queries that find out whether the file is damaged.
    probes: tuple[str, ...]
    # Of each read connection, in KiB.
    reader_cache: int = 16 * 1024


class IndexFile:
    """A file that this process has locked."""

    def __init__(self, folder: Path, schema: FileSchema) -> None:
        self._schema = schema
        self._lock, self.path = _first_free(folder, schema.name)
        self._inode = 0
        self._writer: sqlite3.Connection | None = None

    def writer(self) -> sqlite3.Connection:
        """The write connection. A file that is damaged, or of another version, is recreated."""
        if self._boot_in_use() not in ("", THIS_BOOT):
            log.warning("rebuilding the index of %s: the system stopped while it was open", self._schema.name)
            self.remove()
        self._write_boot_id(THIS_BOOT)
        try:
            self._writer = self._opened()
        except sqlite3.DatabaseError as error:
            if is_busy(error):
                raise ConfigError(f"{self.path} is in use by another program: {error}") from error
            if is_full(error):
                raise ConfigError(f"{self.path} cannot be used, because its disk is full") from error
            log.warning("rebuilding the index of %s: %s", self._schema.name, error)
            self.remove()
            self._writer = self._opened()
        return self._writer

    def set_cache(self, *, filling: bool) -> None:
        """Set the cache of the write connection."""
        assert self._writer is not None, "the file is not open"
        # Negative: KiB, not pages.
        self._writer.execute(f"PRAGMA cache_size = {-_FILLING_CACHE if filling else -_WRITING_CACHE}")
        if not filling:
            self._writer.execute("PRAGMA shrink_memory")

    def reader(self) -> sqlite3.Connection:
        # Closed by another thread than the one that used it.
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=ro",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute(f"PRAGMA cache_size = {-self._schema.reader_cache}")
        return connection

    def exists(self) -> bool:
        """Whether the path still is the file that was opened last."""
        try:
            return os.stat(self.path).st_ino == self._inode
        except OSError:
            return False

    def remove(self) -> None:
        """Delete the file; no connection to it may be open."""
        for name in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(f"{self.path}{name}")

    def flush(self) -> None:
        """Sync the file, so that it survives a power failure; no connection to it may be open."""
        for name in ("", "-wal"):
            with suppress(FileNotFoundError):
                _fsync(Path(f"{self.path}{name}"))
        _fsync(self.path.parent)
        self._write_boot_id("")

    def release(self) -> None:
        os.close(self._lock)

    def _boot_in_use(self) -> str:
        """The boot id it was last opened under; empty if it was flushed since."""
        return os.pread(self._lock, _BOOT_ID_BYTES, 0).decode("ascii", "replace").strip()

    def _write_boot_id(self, boot: str) -> None:
        try:
            os.pwrite(self._lock, boot.ljust(_BOOT_ID_BYTES).encode(), 0)
            os.fsync(self._lock)
        except OSError as error:
            raise _unusable(self.path.parent, error) from error

    def _opened(self) -> sqlite3.Connection:
        connection = self._connected()
        try:
            schema = self._schema
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, schema.version):
                raise sqlite3.DatabaseError(f"it has version {version}, expected {schema.version}")
            if version == 0:
                connection.executescript(
                    f"BEGIN; {schema.tables} PRAGMA user_version = {schema.version}; COMMIT"
                )
            # Finds most damage; the rest is found when it is read.
            for probe in schema.probes:
                connection.execute(probe).fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _connected(self) -> sqlite3.Connection:
        # Created in one thread and used in another, never in two at once.
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        # Params and wait messages may be secret.
        os.chmod(self.path, 0o600)
        self._inode = os.stat(self.path).st_ino
        for pragma in (
            "journal_mode = WAL",
            # A lost file is rebuilt; a crash of this process alone does no harm.
            "synchronous = OFF",
            f"cache_size = {-_FILLING_CACHE}",
            "temp_store = MEMORY",
            "secure_delete = OFF",
            f"journal_size_limit = {64 * 1024 * 1024}",
        ):
            connection.execute(f"PRAGMA {pragma}")
        return connection


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another program has locked the file, which is otherwise fine."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_full(error: sqlite3.Error) -> bool:
    """Whether the disk is full; the file is as it was before the transaction."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_folder(folder: Path) -> None:
    """ConfigError when no index can be stored there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unusable(folder, error) from error


def _first_free(folder: Path, name: str) -> tuple[int, Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(1, _MOST_GATEWAYS + 1):
            lock = os.open(folder / f"{name}-{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
            else:
                return lock, folder / f"{name}-{number}.sqlite"
    except OSError as error:
        raise _unusable(folder, error) from error
    raise ConfigError(
        f"PYOCO_INDEX_DIR={str(folder)!r}: {_MOST_GATEWAYS} gateways use this folder; choose another one"
    )


def _unusable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"PYOCO_INDEX_DIR={str(folder)!r}: an index cannot be stored there ({error}); "
        "choose a folder that can be written to"
    )
