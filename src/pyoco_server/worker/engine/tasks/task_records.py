"""Task records of a run's snapshot: brief while the run lasts, complete at its end."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from pyoco.core.models import TaskRecord

from pyoco_server.records.runs.journal_models import JournalEntry
from pyoco_server.records.runs.task_outputs import BYTES
from pyoco_server.worker.engine.journal.json_values import (
    VALUE_LIMIT_BYTES,
    escape_surrogates,
    is_bytes,
    to_json,
)
from pyoco_server.worker.engine.tasks.task_calls import CallRecord


class _Brief(Struct, omit_defaults=True):
    """Without inputs and outputs, which may be large and still change."""

    started_at: float | None = None
    ended_at: float | None = None
    error: str | None = None
    calls: int = 1
    after: list[str] = []
    replayed: bool = False
    latest_calls: list[CallRecord] = []
    executed_again: str | None = None


_encode = msgspec.json.Encoder().encode

# Takes a large output, and whether it is bytes; returns why it is not stored.
KeepOutput = Callable[[memoryview, bool], str | None]


def _keep_nothing(_: memoryview, __: bool) -> str | None:
    return None


def brief_record(
    record: TaskRecord,
    *,
    after: list[str],
    calls: int = 1,
    latest_calls: Sequence[CallRecord] = (),
    replayed: JournalEntry | None = None,
    executed_again: str | None = None,
) -> bytes:
    if replayed is not None:
        return _encode(_Brief(replayed.started_at, replayed.ended_at, replayed.error, 1, after, True))
    started_at, ended_at = record.started_at, record.ended_at
    # In a loop, the engine leaves the end of the previous iteration.
    has_ended = started_at is not None and ended_at is not None and ended_at >= started_at
    error = record.error and escape_surrogates(record.error)
    return _encode(
        _Brief(
            started_at,
            ended_at if has_ended else None,
            error,
            max(calls, 1),
            after,
            latest_calls=list(latest_calls),
            executed_again=executed_again,
        )
    )


def encoded_record(
    record: TaskRecord,
    *,
    state: str,
    printed: dict[str, str],
    after: list[str] | None = None,
    call_fields: dict[str, Any] | None = None,
    replayed: JournalEntry | None = None,
    not_journalled: str | None = None,
    executed_again: str | None = None,
    keep: KeepOutput = _keep_nothing,
    output_limit: int = VALUE_LIMIT_BYTES,
) -> tuple[bytes, bool]:
    """The record as JSON, and whether something of it had to be cut.

    `keep` gets an output that takes more than `output_limit`, and returns why it is not stored elsewhere.
    """
    inputs = to_json("inputs", record.inputs)
    output = to_json("output", record.output, output_limit)
    encoded: dict[str, Any] = {
        "state": state,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "duration_ms": record.duration_ms,
        "error": record.error and escape_surrogates(record.error),
        "traceback": record.traceback and escape_surrogates(record.traceback),
        "inputs": inputs.json,
        "output": output.json,
        "artifacts": to_json("artifacts", record.artifacts).json,
        **printed,
    }
    if is_bytes(record.output) and output.why_cut is None:
        encoded["output_type"] = BYTES
    if output.is_cut and (why := output.why_cut or keep(output.whole, is_bytes(record.output))) is not None:
        encoded["output_cut"] = why
    if call_fields:
        encoded |= call_fields
    if after:
        encoded["after"] = after
    if replayed is not None:
        encoded |= {
            "started_at": replayed.started_at,
            "ended_at": replayed.ended_at,
            "duration_ms": (replayed.ended_at - replayed.started_at) * 1000,
            # Executed by an earlier attempt, or by the original of a rerun.
            "replayed": True,
        }
    if not_journalled is not None:
        encoded["not_journalled"] = not_journalled
    if executed_again is not None:
        encoded["executed_again"] = executed_again
    if inputs.not_json or output.not_json:
        encoded["not_json"] = [*inputs.not_json, *output.not_json]
    if inputs.is_cut or output.is_cut:
        encoded["truncated"] = ["inputs"] * inputs.is_cut + ["output"] * output.is_cut
    return _encode(encoded), inputs.is_cut or output.is_cut
