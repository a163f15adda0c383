"""The runs that have not ended, kept up to date by the feed of the runs bucket.

The sweep decides by a run's silence: how long this process has seen no new revision of it. No clocks of
different machines are compared, and time without a connection does not count.

There may be very many parked runs, which need nothing until a wait of theirs is over: they are held in a
small form, and the sweep does not visit them. Very many queued runs share their state.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from sys import intern

import msgspec

from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.records.moments import Seconds, Timestamp
from pyoco_server.records.runs.run_models import PARKED, DeliveryId, RunStatus, snapshot_decoder
from pyoco_server.records.value_types import Count, StoredTag

# A turn of the event loop for so many: about half a millisecond.
_GROUP = 250
# Tags times generations and time limits of queued runs; more than this are not usual.
_SHARED_STATES = 1000


class AwaitedId(msgspec.Struct, gc=False):
    wait_id: str


class RunState(msgspec.Struct, gc=False):
    """The fields of a snapshot that the sweep needs. One is held for each open run, so it is small."""

    status: str
    heartbeat_at: Timestamp
    tag: StoredTag = ""
    delivery: DeliveryId | None = None
    worker_instance: str = ""
    handed_over_at: Timestamp | None = None
    # How often it has waited: a job is for one generation.
    generation: Count = 0
    start_time: Timestamp | None = None
    # Of a run that is not in the queue before.
    start_at: Timestamp | msgspec.UnsetType = msgspec.UNSET
    timeout_sec: Seconds | None = None
    # How much of that it has used; None with an owner of an older version.
    used_sec: Seconds | None = None
    cancel_requested_at: Timestamp | None = None
    # In total, without the current waits.
    waited_sec: Seconds = 0.0
    open_waits: tuple[AwaitedId, ...] = ()

    def __post_init__(self) -> None:
        # Many runs share these.
        self.status, self.tag = intern(self.status), intern(self.tag)
        self.worker_instance = intern(self.worker_instance)


decode_state = snapshot_decoder(RunState, whole=False)


def state_in(message: StreamMessage) -> RunState | None:
    """The state in a message of the runs bucket; None for a delete marker."""
    return None if message.is_marker else decode_state(message.data)


class OpenRun(msgspec.Struct, gc=False):
    run_id: str
    state: RunState
    revision: int
    # By the monotonic clock.
    silent_since: float

    @property
    def silent_sec(self) -> float:
        return time.monotonic() - self.silent_since

    def reset_silence(self) -> None:
        self.silent_since = time.monotonic()


class _ParkedRun(msgspec.Struct, gc=False):
    """What is held of a parked run."""

    run_id: str
    status: str
    tag: str
    generation: int
    revision: int
    silent_since: float
    # What follows the run id in the ids of its waits, separated by spaces.
    waits: str

    @classmethod
    def of(cls, run: OpenRun) -> "_ParkedRun":
        waits = " ".join(wait.wait_id.removeprefix(run.run_id) for wait in run.state.open_waits)
        state = run.state
        return cls(
            run.run_id, state.status, state.tag, state.generation, run.revision, run.silent_since, waits
        )

    def as_open(self) -> OpenRun:
        waits = tuple(AwaitedId(f"{self.run_id}{suffix}") for suffix in self.waits.split())
        state = RunState(self.status, 0.0, self.tag, generation=self.generation, open_waits=waits)
        return OpenRun(self.run_id, state, self.revision, self.silent_since)


class OpenRuns:
    def __init__(self) -> None:
        # When the bucket was created; empty until its feed is read.
        self.bucket_created = ""
        self._runs: dict[str, OpenRun] = {}
        self._parked: dict[str, _ParkedRun] = {}
        # The states of queued runs, by what is known of them.
        self._queued_states: dict[tuple[str, int, bool, float | None], RunState] = {}
        # Deleted keys whose marker may still be in the bucket, and when it was seen; oldest first.
        self.markers: OrderedDict[str, float] = OrderedDict()
        self._on_ended: list[Callable[[str], None]] = []
        self._on_parked: list[Callable[[str, int], None]] = []
        self._on_waits_changed: list[Callable[[str], None]] = []
        self._on_ended_with_waits: list[Callable[[str], None]] = []
        self._on_scheduled: list[Callable[[str, float], None]] = []

    def __len__(self) -> int:
        return len(self._runs) + len(self._parked)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs or run_id in self._parked

    def get(self, run_id: str) -> OpenRun | None:
        if (parked := self._parked.get(run_id)) is not None:
            return parked.as_open()
        return self._runs.get(run_id)

    def shared_id(self, run_id: str) -> str:
        """The string that is held here for this id: others that hold many ids share it."""
        run = self._parked.get(run_id) or self._runs.get(run_id)
        return run_id if run is None else run.run_id

    @property
    def started(self) -> list[str]:
        started = [run.run_id for run in self._runs.values() if run.state.start_time is not None]
        return [*started, *self._parked]

    def on_ended(self, callback: Callable[[str], None]) -> None:
        """Register a callback: called with the id of each run that has ended or was deleted."""
        self._on_ended.append(callback)

    def on_parked(self, callback: Callable[[str, int], None]) -> None:
        """Register a callback: called with the id and the generation of each run that is parked.

        A run may have continued and waited again between two reads of the bucket.
        """
        self._on_parked.append(callback)

    def on_waits_changed(self, callback: Callable[[str], None]) -> None:
        """Register a callback: called with the id of each run whose named open waits have changed.

        Also with that of a run that is parked for them.
        """
        self._on_waits_changed.append(callback)

    def on_ended_with_waits(self, callback: Callable[[str], None]) -> None:
        """Register a callback: called with the id of each run that ended, or was deleted, with open waits."""
        self._on_ended_with_waits.append(callback)

    def on_scheduled(self, callback: Callable[[str, float], None]) -> None:
        """Register a callback: called with the id and the start of each run that is to start later."""
        self._on_scheduled.append(callback)

    async def groups(self) -> AsyncIterator[list[OpenRun]]:
        """All of them in groups, yielding to the event loop in between; they may change meanwhile."""
        async for group in self.active_groups():
            yield group
        parked = list(self._parked)
        for start in range(0, len(parked), _GROUP):
            found = [self.get(run_id) for run_id in parked[start : start + _GROUP]]
            yield [run for run in found if run is not None]
            await asyncio.sleep(0)

    async def active_groups(self) -> AsyncIterator[list[OpenRun]]:
        """The same without the parked ones."""
        runs = list(self._runs.values())
        for start in range(0, len(runs), _GROUP):
            yield runs[start : start + _GROUP]
            await asyncio.sleep(0)

    def silent_sec(self, run_id: str, revision: int) -> float:
        """How long the run has been at this revision; 0 for an unknown run or another revision."""
        run = self.get(run_id)
        return run.silent_sec if run is not None and run.revision == revision else 0.0

    def forget(self, run_id: str, revision: int) -> None:
        """Drop the run unless a newer revision was read meanwhile."""
        run = self.get(run_id)
        if run is not None and run.revision == revision:
            self._remove(run_id)

    def reset_silence(self) -> None:
        """Count silence from now on: writes until now may have been missed."""
        for run in self._runs.values():
            run.reset_silence()
        for parked in self._parked.values():
            parked.silent_since = time.monotonic()

    def reset(self, created: str) -> None:
        """Forget everything: later writes are of this bucket."""
        self.bucket_created = created
        self._runs.clear()
        self._parked.clear()
        self.markers.clear()

    def apply(self, run_id: str, revision: int, state: RunState | None) -> None:
        """Apply one write; without a state the run has ended, or was deleted."""
        last = self._remove(run_id)
        if state is None:
            self._report_end(run_id, last)
            return
        if last is not None:
            # Others hold this string, and would keep it beside a new one.
            run_id = last.run_id
        held = self._shared(state) if _is_queued(state) else state
        run = OpenRun(run_id, held, revision, time.monotonic())
        if state.status in PARKED:
            self._parked[run_id] = _ParkedRun.of(run)
        else:
            self._runs[run_id] = run
        self._report_write(run_id, last, state)

    def _shared(self, state: RunState) -> RunState:
        """One state for all queued runs that differ only in times: those matter for delivered runs only."""
        key = (state.tag, state.generation, state.start_time is not None, state.timeout_sec)
        found = self._queued_states.get(key)
        if found is None:
            if len(self._queued_states) >= _SHARED_STATES:
                self._queued_states.clear()
            start_time = None if state.start_time is None else 0.0
            found = RunState(
                state.status,
                0.0,
                state.tag,
                generation=state.generation,
                start_time=start_time,
                timeout_sec=state.timeout_sec,
            )
            self._queued_states[key] = found
        return found

    def _report_write(self, run_id: str, before: OpenRun | None, state: RunState) -> None:
        if state.status == RunStatus.SCHEDULED:
            for on_scheduled in self._on_scheduled:
                on_scheduled(run_id, state.start_at or 0.0)
        if _is_newly_parked(before, state):
            for on_parked in self._on_parked:
                on_parked(run_id, state.generation)
        if _has_other_waits(before, state):
            for on_waits_changed in self._on_waits_changed:
                on_waits_changed(run_id)

    def _report_end(self, run_id: str, last: OpenRun | None) -> None:
        for callback in self._on_ended:
            callback(run_id)
        if last is not None and last.state.open_waits:
            for callback in self._on_ended_with_waits:
                callback(run_id)

    def _remove(self, run_id: str) -> OpenRun | None:
        parked = self._parked.pop(run_id, None)
        return self._runs.pop(run_id, None) if parked is None else parked.as_open()

    def remember_marker(self, run_id: str) -> None:
        self.markers.pop(run_id, None)
        self.markers[run_id] = time.monotonic()

    def take_markers(self, *, older_than_sec: float, most: int) -> list[tuple[float, str]]:
        """Take the oldest markers, for the caller to remove from the bucket.

        They are taken first, because `forget_markers` drops those that are gone from the bucket.
        """
        before = time.monotonic() - older_than_sec
        taken: list[tuple[float, str]] = []
        while self.markers and len(taken) < most:
            run_id, seen_at = next(iter(self.markers.items()))
            if seen_at >= before:
                break
            del self.markers[run_id]
            taken.append((seen_at, run_id))
        return taken

    def put_back_markers(self, markers: list[tuple[float, str]]) -> None:
        """Undo `take_markers`, except for markers that were seen again."""
        for seen_at, run_id in reversed(markers):
            if run_id not in self.markers:
                self.markers[run_id] = seen_at
                self.markers.move_to_end(run_id, last=False)

    def forget_markers(self, run_ids: Iterable[str]) -> None:
        for run_id in run_ids:
            self.markers.pop(run_id, None)


def _is_queued(state: RunState) -> bool:
    """Whether it is in the queue, and nothing else is known of it; there may be very many of these."""
    return (
        state.status == RunStatus.PENDING
        and state.delivery is None
        and state.cancel_requested_at is None
        and not state.worker_instance
        and not state.open_waits
    )


def _is_newly_parked(before: OpenRun | None, now: RunState) -> bool:
    if now.status not in PARKED:
        return False
    return before is None or (before.state.status, before.state.generation) != (now.status, now.generation)


def _has_other_waits(before: OpenRun | None, now: RunState) -> bool:
    if not now.open_waits:
        return False
    return before is None or (before.state.status, before.state.open_waits) != (now.status, now.open_waits)
