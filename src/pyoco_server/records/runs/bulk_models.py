"""The records of bulk operations, on runs or on dead letters."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from pyoco_server.records.moments import Timestamp
from pyoco_server.records.runs.run_models import RerunMode
from pyoco_server.records.value_types import Count

# How many items one bulk operation may have.
MAX_BULK_ITEMS: Final = 100_000


class BulkAction(StrEnum):
    CANCEL = "cancel"
    RERUN = "rerun"
    REPLAY_LETTERS = "dlq-replay"
    DELETE_LETTERS = "dlq-delete"

    @property
    def of_letters(self) -> bool:
        return self in (BulkAction.REPLAY_LETTERS, BulkAction.DELETE_LETTERS)


class BulkState(StrEnum):
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    STOPPED = "STOPPED"


class BulkError(Struct, kw_only=True):
    """Why the operation failed for one item."""

    item: str
    err_id: str | None
    message: str


class BulkRecord(Struct, kw_only=True):
    """One bulk operation: bucket `pyoco_bulk`, key `<bulk_id>`; its items are in `<bulk_id>.<part>`."""

    bulk_id: str
    action: BulkAction
    state: BulkState
    # The filter of the request, for display.
    query: dict[str, list[str]]
    matched: Count
    # Counted in the order of the items; `skipped`: there was nothing to do.
    done: Count = 0
    skipped: Count = 0
    failed: Count = 0
    # The first ones.
    errors: list[BulkError] = []
    created_at: Timestamp
    updated_at: Timestamp
    # When its first items were processed: until then it can be withdrawn.
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None
    mode: RerunMode | None = None
    # Of a rerun that keeps the answers of people.
    keep_answers: bool = False
    reason: str | None = None
    delete: bool = False
    # Of the caller; None where no API keys are required.
    tenant_id: str | None = None
    api_key_id: str | None = None

    @property
    def handled(self) -> int:
        return self.done + self.skipped + self.failed

    @property
    def has_started(self) -> bool:
        # A gateway of an earlier version does not write `started_at`.
        return self.started_at is not None or self.handled > 0 or self.state is not BulkState.RUNNING


class BulkItem(Struct, frozen=True):
    """A run id, or the sequence of a dead letter."""

    name: str
    # Of the content of a dead letter: another letter may get its sequence. None in items of earlier versions.
    digest: str | None = None


class LetterState(StrEnum):
    """Of a dead letter: closed when a rerun of its run has completed."""

    OPEN = "open"
    CLOSED = "closed"
