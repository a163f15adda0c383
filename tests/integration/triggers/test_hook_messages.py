"""A NATS subject as the source of a hook: one run per message, and a reason for those that start none."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import bucket_feed, jetstream_api
from pyoco_server.broker.jetstream.bucket_feed import BucketFeed
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.triggers.hook_models import HookRecord
from pyoco_server.triggers.hooks import hook_intake
from pyoco_server.triggers.hooks.hook_directory import HookDirectory
from pyoco_server.triggers.hooks.signatures import Incoming
from tests.support.broker.connections import connected
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.hook_senders import HookSender, a_hook
from tests.support.waiting import LIMIT_SEC, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(shared_config: NatsBackendConfig) -> AsyncIterator[RunningGateway]:
    async with running_gateway(shared_config) as running:
        yield running


async def publish(gateway: RunningGateway, hook: HookSender, body: Any, **headers: str) -> None:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    await publish_acked(gateway.inside.connection, hook.record["subject"], data, named or None)


async def nothing_left(connection: Connection) -> None:
    stream = connection.config.event_intake_stream

    async def empty() -> bool:
        return (await stream_state(connection, stream)).messages == 0

    await eventually(empty, describe="every message has left the queue")


async def test_each_message_starts_a_run(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, "nats", map={"n": "/n", "of": "header:Of"})
    assert hook.record["subject"] == f"pyoco.events_in.=.{hook.hook_id}"
    assert (hook.secret, hook.record["secrets"]) == ("", [])
    for number in range(3):
        await publish(gateway, hook, {"n": number}, Of="tests")
    kept = await hook.deliveries(3, status="started")
    assert {each["http_status"] for each in kept} == {None}
    runs = [await gateway.get(each["run_id"]) for each in kept]
    assert sorted(run["params"]["n"] for run in runs) == [0, 1, 2]
    assert runs[0]["params"]["of"] == "tests"
    assert runs[0]["cause"] == {"kind": "event", "id": f"hook:{hook.hook_id}"}
    await nothing_left(gateway.inside.connection)


async def test_messages_with_the_same_key_start_one_run(gateway: RunningGateway) -> None:
    hook = await a_hook(gateway.http, "nats", idempotency="/id")
    for number in range(3):
        await publish(gateway, hook, {"id": "order-1", "n": number})
    kept = await hook.deliveries(3)
    assert sorted(each["status"] for each in kept) == ["duplicate", "duplicate", "started"]
    assert len({each["run_id"] for each in kept}) == 1


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", {"no": "key"}])
async def test_a_bad_message_is_terminated_with_a_recorded_reason(gateway: RunningGateway, body: Any) -> None:
    hook = await a_hook(gateway.http, "nats", idempotency="/id")
    await publish(gateway, hook, body)
    [refused] = await hook.deliveries(1)
    assert (refused["status"], refused["reason"]) == ("refused", "invalid")
    assert refused["detail"]
    await nothing_left(gateway.inside.connection)


async def test_a_message_for_no_hook_is_terminated_and_logged(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture
) -> None:
    token = replace(await a_hook(gateway.http, "nats"), hook_id="x")
    for subject in ("pyoco.events_in.=.nobody", "pyoco.events_in.a.b.c", "pyoco.events_in.acme.h"):
        token.record["subject"] = subject
        await publish(gateway, token, {})
    await nothing_left(gateway.inside.connection)
    refused = [each for each in caplog.records if getattr(each, "err_id", "") == "ERR-PYOCO-0068"]
    assert len(refused) == 3


async def test_a_message_waits_while_the_hooks_are_being_read(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook may be among those that are not read yet."""
    hook = await a_hook(gateway.http, "nats")
    asked, is_read, get = asyncio.Semaphore(0), asyncio.Event(), HookDirectory.get

    async def catches_up_later(_: BucketFeed) -> None:
        asked.release()
        await is_read.wait()

    def known(directory: HookDirectory, tenant_id: str | None, hook_id: str) -> HookRecord | None:
        return get(directory, tenant_id, hook_id) if is_read.is_set() else None

    with monkeypatch.context() as patch:
        patch.setattr(bucket_feed, "_CATCH_UP_SEC", 0.01)
        patch.setattr(hook_intake, "_RETRY_SEC", 0.01)
        patch.setattr(BucketFeed, "caught_up", catches_up_later)
        patch.setattr(HookDirectory, "get", known)
        await publish(gateway, hook, {"n": 1})
        async with asyncio.timeout(LIMIT_SEC):
            for _ in range(2):
                await asked.acquire()
        is_read.set()
        await hook.deliveries(1, status="started")


