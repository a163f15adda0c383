"""With the NATS credentials of one worker group, a worker record does not disturb the gateway."""

import json
import time
from uuid import uuid4

import pytest

from tests.attacks.conftest import Attacker
from tests.support.running.gateway import RunningGateway
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def write_worker(attacker: Attacker, tag: str) -> str:
    """The instance id of a worker of this tag that does not exist."""
    now = time.time()
    record = {
        "worker_id": "forged",
        "instance_id": uuid4().hex,
        "state": "IDLE",
        "last_seen_at": now,
        "last_heartbeat_at": now,
        "tags": [tag],
    }
    assert await attacker.publish("$KV.pyoco_workers.forged", json.dumps(record).encode())
    return str(record["instance_id"])


@pytest.mark.parametrize("tag", ["a.b", "a b", ">", "", "x" * 70_000], ids=lambda tag: tag[:3] or "none")
async def test_no_subject_is_made_of_a_text_that_is_no_tag(
    attacked: RunningGateway, attacker: Attacker, tag: str
) -> None:
    """When such a worker is lost, the gateway asks for the consumers of its tags.

    NATS closes the connection after a subject that is too long, and a refusal ends the search for all others.
    """
    takeover = attacked.inside.takeover
    # A record that was written before is not seen.
    await eventually(lambda: takeover._records.subject, describe="the gateway follows worker records")
    hostile = await write_worker(attacker, tag)
    later = await write_worker(attacker, "cpu")
    probed = takeover._workers.probed
    await eventually(lambda: later in probed, describe="the later worker is probed")
    assert hostile not in probed
