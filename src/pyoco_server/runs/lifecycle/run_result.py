"""The result of a run, and what each of its tasks returned.

The result of a completed run is what one task returned: the task that the flow names for it. In a flow that
names none, it is the task that finished last of those that no other task comes after. If none of these was
executed, as after a `switch` without a matching case, it is the task that finished last of all.
"""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass

from pyoco_server.errors import ResultNotFound, UnreadableRecord, shortened
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus, TaskStatus
from pyoco_server.records.runs.task_outputs import (
    BYTES,
    OutputRecord,
    StoredOutput,
    decode_cut_value,
    decode_output,
)

_NOT_KEPT = "the records of its tasks do not fit into the snapshot of the run"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskValue:
    """What a task returned: JSON, or bytes as they are."""

    task: str
    is_bytes: bool
    # As it is served.
    size: int
    # The value, if the snapshot has it; else its beginning, as in the record.
    content: bytes | None = None
    preview: str = ""
    # Where it is whole. With neither `content` nor this, `why_cut` says why.
    stored: StoredOutput | None = None
    why_cut: str = ""


def result_of(snapshot: RunSnapshot) -> TaskValue:
    """The result of a run; ResultNotFound if there is none."""
    if snapshot.status is not RunStatus.COMPLETED:
        raise ResultNotFound(_why_no_result(snapshot))
    records = _records(snapshot)
    task = snapshot.result_task or _last_task(records)
    if task is None:
        lost = snapshot.tasks and not records
        raise ResultNotFound(_NOT_KEPT if lost else "no task of the run has finished")
    return _value(snapshot, task, records.get(task))


def output_of(snapshot: RunSnapshot, task: str) -> TaskValue:
    """What a task returned; ResultNotFound if the run has no such task, or it has not returned."""
    if task not in snapshot.tasks:
        known = ", ".join(map(shortened, snapshot.tasks)) or "none yet"
        raise ResultNotFound(f"the run has no task {shortened(task)}; there are: {known}")
    return _value(snapshot, task, _records(snapshot).get(task))


def _why_no_result(snapshot: RunSnapshot) -> str:
    if not snapshot.status.terminal:
        return f"the run has not ended: it is {snapshot.status}"
    why = f": {shortened(snapshot.error)}" if snapshot.error else ""
    return f"the run is {snapshot.status}{why}"


def _last_task(records: Mapping[str, OutputRecord]) -> str | None:
    followed = {each for record in records.values() for each in record.after}
    finished = [(name, each) for name, each in records.items() if each.state == TaskStatus.SUCCEEDED]
    last = [(name, each) for name, each in finished if name not in followed] or finished
    # Of several that finished at the same time, the last one of the flow.
    ranked = [(each.ended_at or 0.0, place, name) for place, (name, each) in enumerate(last)]
    return max(ranked)[2] if ranked else None


def _value(snapshot: RunSnapshot, task: str, record: OutputRecord | None) -> TaskValue:
    state = snapshot.tasks.get(task)
    if state is not TaskStatus.SUCCEEDED:
        raise ResultNotFound(f"the task {shortened(task)} has not returned: it is {state or 'unknown'}")
    if record is None or (not bytes(record.output) and record.output_object is None):
        # The records of a run that is executed have no values yet.
        not_yet = "the values of its tasks are stored when the run ends or waits"
        raise ResultNotFound(_NOT_KEPT if snapshot.status.terminal else not_yet)
    is_bytes = record.output_type == BYTES
    if "output" in record.truncated or record.output_object is not None:
        return _cut_value(task, record, is_bytes=is_bytes)
    content = _decoded(bytes(record.output)) if is_bytes else bytes(record.output)
    return TaskValue(task=task, is_bytes=is_bytes, size=len(content), content=content)


def _cut_value(task: str, record: OutputRecord, *, is_bytes: bool) -> TaskValue:
    preview, size = "", 0
    if bytes(record.output):
        try:
            beginning = decode_cut_value(bytes(record.output))
            preview, size = beginning.preview, beginning.bytes
        except UnreadableRecord:
            preview = "(the record of this task cannot be read)"
    stored = record.output_object
    return TaskValue(
        task=task,
        is_bytes=is_bytes,
        size=size if stored is None else stored.bytes,
        preview=preview,
        stored=stored,
        why_cut="" if stored is not None else record.output_cut or _NOT_KEPT,
    )


def _decoded(base64_json: bytes) -> bytes:
    try:
        return b64decode(base64_json[1:-1], validate=True)
    except ValueError as error:
        raise ResultNotFound(f"the record of the task cannot be read: {error}") from error


def _records(snapshot: RunSnapshot) -> dict[str, OutputRecord]:
    try:
        return {name: decode_output(bytes(raw)) for name, raw in (snapshot.task_records or {}).items()}
    except UnreadableRecord as error:
        # A task can write anything into its record.
        raise ResultNotFound(f"the record of a task cannot be read: {error.detail}") from error
