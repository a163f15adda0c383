"""A run in a list: the item that is returned, and the text that is searched."""

from sys import intern
from typing import Any, Final
from unicodedata import normalize

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from pyoco_server.records.decoding import record_decoder
from pyoco_server.records.moments import Seconds, Timestamp
from pyoco_server.records.runs.artifact_models import ArtifactCounts
from pyoco_server.records.runs.causes import Cause, CauseKind, cause_of
from pyoco_server.records.runs.run_models import PARKED, RunStatus, snapshot_decoder
from pyoco_server.records.value_types import Count, RunId, StoredName

_SHOWN_ERROR: Final = 300
_SHOWN_MESSAGE: Final = 300
_SHOWN_SCHEMA: Final = 2000
_SHOWN_PARAMS: Final = 300
# A character takes at most four bytes.
_SHOWN_PARAMS_BYTES: Final = 4 * _SHOWN_PARAMS
# Bounds on the searched text, which keep searching cheap.
_SEARCHED_TAGS: Final = 500
_SEARCHED_ERROR: Final = 1000
_SEARCHED_PARAMS: Final = 2000
# One character may be folded to several.
_SEARCHED_IN_ALL: Final = 8000

# After an answer, while others are missing.
_PENDING: Final = "PENDING"
_OVER: Final = {"SUCCEEDED", "FAILED"}


class RunItem(Struct, kw_only=True, gc=False):
    """One run in a list; `GET /runs/{run_id}` has the rest."""

    run_id: RunId
    flow_name: str
    status: str
    tag: str
    tags: list[str]
    updated_at: float
    submitted_at: float | None = None
    start_time: float | None = None
    end_time: float | None = None
    # Of a run that was started and has ended.
    duration_sec: float | None = None
    worker_id: str | None = None
    # When its worker last reported it; None in an index that an earlier version has written.
    heartbeat_at: float | None = None
    attempt: int = 0
    reason: str | None = None
    # Its first 300 characters.
    error: str | None = None
    cancel_requested_at: float | None = None
    origin_run_id: str | None = None
    # Absent: `api`, or `rerun` of the origin.
    cause: Cause | UnsetType = UNSET
    # Not before this time; absent: at once.
    start_at: float | UnsetType = UNSET
    workflow_yaml_sha256: str | None = None
    tenant_id: str | None = None
    tasks_total: int = 0
    # Of these: succeeded or failed. A cancelled task has not finished.
    tasks_over: int = 0
    # With `include=params`: as JSON, the first 300 characters. Absent: it has none.
    params_preview: str | UnsetType = UNSET
    # Absent: it has no files.
    artifacts: ArtifactCounts | UnsetType = UNSET
    # Of a run with open waits: the message and deadline of the first one.
    wait_message: str | None = None
    # A JSON Schema as text; None where it has more than 2,000 characters.
    wait_schema: str | None = None
    wait_deadline_at: float | None = None
    open_waits: int = 0
    # Of such a run: its `run_id`, under the name that clients of waiting runs expect.
    id: str | UnsetType = UNSET

    @property
    def queue_sec(self) -> float | None:
        """From its submission, or its `start_at`, to its start."""
        if self.start_time is None or self.submitted_at is None:
            return None
        # Negative when the clocks of two machines differ.
        return max(0.0, self.start_time - max(self.submitted_at, self.start_at or 0.0))

    @property
    def indexed_cause(self) -> tuple[str | None, str | None]:
        """Its kind, and kind and id; None: `api`, which most runs have, and which has no id."""
        cause = cause_of(self.cause, self.origin_run_id)
        return (None, None) if cause.kind is CauseKind.API else (cause.kind, str(cause))


class RunSummary(Struct, kw_only=True, gc=False):
    item: RunItem
    # Folded: a line with the flow name, one with the tags, the error, then each key and value of the params.
    text: str
    # Whether it was continued, or has ended, after a wait.
    has_waited: bool = False
    # The beginning of its params, for lists that show them; None: it has none, or is read from the index.
    params: str | None = None


class _Waiting(Struct):
    """The fields needed of a run with open waits."""

    open_waits: list[Raw] = []
    wait_message: str | None = None
    wait_schema: str | None = None
    wait_deadline_at: Timestamp | None = None


class _Status(Struct):
    status: RunStatus


class _Stored(Struct):
    """The fields needed of a snapshot; the rest is not decoded."""

    run_id: str
    flow_name: StoredName
    status: str
    updated_at: Timestamp
    params: Raw = Raw(b"{}")
    tasks: dict[str, str] = {}
    tag: StoredName = ""
    tags: list[str] = []
    submitted_at: Timestamp | None = None
    worker_id: str | None = None
    heartbeat_at: Timestamp | None = None
    attempt: Count = 0
    continuations: Count = 0
    start_time: Timestamp | None = None
    end_time: Timestamp | None = None
    reason: str | None = None
    error: str | None = None
    cancel_requested_at: Timestamp | None = None
    workflow_yaml_sha256: str | None = None
    origin_run_id: str | None = None
    cause: Cause | UnsetType = UNSET
    start_at: Timestamp | UnsetType = UNSET
    tenant_id: str | None = None
    waited_sec: Seconds | None = None
    artifacts: ArtifactCounts | UnsetType = UNSET


