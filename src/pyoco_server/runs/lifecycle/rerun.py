"""Rerunning an ended run: a new run of the same work, which refers to its origin.

Mode 'start' executes everything again. The other modes start with the origin's journal; the executor, which
knows the graph, decides which of its entries are kept (`reusable` in worker/engine/graph/rerun_reuse.py).
Params may change in mode 'start' only: a task reads them wherever it likes, so that nobody knows which
results still hold.
"""

import difflib
import time
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType, structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.errors import FieldProblem, InvalidRequest, RunConflict, RunNotFound, shortened
from pyoco_server.records.runs.run_models import (
    Job,
    RerunMode,
    RunSnapshot,
    RunStatus,
    TaskStatus,
    new_run_id,
)
from pyoco_server.runs.lifecycle.job_signatures import signatures_of
from pyoco_server.runs.lifecycle.requested_start import AT_ONCE, RequestedStart
from pyoco_server.runs.lifecycle.stored_job import DocumentLost, stored_job, whole_params
from pyoco_server.runs.lifecycle.tenancy import Caller, find_run

_MAX_NAMES = 20

Params = dict[str, Any]

_encode: Final = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class RequestedRerun:
    """Which run is repeated, and how."""

    run_id: str
    mode: RerunMode = RerunMode.START
    task: str | None = None
    _: KW_ONLY
    keep_answers: bool = False
    start: RequestedStart = AT_ONCE
    # In place of those of the origin.
    params: Params | None = None

    @property
    def command(self) -> tuple[Any, ...]:
        """What an idempotency key stands for. Unset options are omitted, as in earlier versions."""
        kept = ("keep_answers",) if self.keep_answers else ()
        changed = () if self.params is None else ("params", self.params)
        return ("rerun", self.run_id, self.mode, self.task, *kept, *changed, *self.start.compared_fields)


async def rerun_job(connection: Connection, rerun: RequestedRerun, caller: Caller) -> Job:
    """The job of the new run; InvalidRequest, RunConflict or UnverifiedRun say why there is none.

    It belongs to the tenant of the origin, whoever the caller is.
    """
    run_id, mode, task = rerun.run_id, rerun.mode, rerun.task
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
    if rerun.params is not None and not _are_equal(rerun.params, job.params):
        _check_new_params(mode, keep_answers=rerun.keep_answers)
        job.params = rerun.params
    return structs.replace(
        job,
        run_id=new_run_id(),
        submitted_at=time.time(),
        origin_run_id=run_id,
        rerun_mode=mode,
        rerun_task=task,
        keep_answers=rerun.keep_answers,
        api_key_id=caller.api_key_id,
        # Not that of the origin.
        cause=UNSET,
        start_at=rerun.start.at,
        # The origin may have waited; the new run has not.
        generation=0,
        # Set again if they are too large.
        params_sha256=UNSET,
        params_bytes=UNSET,
    )


async def params_changed(connection: Connection, rerun: RequestedRerun, caller: Caller) -> bool | UnsetType:
    """Whether its params differ from those of the origin; unset if it has none, or the origin's are gone."""
    if rerun.params is None:
        return UNSET
    try:
        origin = (await find_run(RunStore(connection), rerun.run_id, caller)).snapshot
        return not _are_equal(rerun.params, await whole_params(Journal(connection), origin))
    except (RunNotFound, DocumentLost):
        return UNSET


def _are_equal(one: Params, other: Params) -> bool:
    """As JSON: in Python, 1 equals True."""
    return _encode(one) == _encode(other)


def _check_new_params(mode: RerunMode, *, keep_answers: bool) -> None:
    if mode is not RerunMode.START:
        reused = "what has finished was computed from the params of the origin"
        raise _invalid("mode", f"{reused}; with other params use mode 'start', or leave the params out", mode)
    if keep_answers:
        given = "people have answered for the params of the origin"
        raise _invalid(
            "keep_answers", f"{given}; with other params they are asked again: leave it out", "true"
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
