"""The file of an index: one per gateway, opened if it can be used, made anew if not.

Nothing is forced to the disk while it is written, so that after a power failure some of its pages may be
newer than others. Its lock file names the boot of the system in which it is in use, until it was closed in
order: one that is found with the name of another boot is made anew.
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

# More gateways than this on one machine with one folder are a mistake in their settings.
_MOST_GATEWAYS: Final = 64
# KiB. Filling an index of a million entries wants much; one write now and then does not, since the system
# has the file in its memory as well.
_FILLING_CACHE: Final = 64 * 1024
_WRITING_CACHE: Final = 2 * 1024
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MARK_BYTES: Final = 64


def _this_boot() -> str:
    """What names the boot of this system; another word for each process where the system has none."""
    try:
        return _BOOT_ID.read_text().strip() or uuid4().hex
    except OSError:
        return uuid4().hex


THIS_BOOT: Final = _this_boot()


@dataclass(frozen=True, slots=True)
class FileForm:
    """What is in a file, and how it is called."""

    # Of what it is the index; its name begins with it.
    name: str
    # Another number than that of a file: the file is made anew.
    version: int
    tables: str
    # What is read to see whether it is damaged.
    probes: tuple[str, ...]
    # Of each connection that reads, in KiB.
    reader_cache: int = 16 * 1024


class IndexFile:
    """A file that is this process's own, by a lock that ends with it."""

    def __init__(self, folder: Path, form: FileForm) -> None:
        self._form = form
        self._lock, self.path = _first_free(folder, form.name)
        self._inode = 0
        self._writer: sqlite3.Connection | None = None

    def writer(self) -> sqlite3.Connection:
        """The one connection that writes. A file that is broken, or of another version, is made anew."""
        if self._in_use_in() not in ("", THIS_BOOT):
            log.warning(
                "the index of %s was not closed before the system ended, and is made anew", self._form.name
            )
            self.remove()
        self._mark(THIS_BOOT)
        try:
            self._writer = self._opened()
        except sqlite3.DatabaseError as error:
            if is_busy(error):
                raise ConfigError(f"{self.path} is in use by another program: {error}") from error
            log.warning("the index of %s cannot be used and is made anew: %s", self._form.name, error)
            self.remove()
            self._writer = self._opened()
        return self._writer

    def expect(self, *, filling: bool) -> None:
        """Give the connection that writes the memory that it needs for that."""
        assert self._writer is not None, "nobody writes yet"
        # Negative: KiB and not pages.
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
        connection.execute(f"PRAGMA cache_size = {-self._form.reader_cache}")
        return connection

    def is_there(self) -> bool:
        """Whether the file that was opened last still has its name."""
        try:
            return os.stat(self.path).st_ino == self._inode
        except OSError:
            return False

    def remove(self) -> None:
        """Delete the file; no connection to it may be open."""
        for name in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                os.unlink(f"{self.path}{name}")

    def close_in_order(self) -> None:
        """Have all of it on the disk, and say so; no connection to it may be open."""
        for name in ("", "-wal"):
            with suppress(FileNotFoundError):
                _force_to_disk(Path(f"{self.path}{name}"))
        _force_to_disk(self.path.parent)
        self._mark("")

    def release(self) -> None:
        os.close(self._lock)

    def _in_use_in(self) -> str:
        """In which boot of the system it was last opened; empty if it was closed since."""
        return os.pread(self._lock, _MARK_BYTES, 0).decode("ascii", "replace").strip()

    def _mark(self, boot: str) -> None:
        os.pwrite(self._lock, boot.ljust(_MARK_BYTES).encode(), 0)
        os.fsync(self._lock)

    def _opened(self) -> sqlite3.Connection:
        connection = self._connected()
        try:
            form = self._form
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, form.version):
                raise sqlite3.DatabaseError(f"it is of version {version}, wanted {form.version}")
            if version == 0:
                connection.executescript(f"BEGIN; {form.tables} PRAGMA user_version = {form.version}; COMMIT")
            # A damaged file is usually found out here; what is damaged deeper, when it is read.
            for probe in form.probes:
                connection.execute(probe).fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _connected(self) -> sqlite3.Connection:
        # The writer is made in one thread and used in another; never in two at once.
        connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        # Params may be secret, and so may be what people are asked.
        os.chmod(self.path, 0o600)
        self._inode = os.stat(self.path).st_ino
        for pragma in (
            "journal_mode = WAL",
            # It may be lost: then it is made anew. A crash of this process alone does no harm.
            "synchronous = OFF",
            f"cache_size = {-_FILLING_CACHE}",
            "temp_store = MEMORY",
            "secure_delete = OFF",
            f"journal_size_limit = {64 * 1024 * 1024}",
        ):
            connection.execute(f"PRAGMA {pragma}")
        return connection


def is_busy(error: sqlite3.Error) -> bool:
    """Whether nothing is wrong with the file: another program uses it in this moment."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _force_to_disk(path: Path) -> None:
    """A file's pages; or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_folder(folder: Path) -> None:
    """ConfigError when no index can be kept there."""
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
        f"PYOCO_INDEX_DIR={str(folder)!r}: {_MOST_GATEWAYS} gateways use this folder; wanted another one"
    )


def _unusable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"PYOCO_INDEX_DIR={str(folder)!r}: an index cannot be kept there ({error}); "
        "wanted a folder that can be written to"
    )
