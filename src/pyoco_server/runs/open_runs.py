"""The runs that have not ended, known by following the runs bucket: each write is read once at most.

What counts for a decision is how long a run has been quiet: for how long this program has seen no other
revision of it. No clock is compared with another machine's, and time during which nothing could be seen
does not count.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from pyoco_server.broker.connection import Connection
from pyoco_server.broker.stream_reads import StreamMessage, read_batch, stream_state
from pyoco_server.models import TERMINAL, Tag

log = logging.getLogger(__name__)

# Between two batches, so that a gateway that reads a million runs goes on serving.
_BREATH_SEC = 0.01
_BATCH_BYTES = 4 * 1024 * 1024
_GROUP = 1000
_DELETED = {"DEL", "PURGE"}


class RunState(msgspec.Struct):
    """All that is wanted of a snapshot here; the rest of it is not decoded."""

    status: str
    heartbeat_at: float
    tag: Tag = ""
    delivery: tuple[int, int] | None = None
    start_time: float | None = None
    timeout_sec: float | None = None
    cancel_requested_at: float | None = None


_decode = msgspec.json.Decoder(RunState).decode


def state_in(message: StreamMessage) -> RunState | None:
    """What a message of the runs bucket says; None when it only says that the key was deleted."""
    return None if message.headers.get("KV-Operation") in _DELETED else _decode(message.data)


@dataclass(slots=True)
class OpenRun:
    """A run that has not ended, as it was last seen."""

    run_id: str
    state: RunState
    revision: int
    # On this program's own monotonic clock.
    quiet_since: float

    @property
    def quiet_sec(self) -> float:
        return time.monotonic() - self.quiet_since


class OpenRuns:
    """Follows the `pyoco_runs` bucket."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        bucket = connection.config.runs_kv_bucket
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}."
        self._after = 0
        # When the bucket was made: revisions of another one mean nothing here.
        self.created = ""
        self._runs: dict[str, OpenRun] = {}
        # Keys that were deleted and whose marker may still be there, with when it was seen.
        self.markers: deque[tuple[float, str]] = deque()

    def __len__(self) -> int:
        return len(self._runs)

    async def groups(self) -> AsyncIterator[list[OpenRun]]:
        """All of them, some at a time, so that others get their turn; they may change meanwhile."""
        runs = list(self._runs.values())
        for start in range(0, len(runs), _GROUP):
            yield runs[start : start + _GROUP]
            await asyncio.sleep(0)

    def quiet_sec(self, run_id: str, revision: int) -> float:
        """For how long the run has been seen at this revision; 0 for one that is seen the first time."""
        run = self._runs.get(run_id)
        return run.quiet_sec if run is not None and run.revision == revision else 0.0

    def forget(self, run_id: str) -> None:
        self._runs.pop(run_id, None)

    def observe_anew(self) -> None:
        """What happened until now was perhaps not to be seen: nobody has been quiet yet."""
        now = time.monotonic()
        for run in self._runs.values():
            run.quiet_since = now

    async def catch_up(self) -> AsyncIterator[list[str]]:
        """Read what was written since; yields, batch by batch, the runs that have ended or are gone."""
        created = (await stream_state(self._connection, self._stream)).created
        if created != self.created:
            self.created, self._after = created, 0
            self._runs.clear()
            self.markers.clear()
        while batch := await read_batch(
            self._connection, self._stream, f"{self._prefix}*", after=self._after, max_bytes=_BATCH_BYTES
        ):
            over = [run_id for run_id in map(self._take, batch) if run_id]
            self._after = batch[-1].sequence
            yield over
            await asyncio.sleep(_BREATH_SEC)

    def _take(self, message: StreamMessage) -> str | None:
        """Learn from one write; the id of the run if it is not open any more."""
        run_id = message.subject.removeprefix(self._prefix)
        try:
            state = state_in(message)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            log.warning("the sweep cannot read a snapshot: %s", error, extra={"run_id": run_id})
        else:
            if state is None:
                self.markers.append((time.monotonic(), run_id))
            elif state.status not in TERMINAL:
                self._runs[run_id] = OpenRun(run_id, state, message.sequence, time.monotonic())
                return None
        self._runs.pop(run_id, None)
        return run_id
