"""The stored records that this process found unreadable: each is logged once, counted, and shown."""

import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pyoco_server.errors import shortened
from pyoco_server.errors.error_table import Err
from pyoco_server.records.value_types import is_run_id

log = logging.getLogger(__name__)

# Of each kind. Beyond that the oldest are forgotten, and are logged again when they are read again.
MAX_KNOWN: Final = 10_000
# A record that no feed follows counts for this long after it was last read: it may have been removed since.
_COUNTED_SEC: Final = 3600.0
_RUN_ID_CHARS: Final = 36


class RecordKind(StrEnum):
    RUN = "run"
    WAIT = "wait"
    WAIT_EVENT = "wait_event"
    WORKER = "worker"
    DEAD_LETTER = "dead_letter"
    LOG = "log"
    JOURNAL = "journal"
    RUN_OBJECT = "run_object"
    BULK = "bulk"
    SCHEDULE = "schedule"
    IDEMPOTENCY_KEY = "idempotency_key"
    API_KEY = "api_key"
    WHEEL = "wheel"
    WHEEL_EVENT = "wheel_event"
    SIGNALS = "signals"
    EVENT = "event"
    TEMPLATE = "template"
    ACTION = "action"
    CHAT_SETTINGS = "chat_settings"
    RECEIPT = "receipt"
    RETRY_JOB = "retry_job"
    AUDIT_ROW = "audit_row"
    AUDIT_ENTRY = "audit_entry"
    HOOK = "hook"
    HOOK_DELIVERY = "hook_delivery"
    REQUEST = "request"
    VIEWS = "views"
    ALERT = "alert"


# A feed reports when these are replaced or removed.
_FOLLOWED: Final = frozenset(
    {
        RecordKind.RUN,
        RecordKind.WAIT,
        RecordKind.SCHEDULE,
        RecordKind.API_KEY,
        RecordKind.TEMPLATE,
        RecordKind.ACTION,
        RecordKind.RETRY_JOB,
        RecordKind.HOOK,
        RecordKind.REQUEST,
        RecordKind.ALERT,
    }
)


@dataclass(slots=True)
class UnreadableEntry:
    kind: RecordKind
    # In its bucket; of a stream: what it belongs to, and its sequence.
    key: str
    revision: int
    problem: str
    # In unix seconds.
    found_at: float
    # By the monotonic clock.
    read_at: float


class UnreadableRecords:
    """The newest known ones of each kind."""

    def __init__(self) -> None:
        self._known: dict[RecordKind, OrderedDict[str, UnreadableEntry]] = {
            kind: OrderedDict() for kind in RecordKind
        }

    def add(self, kind: RecordKind, key: str, revision: int, problem: str, *, logged: bool = False) -> None:
        """The record could not be read; `logged` if an earlier process has logged it."""
        known = self._known[kind]
        entry = known.get(key)
        if entry is not None and entry.revision == revision:
            entry.read_at = time.monotonic()
            return
        known[key] = UnreadableEntry(kind, key, revision, problem, time.time(), time.monotonic())
        known.move_to_end(key)
        if len(known) > MAX_KNOWN:
            known.popitem(last=False)
        if not logged:
            _log(known[key])

    def remove(self, kind: RecordKind, key: str, *, older_than: int | None = None) -> None:
        """The record is readable or gone; or a revision before this one was replaced."""
        known = self._known[kind]
        entry = known.get(key) if known else None
        if entry is not None and (older_than is None or entry.revision < older_than):
            del known[key]

    def clear(self, kind: RecordKind) -> None:
        """All records of this kind are read again."""
        self._known[kind].clear()

    def find(self, kind: RecordKind, key: str) -> UnreadableEntry | None:
        return self._known[kind].get(key)

    def counts(self) -> dict[RecordKind, int]:
        """How many there are of each kind, at most MAX_KNOWN."""
        return {kind: sum(map(_is_counted, known.values())) for kind, known in self._known.items()}

    def newest(self, limit: int) -> list[UnreadableEntry]:
        """The ones that were found last, the newest first."""
        found = [entry for known in self._known.values() for entry in known.values() if _is_counted(entry)]
        return sorted(found, key=lambda entry: entry.found_at, reverse=True)[:limit]


def _is_counted(entry: UnreadableEntry) -> bool:
    return entry.kind in _FOLLOWED or time.monotonic() - entry.read_at < _COUNTED_SEC


def _log(entry: UnreadableEntry) -> None:
    spec = Err.RECORD_UNREADABLE
    fields: dict[str, object] = {"record_kind": entry.kind, "record_key": entry.key}
    if is_run_id(run_id := entry.key[:_RUN_ID_CHARS]):
        fields["run_id"] = run_id
    log.error(
        "%s: %s %s, revision %d: %s",
        spec.en,
        entry.kind,
        shortened(entry.key),
        entry.revision,
        entry.problem,
        extra=spec.log_fields(**fields),
    )
