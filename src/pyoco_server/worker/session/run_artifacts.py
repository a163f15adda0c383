"""Stores the files of one run as its artifacts, and restores them for a later attempt.

A task counts as finished once the files that it has written are stored, or it is recorded why they are not:
so whoever continues the run has the files of every finished task. Limits leave files out; they fail no run.
"""

import asyncio
import logging
import mimetypes
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.storage.artifact_usage import ArtifactUsage
from pyoco_server.broker.stores.runs.run_object_store import (
    BYTES_TYPE,
    RunObject,
    RunObjectGone,
    RunObjects,
    RunObjectTooLarge,
)
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.artifact_models import (
    MAX_LISTED,
    ArtifactSummary,
    InvalidArtifactName,
    LeftOut,
    artifact_name,
    artifact_of,
    object_name,
    shown_left_out,
)
from pyoco_server.worker.artifacts.artifact_folder import (
    FileMark,
    FolderContent,
    FoundFile,
    Unreadable,
    mark_of,
    new_artifact,
    open_artifact,
    remove_artifacts,
    scan,
)
from pyoco_server.worker.session.artifact_limits import ArtifactLimits

log = logging.getLogger(__name__)

# Files that are uploaded or restored at the same time, each with some blocks in memory.
_AT_ONCE: Final = 4
_BLOCK_BYTES: Final = 512 * 1024
# How often a file is read that changes while it is read.
_READS: Final = 3
# How often an upload is tried while NATS is reachable; each try lasts for seconds.
_TRIES: Final = 3
_RETRY_SEC: Final = 0.25
# After a refused upload, no other one is tried for so long: all would be refused.
_REFUSED_SEC: Final = 60.0
# Lines in the run's log about files that are not stored.
_NOTES: Final = 100
# The detail of a stored object that names the task.
TASK: Final = "task"


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where the files of a run are: in NATS, and on this machine."""

    tag: str
    run_id: str
    tenant_id: str | None
    # Its working directory; None: that of this program, where only saved files are the run's.
    own_folder: str | None

    @property
    def folder(self) -> str:
        return self.own_folder or os.getcwd()


class LeftOutFiles:
    """The files of a run that are not stored, and why."""

    def __init__(self, earlier: ArtifactSummary | None, note: Callable[[str | None, str], None]) -> None:
        self._files: dict[str, LeftOut] = {}
        # Of earlier attempts, beyond those that the snapshot lists.
        self._unlisted = 0
        if earlier is not None:
            self._files = {each.name: each for each in earlier.left_out}
            self._unlisted = max(0, earlier.left_out_count - len(earlier.left_out))
        self._note = note
        self._notes = 0

    def add(self, name: str, reason: str, task: str | None) -> None:
        left_out = shown_left_out(name, reason, task)
        known = self._files.get(name)
        if known is not None and known.reason == left_out.reason:
            return
        self._files[name] = left_out
        self._notes += 1
        if self._notes <= _NOTES:
            self._note(task, f"{left_out.name} is not stored as an artifact: {left_out.reason}")
        elif self._notes == _NOTES + 1:
            self._note(task, "further files are not stored either: the run's record has their number")

    def remove(self, name: str) -> None:
        self._files.pop(name, None)

    @property
    def count(self) -> int:
        return self._unlisted + len(self._files)

    @property
    def first(self) -> list[LeftOut]:
        return list(self._files.values())[:MAX_LISTED]


class RunArtifacts:
    def __init__(
        self,
        connection: Connection,
        objects: RunObjects,
        usage: ArtifactUsage,
        place: RunPlace,
        left_out: LeftOutFiles,
        *,
        verify_ownership: Callable[[], Awaitable[None]],
    ) -> None:
        self._connection = connection
        self._objects = objects
        self._usage = usage
        self._place = place
        self._left_out = left_out
        self._verify_ownership = verify_ownership
        self._limits = ArtifactLimits.of(connection.config)
        # One look at a time.
        self._looking = asyncio.Lock()
        # Stored artifacts and their sizes.
        self._stored: dict[str, int] = {}
        # The files by their paths, as they were when they were stored or restored.
        self._marks: dict[str, FileMark] = {}
        # Which task has written a file that is not stored yet, where that is known.
        self._writers: dict[str, str] = {}
        # Why NATS has refused a file, and until when no other one is tried.
        self._refused = ""
        self._refused_until = 0.0

    @property
    def summary(self) -> ArtifactSummary | None:
        """For the snapshot; None for a run without files."""
        if not self._stored and not self._left_out.count:
            return None
        return ArtifactSummary(
            count=len(self._stored),
            bytes=sum(self._stored.values()),
            left_out_count=self._left_out.count,
            left_out=self._left_out.first,
        )

    async def store(self, task: str | None, saved: Mapping[str, str]) -> None:
        """Store the files that are new or changed, and record why others are not; NotOwner if it may not.

        `saved` says which task has saved which file; other files are those of `task`.
        """
        async with self._looking:
            self._writers.update(saved)
            content = await asyncio.to_thread(self._content, saved)
            for path, reason in content.skipped:
                self._left_out.add(path, reason, task)
            new = [file for file in content.files if self._marks.get(file.path) != file.mark]
            if new:
                await self._upload(new, task)

    def _content(self, saved: Collection[str]) -> FolderContent:
        if self._place.own_folder is not None:
            return scan(self._place.own_folder)
        # The folder has files of other runs, and of the program.
        content = FolderContent()
        for name in saved:
            try:
                path = artifact_name(name)
                with open_artifact(self._place.folder, path) as (_, mark):
                    content.files.append(FoundFile(path, path, mark.size, mark))
            except (InvalidArtifactName, Unreadable) as error:
                content.skipped.append((name, str(error)))
        return content

    async def _upload(self, files: Iterable[FoundFile], task: str | None) -> None:
        def writer(file: FoundFile) -> str | None:
            return self._writers.get(file.name, task)

        fitting = self._limits.fitting(
            files,
            self._stored,
            tenant_used=await self._tenant_used(),
            leave_out=lambda file, why: self._left_out.add(file.name, why, writer(file)),
        )
        await _some_at_once(self._upload_file(file, writer(file)) for file in fitting)

    async def _tenant_used(self) -> int:
        """By all runs of the tenant, as a gateway has counted some seconds ago."""
        if not self._limits.tenant_bytes:
            return 0
        # What this run has stored is perhaps not counted yet.
        return max(await self._usage.of(self._place.tenant_id), sum(self._stored.values()))

    async def _upload_file(self, file: FoundFile, task: str | None) -> None:
        try:
            stored, mark = await self._put_with_retries(file, task)
        except _NotStored as why:
            self._left_out.add(file.name, str(why), task)
            return
        self._stored[file.name] = stored.bytes
        self._marks[file.path] = mark
        self._writers.pop(file.name, None)
        self._left_out.remove(file.name)

    async def _put_with_retries(self, file: FoundFile, task: str | None) -> tuple[RunObject, FileMark]:
        tries = reads = 0
        while True:
            if time.monotonic() < self._refused_until:
                raise _NotStored(self._refused)
            try:
                # Before every try: this process may have been paused.
                await self._verify_ownership()
                return await self._put(file, task)
            except (Unreadable, RunObjectTooLarge) as why:
                raise _NotStored(str(why)) from None
            except _Changed:
                reads += 1
                if reads >= _READS:
                    raise _NotStored("it was changed while it was read") from None
            except NatsUnavailable as error:
                fields = Err.NATS_UNAVAILABLE.log_fields(run_id=self._place.run_id)
                log.warning("an artifact is not stored yet: %s", error, extra=fields)
                tries += self._connection.ready
                if tries >= _TRIES:
                    self._refused = f"NATS did not store it: {error.public_detail}"
                    self._refused_until = time.monotonic() + _REFUSED_SEC
                await asyncio.sleep(_RETRY_SEC)
                await self._connection.wait_ready()

    async def _put(self, file: FoundFile, task: str | None) -> tuple[RunObject, FileMark]:
        """Store what the file has now. It may be removed meanwhile: what was opened is read to its end."""
        with open_artifact(self._place.folder, file.path) as (descriptor, mark):
            stored = await self._objects.put(
                self._place.tag,
                self._place.run_id,
                object_name(file.name),
                _unchanged_blocks(descriptor, mark),
                content_type=mimetypes.guess_type(file.name)[0] or BYTES_TYPE,
                details={} if task is None else {TASK: task},
                max_bytes=self._limits.file_bytes,
            )
        return stored, mark

    async def restore(self) -> None:
        """Write the files of earlier attempts into the folder, before the first task of this one."""

        async def restore(stored: RunObject, name: str) -> None:
            self._stored[name] = stored.bytes
            mark = await self._restore_file(self._place.run_id, stored, name)
            if mark is not None:
                self._marks[name] = mark
                self._writers.pop(name, None)

        artifacts = await self._artifacts(self._place.run_id)
        await _some_at_once(restore(stored, name) for name, stored in artifacts.items())

    async def restore_origin(self, origin: str, tasks: Collection[str]) -> None:
        """Write the files that these tasks of another run have written; they become artifacts of this one."""

        async def restore(stored: RunObject, name: str, task: str) -> None:
            if await self._restore_file(origin, stored, name) is not None:
                self._writers[name] = task

        artifacts = await self._artifacts(origin)
        await _some_at_once(
            restore(stored, name, stored.details[TASK])
            for name, stored in artifacts.items()
            if stored.details.get(TASK) in tasks
        )

    async def _artifacts(self, run_id: str) -> dict[str, RunObject]:
        objects = await self._objects.entries(self._place.tag, run_id)
        return {name: each for each in objects if (name := artifact_of(each.name)) is not None}

    async def _restore_file(self, run_id: str, stored: RunObject, name: str) -> FileMark | None:
        place = self._place
        try:
            # The program's own folder may have a file of this name.
            if place.own_folder is not None or not _is_there(place.folder, name):
                with new_artifact(place.folder, name) as file:
                    async for block in self._objects.read(place.tag, run_id, stored):
                        await asyncio.to_thread(file.write, block)
            with open_artifact(place.folder, name) as (_, mark):
                return mark
        except (OSError, Unreadable, RunObjectGone) as error:
            log.warning("an artifact is not restored: %s", error, extra={"run_id": place.run_id})
            reason = f"it was not restored for this attempt: {error}"
            self._left_out.add(name, reason, stored.details.get(TASK))
            return None

    async def remove_files(self) -> None:
        """Remove the stored files from this machine: the attempt is over, and another one restores them."""
        folder = self._place.own_folder
        if folder is not None and not self._connection.config.artifact_keep_files:
            await asyncio.to_thread(remove_artifacts, folder, self._marks)


class _NotStored(Exception):
    """The file is left out; the text says why."""


class _Changed(Exception):
    """The file has changed while it was read."""


async def _unchanged_blocks(descriptor: int, mark: FileMark) -> AsyncIterator[bytes]:
    """The content of the file; _Changed at its end if it was changed meanwhile."""
    place = 0
    while place < mark.size:
        block = await asyncio.to_thread(os.pread, descriptor, min(_BLOCK_BYTES, mark.size - place), place)
        if not block:
            raise _Changed
        place += len(block)
        yield block
    now = mark_of(os.fstat(descriptor))
    # Removing the file moves the time of its last status change only.
    if (now.size, now.modified_ns) != (mark.size, mark.modified_ns):
        raise _Changed


def _is_there(folder: str, name: str) -> bool:
    try:
        with open_artifact(folder, name):
            return True
    except Unreadable:
        return False


async def _some_at_once(works: Iterable[Awaitable[None]]) -> None:
    """All of them to their end, then the first error."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def limited(work: Awaitable[None]) -> None:
        async with room:
            await work

    for outcome in await asyncio.gather(*map(limited, works), return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
