"""Senders, gateways, timeouts and kills in random order: each signal is received at most once, none is lost.

Each order is drawn from its own seed, which a failure names: `SIGNAL_SEED=<seed> pytest` of this file repeats
that one alone, request by request.
"""

import logging
import time
from random import Random
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.stores.waits.mailbox_store import MailboxStore
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus, WaitKind
from pyoco_server.records.waits.wait_models import NO_DEADLINE, Actor, WaitState
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.signals.signal_delivery import SignalDelivery
from pyoco_server.signals.signal_sending import SentSignal, SignalSender
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.wait_transitions import expired
from tests.support.running.interleaving import RequestScheduler, Seeds, outcomes_of
from tests.support.running.waiting_runs import WaitingRun, waiting_run

SEEDS = Seeds.drawn("SIGNAL_SEED", count=400)
CONCURRENCY = 100
KILL_PROBABILITY = 0.3
WAIT: dict[str, Any] = {
    "kind": WaitKind.SIGNAL,
    "topic": "go",
    "deadline_at": NO_DEADLINE,
    "default": "too late",
}


class Interleaving:
    """One run with one or two waits for signals of one name, and those who act on it."""

    def __init__(self, seed: int, connections: list[Connection]) -> None:
        self._rng = Random(seed)
        self._connections = connections
        self._scheduler = RequestScheduler(self._rng, connections, kill_probability=KILL_PROBABILITY)
        self._run: WaitingRun

    async def run(self) -> str:
        """What has happened; AssertionError when a promise was broken."""
        rng = self._rng
        waits = [WAIT] * rng.choice((1, 2))
        self._run = await waiting_run(self._connections[0], *waits)
        acts = [self._sends, self._sends, self._sends, self._delivers, self._delivers, self._expires]
        for number, act in enumerate(rng.sample(acts, k=rng.randint(3, 5))):
            self._scheduler.add(f"{number} {act.__name__}", act)
        outcomes = await self._scheduler.run()
        # Some gateway is alive in the end.
        self._scheduler.add("survives", self._survives, never_killed=True)
        await self._scheduler.run()
        return await self._check([each for each in outcomes.values() if isinstance(each, SentSignal)])

    async def _sends(self, connection: Connection) -> SentSignal:
        key = f"k{self._rng.randint(0, 2)}"
        return await SignalSender(connection).send(
            self._run.run_id, "go", key, ANYBODY, Actor(name="ann"), key=key
        )

    async def _delivers(self, connection: Connection) -> None:
        await SignalDelivery(connection, Continuations(connection)).deliver(self._run.run_id)

    async def _survives(self, connection: Connection) -> None:
        await self._delivers(connection)
        # As the maintenance of waits does.
        await Continuations(connection).continue_run(self._run.run_id)

    async def _expires(self, connection: Connection) -> None:
        wait_id = self._rng.choice(self._run.waits).wait_id
        continuations = Continuations(connection)
        while True:
            wait = await WaitStore(connection).get_from_leader(wait_id)
            if wait is None or wait.record.state is not WaitState.OPEN:
                return
            if await continuations.write_transition(wait, expired(wait.record, at=time.time())):
                await continuations.continue_run(self._run.run_id)
                return

    async def _check(self, sent: list[SentSignal]) -> str:
        connection = self._connections[0]
        mailbox = (await MailboxStore(connection).get(self._run.run_id)).mailbox
        waits = [await self._run.wait(wait.wait_id) for wait in self._run.waits]
        ids = [signal.signal_id for signal in mailbox.signals]
        assert len(set(ids)) == len(ids), "a key has sent two signals"
        assert {each.signal.signal_id for each in sent} <= set(ids), "an accepted signal is lost"
        answered = [wait for wait in waits if wait.state is WaitState.ANSWERED]
        by_wait = {wait.wait_id: wait for wait in answered}
        assert len({wait.decision_id for wait in answered}) == len(answered), "one signal, two waits"
        for signal in mailbox.signals:
            if signal.taken_by is None:
                continue
            wait = by_wait[signal.taken_by]
            assert wait.decision_id == signal.signal_id, "it is taken, and its wait has another answer"
            assert signal.trimmed or wait.payload == signal.data
        taken = {signal.signal_id for signal in mailbox.signals if signal.taken_by is not None}
        assert {wait.decision_id for wait in answered} == taken, "it is received, and free"
        is_open = any(wait.state is WaitState.OPEN for wait in waits)
        assert not (is_open and len(taken) < len(ids)), "a wait is open, and there is a signal for it"
        status = (await self._run.now()).status
        assert (status is RunStatus.PENDING) == any(wait.resolved for wait in waits)
        return f"{len(answered)} received, {len(ids) - len(taken)} free"


@pytest.mark.parametrize("seeds", [SEEDS], ids=lambda seeds: str(seeds.first))
async def test_each_signal_is_received_at_most_once_and_none_is_lost(
    config: NatsBackendConfig, seeds: Seeds, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    seen = await outcomes_of(
        seeds,
        lambda seed, connections: Interleaving(seed, connections).run(),
        config,
        concurrency=CONCURRENCY,
    )
    if not seeds.is_single:
        # Each outcome occurs often enough to mean something.
        for received, free in ((0, 1), (1, 0), (1, 1), (2, 0)):
            assert seen[f"{received} received, {free} free"] > seeds.count / 100, seen
