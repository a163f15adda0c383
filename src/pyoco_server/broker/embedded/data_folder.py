"""The data folder of the embedded server: its lock and its files.

    lock          locked by the server process while it runs; names the process
    server.conf   written at every start (server_config.py)
    server.log    the log of this start, and server.log.1 that of the one before
    *.ports       where the server listens, written by the server
    jetstream/    the data
    secrets.key   encrypts the secrets in the data (triggers/secrets_at_rest.py)

Everything but the last two may be deleted while no server runs.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from pyoco_server.broker.embedded.server_config import server_config
from pyoco_server.errors import EmbeddedServerError

# With less, a disk counts as full: blocks of a stream are up to 8 MiB.
ENOUGH_BYTES = 16 * 1024 * 1024
_LOCK_RETRY_SEC = 0.05


class Holder(msgspec.Struct, frozen=True):
    """The content of the lock file, for the next program that needs the folder."""

    owner: int  # the program that started the server
    pid: int | None = None  # the server; known once it listens
    url: str | None = None

    def is_owner_alive(self) -> bool:
        try:
            os.kill(self.owner, 0)
        except ProcessLookupError:
            return False
        except PermissionError:  # alive, of another user
            return True
        return True

    def __str__(self) -> str:
        server = f"process {self.pid} at {self.url}" if self.pid else "still starting"
        gone = "" if self.is_owner_alive() else ", which is gone"
        return f"{server}, started by process {self.owner}{gone}"


class DataFolderInUse(EmbeddedServerError):
    """Another embedded server keeps its data there."""

    def __init__(self, folder: Path, holder: Holder | None) -> None:
        who = str(holder) if holder else "which is still starting"
        use_it = f"connect to it with PYOCO_NATS_URL={holder.url}, " if holder and holder.url else ""
        super().__init__(
            f"the data folder {folder} is in use by another embedded NATS server ({who}); "
            f"{use_it}stop it, or choose another folder with PYOCO_NATS_DATA_DIR"
        )
        self.folder = folder
        self.holder = holder  # None while it is unknown


class Ports(msgspec.Struct):
    """The part of a ports file that is used."""

    nats: list[str]
    monitoring: list[str] = []


class ServerFolder:
    """One data folder. `lock` comes first; the other files belong to the holder of the lock."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.lock_path = self.path / "lock"
        self.config_path = self.path / "server.conf"
        self.log_path = self.path / "server.log"

    async def lock(self, timeout_sec: float) -> int:
        """Lock the folder and return the lock's descriptor; DataFolderInUse when a live program has it.

        The lock belongs to the open file, not to a process: inherited by the server, it lasts exactly until
        the server has ended, however its program or the server itself ends. After a crash of the program the
        server needs a moment to end: that is what the timeout is for.
        """
        descriptor = self._open_lock()
        try:
            deadline = time.monotonic() + timeout_sec
            while not _try_lock(descriptor):
                holder = self.holder()
                if holder is None or holder.is_owner_alive() or time.monotonic() > deadline:
                    raise DataFolderInUse(self.path, holder)
                await asyncio.sleep(_LOCK_RETRY_SEC)
            self.record(Holder(owner=os.getpid()))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def prepare(self, listen: str, *, monitor: str, monitor_path: str) -> None:
        """Write the configuration for a server at `listen`, and rotate the log of the last one.

        `monitor` is where it reports its health, below a path that only the owner of the folder can read.
        """
        with self._explaining_os_errors():
            for stale in self.path.glob("*.ports"):  # process ids repeat, in containers above all
                stale.unlink()
            if self.log_path.exists():
                self.log_path.replace(self.log_path.with_name("server.log.1"))
            text = server_config(
                self.path, self.log_path, listen=listen, monitor=monitor, monitor_path=monitor_path
            )
            self.config_path.unlink(missing_ok=True)
            self.config_path.touch(0o600)
            self.config_path.write_text(text, encoding="utf-8")

    def open_log(self) -> int:
        """For the output of nats-server before it has read its configuration, and in a crash."""
        with self._explaining_os_errors():
            return os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def record(self, holder: Holder) -> None:
        """Write the lock file. It is never replaced: the lock is on this very file."""
        with self._explaining_os_errors():
            self.lock_path.write_bytes(msgspec.json.encode(holder))

    def announced_ports(self) -> Ports | None:
        """Where the server listens; None before it has written its ports file."""
        for ports_file in self.path.glob("*.ports"):
            try:
                return msgspec.json.decode(ports_file.read_bytes(), type=Ports)
            except msgspec.DecodeError:  # half written
                return None
        return None

    def last_log_lines(self, count: int = 12) -> str:
        try:
            lines = self.log_path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-count:])

    def _open_lock(self) -> int:
        with self._explaining_os_errors():
            self.path.mkdir(parents=True, exist_ok=True)
            return os.open(self.lock_path, os.O_RDWR | os.O_CREAT, 0o644)

    @contextmanager
    def _explaining_os_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise EmbeddedServerError(
                f"cannot keep the data of the embedded NATS server in {self.path}: {error.strerror}; "
                "choose another folder with PYOCO_NATS_DATA_DIR"
            ) from error

    def holder(self) -> Holder | None:
        """Who has locked the folder, or had; None when that is not known."""
        try:
            return msgspec.json.decode(self.lock_path.read_bytes(), type=Holder)
        except (msgspec.DecodeError, OSError):  # being written at this moment; no such folder
            return None


def free_bytes(folder: Path) -> int:
    """The free space of its disk."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
