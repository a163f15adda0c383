"""The rule by which a worker process counts as lost.

A process is lost when this gateway, without losing its own connection, has seen it connected to NATS, and
then found it disconnected in several probes in a row during `lost_after_sec` (the setting
`worker_lost_after_sec`). So these are never lost:

- a worker that is slow, busy or suspended (SIGSTOP): its connection stays open;
- a worker that reconnects: that takes a fraction of a second, and one probe that finds it starts anew;
- any worker after an outage of NATS or of the network, until it was seen connected again.

A process that was never seen cannot be told from one that this gateway cannot see: its account does not
import the subject, or its version has no such subscription. So a worker waits up to 2 s for a gateway
to see it before its first run (`worker/session/presence.py`), and no record or claim of an unseen one makes
it lost.

A power failure or a network partition leaves the connection open until the server's own ping timeout. Such a
worker is not lost here; its runs are redelivered after AckWait.
"""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field

import msgspec

from pyoco_server.records.moments import Timestamp
from pyoco_server.records.value_types import Tag
from pyoco_server.records.workers.worker_models import WorkerState

# At least this many probes must find a worker disconnected.
_MIN_MISSES = 2
# A process that was never seen connected is forgotten after this many probes: its record is old, or its
# version has no such subscription.
_UNSEEN_MISSES = 10
# How many lost processes are remembered.
_REMEMBERED = 1000


class WorkerHead(msgspec.Struct, gc=False):
    """The fields of a worker record that are needed here."""

    worker_id: str
    instance_id: str
    state: str
    last_seen_at: Timestamp
    # Subjects are made of them.
    tags: list[Tag] = []


@dataclass(slots=True)
class ProbedWorker:
    worker_id: str
    instance_id: str
    tags: tuple[str, ...]
    # As its record says: the record of another process, or a write of an operator, does not change it.
    last_seen_at: float
    was_connected: bool = False
    # By the monotonic clock.
    missing_since: float = 0.0
    misses: int = 0

    def reset(self) -> None:
        self.was_connected = False
        self.misses = 0


@dataclass(frozen=True, slots=True)
class ProbeResult:
    # Disconnected for the first time.
    missing: list[ProbedWorker] = field(default_factory=list)
    lost: list[ProbedWorker] = field(default_factory=list)


class LostWorkers:
    def __init__(self, lost_after_sec: float) -> None:
        self._lost_after_sec = lost_after_sec
        self._processes: dict[str, ProbedWorker] = {}
        # `last_seen_at` of the last record of each lost process.
        self._lost: OrderedDict[str, float] = OrderedDict()

    @property
    def probed(self) -> Collection[str]:
        """The instance ids to probe."""
        return self._processes.keys()

    def is_lost(self, instance_id: str) -> bool:
        return instance_id in self._lost

    def on_record(self, record: WorkerHead) -> bool:
        """A worker record was written, by the worker or by an operator; whether it is of a new process."""
        instance_id = record.instance_id
        if record.state == WorkerState.STOPPED_GRACEFUL:
            # It has handed back its runs.
            self._processes.pop(instance_id, None)
            self._lost.pop(instance_id, None)
            return False
        process = self._processes.get(instance_id)
        last_seen_at = self._lost.get(instance_id, 0.0) if process is None else process.last_seen_at
        if record.last_seen_at <= last_seen_at:
            # Written by an operator, who changes something else.
            return False
        self._lost.pop(instance_id, None)
        if process is not None:
            process.last_seen_at, process.misses = record.last_seen_at, 0
            return False
        self._processes[instance_id] = ProbedWorker(
            record.worker_id, instance_id, tuple(record.tags), record.last_seen_at
        )
        return True

    def on_outage(self) -> None:
        """Nothing that was seen before the present connection counts."""
        for process in self._processes.values():
            process.reset()

    def on_probe(self, asked: Collection[str], disconnected: Collection[str], now: float) -> ProbeResult:
        """Take the result of a probe of the processes `asked`; it says nothing of those added meanwhile."""
        result = ProbeResult()
        for instance_id in asked:
            process = self._processes.get(instance_id)
            if process is None:
                continue
            if instance_id not in disconnected:
                process.was_connected, process.misses = True, 0
                continue
            process.misses += 1
            if process.misses == 1:
                process.missing_since = now
            if not process.was_connected:
                if process.misses >= _UNSEEN_MISSES:
                    del self._processes[process.instance_id]
            elif process.misses == 1:
                result.missing.append(process)
            elif process.misses >= _MIN_MISSES and now - process.missing_since >= self._lost_after_sec:
                self._remember_lost(process)
                result.lost.append(process)
        return result

    def _remember_lost(self, process: ProbedWorker) -> None:
        del self._processes[process.instance_id]
        self._lost[process.instance_id] = process.last_seen_at
        while len(self._lost) > _REMEMBERED:
            self._lost.popitem(last=False)
