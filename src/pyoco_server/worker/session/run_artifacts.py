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
from pyoco_server.broker.stores.artifact_usage import ArtifactUsage
from pyoco_server.broker.stores.run_object_store import (
    BYTES_TYPE,
    RunObject,
    RunObjectGone,
    RunObjects,
    RunObjectTooLarge,
)
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.errors.error_table import Err
from pyoco_server.records.artifact_models import (
    ARTIFACTS,
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

log = logging.getLogger(__name__)

# Files that are uploaded or restored at the same time, each with one block in memory.
_AT_ONCE: Final = 4
_BLOCK_BYTES: Final = 512 * 1024
# How often a file is read again that changes while it is read.
_READS: Final = 3
# How often an upload is tried while NATS is reachable; each try lasts for seconds.
_TRIES: Final = 3
_RETRY_SEC: Final = 0.25
_REFUSED_SEC: Final = 60.0
# Lines in the run's log about files that are not stored.
_NOTES: Final = 100
# Of a run that was restored from another: by whom the files were written there.
_TASK: Final = "task"


@dataclass(frozen=True, slots=True)
class ArtifactLimits:
    file_bytes: int
    run_bytes: int
    run_count: int
    # 0: no limit.
    tenant_bytes: int

    @classmethod
    def of(cls, config: NatsBackendConfig) -> "ArtifactLimits":
        return cls(
            file_bytes=config.artifact_max_bytes,
            run_bytes=config.artifact_run_max_bytes,
            run_count=config.artifact_run_max_count,
            tenant_bytes=config.artifact_tenant_max_bytes,
        )


@dataclass(frozen=True, slots=True)
class RunPlace:
    """Where the files of a run are: on this machine, and in NATS."""

    tag: str
    run_id: str
    tenant_id: str | None
    # Its working directory; None: that of this program, where only saved files are the run's.
    folder: str | None

    @property
    def directory(self) -> str:
        return self.folder or os.getcwd()


class RunArtifacts:
    def __init__(
        self,
        connection: Connection,
        objects: RunObjects,
        usage: ArtifactUsage,
        place: RunPlace,
        *,
        earlier: ArtifactSummary | None,
        assure_ownership: Callable[[], Awaitable[None]],
        note: Callable[[str | None, str], None],
    ) -> None:
        self._connection = connection
        self._objects = objects
        self._usage = usage
        self._place = place
        self._limits = ArtifactLimits.of(connection.config)
        self._assure_ownership = assure_ownership
        self._note = note
        # One look at a time.
        self._looking = asyncio.Lock()
        # Stored artifacts and their sizes.
        self._stored: dict[str, int] = {}
        # The files as they were when they were stored or restored.
        self._marks: dict[str, FileMark] = {}
        # Which task has written a file that is not stored yet, where that is known.
        self._writers: dict[str, str] = {}
        self._left_out: dict[str, LeftOut] = {}
        self._notes = 0
        # Why NATS has refused a file, and until when no other one is tried.
        self._refused = ""
        self._refused_until = 0.0
        # Those that a snapshot has no room for, of earlier attempts.
        self._unlisted = 0
        if earlier is not None:
            self._left_out = {each.name: each for each in earlier.left_out}
            self._unlisted = max(0, earlier.left_out_count - len(earlier.left_out))

    @property
    def summary(self) -> ArtifactSummary | None:
        """For the snapshot; None for a run without files."""
        if not self._stored and not self._left_out:
            return None
        return ArtifactSummary(
            count=len(self._stored),
            bytes=sum(self._stored.values()),
            left_out_count=self._unlisted + len(self._left_out),
            left_out=list(self._left_out.values())[:MAX_LISTED],
        )

    async def store(self, task: str | None, saved: Mapping[str, str]) -> None:
        """Store the files that are new or changed, and record why others are not; NotOwner if it may not."""
        async with self._looking:
            self._writers.update(saved)
            content = await asyncio.to_thread(self._content, saved)
            for path, reason in content.skipped:
                self._leave_out(path, reason, task)
            new = [file for file in content.files if self._marks.get(file.path) != file.mark]
            if new:
                await self._upload(await self._within_limits(new, task), task)

    def _content(self, saved: Collection[str]) -> FolderContent:
        if self._place.folder is not None:
            return scan(self._place.folder)
        # A folder of the program: it has files of other runs, and the program's own.
        content = FolderContent()
        for name in saved:
            try:
                path = artifact_name(name)
                with open_artifact(self._place.directory, path) as (_, mark):
                    content.files.append(FoundFile(path, path, mark[2], mark))
            except (InvalidArtifactName, Unreadable) as error:
                content.skipped.append((name, str(error)))
        return content

    async def _within_limits(self, files: Iterable[FoundFile], task: str | None) -> list[FoundFile]:
        """The files that there is room for, in the order of their names."""
        limits = self._limits
        sizes = dict(self._stored)
        used = sum(sizes.values())
        tenant_used = await self._tenant_used()
        fitting: list[FoundFile] = []
        for file in files:
            added = file.size - sizes.get(file.name, 0)
            if file.size > limits.file_bytes:
                why = _limit(file.size, "bytes", "PYOCO_ARTIFACT_MAX_BYTES", limits.file_bytes)
            elif file.name not in sizes and len(sizes) >= limits.run_count:
                why = _limit(len(sizes) + 1, "files", "PYOCO_ARTIFACT_RUN_MAX_COUNT", limits.run_count)
            elif used + added > limits.run_bytes:
                why = _limit(used + added, "bytes", "PYOCO_ARTIFACT_RUN_MAX_BYTES", limits.run_bytes)
            elif limits.tenant_bytes and tenant_used + added > limits.tenant_bytes:
                setting = "PYOCO_ARTIFACT_TENANT_MAX_BYTES"
                why = _limit(tenant_used + added, "bytes of all runs", setting, limits.tenant_bytes)
            else:
                fitting.append(file)
                sizes[file.name] = file.size
                used += added
                tenant_used += added
                continue
            self._leave_out(file.name, why, self._writers.get(file.name, task))
        return fitting

    async def _tenant_used(self) -> int:
        """By all runs of the tenant, as counted by a gateway some seconds ago."""
        if not self._limits.tenant_bytes:
            return 0
        counted = await self._usage.of(self._place.tenant_id)
        # What this run has stored is perhaps not counted yet.
        return max(counted, sum(self._stored.values()))

    async def _upload(self, files: Iterable[FoundFile], task: str | None) -> None:
        room = asyncio.Semaphore(_AT_ONCE)

        async def upload(file: FoundFile) -> None:
            async with room:
                await self._upload_file(file, self._writers.get(file.name, task))

        await _all(upload(file) for file in files)

    async def _upload_file(self, file: FoundFile, task: str | None) -> None:
        tries = reads = 0
        while True:
            if time.monotonic() < self._refused_until:
                return self._leave_out(file.name, self._refused, task)
            try:
                await self._assure_ownership()
                stored, mark = await self._put(file, task)
            except (Unreadable, RunObjectTooLarge) as why:
                return self._leave_out(file.name, str(why), task)
            except _Changed:
                reads += 1
                if reads >= _READS:
                    return self._leave_out(file.name, "it was changed while it was read", task)
            except NatsUnavailable as error:
                tries += self._connection.ready
                if tries >= _TRIES:
                    log.error("an artifact is not stored: %s", error, extra=self._log_fields())
                    self._refused = f"NATS did not store it: {error.public_detail}"
                    self._refused_until = time.monotonic() + _REFUSED_SEC
                    continue
                log.warning("an artifact is not stored yet: %s", error, extra=self._log_fields())
                await asyncio.sleep(_RETRY_SEC)
                await self._connection.wait_ready()
            else:
                break
        self._stored[file.name] = stored.bytes
        self._marks[file.path] = mark
        self._writers.pop(file.name, None)
        self._left_out.pop(file.name, None)

    async def _put(self, file: FoundFile, task: str | None) -> tuple[RunObject, FileMark]:
        """Store what the file has now. It may be removed meanwhile: what was opened is read to its end."""
        with open_artifact(self._place.directory, file.path) as (descriptor, mark):
            stored = await self._objects.put(
                self._place.tag,
                self._place.run_id,
                object_name(file.name),
                _unchanged_blocks(descriptor, mark),
                content_type=mimetypes.guess_type(file.name)[0] or BYTES_TYPE,
                details={} if task is None else {_TASK: task},
                max_bytes=self._limits.file_bytes,
            )
        return stored, mark

    def _leave_out(self, name: str, reason: str, task: str | None) -> None:
        left_out = shown_left_out(name, reason, task)
        if self._left_out.get(name) == left_out:
            return
        self._left_out[name] = left_out
        self._notes += 1
        if self._notes <= _NOTES:
            self._note(task, f"{left_out.name} is not stored as an artifact: {left_out.reason}")
        elif self._notes == _NOTES + 1:
            self._note(task, "further files that are not stored are counted in the run's record")

    async def remove_files(self) -> None:
        """Remove the stored files from this machine: the attempt is over, and another one restores them."""
        folder = self._place.folder
        if folder is not None and not self._connection.config.artifact_keep_files:
            await asyncio.to_thread(remove_artifacts, folder, self._marks)

    async def restore(self) -> None:
        """Write the files of earlier attempts into the folder, before the first task of this one."""
        place = self._place
        for stored in await self._objects.entries(place.tag, place.run_id):
            name = artifact_of(stored.name)
            if name is not None:
                self._stored[name] = stored.bytes
                mark = await self._restore_file(place.run_id, stored, name)
                if mark is not None:
                    self._marks[name] = mark

    async def restore_origin(self, origin: str, tasks: Collection[str]) -> None:
        """Write the files that these tasks of another run have written; they become artifacts of this one."""
        for stored in await self._objects.entries(self._place.tag, origin):
            name, task = artifact_of(stored.name), stored.details.get(_TASK)
            if name is not None and task in tasks and await self._restore_file(origin, stored, name):
                self._writers[name] = task

    async def _restore_file(self, run_id: str, stored: RunObject, name: str) -> FileMark | None:
        place = self._place
        if stored.bytes > self._limits.file_bytes:
            self._leave_out(name, "it is larger than this worker's PYOCO_ARTIFACT_MAX_BYTES", None)
            return None
        blocks = self._objects.read(place.tag, run_id, stored)
        try:
            # The program's own folder may have a file of this name from another run.
            if place.folder is not None or not os.path.lexists(os.path.join(place.directory, ARTIFACTS, name)):
                with new_artifact(place.directory, name) as file:
                    async for block in blocks:
                        await asyncio.to_thread(file.write, block)
            with open_artifact(place.directory, name) as (_, mark):
                return mark
        except (OSError, Unreadable, RunObjectGone) as error:
            reason = f"it could not be restored for this attempt: {error}"
            log.warning("%s: %s", name, reason, extra=self._log_fields())
            self._note(stored.details.get(_TASK), f"{name}: {reason}")
            return None

    def _log_fields(self) -> dict[str, object]:
        return Err.NATS_UNAVAILABLE.log_fields(run_id=self._place.run_id)


class _Changed(Exception):
    """The file has changed while it was read."""


async def _unchanged_blocks(descriptor: int, mark: FileMark) -> AsyncIterator[bytes]:
    """The content of the file; _Changed at its end if it was changed meanwhile."""
    left = mark[2]
    while left > 0:
        block = await asyncio.to_thread(os.pread, descriptor, min(left, _BLOCK_BYTES), mark[2] - left)
        if not block:
            raise _Changed
        left -= len(block)
        yield block
    # The time of its last status change also moves when a link to it is removed.
    if mark_of(os.fstat(descriptor))[:4] != mark[:4]:
        raise _Changed


async def _all(works: Iterable[Awaitable[None]]) -> None:
    """All of them to their end, then the first error."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _limit(count: int, what: str, setting: str, most: int) -> str:
    return f"with it there would be {count} {what}; the limit is {setting}={most}"