_decode = snapshot_decoder(_Stored)
_decode_waiting = record_decoder(_Waiting, whole=False)
_KNOWN_STATUSES: Final = frozenset(map(str, RunStatus))
_decode_status = record_decoder(_Status, whole=False)
# Numbers are searched as they were written.
_decode_params = msgspec.json.Decoder(float_hook=str).decode


def summary_of(data: bytes) -> RunSummary:
    """The summary of a stored snapshot; UnreadableRecord if it is invalid."""
    run = _decode(data)
    if run.status not in _KNOWN_STATUSES:
        # One of a newer version is kept.
        _decode_status(data)
    item = RunItem(
        run_id=run.run_id,
        # Thousands of summaries are held in memory, with few different values here.
        flow_name=intern(run.flow_name),
        status=intern(run.status),
        tag=intern(run.tag),
        tags=run.tags,
        updated_at=run.updated_at,
        submitted_at=run.submitted_at,
        start_time=run.start_time,
        end_time=run.end_time,
        duration_sec=_duration(run),
        worker_id=run.worker_id,
        heartbeat_at=run.heartbeat_at,
        attempt=run.attempt - run.continuations,
        reason=run.reason,
        error=run.error if run.error is None else run.error[:_SHOWN_ERROR],
        cancel_requested_at=run.cancel_requested_at,
        origin_run_id=run.origin_run_id,
        cause=run.cause,
        start_at=run.start_at,
        workflow_yaml_sha256=run.workflow_yaml_sha256,
        tenant_id=run.tenant_id,
        tasks_total=len(run.tasks),
        tasks_over=sum(map(_OVER.__contains__, run.tasks.values())),
        artifacts=run.artifacts,
    )
    if run.status in PARKED or (run.status == _PENDING and run.waited_sec is not None):
        _add_waits(item, _decode_waiting(data))
    return RunSummary(
        item=item,
        text=_text(run),
        has_waited=run.waited_sec is not None,
        params=_shown_params(run.params),
    )


def _shown_params(params: Raw) -> str | None:
    beginning = bytes(memoryview(params)[:_SHOWN_PARAMS_BYTES])
    return None if beginning == b"{}" else beginning.decode("utf-8", "ignore")[:_SHOWN_PARAMS]


def _add_waits(item: RunItem, waiting: _Waiting) -> None:
    item.id = item.run_id
    item.open_waits = len(waiting.open_waits)
    item.wait_deadline_at = waiting.wait_deadline_at
    if waiting.wait_message is not None:
        item.wait_message = waiting.wait_message[:_SHOWN_MESSAGE]
    # Part of a schema would be another schema.
    if waiting.wait_schema is not None and len(waiting.wait_schema) <= _SHOWN_SCHEMA:
        item.wait_schema = waiting.wait_schema


def folded(text: str) -> str:
    """NFKC and case folding: the form that both sides of a text comparison are brought to."""
    # Most texts are ASCII, where that is the same and takes a fraction of the time.
    if text.isascii():
        return text.lower()
    return normalize("NFKC", normalize("NFKC", text).casefold())


def searched(text: str) -> str:
    # SQLite takes NUL for the end of a text.
    return folded(text).replace("\0", " ")


def _duration(run: _Stored) -> float | None:
    if run.start_time is None or run.end_time is None:
        return None
    # The times may come from the clocks of two workers.
    return max(0.0, run.end_time - run.start_time)


def _text(run: _Stored) -> str:
    # Most runs have one tag.
    tags = run.tag if run.tags == [run.tag] else " ".join({run.tag: None, **dict.fromkeys(run.tags)})
    error = "" if run.error is None else run.error[:_SEARCHED_ERROR]
    text = searched(f"{run.flow_name}\n{tags[:_SEARCHED_TAGS]}\n{error}\n{_params_text(run.params)}")
    return text[:_SEARCHED_IN_ALL]


def _params_text(params: Raw) -> str:
    """Each key and each scalar value, in order."""
    try:
        decoded = _decode_params(params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The run is listed all the same.
        return ""
    found: list[str] = []
    room = _SEARCHED_PARAMS
    # Not recursive: params may be nested deeper than Python's stack. The next value is last.
    rest: list[Any] = [decoded]
    while rest and room > 0:
        value = rest.pop()
        if isinstance(value, dict):
            rest += reversed([part for pair in value.items() for part in pair])
        elif isinstance(value, list):
            rest += reversed(value)
        else:
            text = "null" if value is None else str(value)
            found.append(text[:room])
            room -= len(text) + 1
    return "\n".join(found)
