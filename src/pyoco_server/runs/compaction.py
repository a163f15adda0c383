"""Keeps a snapshot within its size limit, giving up the least useful detail first.

The order: long values and tracebacks of task records, then whole records, then the error's length, and
only when even that is not enough the per-task states. Every loss is marked in the snapshot.
"""

from typing import Any

import msgspec
from msgspec import Raw, structs

from pyoco_server.errors import Err
from pyoco_server.models import RunSnapshot, encode

_PREVIEW_CHARS = 1024
# Below this, cutting a value saves less than the mark that it was cut.
_SMALL_BYTES = 2048
_ERROR_CHARS = 2000
# Record fields in the order in which they are worth losing.
_BULKY_FIELDS = ("latest_calls", "traceback", "stdout", "stderr", "inputs", "output")


def compact_run_snapshot(snapshot: RunSnapshot, max_bytes: int) -> RunSnapshot:
    """The snapshot itself if it fits, else a copy that does; `tasks` goes only when nothing else is left."""
    if _fits(snapshot, max_bytes):
        return snapshot
    records = snapshot.task_records or {}
    for shrink in (_cut, _skeleton):
        shrunk = {name: shrink(record) for name, record in records.items()}
        snapshot = structs.replace(snapshot, task_records=shrunk, task_records_truncated=True)
        if _fits(snapshot, max_bytes):
            return snapshot
    snapshot = structs.replace(snapshot, task_records={})
    return snapshot if _fits(snapshot, max_bytes) else _last_resort(snapshot, max_bytes)


def cut_value(encoded: bytes) -> Raw:
    """A stand-in for a JSON value too long to keep: its size and its beginning."""
    preview = encoded[:_PREVIEW_CHARS].decode("utf-8", "ignore")
    return Raw(msgspec.json.encode({"truncated": True, "bytes": len(encoded), "preview": preview}))


def _fits(snapshot: RunSnapshot, max_bytes: int) -> bool:
    return len(encode(snapshot)) <= max_bytes


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
