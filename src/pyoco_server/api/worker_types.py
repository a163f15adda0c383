"""What the endpoints of workers take and return."""

from typing import Annotated, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from pyoco_server.records.workers.worker_models import (
    WheelSyncState,
    WorkerEvent,
    WorkerHost,
    WorkerState,
    WorkerUsage,
)

_ONLY_TRUE: Final = Meta(
    description="Finish current runs, then exit. It cannot be undone.", extra_json_schema={"enum": [True]}
)


class WorkersQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which workers are listed."""

    scope: Annotated[
        Literal["active", "all"] | UnsetType,
        Meta(description="`active`: RUNNING and IDLE ones; the default, unless `state` is given."),
    ] = UNSET
    state: Annotated[WorkerState | UnsetType, Meta(description="Only workers in this state.")] = UNSET
    include_hidden: Annotated[bool, Meta(description="Hidden ones as well.")] = False
    limit: Annotated[int, Meta(ge=1, le=500, description="How many at most.")] = 100


class WorkerView(Struct, kw_only=True):
    """A worker, as the gateway sees it."""

    worker_id: str
    instance_id: str
    state: WorkerState
    hidden: bool
    # It takes no new runs.
    paused: bool
    # It finishes its runs and ends.
    draining: bool
    last_seen_at: float
    last_heartbeat_at: float
    # When any of its runs last made progress.
    last_progress_at: float | None
    tags: list[str]
    slots: int
    slots_busy: int
    # Why an executor cannot be started: its slot takes no runs.
    executor_error: str | None
    # The flows of its folder, at most 200 of them.
    flows: list[str]
    current_run_id: str | None
    current_run_ids: list[str]
    last_run_id: str | None
    last_run_status: str | None
    last_run_started_at: float | None
    last_run_finished_at: float | None
    stopped_at: float | None
    stop_reason: str | None
    version: str
    pyoco_version: str
    # The wheels that it has installed.
    wheel_sync: WheelSyncState
    # Null: it has not reported them (yet).
    host: WorkerHost | None
    usage: WorkerUsage | None
    # The newest events, the oldest of them first; only in `GET /workers/{worker_id}`.
    history: list[WorkerEvent]


class WorkerPatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a worker is asked to do; at least one of these."""

    hidden: Annotated[bool, Meta(description="Leave it out of lists.")] | UnsetType = UNSET
    paused: Annotated[bool, Meta(description="Take no new runs until it is `false`.")] | UnsetType = UNSET
    drain: Annotated[bool, _ONLY_TRUE] | UnsetType = UNSET


class WorkerSetup(Struct, kw_only=True):
    """How a worker is added to this installation."""

    # A line for a shell, with placeholders where a worker needs credentials of its own.
    command: str
    needs_credentials: bool
    # Whether its NATS address is one of the gateway's machine.
    local: bool


class WorkerChanged(Struct, kw_only=True):
    """What the worker is asked to do from now on, and the state it was in."""

    worker_id: str
    hidden: bool
    paused: bool
    draining: bool
    state: WorkerState
    updated_at: float
