"""The records of bulk operations, of the wheel history and of saved views."""

import re
from enum import StrEnum
from typing import Final

from msgspec import Struct

from pyoco_server.records.decoding import json_record
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.models import Count, RerunMode
from pyoco_server.records.moments import Timestamp

# How many items one bulk operation may have.
MAX_BULK_ITEMS: Final = 100_000
# The highest sequence number of a JetStream stream.
LAST_SEQUENCE: Final = 2**63 - 1


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


class WheelAction(StrEnum):
    UPLOAD = "upload"
    DELETE = "delete"


class WheelActor(Struct, kw_only=True):
    """Both null where no API keys are required."""

    tenant_id: str | None = None
    api_key_id: str | None = None


class Source(Struct, kw_only=True):
    """Where a request came from. The headers of a proxy are recorded, not trusted."""

    remote_addr: str | None = None
    x_forwarded_for: str | None = None
    x_real_ip: str | None = None
    user_agent: str | None = None
    host: str | None = None
    scheme: str | None = None


class WheelEvent(Struct, kw_only=True):
    """An upload or a deletion."""

    event_id: str
    occurred_at: Timestamp
    action: WheelAction
    wheel_name: str
    tags: list[str]
    size_bytes: Count | None
    sha256_hex: str | None
    # The parameter of an upload, which has no effect: the version decides.
    replace: bool | None
    actor: WheelActor
    source: Source


VIEW_NAME_CHARS: Final = 80
VIEW_NAME_EXPECTED: Final = (
    f"expected 1 to {VIEW_NAME_CHARS} printable characters with a letter or a digit, without / or \\, and "
    "without a space at either end"
)
# It is part of a path, where `.` and `..` alone have a meaning.
_VIEW_NAME: Final = re.compile(r"(?=.*\w)[^/\\]+")


def is_view_name(name: str) -> bool:
    return (
        len(name) <= VIEW_NAME_CHARS
        and _VIEW_NAME.fullmatch(name) is not None
        and name.isprintable()
        and name == name.strip()
    )


class ViewFilter(Struct, kw_only=True, omit_defaults=True):
    """The filters of `GET /runs`; none of them: all runs."""

    status: list[str] = []
    flow: str | None = None
    tag: str | None = None
    worker: str | None = None
    origin: str | None = None
    cause: str | None = None
    workflow_yaml_sha256: str | None = None
    # `1h`, `24h`, `7d` or `30d`: updated within this time before the list is read.
    since: str | None = None
    updated_after: float | None = None
    updated_before: float | None = None
    submitted_after: float | None = None
    submitted_before: float | None = None
    q: str | None = None


class SavedView(Struct, kw_only=True, omit_defaults=True):
    """A named list of runs."""

    name: str
    filter: ViewFilter
    sort: str = "updated_at"
    order: str = "desc"
    # Empty: the usual ones.
    columns: list[str] = []
    # Changes with each change of the view, and never returns to an earlier value.
    revision: Count
    created_at: Timestamp
    updated_at: Timestamp
    # The names of the API keys; None where no API keys are required.
    created_by: str | None = None
    updated_by: str | None = None


class SavedViews(Struct, kw_only=True, omit_defaults=True):
    """All views of a tenant, so that names and their number are checked with each write.

    Bucket `pyoco_views`, key `<tenant or =>`.
    """

    tenant_id: str | None = None
    # By name.
    views: list[SavedView] = []
    # How often any of them was saved.
    changes: Count = 0

    @property
    def key(self) -> str:
        return self.tenant_id or NO_TENANT

    def find(self, name: str) -> SavedView | None:
        return next((view for view in self.views if view.name == name), None)


decode_views = json_record(SavedViews)
