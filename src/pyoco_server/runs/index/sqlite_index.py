"""An index that is kept in a file of this gateway's own, and can be lost at any time.

Whatever is wrong with it, it is made anew from the bucket. SQLite works in threads, one that writes and a few
that read, and never in the event loop.
"""

import asyncio
import logging
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from pyoco_server.broker.jetstream.feed_history import Checkpoint
from pyoco_server.errors import ConfigError, IndexNotReady
from pyoco_server.runs.index.index_file import FileForm, IndexFile, is_busy
from pyoco_server.runs.index.read_connections import ReaderConnections

log = logging.getLogger(__name__)

T = TypeVar("T")


class Writer(Protocol):
    """Used by one thread."""

    created: str
    revision: int
    # When the message of that revision was stored, in nanoseconds.
    stored_ns: int

    def begin(self, created: str) -> None:
        """Forget all: this is the index of another bucket now."""

    def complete(self) -> None:
        """All has been read for the first time."""

    def close(self) -> None: ...


W = TypeVar("W", bound=Writer)


class KeptIndex(ABC, Generic[W]):
    def __init__(self, folder: Path, form: FileForm, *, readers: int) -> None:
        self._folder = folder
        self._form = form
        self._file: IndexFile | None = None
        self._writing = ThreadPoolExecutor(1, f"{form.name}-index-write")
        self._reading = ThreadPoolExecutor(readers, f"{form.name}-index-read")
        self._writer: W | None = None
        self._connections = ReaderConnections()
        self._broken = False
        self.ready = False

    @abstractmethod
    def _writer_of(self, connection: sqlite3.Connection) -> W:
        """Who writes to the file."""

    async def start(self) -> None:
        """Open the file; ConfigError when there can be none."""
        await self._in_writer(self._open)

    async def close(self) -> None:
        self.ready = False
        # Whoever reads ends first, without the event loop waiting for it.
        await asyncio.to_thread(self._reading.shutdown)
        await self._in_writer(self._close)
        self._writing.shutdown()

    @property
    def checkpoint(self) -> Checkpoint:
        writer = self._writer
        # A broken index knows nothing, so that it is filled anew.
        if writer is None or self._broken:
            return Checkpoint("", 0)
        return Checkpoint(writer.created, writer.revision, writer.stored_ns)

    async def begin(self, created: str) -> None:
        """Become the empty index of another bucket."""
        self.ready = False
        await self._write(self._begin, created)

    async def complete(self) -> None:
        """All has been read: from here on there are answers."""
        await self._write(self._complete)
        self.ready = True

    async def look_after_file(self) -> None:
        """Find out whether somebody has deleted the file."""
        file = self._file
        if file is not None and not self._broken and not await self._write(file.is_there):
            self._is_broken("its file was deleted")

    # Threads

    async def _write(self, work: Callable[..., T], *args: object) -> T:
        """IndexNotReady when it cannot be done now: later it can, or all is made anew."""

        def guarded() -> T:
            try:
                return work(*args)
            except (OSError, ConfigError) as error:
                raise IndexNotReady(f"its file cannot be used: {error}") from error
            except sqlite3.Error as error:
                raise self._met(error) from error

        return await self._in_writer(guarded)

    async def _in_writer(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writing, work)

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do it with one state of the index, in a thread."""

        def guarded() -> T:
            file = self._file
            if file is None or not self.ready:
                raise IndexNotReady
            try:
                with self._connections.of(file) as db:
                    return work(db)
            except sqlite3.Error as error:
                raise self._met(error) from error

        return await asyncio.get_running_loop().run_in_executor(self._reading, guarded)

    def _met(self, error: sqlite3.Error) -> IndexNotReady:
        """What to answer; and unless the file is only in use, it is given up."""
        if is_busy(error):
            return IndexNotReady(f"another program uses its file: {error}")
        self._is_broken(str(error))
        return IndexNotReady(f"it cannot be used and is made anew: {error}")

    def _is_broken(self, why: str) -> None:
        log.warning("the index of %s is made anew: %s", self._form.name, why)
        self.ready = False
        self._broken = True

    def _open(self) -> None:
        if self._file is None:
            self._file = IndexFile(self._folder, self._form)
        self._writer = self._writer_of(self._file.writer())

    def _begin(self, created: str) -> None:
        if self._broken:
            if self._file is not None:
                self._give_up_file(self._file)
            self._open()
            self._broken = False
        self._opened_file().expect(filling=True)
        self._used().begin(created)

    def _complete(self) -> None:
        self._used().complete()
        self._opened_file().expect(filling=False)

    def _give_up_file(self, file: IndexFile) -> None:
        self._connections.renew()
        self._used().close()
        # If somebody deleted the whole folder, another gateway may have made this file since.
        if file.is_there():
            file.remove()
        file.release()
        self._file = None

    def _close(self) -> None:
        self._connections.close()
        if self._writer is not None:
            self._writer.close()
        if self._file is not None:
            try:
                if not self._broken:
                    self._file.close_in_order()
            except OSError as error:
                log.warning("the index of %s may have to be made anew: %s", self._form.name, error)
            finally:
                self._file.release()

    def _used(self) -> W:
        assert self._writer is not None, "the index was not started"
        return self._writer

    def _opened_file(self) -> IndexFile:
        assert self._file is not None, "the index was not started"
        return self._file
