"""One run per idempotency key: two gateways at once, interrupted starts, removed and expired receipts."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.kv import Bucket
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.broker.stores.triggers.receipt_store import ReceiptKey, ReceiptStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import InvalidRequest, NatsUnavailable
from pyoco_server.records.ids import NO_TENANT
from pyoco_server.records.runs.causes import Cause, CauseKind
from pyoco_server.records.runs.run_models import Job, new_run_id
from pyoco_server.records.triggers.workflow_event_models import Receipt
from pyoco_server.records.waits.signal_models import digest_token
from pyoco_server.runs.lifecycle.durable_start import DurableStarter
from pyoco_server.runs.lifecycle.submission import new_job
from pyoco_server.triggers import overlap_slots
from pyoco_server.triggers.overlap_slots import OverlapSlots
from pyoco_server.triggers.trigger_receipts import (
    StartedOnce,
    StartRequest,
    TriggerReceipts,
    run_id_of,
)
from tests.support.broker.connections import connected
from tests.support.broker.stored_runs import snapshot, write
from tests.support.running.gateway import running_gateway
from tests.support.running.workflow_events import put_action, save_template, started
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY = 86_400.0
NOW = 1_800_000_000.0


def job(**fields: Any) -> Job:
    return new_job(**{"flow_name": "noop", "tag": "default", "cause": Cause(kind=CauseKind.EVENT), **fields})


def request(text: str, *, fingerprint: str = "f", **fields: Any) -> StartRequest:
    return StartRequest(ReceiptKey(None, "template:monthly", text), fingerprint, job(**fields))


def receipts(connection: Connection, *, ttl_sec: float = 90 * DAY, at: float = NOW) -> TriggerReceipts:
    return TriggerReceipts(connection, ttl_sec=ttl_sec, clock=lambda: at)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two_connections(shared_config: NatsBackendConfig) -> AsyncIterator[list[Connection]]:
    """As two gateways have them."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connected(shared_config)) for _ in range(2)]


async def accepted(connection: Connection, key: ReceiptKey) -> Receipt:
    async def there() -> Receipt | None:
        stored = await ReceiptStore(connection).get(key)
        return stored.record if stored is not None and stored.record.accepted else None

    return await eventually(there, describe=f"the receipt of {key.text} is accepted")


async def test_the_same_key_at_once_on_two_gateways_starts_one_run(
    two_connections: list[Connection],
) -> None:
    both = [receipts(connection) for connection in two_connections]
    for n in range(200):
        one, other = await asyncio.gather(*(each.start_once(request(f"at-once-{n}")) for each in both))
        assert one.run_id == other.run_id
        assert [one.is_new, other.is_new].count(True) == 1


async def test_a_repeated_key_finds_the_run_and_notes_another_payload(
    shared_connection: Connection,
) -> None:
    started = receipts(shared_connection)
    first = await started.start_once(request("again"))
    same = await started.start_once(request("again"))
    other = await started.start_once(request("again", fingerprint="other"))
    assert (first.is_new, first.differs) == (True, False)
    assert (same.is_new, same.differs, same.run_id) == (False, False, first.run_id)
    assert (other.is_new, other.differs, other.run_id) == (False, True, first.run_id)


async def test_keys_of_another_owner_or_tenant_are_others(shared_connection: Connection) -> None:
    keys = [
        ReceiptKey(None, "template:a", "k"),
        ReceiptKey("t", "template:a", "k"),
        ReceiptKey(None, "hook:a", "k"),
    ]
    started = receipts(shared_connection)
    runs = [await started.start_once(StartRequest(key, "", job())) for key in keys]
    assert len({run.run_id for run in runs}) == 3
    assert all(run.is_new for run in runs)


