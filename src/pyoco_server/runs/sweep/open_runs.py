"""The runs that have not ended, as the feed of the runs bucket tells of them.

What counts for a decision is how long a run has been quiet: for how long this program has seen no other
revision of it. No clock is compared with another machine's, and time during which nothing could be seen
does not count.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from sys import intern

import msgspec

from pyoco_server.broker.jetstream.stream_reads import StreamMessage
from pyoco_server.records.models import RunStatus, Tag

_GROUP = 1000


class AwaitedId(msgspec.Struct, gc=False):
    wait_id: str


class RunState(msgspec.Struct, gc=False):
    """All that is wanted of a snapshot here; the rest of it is not decoded.

    It is held for every run that has not ended, and people let many wait: what it takes is kept small.
    """

    status: str
    heartbeat_at: float
    tag: Tag = ""
    delivery: tuple[int, int] | None = None
    # How often it has begun to wait for people: a job is for one generation.
    generation: int = 0
    start_time: float | None = None
    timeout_sec: float | None = None
    # How much of that it had used; None if its owner did not say.
    used_sec: float | None = None
    cancel_requested_at: float | None = None
    # For how long it has waited for people, until it went on the last time; and for which answers it waits.
    waited_sec: float = 0.0
    open_waits: tuple[AwaitedId, ...] = ()

    def __post_init__(self) -> None:
        # Many runs have the same.
        self.status, self.tag = intern(self.status), intern(self.tag)


decode_state = msgspec.json.Decoder(RunState).decode


def state_in(message: StreamMessage) -> RunState | None:
    """What a message of the runs bucket says; None when it only says that the key was deleted."""
    return None if message.is_marker else decode_state(message.data)


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

    def reset_silence(self) -> None:
        self.quiet_since = time.monotonic()


class OpenRuns:
    """Told by the feed of the runs bucket."""

    def __init__(self) -> None:
        # When the bucket was made: revisions of another one mean nothing here.
        self.created = ""
        self._runs: dict[str, OpenRun] = {}
        # Keys that were deleted and whose marker may still be there, with when it was seen; the oldest first.
        self.markers: OrderedDict[str, float] = OrderedDict()
        self._on_over: list[Callable[[str], None]] = []
        self._on_waiting: list[Callable[[str, int], None]] = []
        self._on_unanswered: list[Callable[[str], None]] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._runs

    @property
    def begun(self) -> list[str]:
        """Those that a worker has begun."""
        return [run.run_id for run in self._runs.values() if run.state.start_time is not None]

    def on_over(self, callback: Callable[[str], None]) -> None:
        """Have it called with the id of each run that has ended or is gone."""
        self._on_over.append(callback)

    def on_waiting(self, callback: Callable[[str, int], None]) -> None:
        """Have it called with the id and the generation of each run that begins to wait for people.

        A run may have gone on and asked again between two looks at the bucket.
        """
        self._on_waiting.append(callback)

    def on_unanswered(self, callback: Callable[[str], None]) -> None:
        """Have it called with the id of each run that has ended or is gone while people were asked."""
        self._on_unanswered.append(callback)

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

    def forget(self, run_id: str, revision: int) -> None:
        """Drop this revision of the run; a newer one that was read meanwhile is another state, and stays."""
        run = self._runs.get(run_id)
        if run is not None and run.revision == revision:
            del self._runs[run_id]

    def observe_anew(self) -> None:
        """What happened until now was perhaps not to be seen: nobody has been quiet yet."""
        for run in self._runs.values():
            run.reset_silence()

    def begin(self, created: str) -> None:
        """Forget everything: what is told from now on is of this bucket."""
        self.created = created
        self._runs.clear()
        self.markers.clear()

    def take(self, run_id: str, revision: int, state: RunState | None) -> None:
        """Learn from one write; without a state the run has ended, or is gone."""
        if state is not None:
            before = self._runs.get(run_id)
            self._runs[run_id] = OpenRun(run_id, state, revision, time.monotonic())
            if _begins_to_wait(before, state):
                for begins in self._on_waiting:
                    begins(run_id, state.generation)
            return
        last = self._runs.pop(run_id, None)
        for callback in self._on_over:
            callback(run_id)
        if last is not None and last.state.open_waits:
            for callback in self._on_unanswered:
                callback(run_id)

    def remember_marker(self, run_id: str) -> None:
        self.markers.pop(run_id, None)
        self.markers[run_id] = time.monotonic()

    def take_markers(self, *, older_than_sec: float, most: int) -> list[tuple[float, str]]:
        """The oldest markers, out of what is remembered: whoever takes them removes them from the bucket.

        They are taken first, because `forget_markers` forgets those that have gone from the bucket.
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
        """They could not be removed, and are the oldest ones still, unless they were seen again."""
        for seen_at, run_id in reversed(markers):
            if run_id not in self.markers:
                self.markers[run_id] = seen_at
                self.markers.move_to_end(run_id, last=False)

    def forget_markers(self, run_ids: Iterable[str]) -> None:
        """They were removed from the bucket."""
        for run_id in run_ids:
            self.markers.pop(run_id, None)


def _begins_to_wait(before: OpenRun | None, now: RunState) -> bool:
    if now.status != RunStatus.WAITING_HUMAN:
        return False
    return before is None or (before.state.status, before.state.generation) != (now.status, now.generation)
