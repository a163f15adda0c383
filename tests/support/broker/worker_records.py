"""Worker records for tests: put into the registry by hand, or awaited from a real worker."""

from typing import Any

import msgspec

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.records.workers.worker_models import WorkerRecord, WorkerState
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import eventually


def a_record(worker_id: str, *, seen_at: float, **fields: Any) -> WorkerRecord:
    known = {"state": WorkerState.IDLE, "tags": ["default"], "instance_id": f"{worker_id}-instance"}
    return WorkerRecord(
        worker_id=worker_id, last_seen_at=seen_at, last_heartbeat_at=seen_at, **{**known, **fields}
    )


async def put_record(connection: Connection, record: WorkerRecord | bytes, *, key: str = "") -> None:
    value = record if isinstance(record, bytes) else msgspec.json.encode(record)
    key = key or (record.worker_id if isinstance(record, WorkerRecord) else "")
    await publish_acked(connection, f"$KV.{connection.config.workers_kv_bucket}.{key}", value)


async def worker(gateway: RunningGateway, worker_id: str = "worker") -> dict[str, Any]:
    """The response of `GET /workers/{worker_id}`."""
    response = await gateway.http.get(f"/workers/{worker_id}")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def worker_is(gateway: RunningGateway, worker_id: str = "worker", **fields: Any) -> dict[str, Any]:
    """The worker once it has these values."""

    async def there() -> dict[str, Any] | None:
        found = await worker(gateway, worker_id)
        return found if {name: found[name] for name in fields} == fields else None

    return await eventually(there, describe=f"worker {worker_id} has {fields}")


async def ask(gateway: RunningGateway, worker_id: str = "worker", **wish: object) -> dict[str, Any]:
    """The response of `PATCH /workers/{worker_id}`."""
    response = await gateway.http.patch(f"/workers/{worker_id}", json=wish)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found
