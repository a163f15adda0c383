"""Waits and runs read from the buckets at each call, instead of an index that may lag."""

from collections.abc import Sequence

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import (
    DELETED,
    EVERYTHING,
    StreamMessage,
    read_batch,
    stream_state,
)
from pyoco_server.records.runs.run_models import TERMINAL
from pyoco_server.records.waits.wait_models import WaitRecord, WaitState, decode_outbox, decode_wait
from pyoco_server.runs.open_runs import OpenRuns, state_in
from pyoco_server.waits.index.wait_index import WaitIndex


class WaitsInBucket(WaitIndex):
    """The queries of the maintenance, without an index."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.ready = True

    async def due(self, now: float, limit: int) -> list[str]:
        due = [wait for wait in await self._open_records() if wait.deadline_at <= now]
        return [wait.wait_id for wait in sorted(due, key=lambda wait: wait.deadline_at)][:limit]

    async def next_deadline(self, after: float) -> float | None:
        times = [time for wait in await self._open_records() for time in (wait.deadline_at, wait.notice_at)]
        return min((time for time in times if time is not None and time > after), default=None)

    async def notices_due(self, now: float, limit: int) -> list[str]:
        waits = await self._open_records()
        return [wait.wait_id for wait in waits if wait.notice_at is not None and wait.notice_at <= now][
            :limit
        ]

    async def open_after(self, wait_id: str, limit: int) -> list[str]:
        found = sorted(wait.wait_id for wait in await self._open_records())
        return [each for each in found if each > wait_id][:limit]

    async def open_among(self, wait_ids: Sequence[str]) -> set[str]:
        return {wait.wait_id for wait in await self._open_records()} & set(wait_ids)

    async def asking_among(self, run_ids: Sequence[str]) -> set[str]:
        return {wait.run_id for wait in await self._open_records()} & set(run_ids)

    async def with_outbox(self, limit: int) -> list[tuple[str, int]]:
        return [
            (decode_wait(message.data).wait_id, message.sequence)
            for message in await self._messages()
            if decode_outbox(message.data)
        ][:limit]

    async def _open_records(self) -> list[WaitRecord]:
        found = [decode_wait(message.data) for message in await self._messages()]
        return [wait for wait in found if wait.state is WaitState.OPEN]

    async def _messages(self) -> list[StreamMessage]:
        found: list[StreamMessage] = []
        after = 0
        stream = f"KV_{self._connection.config.waits_kv_bucket}"
        while batch := await read_batch(self._connection, stream, EVERYTHING, after=after):
            found += [message for message in batch if "KV-Operation" not in message.headers]
            after = batch[-1].sequence
        return found


class SeenRuns(OpenRuns):
    """The open runs, fed by the test: `look` reads what was written since."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection
        self._after = 0

    async def look(self) -> None:
        bucket = self._connection.config.runs_kv_bucket
        if not self.bucket_created:
            self.reset((await stream_state(self._connection, f"KV_{bucket}")).created)
        while batch := await read_batch(self._connection, f"KV_{bucket}", EVERYTHING, after=self._after):
            for message in batch:
                run_id = message.subject.removeprefix(f"$KV.{bucket}.")
                gone = message.headers.get("KV-Operation") in DELETED
                state = None if gone else state_in(message)
                over = state is None or state.status in TERMINAL
                self.apply(run_id, message.sequence, None if over else state)
            self._after = batch[-1].sequence
