"""Checks the messages of an executor before the worker uses or stores anything of them.

The code of tasks runs in the executor's process, and can write anything to its sockets. The types of the
messages are checked by their decoder; this checks the rest: states, and values that are stored as JSON.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyoco_server.records.decoding import record_decoder, unreadable
from pyoco_server.records.runs.run_models import PARKED, Reason, RunStatus, TaskStatus
from pyoco_server.records.waits.wait_models import decode_question, decode_questions
from pyoco_server.records.workers.flow_models import MAX_CATALOGUE_BYTES
from pyoco_server.worker.ipc.protocol import (
    Asked,
    FromExecutor,
    Outcome,
    OutputPart,
    Progress,
    ReadOutput,
    Ready,
    message_from_executor,
)

_ENDED: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})
_TASK_STATES: Final = frozenset(map(str, TaskStatus))
_REASONS: Final = frozenset({None, *map(str, Reason)})
_STREAMS: Final = frozenset({"stdout", "stderr"})
_NO_QUESTIONS: Final = b"[]"
_MAX_PART_BYTES: Final = 1024 * 1024
_MAX_VERSION_CHARS: Final = 64

_decode_record = record_decoder(dict[str, Any])


class ProtocolViolation(Exception):
    """An executor has sent something that is not a valid message."""


def checked_message(body: bytes) -> FromExecutor:
    """The message; ProtocolViolation says why it is not valid."""
    try:
        message = message_from_executor(body)
        check = _CHECKS.get(type(message))
        if check is not None:
            check(message)
        return message
    except Exception as error:
        raise ProtocolViolation(unreadable(error).detail) from error


def _check_outcome(outcome: Outcome) -> None:
    _check_tasks(outcome.tasks, outcome.task_records)
    if outcome.reason not in _REASONS:
        raise ValueError("unknown reason")
    if not 0.0 <= outcome.took_sec < math.inf:
        raise ValueError("took_sec is not a duration")
    has_questions = outcome.questions != _NO_QUESTIONS and bool(decode_questions(outcome.questions))
    if outcome.status in PARKED:
        is_valid = has_questions
    elif outcome.status == RunStatus.RUNNING:
        is_valid = outcome.must_continue or outcome.not_started
    else:
        is_valid = outcome.status in _ENDED
    if not is_valid:
        raise ValueError("a run cannot end with this status")


def _check_progress(progress: Progress) -> None:
    _check_tasks(progress.tasks, progress.task_records)


def _check_tasks(states: Mapping[str, str], records: Mapping[str, bytes]) -> None:
    if not _TASK_STATES.issuperset(states.values()):
        raise ValueError("unknown state of a task")
    for record in records.values():
        _decode_record(record)


def _check_ready(ready: Ready) -> None:
    if len(ready.catalogue) > MAX_CATALOGUE_BYTES:
        raise ValueError("the descriptions of the flows are too large")
    if max(len(ready.code_version), len(ready.code_key)) > _MAX_VERSION_CHARS:
        raise ValueError("the version of the code is too long")


def _check_question(asked: Asked) -> None:
    decode_question(asked.question)


def _check_stream(request: ReadOutput) -> None:
    if request.stream not in _STREAMS:
        raise ValueError("unknown stream")


def _check_part(part: OutputPart) -> None:
    if len(part.data) > _MAX_PART_BYTES:
        raise ValueError("a part of an output is too large")


_CHECKS: Final[Mapping[type, Callable[[Any], None]]] = {
    Outcome: _check_outcome,
    Progress: _check_progress,
    Asked: _check_question,
    ReadOutput: _check_stream,
    Ready: _check_ready,
    OutputPart: _check_part,
}