async def test_a_message_waits_while_an_earlier_run_is_open(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No worker executes the runs. A rejected message is delivered again and again, and is kept once."""
    monkeypatch.setattr(hook_intake, "_BUSY_SEC", 0.02)
    hook = await a_hook(gateway.http, "nats", overlap="reject")
    await publish(gateway, hook, {"n": 1})
    [first] = await hook.deliveries(1)
    await publish(gateway, hook, {"n": 2})
    counts = gateway.inside.hooks.receiver.counts
    known = counts["rejected"]
    await eventually(lambda: counts["rejected"] >= known + 5, describe="it was delivered several times")
    assert [each["status"] for each in await hook.deliveries(2)] == ["rejected", "started"]
    await gateway.http.post(f"/runs/{first['run_id']}/cancel")
    await gateway.reaches(first["run_id"], "CANCELLED")
    assert len(await hook.deliveries(2, status="started")) == 2
    assert [each["status"] for each in await hook.deliveries(3)] == ["started", "rejected", "started"]


async def test_a_busy_hook_holds_up_no_other(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JetStream delivers at most so many messages that are not acknowledged: by default 1,000."""
    busy = await a_hook(gateway.http, "nats", overlap="reject")
    other = await a_hook(gateway.http, "nats")
    await asyncio.gather(*(publish(gateway, busy, {"n": number}) for number in range(1_100)))
    await publish(gateway, other, {"n": 0})
    [started] = await other.deliveries(1)
    assert started["status"] == "started"
    # And the runs of the busy one start one after the other.
    monkeypatch.setattr(hook_intake, "_BUSY_SEC", 0.05)
    [first] = await busy.deliveries(1, status="started")
    await gateway.http.post(f"/runs/{first['run_id']}/cancel")
    assert len(await busy.deliveries(2, status="started")) == 2
    await gateway.http.delete(f"/hooks/{busy.hook_id}")


async def test_a_kept_message_is_processed_again_under_its_own_key(gateway: RunningGateway) -> None:
    """So that it starts one run, also if NATS delivers it once more."""
    hook = await a_hook(gateway.http, "nats", only_if={"/wanted": True})
    await publish(gateway, hook, {"wanted": False})
    [ignored] = await hook.deliveries(1)
    await gateway.http.patch(f"/hooks/{hook.hook_id}", json={"only_if": {}})
    again = f"/hooks/{hook.hook_id}/deliveries/{ignored['delivery_id']}/redeliver"
    started = (await gateway.http.post(again)).json()
    record = gateway.inside.hooks.directory.get(None, hook.hook_id)
    assert record is not None
    kept = await gateway.inside.hooks.service.delivery(record, ignored["delivery_id"])
    assert kept.content is not None
    message = Incoming(headers={}, body=b'{"wanted":false}', over_nats=True, is_repeated=True)
    repeated = await gateway.inside.hooks.receiver.process(
        record, message, default_key=kept.content.default_key
    )
    assert (repeated.is_duplicate, repeated.run_id) == (True, started["run_id"])


async def test_an_id_counts_for_its_hook_alone(gateway: RunningGateway) -> None:
    hooks = [await a_hook(gateway.http, "nats") for _ in range(2)]
    for hook in hooks:
        await publish(gateway, hook, {"n": 1}, Idempotency_Key="order-1")
    runs = {(await hook.deliveries(1))[0]["run_id"] for hook in hooks}
    assert len(runs) == 2
    stream = await jetstream_api.call(
        gateway.inside.connection, f"STREAM.INFO.{gateway.inside.config.event_intake_stream}"
    )
    assert stream["config"]["duplicate_window"] == 100_000_000


async def test_what_was_published_without_a_gateway_is_taken_later(config: NatsBackendConfig) -> None:
    async with running_gateway(config) as first:
        hook = await a_hook(first.http, "nats")
        await publish(first, hook, {"n": 0})
        await hook.deliveries(1)
    async with connected(config) as connection:
        for number in range(50):
            body = msgspec.json.encode({"n": number + 1})
            await publish_acked(connection, hook.record["subject"], body)
    async with running_gateway(config) as second:
        found = replace(hook, http=second.http)
        kept = await found.deliveries(51, limit=200, status="started")
        assert len({each["run_id"] for each in kept}) == 51
