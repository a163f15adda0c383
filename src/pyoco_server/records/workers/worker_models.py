"""The record of a worker: its state, runs, wheels, host and history."""

import time
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.moments import Timestamp
from pyoco_server.records.open_enum import OpenStrEnum
from pyoco_server.records.value_types import Count, NonNegative


class WorkerState(StrEnum):
    RUNNING = "RUNNING"
    IDLE = "IDLE"
    STOPPED_GRACEFUL = "STOPPED_GRACEFUL"
    DISCONNECTED = "DISCONNECTED"

    @property
    def alive(self) -> bool:
        return self in (WorkerState.RUNNING, WorkerState.IDLE)


class InstalledWheel(Struct, kw_only=True):
    """A wheel that a worker has installed."""

    name: str
    package: str
    version: str
    nuid: str
    sha256_hex: str | None
    installed_at: Timestamp
    # What it requires, and neither the worker's Python nor another of its wheels has.
    missing: list[str] = []


class SkippedWheel(Struct, kw_only=True):
    """A wheel that is selected for a worker, and incompatible with its Python or system."""

    name: str
    reason: str
    # What it needs, and the worker does not have: `python` or `platform`. None in earlier versions.
    needs: str | None = None
    # The version of Python, or the tags of the wheel's name.
    expected: str | None = None


class FailedWheel(Struct, kw_only=True):
    """A wheel that a worker could not install."""

    name: str
    reason: str


class WheelSyncResult(StrEnum):
    DISABLED = "disabled"
    # Before the first sync.
    IDLE = "idle"
    OK = "ok"
    ERROR = "error"


class WheelSyncState(Struct, kw_only=True):
    """The wheels of a worker. Lists are cut after a hundred, counts are not."""

    enabled: bool = False
    last_result: WheelSyncResult = WheelSyncResult.DISABLED
    error: str | None = None
    last_attempt_at: Timestamp | None = None
    last_success_at: Timestamp | None = None
    # When a wheel was last installed or removed: `updated` and `removed` are of that time.
    last_synced_at: Timestamp | None = None
    selected_count: Count = 0
    updated_count: Count = 0
    removed_count: Count = 0
    skipped_incompatible_count: Count = 0
    selected_wheels: list[str] = []
    updated_wheels: list[str] = []
    removed_wheels: list[str] = []
    skipped_incompatible: list[SkippedWheel] = []
    # Of the last sync; it is tried again.
    failed_wheels: list[FailedWheel] = []
    installed_wheels: list[InstalledWheel] = []


# The record is written with each heartbeat: the catalogue has the rest.
MAX_LISTED_FLOWS: Final = 200


class CatalogueReference(Struct, kw_only=True, frozen=True):
    """Where the flows of a worker are described (records/workers/flow_models.py)."""

    # SHA-256 of the encoded catalogue. It becomes a token of a subject.
    digest: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
    flows: Count


class WorkerHost(Struct, kw_only=True, frozen=True):
    """Where a worker runs."""

    name: str
    # Such as `Linux x86_64`.
    system: str
    python: str
    cpus: Count
    # None: not reported by the system.
    memory_bytes: Count | None = None


class WorkerUsage(Struct, kw_only=True, frozen=True):
    """CPU and memory since the last measurement. None: not known yet, or not reported by the system."""

    at: Timestamp
    # Of the worker and all processes of its runs.
    processes: Count = 0
    # 1.0 is one core.
    cpu_cores: NonNegative | None = None
    # Resident. Memory that processes share counts for each of them.
    memory_bytes: Count | None = None
    # Of the whole host; 1.0 is all its cores.
    host_cpu: NonNegative | None = None
    host_memory_bytes: Count | None = None


class WorkerEventKind(OpenStrEnum):
    STARTED = "started"
    STOPPED = "stopped"
    # It was silent for longer than the disconnect timeout; the time is that of its last heartbeat.
    DISCONNECTED = "disconnected"
    RECONNECTED = "reconnected"
    # Commands of operators.
    PAUSED = "paused"
    RESUMED = "resumed"
    DRAIN_REQUESTED = "drain_requested"
    HIDDEN = "hidden"
    SHOWN = "shown"


class WorkerEvent(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What happened to a worker."""

    at: Timestamp
    kind: WorkerEventKind
    # Who did it: the name or the id of the API key, and its tenant. None: without an API key, or nobody.
    by: str | None = None
    tenant_id: str | None = None
    # Why it stopped.
    reason: str | None = None


# The record is written with each heartbeat.
MAX_WORKER_EVENTS: Final = 20


def with_events(history: Iterable[WorkerEvent], *events: WorkerEvent) -> list[WorkerEvent]:
    """The newest events of both, each once, the oldest first."""
    known = dict.fromkeys((*history, *events))
    return sorted(known, key=lambda event: event.at)[-MAX_WORKER_EVENTS:]


class WorkerRecord(Struct, kw_only=True):
    """One worker: bucket `pyoco_workers`, key `<worker_id>`."""

    worker_id: str
    instance_id: str
    state: WorkerState
    last_seen_at: Timestamp
    last_heartbeat_at: Timestamp
    tags: list[str]
    hidden: bool = False
    # Set by an operator: no new runs. It applies to the next worker of this id as well.
    paused: bool = False
    # Set by an operator: this instance finishes its runs, and ends.
    drain_requested_at: Timestamp | None = None
    current_run_id: str | None = None
    current_run_ids: list[str] = []
    last_run_id: str | None = None
    last_run_status: str | None = None
    last_run_started_at: Timestamp | None = None
    last_run_finished_at: Timestamp | None = None
    # When any of its runs last progressed: a heartbeat alone does not show that.
    last_progress_at: Timestamp | None = None
    stopped_at: Timestamp | None = None
    stop_reason: str | None = None
    slots: Count = 1
    slots_busy: Count = 0
    # Why one of its executors cannot be started; its slot takes no runs meanwhile.
    executor_error: str | None = None
    # The flows of its folder, or the first of them.
    flows: list[str] = []
    # All of them, with their descriptions. None: its flows are not known, or its version has no catalogue.
    catalogue: CatalogueReference | None = None
    version: str = ""
    pyoco_version: str = ""
    wheel_sync: WheelSyncState = msgspec.field(default_factory=WheelSyncState)
    # None and empty where a worker of an earlier version has written the record.
    host: WorkerHost | None = None
    usage: WorkerUsage | None = None
    history: list[WorkerEvent] = []

    def observed_state(
        self, *, disconnect_timeout_sec: float, now: float | None = None, lost: bool = False
    ) -> WorkerState:
        """A worker that is `lost` or without heartbeats is DISCONNECTED; a stopped one stays stopped."""
        if self.state is WorkerState.STOPPED_GRACEFUL:
            return self.state
        silent_sec = (time.time() if now is None else now) - self.last_seen_at
        return WorkerState.DISCONNECTED if lost or silent_sec > disconnect_timeout_sec else self.state

    @property
    def draining(self) -> bool:
        """Whether a drain was requested, and it has not ended."""
        return self.drain_requested_at is not None and self.state is not WorkerState.STOPPED_GRACEFUL


decode_worker = record_decoder(WorkerRecord)
