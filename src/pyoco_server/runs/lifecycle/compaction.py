"""Compacts a snapshot to its size limit, dropping the least useful detail first.

The order: long values and tracebacks of task records, whole records, the texts of open waits, the end of the
error, and last the states of the tasks. What was dropped is marked in the snapshot. The texts of waits can be
read elsewhere, and go first where they take up most; the ids of the open waits always stay.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, structs

from pyoco_server.errors.error_table import Err
from pyoco_server.records.runs.params_preview import preview_of
from pyoco_server.records.runs.run_models import RunSnapshot, encode

# Cutting a smaller value saves less than the marker takes.
_SMALL_BYTES = 2048
_ERROR_CHARS = 2000
# The texts of waits may take up a quarter of a snapshot before they are cut.
_WAITS_SHARE = 4
_MESSAGE_CHARS = 300
_WAITS_KEPT = 20
# The record fields that are cut, then dropped.
_BULKY_FIELDS = ("latest_calls", "traceback", "stdout", "stderr", "inputs", "output")


def compact_run_snapshot(snapshot: RunSnapshot, max_bytes: int) -> RunSnapshot:
    """The snapshot itself if it fits, otherwise a compacted copy."""
    if _fits(snapshot, max_bytes):
        return snapshot
    if _size_of_waits(snapshot) > max_bytes // _WAITS_SHARE:
        snapshot = _without_wait_texts(snapshot)
        if _fits(snapshot, max_bytes):
            return snapshot
    records = snapshot.task_records or {}
    for shrink in (_cut, _skeleton):
        shrunk = {name: shrink(record) for name, record in records.items()}
        snapshot = structs.replace(snapshot, task_records=shrunk, task_records_truncated=True)
        if _fits(snapshot, max_bytes):
            return snapshot
    snapshot = _without_wait_texts(structs.replace(snapshot, task_records={}))
    return snapshot if _fits(snapshot, max_bytes) else _last_resort(snapshot, max_bytes)


def cut_value(encoded: bytes) -> Raw:
    """A replacement for a long JSON value: its size and its beginning."""
    return Raw(msgspec.json.encode(preview_of(encoded)))


def cut_bytes(value: bytes | bytearray | memoryview, size: int) -> Raw:
    """The same for bytes: their size, and the beginning of their base64."""
    beginning = msgspec.json.encode(bytes(value[:_SMALL_BYTES]))
    return Raw(msgspec.json.encode(preview_of(beginning) | {"bytes": size}))


def _fits(snapshot: RunSnapshot, max_bytes: int) -> bool:
    return len(encode(snapshot)) <= max_bytes


def _size_of_waits(snapshot: RunSnapshot) -> int:
    parts = (snapshot.wait_message, snapshot.wait_schema, snapshot.open_waits)
    return sum(len(encode(part)) for part in parts if part is not UNSET)


def _without_wait_texts(snapshot: RunSnapshot) -> RunSnapshot:
    """`GET /waits` has the full texts."""
    if not snapshot.open_waits:
        return snapshot
    named, rest = snapshot.open_waits[:_WAITS_KEPT], snapshot.open_waits[_WAITS_KEPT:]
    return structs.replace(
        snapshot,
        wait_message=snapshot.wait_message and snapshot.wait_message[:_MESSAGE_CHARS],
        wait_schema=snapshot.wait_schema and _short_schema(snapshot.wait_schema, named[0].wait_id),
        open_waits=[*named, *(structs.replace(wait, message="") for wait in rest)],
    )


def _short_schema(schema: str, wait_id: str) -> str:
    """A JSON Schema that accepts anything, and says where the real one is."""
    if len(schema) <= _SMALL_BYTES:
        return schema
    comment = f"the schema does not fit into the snapshot: GET /waits/{wait_id} has it"
    return encode({"$comment": comment}).decode()


def _fields(record: Raw) -> dict[str, Raw]:
    return msgspec.json.decode(record, type=dict[str, Raw])


def _cut(record: Raw) -> Raw:
    """The record with previews instead of long values."""
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
    # A task can write anything into its record.
    names = {each for each in earlier if isinstance(each, str)} if isinstance(earlier, list) else set()
    return Raw(msgspec.json.encode({**fields, "truncated": sorted(names | set(lost))}))


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
