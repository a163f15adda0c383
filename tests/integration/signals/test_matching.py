"""Waits for signals and events that the test has stored, and gateways that come and go."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.stream_reads import MessageInfo
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.waits.mailbox_store import MailboxStore
from pyoco_server.broker.stores.waits.sent_event_store import SentEventStore, StoredEvent
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import RunStatus, WaitKind
from pyoco_server.records.waits.signal_models import EventRecord, Mailbox, Signal
from pyoco_server.records.waits.wait_models import NO_DEADLINE, Actor, WaitState
from pyoco_server.runs.lifecycle.tenancy import ANYBODY
from pyoco_server.signals import event_look_back
from pyoco_server.signals.signal_delivery import SignalDelivery
from pyoco_server.signals.signal_sending import SignalSender
from pyoco_server.waits.continuation import Continuations
from pyoco_server.waits.wait_transitions import expired, satisfied
from tests.support.broker.connections import connected
from tests.support.broker.nats_server import NatsServer
from tests.support.clocks import machine_clock_shifted
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.waiting_runs import WaitingRun, wait_of, waiting_run
from tests.support.waiting import LIMIT_SEC, eventually

HOUR = 3600.0
FOR_SIGNAL: dict[str, Any] = {"kind": WaitKind.SIGNAL, "topic": "go", "deadline_at": NO_DEADLINE}
FOR_EVENT: dict[str, Any] = {"kind": WaitKind.EVENT, "topic": "paid", "deadline_at": NO_DEADLINE}


async def send(connection: Connection, run: WaitingRun, data: Any = None) -> str:
    sent = await SignalSender(connection).send(run.run_id, "go", data, ANYBODY, Actor(name="ann"))
    return sent.signal.signal_id


async def publish(connection: Connection, event_id: str, data: Any = None, **fields: Any) -> None:
    given: dict[str, Any] = {"name": "paid", "at": time.time(), "data": data, **fields}
    assert await SentEventStore(connection).publish(EventRecord(event_id=event_id, **given))


async def opened_wait(connection: Connection, run_id: str, fields: dict[str, Any]) -> WaitingRun:
    """A submitted run, with a wait as a worker opens it."""
    stored = await RunStore(connection).get_from_leader(run_id)
    assert stored is not None
    wait = wait_of(stored.snapshot, **fields)
    await WaitStore(connection).create(wait)
    return WaitingRun(connection, stored.snapshot, [wait])


async def answered_by(run: WaitingRun, *decision_ids: str | None) -> bool:
    """Wait until its waits have these decisions, in the order in which they were opened."""

    async def there() -> bool:
        waits = [await run.wait(wait.wait_id) for wait in run.waits]
        return [wait.decision_id for wait in waits] == list(decision_ids)

    return await eventually(there, describe=f"the waits are answered by {decision_ids}")


async def has_looked_up(gateway: RunningGateway) -> None:
    """Wait until the gateway has looked for earlier events for the waits that were stored."""
    matching = gateway.inside.signals.matching
    await eventually(
        lambda: matching._reached > 0 and matching.event_matching.look_back.is_complete,
        describe="the waits are looked up",
    )


async def test_a_gateway_completes_what_was_stored_while_none_was_running(
    config: NatsBackendConfig, connection: Connection
) -> None:
    """As after a kill between storing a signal or an event and matching it."""
    run = await waiting_run(connection, FOR_SIGNAL, {**FOR_EVENT, "match": {"/id": 7}})
    signal_id = await send(connection, run, {"n": 1})
    await publish(connection, "e-other", {"id": 8})
    await publish(connection, "e-7", {"id": 7})
    assert await run.states() == ["open", "open"]
    async with running_gateway(config):
        assert await answered_by(run, signal_id, "e-7")
        await run.has_jobs(1)
    assert [(await run.wait(wait.wait_id)).payload for wait in run.waits] == [{"n": 1}, {"id": 7}]
    assert (await run.now()).status is RunStatus.PENDING


async def test_signals_do_not_wait_for_a_look_back_for_events(
    config: NatsBackendConfig, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many names of events are looked up."""
    monkeypatch.setattr(event_look_back, "_MAX_TOPICS", 0)
    run = await waiting_run(connection, FOR_SIGNAL)
    signal_id = await send(connection, run)
    async with running_gateway(config):
        assert await answered_by(run, signal_id)


async def test_a_signal_that_was_taken_before_a_crash_is_delivered_to_its_wait(
    config: NatsBackendConfig, connection: Connection
) -> None:
    run = await waiting_run(connection, FOR_SIGNAL)
    taken = Signal(signal_id="s1", name="go", at=1.0, data="kept", taken_by=run.wait_id)
    await MailboxStore(connection).replace(Mailbox(run_id=run.run_id, signals=[taken]), revision=0)
    async with running_gateway(config):
        assert await answered_by(run, "s1")
    assert (await run.wait()).payload == "kept"