async def test_a_gateway_killed_before_the_run_is_continued_with_the_first_job(
    shared_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def killed(*_: Any) -> bool:
        raise asyncio.CancelledError

    asked = request("killed-before", params={"amount": 1})
    with monkeypatch.context() as patch:
        patch.setattr(DurableStarter, "ensure_run", killed)
        with pytest.raises(asyncio.CancelledError):
            await receipts(shared_connection).start_once(asked)
    assert await RunStore(shared_connection).get_from_leader(run_id_of(asked.key)) is None

    repeated = await receipts(shared_connection).start_once(request("killed-before", params={"amount": 2}))
    assert (repeated.is_new, repeated.run_id) == (False, run_id_of(asked.key))
    run = await RunStore(shared_connection).get_from_leader(repeated.run_id)
    assert run is not None
    assert run.snapshot.params == {"amount": 1}


async def test_a_gateway_killed_before_its_answer_leaves_a_run_that_the_repeated_event_finds(
    shared_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request("killed-after")
    ensure_run = DurableStarter.ensure_run

    async def killed(starter: DurableStarter, job: Job) -> bool:
        await ensure_run(starter, job)
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(DurableStarter, "ensure_run", killed)
        with pytest.raises(asyncio.CancelledError):
            await receipts(shared_connection).start_once(asked)
    stored = await ReceiptStore(shared_connection).get(asked.key)
    assert stored is not None
    assert not stored.record.accepted

    repeated = await receipts(shared_connection).start_once(request("killed-after"))
    assert (repeated.is_new, repeated.run_id) == (False, run_id_of(asked.key))
    await accepted(shared_connection, asked.key)


async def test_what_comes_before_the_acceptance_is_repeated_until_it_succeeds(
    shared_connection: Connection,
) -> None:
    asked = request("audited")
    seen: list[str] = []

    async def refuse(receipt: Receipt) -> None:
        seen.append("refused")
        raise NatsUnavailable("no")

    async def note(receipt: Receipt) -> None:
        seen.append(receipt.run_id)

    first = receipts(shared_connection)
    await first.start_once(asked, refuse)
    await first.close()
    stored = await ReceiptStore(shared_connection).get(asked.key)
    assert stored is not None
    assert not stored.record.accepted
    second = receipts(shared_connection)
    await second.start_once(asked, note)
    await second.start_once(asked, note)
    await accepted(shared_connection, asked.key)
    await second.start_once(asked, note)
    await second.close()
    assert seen[:2] == ["refused", run_id_of(asked.key)]


async def test_a_run_that_cannot_be_stored_leaves_no_receipt(shared_connection: Connection) -> None:
    too_many_tags = [f"{n:0100d}" for n in range(2000)]
    asked = request("too-large", tags=too_many_tags)
    with pytest.raises(InvalidRequest):
        await receipts(shared_connection).start_once(asked)
    assert await ReceiptStore(shared_connection).get(asked.key) is None
    started = await receipts(shared_connection).start_once(request("too-large"))
    assert started.is_new


async def test_the_server_removes_a_receipt_after_its_time(shared_connection: Connection) -> None:
    asked = request("short")
    short = receipts(shared_connection, ttl_sec=1.0)
    first = await short.start_once(asked)

    async def gone() -> bool:
        return await ReceiptStore(shared_connection).get(asked.key) is None

    await eventually(gone, describe="the receipt has expired")
    later = receipts(shared_connection, ttl_sec=1.0, at=NOW + 2.0)
    again = await later.start_once(asked)
    assert again.is_new
    assert again.run_id != first.run_id
    repeated = await later.start_once(asked)
    assert (repeated.is_new, repeated.run_id) == (False, again.run_id)


async def test_a_key_whose_receipt_was_removed_early_still_finds_its_run(
    shared_connection: Connection,
) -> None:
    store = ReceiptStore(shared_connection)
    asked = [StartRequest(ReceiptKey("many", "template:m", f"k{n}"), "", job()) for n in range(7)]
    started = receipts(shared_connection)
    runs = [await started.start_once(each) for each in asked]
    for each in asked:
        await accepted(shared_connection, each.key)
    group = asked[0].key.group
    assert await store.remove_oldest(group, keep=3) == 4
    assert await store.remove_oldest(group, keep=3) == 0
    kept = [await store.get(each.key) is not None for each in asked]
    assert kept.count(True) == 3

    removed = kept.index(False)
    again = await receipts(shared_connection, at=NOW + DAY).start_once(asked[removed])
    assert (again.is_new, again.run_id) == (False, runs[removed].run_id)
    assert (await accepted(shared_connection, asked[removed].key)).expires_at == NOW + 90 * DAY


async def test_the_slot_of_an_expired_key_is_that_of_its_new_run(shared_connection: Connection) -> None:
    slots = OverlapSlots(shared_connection)
    first, second, third = new_run_id(), new_run_id(), new_run_id()
    assert await slots.take(None, "hook:slots", first, now=NOW) is None
    await slots.pass_on(None, "hook:slots", first, second)
    assert await slots.take(None, "hook:slots", second, now=NOW) is None
    # It is not passed on by a run that does not have it.
    await slots.pass_on(None, "hook:slots", first, third)
    await write(RunStore(shared_connection), snapshot(run_id=second))
    assert await slots.take(None, "hook:slots", third, now=time.time()) == second


async def test_a_run_that_is_not_stored_refuses_nobody(
    shared_connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gateway may have failed: a delivery that was skipped because of it would be lost."""
    monkeypatch.setattr(overlap_slots, "MAX_LOOKS", 2)
    slots = OverlapSlots(shared_connection)
    first, second = new_run_id(), new_run_id()
    assert await slots.take(None, "hook:failed", first, now=time.time()) is None
    with pytest.raises(NatsUnavailable, match="another delivery is starting a run"):
        await slots.take(None, "hook:failed", second, now=time.time())
    assert await slots.take(None, "hook:failed", second, now=time.time() + 31) is None


async def test_a_slot_that_cannot_be_read_is_free(shared_connection: Connection) -> None:
    slots = OverlapSlots(shared_connection)
    first, second = new_run_id(), new_run_id()
    assert await slots.take(None, "hook:junk", first, now=time.time()) is None
    bucket = Bucket(shared_connection, shared_connection.config.receipts_kv_bucket)
    key = f"o.{NO_TENANT}.{digest_token('hook:junk')}"
    stored = await bucket.get_from_leader(key)
    assert stored is not None
    await bucket.update(key, b"{}", revision=stored.revision)
    assert await slots.take(None, "hook:junk", second, now=time.time()) is None


async def removed(connection: Connection, key: ReceiptKey) -> None:
    """As JetStream removes it after its time, or a gateway because there are too many."""
    await accepted(connection, key)
    store = ReceiptStore(connection)
    stored = await store.get(key)
    assert stored is not None
    await store.remove(stored)


async def at_once(
    connections: list[Connection], asked: StartRequest, *, ttl_sec: float, at: float
) -> list[StartedOnce]:
    """Six requests with this key at the same moment, at two gateways whose clocks differ a little."""
    both = [
        receipts(connection, ttl_sec=ttl_sec, at=at + n / 100) for n, connection in enumerate(connections)
    ]
    return await asyncio.gather(*(each.start_once(asked) for each in both * 3))


async def test_an_expired_key_at_once_on_two_gateways_starts_one_new_run(
    two_connections: list[Connection],
) -> None:
    for number in range(20):
        asked = request(f"expired-{number}")
        first = await receipts(two_connections[0], ttl_sec=DAY).start_once(asked)
        await removed(two_connections[0], asked.key)
        started = await at_once(two_connections, asked, ttl_sec=DAY, at=NOW + 2 * DAY)
        assert [each.is_new for each in started].count(True) == 1
        [run_id] = {each.run_id for each in started}
        assert run_id != first.run_id
        assert (await accepted(two_connections[1], asked.key)).run_id == run_id
        assert await RunStore(two_connections[1]).get_from_leader(run_id) is not None


async def test_a_removed_receipt_at_once_on_two_gateways_is_a_duplicate_for_all(
    two_connections: list[Connection],
) -> None:
    for number in range(20):
        asked = request(f"removed-{number}")
        first = await receipts(two_connections[0]).start_once(asked)
        await removed(two_connections[0], asked.key)
        started = await at_once(two_connections, asked, ttl_sec=90 * DAY, at=NOW + DAY)
        assert {(each.is_new, each.run_id) for each in started} == {(False, first.run_id)}


async def test_a_gateway_killed_after_it_has_reserved_an_expired_key_is_continued(
    two_connections: list[Connection],
) -> None:
    asked = request("expired-and-killed")
    first = await receipts(two_connections[0], ttl_sec=DAY).start_once(asked)
    await removed(two_connections[0], asked.key)
    killed = receipts(two_connections[0], ttl_sec=DAY, at=NOW + 2 * DAY)
    assert await killed._reserve(asked) is not None
    repeated = await receipts(two_connections[1], ttl_sec=DAY, at=NOW + 2 * DAY + 1).start_once(asked)
    assert repeated.run_id != first.run_id
    assert (await accepted(two_connections[1], asked.key)).run_id == repeated.run_id
    assert await RunStore(two_connections[1]).get_from_leader(repeated.run_id) is not None


async def test_a_key_whose_run_was_deleted_since_is_answered_with_it(shared_connection: Connection) -> None:
    """It was not accepted: its gateway died. Its run has ended and was deleted, which starts no other."""
    asked = request("deleted")
    reserved = await receipts(shared_connection, at=time.time())._reserve(asked)
    assert reserved is not None
    runs = RunStore(shared_connection)
    await receipts(shared_connection)._ensure(reserved)
    stored = await runs.get_from_leader(reserved.record.run_id)
    assert stored is not None
    await runs.delete(reserved.record.run_id, revision=stored.revision)
    repeated = await receipts(shared_connection, at=time.time()).start_once(asked)
    assert (repeated.is_new, repeated.run_id) == (False, reserved.record.run_id)
    assert await runs.get_from_leader(reserved.record.run_id) is None


async def test_more_receipts_than_allowed_are_removed_and_that_is_said(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(replace(config, workflow_event_max_receipts=5)) as gateway:
        await put_action(gateway)
        await save_template(gateway, "t")
        answers = [await started(gateway, template_id="t", idempotency_key=f"k{n}") for n in range(12)]
        receipts = gateway.inside.workflow_events.receipts
        await eventually(lambda: receipts.removed_early >= 7, describe="the oldest are removed")
        assert "were removed before their time" in caplog.text
        # Its run is stored: it is known nevertheless.
        again = await started(gateway, template_id="t", idempotency_key="k0")
        assert (again["duplicate"], again["run_id"]) == (True, answers[0]["run_id"])
        metrics = (await gateway.http.get("/metrics")).text
        assert "pyoco_workflow_event_receipts_removed_total" in metrics
        assert 'pyoco_workflow_events_total{status="success"} 12.0' in metrics
        assert 'pyoco_workflow_event_retry_jobs{status="pending"} 0.0' in metrics
