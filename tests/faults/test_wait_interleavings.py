"""Answers, expiries, changes, cancels, retries, workers and kills in random order: one outcome per wait.

Each order is drawn from its own seed, which a failure names: `WAIT_SEED=<seed> pytest` of this file repeats
that one alone, request by request.
"""

import logging
import time
from collections import Counter
from contextlib import suppress
from itertools import groupby, pairwise
from random import Random
from typing import Any

import pytest
from msgspec import UNSET, structs

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import StreamMessage, read_batch
from pyoco_server.broker.queue.work_queue import WorkQueue
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable, PyocoError
from pyoco_server.records.runs.run_models import (
    UNANSWERED,
    DeliveryId,
    RunSnapshot,
    RunStatus,
    decode_job,
    decode_snapshot,
    job_of,
)
from pyoco_server.records.waits.wait_models import Actor, WaitRecord, WaitState, decode_wait
from pyoco_server.runs.lifecycle.cancel_request import cancel_run
from pyoco_server.runs.lifecycle.ownership import NotOwner, OwnedRun, RunTaken, claim
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.runs.lifecycle.waiting_state import cleared_wait_fields, parked_snapshot
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.human.answers.answering import Answer, AnswerHandler, AnswerReceipt
from pyoco_server.waits.human.reopen import retry_run
from pyoco_server.waits.human.wait_changes import ChangeRequest, WaitChanges
from pyoco_server.waits.wait_maintenance import WaitMaintenance
from pyoco_server.waits.wait_transitions import (
    ended_unanswered,
    latest_waits,
    next_wait_id,
    unanswered_reason,
)
from tests.support.broker.waits_in_bucket import SeenRuns, WaitsInBucket
from tests.support.running.interleaving import Killed, RequestScheduler, Seeds, outcomes_of
from tests.support.running.waiting_runs import WaitingRun, wait_events_of, waiting_run

SEEDS = Seeds.drawn("WAIT_SEED", count=2000)
ENDS = ("COMPLETED", "FAILED", "CANCELLED")
CONCURRENCY = 250
KILL_PROBABILITY = 0.4
FAR_IN_THE_FUTURE = 1e11