async def test_a_timeout_while_a_signal_is_taken_frees_it_for_the_next_wait(connection: Connection) -> None:
    """Between marking the signal and answering the wait, the wait expires."""
    run = await waiting_run(connection, FOR_SIGNAL, FOR_SIGNAL)
    first, second = run.waits
    await send(connection, run, "the only one")

    class ExpiringFirst(Continuations):
        async def write_transition(self, wait: Any, changed: Any, event: Any = None) -> bool:
            if wait.record.wait_id == first.wait_id:
                stored = await run.stored(first.wait_id)
                if stored.record.state is WaitState.OPEN:
                    assert await super().write_transition(stored, expired(stored.record, at=time.time()))
            return await super().write_transition(wait, changed, event)

    delivery = SignalDelivery(connection, ExpiringFirst(connection))
    await delivery.deliver(run.run_id)
    assert await run.states() == ["expired", "answered"]
    assert (await run.wait(second.wait_id)).payload == "the only one"
    mailbox = (await MailboxStore(connection).get(run.run_id)).mailbox
    assert [signal.taken_by for signal in mailbox.signals] == [second.wait_id]


async def test_a_timeout_with_no_other_wait_leaves_the_signal_free(connection: Connection) -> None:
    run = await waiting_run(connection, FOR_SIGNAL)

    class Expiring(Continuations):
        async def write_transition(self, wait: Any, changed: Any, event: Any = None) -> bool:
            stored = await run.stored()
            assert await super().write_transition(stored, expired(stored.record, at=time.time()))
            return await super().write_transition(wait, changed, event)

    signal_id = await send(connection, run)
    await SignalDelivery(connection, Expiring(connection)).deliver(run.run_id)
    assert await run.states() == ["expired"]
    mailbox = (await MailboxStore(connection).get(run.run_id)).mailbox
    assert [(signal.signal_id, signal.taken_by) for signal in mailbox.signals] == [(signal_id, None)]


async def test_two_gateways_deliver_each_signal_and_event_once(
    config: NatsBackendConfig, connection: Connection, tmp_path: Path
) -> None:
    other = replace(config, index_dir=str(tmp_path / "other"))
    async with running_gateway(config) as one, running_gateway(other) as two:
        run = await waiting_run(connection, FOR_SIGNAL, FOR_SIGNAL, FOR_EVENT)
        ids = [await send(connection, run, number) for number in range(3)]
        await publish(connection, "e-1")
        assert await answered_by(run, ids[0], ids[1], "e-1")
        await run.has_jobs(1)
        counts = [gateway.inside.signals.matching.received for gateway in (one, two)]
        assert {kind: sum(count[kind] for count in counts) for kind in counts[0]} == {
            WaitKind.SIGNAL: 2,
            WaitKind.EVENT: 1,
        }


async def test_events_of_another_tenant_or_before_the_start_do_not_count(
    config: NatsBackendConfig, connection: Connection
) -> None:
    """When an event was stored counts, not what the gateway that sent it said."""
    await publish(connection, "before", tenant_id="acme", at=time.time() + HOUR)
    run = await waiting_run(connection, FOR_EVENT, tenant_id="acme", submitted_at=time.time())
    later = await waiting_run(connection, FOR_EVENT, tenant_id="acme", submitted_at=time.time() + HOUR)
    await publish(connection, "rival", tenant_id="rival")
    await publish(connection, "none")
    async with running_gateway(config) as gateway:
        await has_looked_up(gateway)
        # Both sides: those before were looked up, and these are followed.
        await publish(connection, "other-name", tenant_id="acme", name="paid.not")
        await publish(connection, "counts", tenant_id="acme", at=time.time() - HOUR)
        assert await answered_by(run, "counts")
        # When this one is received, all that follows from the others is done.
        last = await waiting_run(connection, FOR_EVENT, tenant_id="acme", submitted_at=time.time())
        await publish(connection, "last", tenant_id="acme")
        assert await answered_by(last, "last")
    assert await later.states() == ["open"]


async def test_events_count_from_the_start_on_although_the_clocks_of_gateways_differ(
    config: NatsBackendConfig, connection: Connection, tmp_path: Path
) -> None:
    """The clock of the gateway that submits is a second ahead, or that of the other one behind."""
    other = replace(config, index_dir=str(tmp_path / "other"))
    async with running_gateway(config) as one, running_gateway(other) as two:
        before = await two.http.post("/events", json={"name": "paid", "id": "before"})
        assert before.status_code == 202, before.text
        for ahead_sec, behind_sec in ((1.0, 0.0), (0.0, 1.0)):
            with machine_clock_shifted(ahead_sec):
                run_id = await one.submit("noop")
            event_id = f"ahead-{ahead_sec}"
            with machine_clock_shifted(-behind_sec):
                sent = await two.http.post("/events", json={"name": "paid", "id": event_id})
            assert sent.status_code == 202, sent.text
            run = await opened_wait(connection, run_id, FOR_EVENT)
            assert await answered_by(run, event_id)


