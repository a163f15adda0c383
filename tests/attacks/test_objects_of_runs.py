"""With the NATS credentials of one worker group, the objects of another can be neither read nor replaced.

Nor can a changed run hand them to another tenant.
"""

from typing import Any

import nats.errors
import pytest

from pyoco_server.broker.stores.runs.run_object_store import RunObjects
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.run_models import new_run_id
from tests.attacks.conftest import Attacker
from tests.integration.broker.test_run_objects import in_blocks
from tests.support.broker.connections import connected
from tests.support.problems import assert_problem
from tests.support.running.api_keys import new_key
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.installation import Installation
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAM = "PYOCO_OBJECTS"


async def reply(attacker: Attacker, subject: str, payload: bytes = b"") -> bytes | None:
    """None when nobody replies: the group may not send it."""
    try:
        return (await attacker.client.request(subject, payload, timeout=1.0)).data
    except nats.errors.Error:
        return None


async def test_a_group_stores_and_reads_the_objects_of_its_own_tag(
    attacked: RunningGateway, two_groups: Installation
) -> None:
    """So that the tests below do not pass because of a typing mistake."""
    run_id = new_run_id()
    async with connected(two_groups.settings("gpu"), with_resources=False) as worker:
        objects = RunObjects(worker)
        await objects.put("gpu", run_id, "result", in_blocks(b"first"))
        stored = await objects.put("gpu", run_id, "result", in_blocks(b"mine"))
        assert await objects.entries("gpu", run_id) == [stored]
        assert [block async for block in objects.read("gpu", run_id, stored)] == [b"mine"]
    there = RunObjects(attacked.inside.connection)
    assert await there.find("gpu", run_id, "result") == stored
    assert [block async for block in there.read("gpu", run_id, stored)] == [b"mine"]


async def test_the_objects_of_another_group_are_not_writable(
    attacked: RunningGateway, attacker: Attacker
) -> None:
    run_id = new_run_id()
    objects = RunObjects(attacked.inside.connection)
    stored = await objects.put("gpu", run_id, "result", in_blocks(b"true"))
    place = objects._place("gpu", run_id, "result")
    for subject in (f"{place}.record", f"{place}.{stored.upload}.0", f"{place}.{stored.upload}.begun"):
        assert not await attacker.publish(subject, b"forged")
    assert await reply(attacker, f"$JS.API.STREAM.PURGE.{STREAM}") is None
    assert await attacker.publish(objects._place("cpu", run_id, "result") + ".record", b"own tag")
    assert await objects.entries("gpu", run_id) == [stored]
    assert [block async for block in objects.read("gpu", run_id, stored)] == [b"true"]


async def test_the_objects_of_another_group_are_not_readable(
    attacked: RunningGateway, attacker: Attacker, two_groups: Installation
) -> None:
    run_id = new_run_id()
    objects = RunObjects(attacked.inside.connection)
    stored = await objects.put("gpu", run_id, "result", in_blocks(b"secret"))
    subject = f"{objects._place('gpu', run_id, 'result')}.{stored.upload}.0"
    by_body = f'{{"last_by_subj": "{subject}"}}'.encode()
    assert await reply(attacker, f"$JS.API.DIRECT.GET.{STREAM}.{subject}") is None
    assert await reply(attacker, f"$JS.API.DIRECT.GET.{STREAM}", by_body) is None
    assert await reply(attacker, f"$JS.API.STREAM.MSG.GET.{STREAM}", by_body) is None
    async with connected(two_groups.settings("cpu"), with_resources=False) as worker:
        with pytest.raises(NatsUnavailable):
            await RunObjects(worker).find("gpu", run_id, "result")


@pytest.mark.parametrize(
    ("flow", "params", "paths", "number"),
    [
        ("sales", {}, ["/logs", "/logs?tail=5", "/logs?around=1-0", "/logs?before=9-0", "/graph"], 5),
        ("sales", {"day": "secret" * 5000}, ["?include=full", "?include=all"], 5),
        ("returning-bytes", {"size": 1_000_000}, ["/result", "/tasks/give_bytes/output"], 71),
        ("writing-files", {"files": {"a.txt": "secret"}}, ["/artifacts", "/artifacts/a.txt"], 72),
    ],
    ids=["logs and graph", "params", "results", "artifacts"],
)
async def test_a_changed_run_gives_its_objects_to_no_other_tenant(
    attacked: RunningGateway,
    attacker: Attacker,
    two_groups: Installation,
    flow: str,
    params: dict[str, Any],
    paths: list[str],
    number: int,
) -> None:
    """`attacked` has the worker that executes the run."""
    victim = (await new_key(two_groups.settings("admin"), "victim")).header
    mallory = (await new_key(two_groups.settings("admin"), "mallory")).header
    async with running_gateway(two_groups.settings("gateway", http_auth_mode="api_key")) as gateway:
        job = {"flow_name": flow, "params": params, "tag": "gpu"}
        accepted = await gateway.http.post("/runs", json=job, headers=victim)
        run_id = accepted.json()["run_id"]

        async def completed() -> bool:
            run = await gateway.http.get(f"/runs/{run_id}", headers=victim)
            return bool(run.json()["status"] == "COMPLETED")

        await eventually(completed, describe="the run has ended")
        for path in paths:
            assert (await gateway.http.get(f"/runs/{run_id}{path}", headers=victim)).status_code == 200
            assert_problem(await gateway.http.get(f"/runs/{run_id}{path}", headers=mallory), 404, 5)
        await attacker.write_run({**await attacker.read_run(run_id), "tenant_id": "mallory"})
        for path in paths:
            refused = await gateway.http.get(f"/runs/{run_id}{path}", headers=mallory)
            assert_problem(refused, 404, number)
            assert "not as a gateway accepted it" in refused.json()["detail"]
