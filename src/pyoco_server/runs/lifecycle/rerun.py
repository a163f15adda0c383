"""Rerunning an ended run: a new run of the same work, which refers to its origin.

Mode 'start' executes everything again. The other modes start with the origin's journal; the executor, which
knows the graph, decides which of its entries are valid.
"""

import difflib
import time
from collections.abc import Iterable
from typing import Any

from msgspec import UNSET, structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.journal_store import Journal
from pyoco_server.broker.stores.run_store import RunStore
from pyoco_server.errors import FieldProblem, InvalidRequest, RunConflict, shortened
from pyoco_server.records.models import (
    Job,
    RerunMode,
    RunSnapshot,
    RunStatus,
    TaskStatus,
    new_run_id,
)
from pyoco_server.runs.lifecycle.job_signatures import signatures_of
from pyoco_server.runs.lifecycle.requested_start import AT_ONCE, RequestedStart
from pyoco_server.runs.lifecycle.stored_job import DocumentLost, stored_job
from pyoco_server.runs.lifecycle.tenancy import Caller, find_run

_MAX_NAMES = 20


def rerun_command(
    run_id: str, mode: RerunMode, task: str | None, *, keep_answers: bool, start: RequestedStart = AT_ONCE
) -> tuple[Any, ...]:
    """What an idempotency key of a rerun stands for; without the options as in earlier versions."""
    return ("rerun", run_id, mode, task, *(("keep_answers",) if keep_answers else ()), *start.asked)


async def rerun_job(
    connection: Connection,
    run_id: str,
    caller: Caller,
    *,
    mode: RerunMode,
    task: str | None = None,
    keep_answers: bool = False,
    start: RequestedStart = AT_ONCE,
) -> Job:
    """The job of the new run; InvalidRequest, RunConflict or UnverifiedRun say why there is none.

    It belongs to the tenant of the origin, whoever the caller is.
    """
    _check_mode(mode, task)
    stored = await find_run(RunStore(connection), run_id, caller)
    origin = stored.snapshot
    if not origin.status.terminal:
        raise RunConflict(f"run {run_id} is {origin.status}; wait for its end, or cancel it, then rerun it")
    if not origin.tag:
        raise RunConflict(f"the record of run {run_id} names no tag; submit it again")
    if mode is RerunMode.FAILED and _nothing_failed(origin):
        raise _invalid("mode", "nothing failed in this run; use 'start', or 'task' with a task", mode)
    if task is not None:
        _check_task(task, origin.tasks)
    origin = await signatures_of(connection).verified(stored)
    try:
        job = await stored_job(Journal(connection), origin)
    except DocumentLost as lost:
        raise RunConflict(f"the {lost} of run {run_id} is not kept any more; submit the file again") from None
    return structs.replace(
        job,
        run_id=new_run_id(),
        submitted_at=time.time(),
        origin_run_id=run_id,
        rerun_mode=mode,
        rerun_task=task,
        keep_answers=keep_answers,
        api_key_id=caller.api_key_id,
        # Not that of the origin.
        cause=UNSET,
        start_at=start.at,
        # The origin may have waited; the new run has not.
        generation=0,
        # Set again if they are too large.
        params_sha256=UNSET,
        params_bytes=UNSET,
    )


def _check_mode(mode: RerunMode, task: str | None) -> None:
    if mode is RerunMode.TASK and task is None:
        raise _invalid("task", "mode 'task' needs the name of the task to begin with")
    if mode is not RerunMode.TASK and task is not None:
        raise _invalid("task", f"mode '{mode}' takes no task; use mode 'task', or leave the task out", task)


def _nothing_failed(origin: RunSnapshot) -> bool:
    """Also a COMPLETED run may have failed tasks. Without task states (see compaction) it is not known."""
    tasks = origin.tasks
    return origin.status is RunStatus.COMPLETED and bool(tasks) and TaskStatus.FAILED not in tasks.values()


def _check_task(task: str, known: Iterable[str]) -> None:
    names = list(known)
    # Without task states (see compaction) only the executor knows.
    if not names or task in names:
        return
    nearest = difflib.get_close_matches(task, names, n=1)
    meant = f" Did you mean {nearest[0]!r}?" if nearest else ""
    shown = ", ".join(map(repr, names[:_MAX_NAMES])) + (", …" if len(names) > _MAX_NAMES else "")
    raise _invalid("task", f"the run has no such task.{meant} It has {shown}", task)


def _invalid(field: str, message: str, value: str | None = None) -> InvalidRequest:
    shown = None if value is None else shortened(str(value))
    return InvalidRequest(problems=[FieldProblem(field, message, value=shown)])