async def test_a_wait_in_the_name_of_another_tenant_receives_nothing(
    config: NatsBackendConfig, connection: Connection
) -> None:
    """A worker may write any wait."""
    forged = await waiting_run(connection, {**FOR_EVENT, "tenant_id": "acme"}, tenant_id="rival")
    own = await waiting_run(connection, FOR_EVENT, tenant_id="acme")
    await publish(connection, "looked-up", tenant_id="acme")
    async with running_gateway(config):
        assert await answered_by(own, "looked-up")
        for event_id in ("followed", "next"):
            # When the second one is received, all that follows from the first one is done.
            own = await waiting_run(connection, FOR_EVENT, tenant_id="acme")
            await publish(connection, event_id, tenant_id="acme")
            assert await answered_by(own, event_id)
    assert await forged.states() == ["open"]


async def test_a_run_with_a_later_start_ignores_events_before_it(
    config: NatsBackendConfig, connection: Connection
) -> None:
    submitted_at = time.time()
    await publish(connection, "while-it-was-scheduled")
    run = await waiting_run(connection, FOR_EVENT, submitted_at=submitted_at, start_at=time.time())
    await publish(connection, "after")
    async with running_gateway(config):
        assert await answered_by(run, "after")


async def test_a_wait_receives_the_first_event_that_counts(
    config: NatsBackendConfig, connection: Connection
) -> None:
    run = await waiting_run(connection, {**FOR_EVENT, "match": {"/n": 1}})
    for number, event_id in ((0, "e0"), (1, "e1"), (1, "e2")):
        await publish(connection, event_id, {"n": number})
    async with running_gateway(config):
        assert await answered_by(run, "e1")


async def test_an_event_that_an_earlier_wait_has_received_does_not_count_again(
    config: NatsBackendConfig, connection: Connection
) -> None:
    run = await waiting_run(connection, FOR_EVENT)
    continuations = Continuations(connection)
    await publish(connection, "e1")
    stored = await run.stored()
    received = satisfied(stored.record, payload=1, decision_id="e1", at=1.0)
    await continuations.write_transition(stored, received)
    # The same, and another match, which has not received it.
    later = [
        {**FOR_EVENT, "task": "check", "name": "paid#2"},
        {**FOR_EVENT, "task": "check", "name": "paid#3", "match": {"": None}},
    ]
    for fields in later:
        wait = wait_of(run.snapshot, **fields)
        await WaitStore(connection).create(wait)
        run.waits.append(wait)
    async with running_gateway(config):
        assert await answered_by(run, "e1", None, "e1")
        await publish(connection, "e2")
        assert await answered_by(run, "e1", "e2", "e1")


async def test_a_slow_look_back_delays_no_other_topic_and_no_new_event(
    config: NatsBackendConfig, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a topic of very many stored events. Its own waits receive the first event that counts."""
    is_reading, may_read, read = asyncio.Event(), asyncio.Event(), SentEventStore.up_to

    async def read_slowly(
        store: SentEventStore, newest: MessageInfo, **bounds: Any
    ) -> AsyncIterator[StoredEvent]:
        if newest.subject.startswith(slow_subject):
            is_reading.set()
            await may_read.wait()
        async for event in read(store, newest, **bounds):
            yield event

    monkeypatch.setattr(SentEventStore, "up_to", read_slowly)
    slow_subject = SentEventStore(connection)._subject(None, "slow")
    for_slow = {**FOR_EVENT, "topic": "slow"}
    slow = await waiting_run(connection, for_slow, {**for_slow, "match": {"/n": 2}})
    await publish(connection, "slow-1", {"n": 1}, name="slow")
    async with running_gateway(config) as gateway:
        await asyncio.wait_for(is_reading.wait(), LIMIT_SEC)
        # New waits for earlier and for new events.
        earlier_id = await gateway.submit("noop")
        await publish(connection, "e-1")
        await answered_by(await opened_wait(connection, earlier_id, FOR_EVENT), "e-1")
        await publish(connection, "slow-2", {"n": 2}, name="slow")
        run = await waiting_run(connection, FOR_EVENT, submitted_at=time.time())
        await publish(connection, "e-2")
        # All new events before this one have been matched, too.
        await answered_by(run, "e-2")
        assert await slow.states() == ["open", "open"]
        may_read.set()
        await answered_by(slow, "slow-1", "slow-2")


async def test_matching_goes_on_after_a_restart_of_nats(
    config: NatsBackendConfig, own_nats: NatsServer
) -> None:
    config = replace(config, nats_url=own_nats.url)
    async with running_gateway(config) as gateway, connected(config) as connection:
        before = await waiting_run(connection, FOR_SIGNAL, FOR_EVENT)
        connections = (connection, gateway.inside.connection)
        own_nats.stop()
        await eventually(lambda: not any(each.ready for each in connections), describe="it is noticed")
        own_nats.start()
        for each in connections:
            await each.wait_ready(LIMIT_SEC)
        after = await waiting_run(connection, FOR_SIGNAL, FOR_EVENT)
        ids = [await send(connection, run) for run in (before, after)]
        await publish(connection, "e-1")
        assert await answered_by(before, ids[0], "e-1")
        assert await answered_by(after, ids[1], "e-1")
