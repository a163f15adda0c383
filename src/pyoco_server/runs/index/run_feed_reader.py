"""What the feed of the runs bucket is read for: the index, the sweep's open runs, and who follows runs.

In this order: when somebody hears of a change, a list already shows it.
"""

import asyncio
import logging
from collections.abc import Iterator

import msgspec

from pyoco_server.broker.jetstream.stream_reads import StreamMessage, StreamState
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.models import TERMINAL, is_run_id
from pyoco_server.runs.index.feed_reader import IndexReading
from pyoco_server.runs.index.run_index import RunIndex, SeenWrite
from pyoco_server.runs.index.run_summary import summary_of
from pyoco_server.runs.sweep.open_runs import OpenRuns, decode_state
from pyoco_server.runs.watch.run_hub import RunChange, RunChanges

log = logging.getLogger(__name__)


class RunReader(IndexReading):
    """Takes what the feed reads."""

    def __init__(
        self, config: NatsBackendConfig, index: RunIndex, open_runs: OpenRuns, changes: RunChanges
    ) -> None:
        super().__init__(index)
        self._prefix = f"$KV.{config.runs_kv_bucket}."
        self._index = index
        self._open_runs = open_runs
        self._changes = changes
        # Whether the open runs are those of the index.
        self._loaded = False
        # How often the bucket lost its newest messages.
        self._went_back = 0

    @property
    def entries(self) -> int:
        return self._index.runs

    async def begin(self, created: str) -> None:
        if created == self.checkpoint.created:
            # Revisions went back: what was reported of a run, or read up to, means nothing any more.
            self._went_back += 1
            self._changes.went_back()
        await self._index.begin(created)
        self._begin_open_runs(created)
        self._loaded = True

    async def take(self, batch: list[StreamMessage]) -> None:
        await self._load()
        seen = await asyncio.to_thread(lambda: list(self._seen(batch)))
        listening = self._index.ready and self._changes.listening
        last = batch[-1]
        before = await self._index.apply(
            seen, upto=last.sequence, stored_ns=last.stored_ns, want_before=listening
        )
        for write in seen:
            self._open_runs.take(write.run_id, write.revision, write.state)
            if write.removed:
                self._open_runs.remember_marker(write.run_id)
        changes = [
            RunChange(write.run_id, write.revision, write.data, write.summary, was)
            for write, was in zip(seen, before, strict=True)
        ]
        if self._index.ready:
            await self._changes.publish(changes)
        else:
            # Most of it is old. Who follows one run can tell, and wants to hear of what is new.
            self._changes.tell_runs(changes)

    async def up_to_date(self, state: StreamState) -> None:
        await self._load()
        if not self._index.ready:
            await self._index.complete()
            self._changes.begin(self.checkpoint.created, self.checkpoint.revision)
            log.info("the index of runs is ready: %d runs", self.entries)
        await self._index.look_after_file()

    async def drop(self, revisions: list[int]) -> None:
        for revision, summary in await self._index.drop(revisions):
            run_id = summary.item.run_id
            log.info("a run is gone, and nobody has said so", extra={"run_id": run_id})
            self._open_runs.take(run_id, 0, None)
            self._changes.vanished(revision, summary)

    async def _load(self) -> None:
        """With an index that was kept, only what was written since is read from the bucket."""
        if self._loaded:
            return
        self._begin_open_runs(self.checkpoint.created)
        for run_id, revision, state in await self._index.open_states():
            self._open_runs.take(run_id, revision, decode_state(state))
        for run_id in await self._index.markers():
            self._open_runs.remember_marker(run_id)
        self._loaded = True

    def _begin_open_runs(self, created: str) -> None:
        # Each history of the bucket counts as a bucket of its own.
        self._open_runs.begin(f"{created} {self._went_back}" if self._went_back else created)

    async def forget_markers(self, keys: list[str]) -> None:
        self._open_runs.forget_markers(keys)
        await super().forget_markers(keys)

    def _seen(self, batch: list[StreamMessage]) -> Iterator[SeenWrite]:
        for message in batch:
            run_id = message.subject.removeprefix(self._prefix)
            if not is_run_id(run_id):
                log.warning("something that is no run is in the runs bucket", extra={"run_id": run_id})
            elif message.is_marker:
                yield SeenWrite(run_id, message.sequence, None, removed=True)
            else:
                yield _read(run_id, message)


def _read(run_id: str, message: StreamMessage) -> SeenWrite:
    """A snapshot that cannot be read is not listed, whatever was known of its run before."""
    try:
        summary = summary_of(message.data)
        if summary.item.run_id != run_id:
            raise msgspec.ValidationError(f"it says that it is of run {summary.item.run_id}")
        state = None if summary.item.status in TERMINAL else decode_state(message.data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.warning("a run is not listed, its snapshot cannot be read: %s", error, extra={"run_id": run_id})
        return SeenWrite(run_id, message.sequence, message.data)
    return SeenWrite(run_id, message.sequence, message.data, summary, state)
