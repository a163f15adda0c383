"""Keeps a snapshot within its size limit, giving up the least useful detail first.

The order: long values and tracebacks of task records, then whole records, then what the run asks people,
then the error's length, and only when even that is not enough the per-task states. Every loss is marked in
the snapshot. What is asked can be read elsewhere, and is the first to go where it takes up the most room; the
ids of the open waits never go.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, structs

from pyoco_server.errors.error_table import Err
from pyoco_server.records.models import RunSnapshot, encode

_PREVIEW_CHARS = 1024
# Below this, cutting a value saves less than the mark that it was cut.
_SMALL_BYTES = 2048
_ERROR_CHARS = 2000
# Of what a run asks people: how much of a snapshot it may take up before it is cut, and what is kept of it.
_SHARE_OF_QUESTIONS = 4
_MESSAGE_CHARS = 300
_QUESTIONS_KEPT = 20
# Record fields in the order in which they are worth losing.
_BULKY_FIELDS = ("latest_calls", "traceback", "stdout", "stderr", "inputs", "output")


def compact_run_snapshot(snapshot: RunSnapshot, max_bytes: int) -> RunSnapshot:
    """The snapshot itself if it fits, else a copy that does; `tasks` goes only when nothing else is left."""
    if _fits(snapshot, max_bytes):
        return snapshot
    if _size_of_questions(snapshot) > max_bytes // _SHARE_OF_QUESTIONS:
        snapshot = _without_questions(snapshot)
        if _fits(snapshot, max_bytes):
            return snapshot
    records = snapshot.task_records or {}
    for shrink in (_cut, _skeleton):
        shrunk = {name: shrink(record) for name, record in records.items()}
        snapshot = structs.replace(snapshot, task_records=shrunk, task_records_truncated=True)
        if _fits(snapshot, max_bytes):
            return snapshot
    snapshot = _without_questions(structs.replace(snapshot, task_records={}))
    return snapshot if _fits(snapshot, max_bytes) else _last_resort(snapshot, max_bytes)


def cut_value(encoded: bytes) -> Raw:
    """A stand-in for a JSON value too long to keep: its size and its beginning."""
    preview = encoded[:_PREVIEW_CHARS].decode("utf-8", "ignore")
    return Raw(msgspec.json.encode({"truncated": True, "bytes": len(encoded), "preview": preview}))


def _fits(snapshot: RunSnapshot, max_bytes: int) -> bool:
    return len(encode(snapshot)) <= max_bytes


def _size_of_questions(snapshot: RunSnapshot) -> int:
    questions = (snapshot.wait_message, snapshot.wait_schema, snapshot.open_waits)
    return sum(len(encode(part)) for part in questions if part is not UNSET)


def _without_questions(snapshot: RunSnapshot) -> RunSnapshot:
    """The run as it waits, with little of what it asks: `GET /waits` has all of it."""
    if not snapshot.open_waits:
        return snapshot
    named, rest = snapshot.open_waits[:_QUESTIONS_KEPT], snapshot.open_waits[_QUESTIONS_KEPT:]
    return structs.replace(
        snapshot,
        wait_message=snapshot.wait_message and snapshot.wait_message[:_MESSAGE_CHARS],
        wait_schema=snapshot.wait_schema and _short_schema(snapshot.wait_schema, named[0].wait_id),
        open_waits=[*named, *(structs.replace(wait, message="") for wait in rest)],
    )


def _short_schema(schema: str, wait_id: str) -> str:
    """A JSON Schema that takes anything, and says where the real one is."""
    if len(schema) <= _SMALL_BYTES:
        return schema
    comment = f"the schema has no room in the snapshot: GET /waits/{wait_id} has it"
    return encode({"$comment": comment}).decode()


def _fields(record: Raw) -> dict[str, Raw]:
    return msgspec.json.decode(record, type=dict[str, Raw])


def _cut(record: Raw) -> Raw:
    """The record with each long value replaced by a preview."""
    fields = _fields(record)
    cut = [name for name in _BULKY_FIELDS if name in fields and len(bytes(fields[name])) > _SMALL_BYTES]
    if not cut:
        return record
    kept: dict[str, Any] = {**fields, **{name: cut_value(bytes(fields[name])) for name in cut}}
    return _marked(kept, cut)


def _skeleton(record: Raw) -> Raw:
    """The record's state, times and error, without its values."""
    fields = _fields(record)
    dropped = [name for name in _BULKY_FIELDS if name in fields]
    return _marked({name: value for name, value in fields.items() if name not in dropped}, dropped)


def _marked(fields: dict[str, Any], lost: list[str]) -> Raw:
    earlier = msgspec.json.decode(fields["truncated"]) if "truncated" in fields else []
    return Raw(msgspec.json.encode({**fields, "truncated": sorted({*earlier, *lost})}))


def _last_resort(snapshot: RunSnapshot, max_bytes: int) -> RunSnapshot:
    if snapshot.error and len(snapshot.error) > _ERROR_CHARS:
        snapshot = structs.replace(snapshot, error=snapshot.error[:_ERROR_CHARS] + "…")
        if _fits(snapshot, max_bytes):
            return snapshot
    note = (
        f"{Err.SNAPSHOT_TOO_LARGE.err_id}: the state of {len(snapshot.tasks)} tasks does not fit into "
        f"PYOCO_MAX_RUN_SNAPSHOT_BYTES={max_bytes}; raise it to see them"
    )
    error = f"{snapshot.error}\n{note}" if snapshot.error else note
    return structs.replace(snapshot, tasks={}, error=error)
