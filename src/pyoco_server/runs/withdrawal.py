"""Taking back a run whose submission was answered with an error: deleted if nobody has begun it.

That needs NATS, which is what has just failed; so it happens in the background and outlives an outage.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pyoco_server.background import repeat
from pyoco_server.broker.connection import Connection
from pyoco_server.broker.journal import Journal
from pyoco_server.broker.publishing import RevisionConflict
from pyoco_server.broker.run_store import RunStore
from pyoco_server.error_table import Err
from pyoco_server.errors import NatsUnavailable
from pyoco_server.models import Job, RunSnapshot, RunStatus

log = logging.getLogger(__name__)

# The run that is there to stay, or None when it is gone.
Undo = Callable[[], Awaitable[RunSnapshot | None]]


async def remove_unbegun(store: RunStore, journal: Journal, run_id: str) -> RunSnapshot | None:
    """See to it that this id stands for no PENDING run, now or later; the run, if it has begun."""
    while True:
        stored = await store.get_from_leader(run_id)
        if stored is not None and stored.snapshot.status is not RunStatus.PENDING:
            return stored.snapshot
        try:
            if stored is None:
                # A write that is still on its way to the server must not succeed.
                await store.forbid(run_id)
            else:
                await store.delete(run_id, revision=stored.revision)
        except RevisionConflict:
            continue
        await journal.remove(run_id)
        return None


@dataclass(frozen=True, slots=True)
class _Withdrawal:
    job: Job
    undo: Undo


class Withdrawer:
    """Withdraws runs one after the other, each until it has succeeded."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: asyncio.Queue[_Withdrawal] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(repeat("withdraw", self._next), name="withdraw")

    async def close(self) -> None:
        """Stop; runs that could not be withdrawn are named, for the operator."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while not self._waiting.empty():
            job = self._waiting.get_nowait().job
            _report_orphan(job, "the gateway stops before it could withdraw it")

    def withdraw(self, job: Job, undo: Undo) -> None:
        """Have the run withdrawn as soon as NATS allows."""
        self._waiting.put_nowait(_Withdrawal(job, undo))

    async def _next(self) -> None:
        withdrawal = await self._waiting.get()
        try:
            await self._connection.wait_ready()
            left = await withdrawal.undo()
        except NatsUnavailable:
            self._waiting.put_nowait(withdrawal)
        except BaseException:
            self._waiting.put_nowait(withdrawal)
            raise
        else:
            if left is None:
                log.info("withdrew a failed submission", extra={"run_id": withdrawal.job.run_id})
            else:
                _report_orphan(withdrawal.job, f"it was too late to withdraw it; it is {left.status}")


def _report_orphan(job: Job, why: str) -> None:
    log.error(
        "%s: run %s was answered with an error: %s",
        Err.ORPHAN_RUN.en,
        job.run_id,
        why,
        extra=Err.ORPHAN_RUN.log_fields(run_id=job.run_id, flow_name=job.flow_name, tag=job.tag),
    )
