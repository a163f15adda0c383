"""A task's record as it is stored in the run's snapshot."""

from typing import Any

import msgspec
from pyoco.core.models import TaskRecord

from pyoco_server.models import JournalEntry
from pyoco_server.worker.values import clean, to_json


def encoded_record(
    record: TaskRecord,
    *,
    printed: dict[str, str],
    replayed: JournalEntry | None = None,
    not_stored: str | None = None,
) -> tuple[bytes, bool]:
    """The record as JSON, and whether something of it had to be cut."""
    values = {"inputs": to_json(record.inputs), "output": to_json(record.output)}
    cut = [field for field, (_, was_cut) in values.items() if was_cut]
    encoded: dict[str, Any] = {
        "state": record.state.value,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "duration_ms": record.duration_ms,
        "error": record.error and clean(record.error),
        "traceback": record.traceback and clean(record.traceback),
        **{field: value for field, (value, _) in values.items()},
        "artifacts": to_json(record.artifacts)[0],
        **printed,
    }
    if replayed is not None:
        encoded |= {
            "started_at": replayed.started_at,
            "ended_at": replayed.ended_at,
            "duration_ms": (replayed.ended_at - replayed.started_at) * 1000,
            # It was not executed again: an earlier attempt, or the run that this one repeats, had done it.
            "replayed": True,
        }
    if not_stored is not None:
        encoded["not_journalled"] = not_stored
    if cut:
        encoded["truncated"] = cut
    return msgspec.json.encode(encoded), bool(cut)