class Interleaving:
    """One run with one or two waits, and those who act on it."""

    def __init__(self, seed: int, connections: list[Connection]) -> None:
        self.seed = seed
        self._rng = Random(seed)
        self._connections = connections
        self._scheduler = RequestScheduler(self._rng, connections, kill_probability=KILL_PROBABILITY)
        self._deliveries = 0
        # How likely it is that somebody means the wait that there is after a retry.
        self._means_newer = 0.2
        self._run: WaitingRun

    async def run(self) -> str:
        """How the run has ended; AssertionError when a promise was broken."""
        rng = self._rng
        waits = [{"default": 7} if rng.random() < 0.2 else {} for _ in range(rng.choice((1, 1, 2)))]
        suspended = rng.random() < 0.7
        self._run = await waiting_run(self._connections[0], *waits, suspended=suspended, tag=f"t{self.seed}")
        if not suspended:
            await WorkQueue(self._connections[0]).publish_continuation(job_of(self._run.snapshot, None))
        if rng.random() < 0.4:
            await self._begin_late()
        twice = [self._answers, self._expires, self._retries]
        once = [self._cancels, self._works, self._publishes, self._withdraws, self._extends, self._reassigns]
        acts = [*twice, *twice, *once]
        for number, act in enumerate(rng.sample(acts, k=rng.randint(2, 4))):
            self._scheduler.add(f"{number} {act.__name__}", act)
        outcomes = await self._scheduler.run()
        # Somebody is alive in the end.
        self._scheduler.add("maintenance", self._takes_care, never_killed=True)
        outcomes = await self._scheduler.run()
        return await self._check(outcomes)

    async def _begin_late(self) -> None:
        """Nobody has answered in time, so that there is something to retry; and perhaps somebody does."""
        self._scheduler.add("late", self._expires, never_killed=True)
        await self._scheduler.run()
        if self._rng.random() < 0.5:
            self._scheduler.add("retries", self._retries)
            await self._scheduler.run()
            self._means_newer = 0.8

    # Those who act

    async def _answers(self, connection: Connection) -> AnswerReceipt:
        answer = Answer(payload=self._rng.randint(0, 1), decision_id=f"d{self._rng.randint(0, 1)}")
        return await AnswerHandler(connection).respond(
            self._any_wait(), answer, ANYBODY, Actor(name=answer.decision_id)
        )

    async def _expires(self, connection: Connection) -> None:
        taker = WaitMaintenance(
            connection, WaitsInBucket(connection), SeenRuns(connection), clock=lambda: FAR_IN_THE_FUTURE
        )
        try:
            await taker._expire_some([self._any_wait()])
        except BaseExceptionGroup as killed:
            # Several are ended side by side, in tasks.
            raise killed.exceptions[0] from None

    async def _withdraws(self, connection: Connection) -> None:
        await WaitChanges(connection).withdraw(self._change())

    async def _extends(self, connection: Connection) -> None:
        await WaitChanges(connection).extend(self._change(), time.time() + 7200 + self._rng.randint(0, 1000))

    async def _reassigns(self, connection: Connection) -> None:
        await WaitChanges(connection).reassign(self._change(), [f"a{self._rng.randint(0, 1)}"])

    def _change(self) -> ChangeRequest:
        return ChangeRequest(self._any_wait(), ANYBODY, Actor(name="boss"), "no longer needed")

    def _any_wait(self) -> str:
        """One that there is from the beginning, or one that there is after a retry."""
        wait = self._rng.choice(self._run.waits)
        return next_wait_id(wait) if self._rng.random() < self._means_newer else wait.wait_id

    async def _retries(self, connection: Connection) -> None:
        await retry_run(connection, self._run.run_id, ANYBODY, Actor())

    async def _cancels(self, connection: Connection) -> None:
        await cancel_run(connection, RunStore(connection), self._run.run_id, ANYBODY)

    async def _publishes(self, connection: Connection) -> None:
        """What a gateway does with the events that are still in a record."""
        for wait in await WaitStore(connection).of_run_from_leader(self._run.run_id):
            await Continuations(connection).flush_outbox(wait.record.wait_id)

    async def _works(self, connection: Connection) -> None:
        """What a worker does with each message that it gets."""
        queue = WorkQueue(connection)
        stream = connection.config.work_stream
        for message in await read_batch(connection, stream, f"pyoco.work.t{self.seed}"):
            try:
                # Also when another delivery claims the run meanwhile, the message is done with.
                with suppress(NotOwner):
                    await self._execute(connection, await self._claimed(connection, queue, message))
            except RunTaken:
                continue
            await queue.remove(message.sequence)

    async def _claimed(self, connection: Connection, queue: WorkQueue, message: StreamMessage) -> OwnedRun:
        self._deliveries += 1
        job = decode_job(message.data)
        owned = await claim(
            RunStore(connection),
            queue,
            job,
            delivery=DeliveryId(message.sequence, self._deliveries),
            expected_revision=None,
            worker_id=f"w{self._deliveries}",
            max_bytes=100_000,
        )
        assert owned.snapshot.generation == job.generation, "a job is for one generation"
        return owned

    async def _execute(self, connection: Connection, owned: OwnedRun) -> None:
        waits = latest_waits(await self._waits(connection))

        def done(mine: RunSnapshot) -> RunSnapshot:
            if any(ended_unanswered(wait) for wait in waits):
                missed = [wait for wait in waits if ended_unanswered(wait)]
                return structs.replace(mine, status=RunStatus.FAILED, reason=unanswered_reason(missed))
            if all(wait.resolved for wait in waits):
                return structs.replace(mine, status=RunStatus.COMPLETED, **cleared_wait_fields(mine))
            if mine.cancel_requested_at is not None:
                return structs.replace(mine, status=RunStatus.CANCELLED)
            return parked_snapshot(mine, [wait for wait in waits if not wait.resolved], mine.tasks)

        await owned.write(done)

    async def _takes_care(self, connection: Connection) -> None:
        """What the maintenance, the sweep and a worker do, again and again, until the run is over."""
        for _ in range(12):
            try:
                if await self._comes_to_its_end(connection):
                    return
            except NatsUnavailable:
                # Of this busy process; in the product, too, another round follows.
                continue
        raise AssertionError(f"the run does not come to its end: {await self._stored(connection)}")

    async def _comes_to_its_end(self, connection: Connection) -> bool:
        run = await self._stored(connection)
        if run.status is RunStatus.CANCELLING and run.delivery is None:
            await self._cancels(connection)
        await Continuations(connection).continue_run(run.run_id)
        await self._works(connection)
        await self._publishes(connection)
        run = await self._stored(connection)
        waits = await self._waits(connection)
        still_open = [wait for wait in waits if wait.state is WaitState.OPEN]
        if run.status is RunStatus.WAITING_HUMAN and still_open:
            answer = Answer(payload=9, decision_id="last")
            await AnswerHandler(connection).respond(still_open[0].wait_id, answer, ANYBODY, Actor())
        # What the last of these steps decided is published in the next round.
        outboxes = [wait.outbox for wait in await WaitStore(connection).of_run_from_leader(run.run_id)]
        return run.status.terminal and not still_open and not any(outboxes)

    async def _stored(self, connection: Connection) -> RunSnapshot:
        stored = await RunStore(connection).get_from_leader(self._run.run_id)
        assert stored is not None
        return stored.snapshot

    async def _waits(self, connection: Connection) -> list[WaitRecord]:
        return [wait.record for wait in await WaitStore(connection).of_run_from_leader(self._run.run_id)]

    # What must hold

    async def _check(self, outcomes: dict[str, Any]) -> str:
        for name, outcome in outcomes.items():
            is_expected = isinstance(outcome, AnswerReceipt | PyocoError | Killed) or outcome is None
            assert is_expected, f"{name}: {outcome!r}"
        assert outcomes["maintenance"] is None
        run = await self._stored(self._connections[0])
        waits = await self._waits(self._connections[0])
        for wait in waits:
            self._check_wait(wait, outcomes)
        history = list(map(decode_snapshot, self._scheduler.writes(f"$KV.pyoco_runs.{run.run_id}")))
        assert history[-1] == run
        assert run.status.terminal
        for before, after in pairwise(history):
            if before.status.terminal:
                assert before.reason in UNANSWERED, "any other end is final"
                assert (after.status, after.generation) == ("WAITING_HUMAN", before.generation + 1)
        match run.status:
            case RunStatus.COMPLETED:
                assert all(wait.resolved for wait in latest_waits(waits))
            case RunStatus.FAILED:
                assert run.reason in UNANSWERED
                assert any(ended_unanswered(wait) for wait in latest_waits(waits))
            case RunStatus.CANCELLED:
                assert run.cancel_requested_at is not None
        await self._check_events(waits)
        was_retried = any(wait.arming > 1 for wait in waits)
        return f"{run.status} after a retry" if was_retried else run.status.value

    def _check_wait(self, wait: WaitRecord, outcomes: dict[str, Any]) -> None:
        decisions = [
            decode_wait(payload) for payload in self._scheduler.writes(f"$KV.pyoco_waits.{wait.wait_id}")
        ]
        decisions = [written for written in decisions if written.state is not WaitState.OPEN]
        # Another write of the same only empties the outbox.
        assert [each for each, _ in groupby(decisions)] == [wait], "a wait is decided once, and is then so"
        assert wait.state is not WaitState.OPEN
        receipts = [each for each in outcomes.values() if isinstance(each, AnswerReceipt)]
        receipts = [receipt for receipt in receipts if receipt.wait_id == wait.wait_id]
        assert sum(not receipt.repeated for receipt in receipts) <= 1
        for receipt in receipts:
            assert wait.state is WaitState.ANSWERED
            assert (receipt.decision_id, receipt.decided_at) == (wait.decision_id, wait.decided_at)
        if wait.state is WaitState.ANSWERED:
            assert wait.payload is not UNSET

    async def _check_events(self, waits: list[WaitRecord]) -> None:
        published = Counter(
            (event.wait_id, event.kind.value)
            for event in await wait_events_of(self._connections[0], self._run.run_id)
            if event.kind.value not in ("opened", "refused", "extended", "reassigned")
        )
        assert set(published) == {(wait.wait_id, wait.state.value) for wait in waits}
        assert set(published.values()) == {1}


@pytest.mark.parametrize("seeds", [SEEDS], ids=lambda seeds: str(seeds.first))
async def test_every_wait_gets_exactly_one_outcome(
    config: NatsBackendConfig, seeds: Seeds, caplog: pytest.LogCaptureFixture
) -> None:
    # Runs fail here as expected.
    caplog.set_level(logging.CRITICAL)
    ended = await outcomes_of(
        seeds,
        lambda seed, connections: Interleaving(seed, connections).run(),
        config,
        concurrency=CONCURRENCY,
    )
    if not seeds.is_single:
        # Each outcome occurs often enough to mean something.
        for end in ENDS:
            assert ended[end] > seeds.count / 20, ended
            assert ended[f"{end} after a retry"] > seeds.count / 200, ended
