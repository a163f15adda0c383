"""A notifier without the rest of a gateway, and events for it."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.stores.waits.wait_event_log import WaitEventLog
from pyoco_server.broker.stores.waits.wait_event_queue import NOTIFY_CONSUMER
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.records.waits.wait_models import WaitEvent, WaitEventKind, WaitRecord
from pyoco_server.waits.human.notifications import Notifier
from tests.support.broker.connections import connected
from tests.support.broker.stored_waits import a_wait
from tests.support.waiting import eventually
from tests.support.webhooks import WebhookReceiver, WebhookRequest

KEY = "correct horse battery staple"


def notified(config: NatsBackendConfig, receiver: WebhookReceiver, **settings: Any) -> NatsBackendConfig:
    timeout_sec: float = settings.pop("notify_timeout_sec", 300.0)
    found = replace(
        config, notify_url=receiver.url, notify_secret=KEY, public_url="https://pyoco.example/", **settings
    )
    # Longer than the setting allows, so that a slow machine causes no retry.
    object.__setattr__(found, "notify_timeout_sec", timeout_sec)
    return found


def wait_record(**fields: Any) -> WaitRecord:
    given: dict[str, Any] = {
        "flow_name": "invoice",
        "task": "approve",
        "message": "Is 120 EUR right?",
        "tenant_id": "acme",
        "assignees": ["ada"],
        "schema": {"type": "object", "description": "the-schema"},
        "proposal": {"amount": "the-proposal"},
        "default": "the-default",
    }
    return a_wait(new_run_id(), "human", **{**given, **fields})


def event_of(wait: WaitRecord, kind: WaitEventKind = WaitEventKind.OPENED, **fields: Any) -> WaitEvent:
    return WaitEvent(
        event_id=f"{wait.wait_id}.{kind}",
        kind=kind,
        wait_id=wait.wait_id,
        run_id=wait.run_id,
        at=fields.pop("at", time.time()),
        tenant_id=wait.tenant_id,
        **fields,
    )


async def has_consumer(connection: Connection) -> bool:
    stream = connection.config.wait_event_stream
    try:
        await jetstream_api.call(connection, f"CONSUMER.INFO.{stream}.{NOTIFY_CONSUMER}")
    except jetstream_api.ApiRefused as refused:
        if refused.code == jetstream_api.NOT_FOUND:
            return False
        raise
    return True


async def undelivered(connection: Connection) -> int:
    """Events that are not delivered yet."""
    stream = connection.config.wait_event_stream
    info = await jetstream_api.call(connection, f"CONSUMER.INFO.{stream}.{NOTIFY_CONSUMER}")
    return int(info["num_pending"] + info["num_ack_pending"])


async def all_delivered(connection: Connection) -> None:
    """After the last delivery: the server counts an ack a moment later."""

    async def there_is_none() -> bool:
        return await undelivered(connection) == 0

    await eventually(there_is_none, describe="all events are delivered or given up")


@asynccontextmanager
async def running_notifier(config: NatsBackendConfig) -> AsyncIterator[Connection]:
    """A running notifier with its consumer."""
    async with connected(config) as connection:
        notifications = Notifier(connection)
        await notifications.start()
        try:
            await eventually(lambda: has_consumer(connection), describe="the consumer exists")
            yield connection
        finally:
            await notifications.close()


async def opened(connection: Connection, wait: WaitRecord | None = None) -> WaitEvent:
    wait = wait or wait_record()
    await WaitStore(connection).create(wait)
    event = event_of(wait)
    await WaitEventLog(connection).publish(event)
    return event


async def wait_for_requests(receiver: WebhookReceiver, times: int = 1) -> list[WebhookRequest]:
    def enough() -> bool:
        return len(receiver.requests) >= times

    await eventually(enough, describe=f"the receiver got {times} notifications")
    assert len(receiver.requests) == times, receiver.ids()
    return receiver.requests
