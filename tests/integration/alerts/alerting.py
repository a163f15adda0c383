"""Alerts of a gateway under test, and the runs that make them fire."""

import time
from typing import Any

from pyoco_server.records.runs.run_models import RunStatus
from tests.support.broker.stored_runs import ended, write
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import eventually
from tests.support.webhooks import WebhookReceiver, WebhookRequest

# Conditions are evaluated at once, and messages go to the test's own receivers.
FAST: dict[str, Any] = {"alert_interval_sec": 0.05, "alert_networks": "127.0.0.0/8"}


def webhook(receiver: WebhookReceiver, **fields: Any) -> dict[str, Any]:
    return {"name": "ops", "kind": "webhook", "url": receiver.url, **fields}


async def save(gateway: RunningGateway, alert_id: str, **fields: Any) -> dict[str, Any]:
    response = await gateway.http.put(f"/alerts/{alert_id}", json=fields)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def fail(gateway: RunningGateway, flow_name: str, count: int = 1, **fields: Any) -> list[str]:
    """Runs of this flow that have failed just now."""
    runs = [ended(RunStatus.FAILED, at=time.time(), flow_name=flow_name, **fields) for _ in range(count)]
    return await write(gateway.inside.runs.store, *runs)


async def history(gateway: RunningGateway, alert_id: str) -> list[dict[str, Any]]:
    response = await gateway.http.get(f"/alerts/{alert_id}/history")
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


async def received(receiver: WebhookReceiver, count: int) -> list[WebhookRequest]:
    """That many messages."""

    def there() -> list[WebhookRequest] | None:
        return receiver.requests if len(receiver.requests) >= count else None

    return await eventually(there, describe=f"the receiver has {count} messages")


async def is_delivered(gateway: RunningGateway, alert_id: str, *, phase: str = "fired") -> dict[str, Any]:
    """The newest occurrence, once its messages are delivered."""

    async def there() -> dict[str, Any] | None:
        found = await history(gateway, alert_id)
        if not found or not found[0][phase]:
            return None
        is_done = all(each["state"] == "delivered" for each in found[0][phase])
        return found[0] if is_done else None

    return await eventually(there, describe=f"{phase} of {alert_id} is delivered")
