"""The registry of wheels, in which the version of a package only goes up.

Concurrent uploads are decided by the revision of the store: the second one reads the list again.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import IO, Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from pyoco_server.aio.background import BackgroundLoop
from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.object_store import ObjectListing, ObjectStore, StoredChunks, StoredObject
from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.jetstream.stream_reads import MessageInfo
from pyoco_server.errors import NatsUnavailable, WheelNotFound, WheelVersionRejected, shortened
from pyoco_server.wheels.wheel_name import InvalidWheelName, WheelName

log = logging.getLogger(__name__)

TAGS_HEADER: Final = "x-pyoco-wheel-tags"
PYTHON_HEADER: Final = "x-pyoco-wheel-requires-python"
_BLOCK_BYTES: Final = 1024 * 1024
# Chunks of this age without a record are of an upload that failed.
ABANDONED_SEC: Final = 3600.0
_STORE_LIMIT_SEC: Final = ABANDONED_SEC / 4
_MAX_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class StoredWheel:
    name: WheelName
    stored: StoredObject

    @property
    def tags(self) -> list[str]:
        """The tags of the workers that install it; none: all workers."""
        return [tag for tag in self.stored.headers.get(TAGS_HEADER, "").split(",") if tag]

    @property
    def requires_python(self) -> SpecifierSet:
        """Unknown for wheels that an earlier version of pyoco-server has stored."""
        try:
            return SpecifierSet(self.stored.headers.get(PYTHON_HEADER, ""))
        except InvalidSpecifier:
            return SpecifierSet()

    @property
    def sha256_hex(self) -> str | None:
        return None if self.stored.sha256 is None else self.stored.sha256.hex()


class WheelRegistry:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._store = ObjectStore(connection, connection.config.wheel_object_store_bucket)
        self._cleaner = BackgroundLoop("wheels", self._clean)

    @property
    def bucket(self) -> str:
        return self._store.bucket

    async def start(self) -> None:
        """Start the periodic removal of unfinished uploads."""
        self._cleaner.start()

    async def close(self) -> None:
        await self._cleaner.close()

    async def newest_record(self) -> MessageInfo | None:
        """Changes with every upload and removal; cheap to read."""
        return await self._store.newest_record()

    async def on_change(self, hint: Callable[[], None]) -> None:
        """Call `hint` when a wheel is added or removed, or may be soon."""
        await self._store.on_change(hint)

    async def all(self) -> list[StoredWheel]:
        return sorted(_wheels_in(await self._store.listing()), key=_rank)

    async def find(self, name: str) -> StoredWheel:
        """WheelNotFound if there is none of this name."""
        return _find(await self._store.listing(), name)

    def read(self, wheel: StoredWheel, *, start: int = 0) -> AsyncIterator[bytes]:
        return self._store.read(wheel.stored, start=start)

    async def check_version(self, name: WheelName) -> None:
        """Raise WheelVersionRejected unless this version would be accepted now."""
        _check_newer(name, await self._store.listing())

    async def add(
        self, name: WheelName, file: IO[bytes], tags: Sequence[str], requires_python: SpecifierSet
    ) -> StoredWheel:
        """Store an inspected wheel; WheelVersionRejected unless it is newer than all of its package."""
        headers = {TAGS_HEADER: ",".join(tags), PYTHON_HEADER: str(requires_python)}
        listing = await self._store.listing()
        _check_newer(name, listing)
        try:
            async with asyncio.timeout(_STORE_LIMIT_SEC):
                chunks = await self._store.store_chunks(_blocks_of(file))
                return await self._publish(name, chunks, headers, listing)
        except TimeoutError:
            why = f"{name.file_name} was not stored within {_STORE_LIMIT_SEC:g} s"
            raise self._connection.unavailable(why) from None

    async def remove(self, name: str) -> StoredWheel:
        """Remove a wheel and return it; WheelNotFound if there is none of this name."""
        while True:
            listing = await self._store.listing()
            wheel = _find(listing, name)
            try:
                await self._store.delete(wheel.stored, revision=listing.revision)
            except RevisionConflict:
                continue
            except NatsUnavailable:
                # Without an ack the removal may have happened: read the list.
                left = (await self._store.listing()).find(name)
                if left is not None and left.nuid == wheel.stored.nuid:
                    raise
            return wheel

    async def drop_abandoned(self, older_than_sec: float = ABANDONED_SEC) -> int:
        """Remove the chunks of unfinished uploads; returns the number of uploads."""
        abandoned = await self._store.abandoned(older_than_sec)
        for nuid in abandoned:
            log.info("removing the chunks of an unfinished upload: %s", nuid)
            await self._store.drop_chunks(nuid)
        return len(abandoned)

    async def _publish(
        self, name: WheelName, chunks: StoredChunks, headers: dict[str, str], listing: ObjectListing
    ) -> StoredWheel:
        """Write the record of the wheel. Without an ack it may be written: read the list."""
        attempts = 0
        while True:
            try:
                _check_newer(name, listing)
                stored = await self._store.publish(name.file_name, chunks, headers, revision=listing.revision)
                return StoredWheel(name, stored)
            except WheelVersionRejected:
                await self._store.drop_chunks(chunks.nuid)
                raise
            except (RevisionConflict, NatsUnavailable) as why:
                found = await self._store.listing()
                ours = found.find(name.file_name)
                if ours is not None and ours.nuid == chunks.nuid:
                    return StoredWheel(name, ours)
                if isinstance(why, NatsUnavailable):
                    attempts += 1
                    # If the list has changed, the wheel may have been added and removed: do not add it again.
                    if attempts == _MAX_ATTEMPTS or found.revision != listing.revision:
                        raise
                listing = found

    async def _clean(self) -> None:
        await self._connection.wait_ready()
        try:
            await self.drop_abandoned()
        except NatsUnavailable as error:
            log.debug("cannot look for unfinished uploads: %s", error)
        await asyncio.sleep(ABANDONED_SEC)


async def _blocks_of(file: IO[bytes]) -> AsyncIterator[bytes]:
    file.seek(0)
    while block := await asyncio.to_thread(file.read, _BLOCK_BYTES):
        yield block


def _check_newer(name: WheelName, listing: ObjectListing) -> None:
    others = [wheel for wheel in _wheels_in(listing) if wheel.name.package == name.package]
    newest = max(others, key=_rank, default=None)
    if newest is not None and newest.name.version >= name.version:
        raise WheelVersionRejected(
            f"{name.file_name} has version {name.version}; expected one above {newest.name.version}, "
            f"which {newest.name.file_name} has"
        )


def _wheels_in(listing: ObjectListing) -> list[StoredWheel]:
    return [wheel for stored in listing.objects if (wheel := _wheel(stored)) is not None]


def _wheel(stored: StoredObject) -> StoredWheel | None:
    """None for an object that is not a wheel."""
    try:
        return StoredWheel(WheelName.parse(stored.name), stored)
    except InvalidWheelName:
        return None


def _rank(wheel: StoredWheel) -> tuple[object, ...]:
    return (wheel.name.package, wheel.name.version, wheel.name.file_name)


def _find(listing: ObjectListing, name: str) -> StoredWheel:
    for wheel in _wheels_in(listing):
        if wheel.name.file_name == name:
            return wheel
    raise WheelNotFound(f"there is no wheel {shortened(name)}")
