"""Explaining a run, with a few requests whatever the size of the queue."""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.queue.queue_position import JobLocation, QueueSearch, TagQueue
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.broker.stores.runs.run_log_store import RunLogs
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.workers.worker_registry import WorkerRegistry
from pyoco_server.errors import NatsUnavailable, RunNotFound
from pyoco_server.records.runs.run_models import RunSnapshot, RunStatus
from pyoco_server.records.value_types import is_run_id, is_tag
from pyoco_server.records.workers.worker_models import WorkerRecord
from pyoco_server.runs.explain.explain_facts import Facts, FinishedTask, TimingSettings
from pyoco_server.runs.explain.explain_rules import (
    Finding,
    explain,
    nats_cannot_write,
    nats_unavailable,
)
from pyoco_server.runs.explain.visible_workers import workers_seen_by
from pyoco_server.runs.index.run_lists import RunLists
from pyoco_server.runs.lifecycle.job_signatures import signatures_of
from pyoco_server.runs.lifecycle.tenancy import Caller, find_run
from pyoco_server.runs.lifecycle.waiting_state import queued_since

# A response within 2 s is promised, also when NATS is slow or unavailable.
_BUDGET_SEC = 1.8


class Explainer:
    def __init__(
        self, connection: Connection, lists: RunLists, is_lost: Callable[[WorkerRecord], bool]
    ) -> None:
        self._connection = connection
        self._lists = lists
        self._is_lost = is_lost
        self._runs = RunStore(connection)
        self._workers = WorkerRegistry(connection)
        self._search = QueueSearch(connection)
        self._journal = Journal(connection)
        self._logs = RunLogs(connection)
        self._signatures = signatures_of(connection)
        self._timing = TimingSettings.of(connection.config)

    async def explain(self, run_id: str, caller: Caller) -> tuple[RunStatus | None, list[Finding]]:
        """The run's status and the findings; without a status when NATS is unavailable."""
        if not is_run_id(run_id):
            raise RunNotFound(f"there is no run {run_id!r}")
        try:
            if not self._connection.ready:
                raise self._connection.unavailable()
            async with asyncio.timeout(_BUDGET_SEC):
                facts = await self._gather(run_id, caller)
        except (NatsUnavailable, TimeoutError) as error:
            detail = (
                error.public_detail
                if isinstance(error, NatsUnavailable)
                else f"no response within {_BUDGET_SEC:g} s"
            )
            state = self._connection.state
            return None, [nats_unavailable(detail, state.status, state.since)]
        return facts.snapshot.status, [*self._write_problem(facts), *explain(facts)]

    def _write_problem(self, facts: Facts) -> list[Finding]:
        """What keeps a run that has not ended from going on."""
        problem = self._connection.writes.problem
        if problem is None or facts.snapshot.status.terminal:
            return []
        return [nats_cannot_write(problem.detail, problem.streams, problem.since)]

    async def _gather(self, run_id: str, caller: Caller) -> Facts:
        stored = await find_run(self._runs, run_id, caller)
        run = stored.snapshot
        if run.status.terminal:
            return Facts(now=time.time(), snapshot=run, timing=self._timing)
        authentic = await self._signatures.is_authentic(stored)
        if run.status.parked or run.status is RunStatus.SCHEDULED or not is_tag(run.tag):
            return Facts(now=time.time(), snapshot=run, timing=self._timing, authentic=authentic)
        queue = await self._search.queue(run.tag)
        finished = await self._journal.last_finished(run.tag, run_id)
        printed_at = await self._logs.last_timestamp(run_id)
        workers = await self._workers.all()
        return Facts(
            now=time.time(),
            snapshot=run,
            timing=self._timing,
            authentic=authentic,
            workers=tuple(await workers_seen_by(caller, workers, self._lists, known=frozenset({run_id}))),
            lost=frozenset(each.instance_id for each in workers if self._is_lost(each)),
            queue=queue,
            location=await self._location(run, queue),
            last_finished=None if finished is None else FinishedTask(finished[0], _unix(finished[1])),
            last_output_at=None if printed_at is None else _unix(printed_at),
        )

    async def _location(self, run: RunSnapshot, queue: TagQueue) -> JobLocation | None:
        """Only of a run that waits for a worker: then its job is in the queue."""
        if run.status is not RunStatus.PENDING:
            return None
        return await self._search.locate(run.run_id, run.tag, queued_since(run), queue)


def _unix(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
