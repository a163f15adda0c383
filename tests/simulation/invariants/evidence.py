"""What a simulation has left behind, as plain data: the invariants read nothing else."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from pyoco_server.records.runs.bulk_models import BulkRecord
from pyoco_server.records.runs.dead_letter_models import DeadLetter
from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.run_models import RunSnapshot
from pyoco_server.records.schedules.schedule_models import ScheduleRecord
from pyoco_server.records.triggers.workflow_event_models import RetryJob
from pyoco_server.records.waits.signal_models import Mailbox
from pyoco_server.records.waits.wait_models import WaitEvent, WaitRecord

# How exactly a process knows the time.
CLOCK_SEC: Final = 0.5


class Response(Enum):
    """What the sender of a request knows."""

    DONE = auto()
    # An error other than 503: nothing has changed.
    REFUSED = auto()
    # 503 of a gateway that could look what became of it: nothing has changed.
    UNAVAILABLE = auto()
    # The gateway died, or said that it does not know.
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request of a user to a gateway."""

    # Mostly the name of the method of `Users`: "submit"; a `resume` is an "answer", a `replay` a "rerun".
    kind: str
    response: Response
    gateway: str = ""
    # What it concerned, or has created; of a bulk operation its id.
    run_id: str | None = None
    wait_id: str | None = None
    # Requests with the same key are one request.
    key: str | None = None
    payload: Any = None
    # Of a workflow event or a delivery: whether it was answered with the run of an earlier one.
    is_duplicate: bool = False
    began_at: float = 0.0
    ended_at: float = 0.0
    text: str = ""


@dataclass(slots=True, kw_only=True)
class Execution:
    """One execution of a task by an executor; not one that was replayed from the journal."""

    run_id: str
    attempt: int
    worker: str
    task: str
    began_at: float
    # None: it was interrupted.
    ended_at: float | None = None
    # What it returned, and the results of others that it has used.
    value: Any = None
    inputs: dict[str, Any] = field(default_factory=dict)
    # What the attempt had read from the journal when it began: the task of each entry with its value.
    replayed: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunWrite:
    """One stored write of a run; without a snapshot it is a delete marker."""

    run_id: str
    revision: int
    at: float
    snapshot: RunSnapshot | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitWrite:
    revision: int
    at: float
    # The same in unix seconds.
    wall: float
    record: WaitRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryWrite:
    """One stored write of a retry job, in unix seconds."""

    wall: float
    job: RetryJob


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterWrite:
    at: float
    letter: DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalWrite:
    run_id: str
    at: float
    entry: JournalEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedLog:
    """A log that was followed to its end."""

    run_id: str
    lines: list[str]
    # None: the run was deleted.
    status: str | None


@dataclass(slots=True, kw_only=True)
class Evidence:
    # By the server's clock, after everything has settled.
    now: float = 0.0
    # As stored at the end.
    runs: dict[str, RunSnapshot] = field(default_factory=dict)
    waits: dict[str, WaitRecord] = field(default_factory=dict)
    # Ids of the waits with an outbox.
    with_outbox: set[str] = field(default_factory=set)
    wait_events: list[WaitEvent] = field(default_factory=list)
    letters: list[DeadLetter] = field(default_factory=list)
    # Runs whose job is in the queue.
    queued: list[str] = field(default_factory=list)
    bulk: dict[str, BulkRecord] = field(default_factory=dict)
    # What was stored on the way, without what the server has lost.
    run_writes: list[RunWrite] = field(default_factory=list)
    wait_writes: list[WaitWrite] = field(default_factory=list)
    retry_writes: list[RetryWrite] = field(default_factory=list)
    letter_writes: list[LetterWrite] = field(default_factory=list)
    journal: list[JournalWrite] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    followed: list[FollowedLog] = field(default_factory=list)
    # By gateway: the status of each run in its list, and the open waits.
    listed_runs: dict[str, dict[str, str]] = field(default_factory=dict)
    open_waits: dict[str, set[str]] = field(default_factory=dict)
    # What was sent to each run.
    mailboxes: dict[str, Mailbox] = field(default_factory=dict)
    # Hooks whose runs do not overlap.
    single_hooks: set[str] = field(default_factory=set)
    # The deliveries that NATS has stored for hooks, and those of them that are still there.
    hook_messages: set[str] = field(default_factory=set)
    waiting_messages: set[str] = field(default_factory=set)
    schedules: list[ScheduleRecord] = field(default_factory=list)
    # How long an ended run is kept; 0: for ever.
    retention_sec: float = 0.0
    # Runs that an operator has removed without a marker.
    purged: set[str] = field(default_factory=set)
    # Whether the server has lost writes that it had acknowledged: then promises about them do not hold.
    lost_writes: bool = False

    def of_kind(self, *kinds: str) -> list[Request]:
        return [request for request in self.requests if request.kind in kinds]


Invariant = Callable[[Evidence], Iterator[str]]
