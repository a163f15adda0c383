"""The audit log against a worker's credentials, and against keys of other tenants."""

from typing import Any

import msgspec
import nats.errors
import nats.js.errors
import pytest

from pyoco_server.broker.permissions import gateway_access
from tests.attacks.conftest import Attacker
from tests.support.broker.stored_runs import written
from tests.support.running.gateway import RunningGateway
from tests.support.running.installation import Installation

pytestmark = pytest.mark.asyncio(loop_scope="module")

FORGED: dict[str, Any] = {
    "id": "forged",
    "at": 1.0,
    "actor": {"name": "victim"},
    "action": "run.cancel",
    "target": {"kind": "run"},
    "outcome": "accepted",
    "status": 200,
    "request_id": "forged",
}


async def entries(gateway: RunningGateway) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await gateway.http.get("/audit")).json()["items"]
    return found


async def test_a_worker_can_neither_write_nor_read_nor_delete_entries(
    attacked: RunningGateway, attacker: Attacker
) -> None:
    run = await written(attacked.inside.connection)
    await attacked.http.post(f"/runs/{run.run_id}/cancel")
    assert not await attacker.publish("pyoco.audit_log.=.forged", msgspec.json.encode(FORGED))
    jetstream = attacker.client.jetstream(timeout=1.0)
    for forbidden in (
        jetstream.get_msg("PYOCO_AUDIT_LOG", 1),
        jetstream.delete_msg("PYOCO_AUDIT_LOG", 1),
        jetstream.purge_stream("PYOCO_AUDIT_LOG"),
    ):
        with pytest.raises((nats.errors.Error, nats.js.errors.Error)):
            await forbidden
    assert [each["target"]["id"] for each in await entries(attacked)] == [run.run_id]


async def test_not_even_a_gateway_may_delete_or_purge_entries(two_groups: Installation) -> None:
    allowed = gateway_access(two_groups.settings("gateway")).publish
    changing = ("PURGE", "DELETE", "UPDATE")
    assert [
        each for each in allowed if "PYOCO_AUDIT_LOG" in each and any(word in each for word in changing)
    ] == []
