"""Our gateway and worker on a store of the public package, and what must work there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from pyoco_server.config import NatsBackendConfig
from pyoco_server.worker.ipc.protocol import Setup
from tests.support.public.package import FLOWS_FILE, PEPPER, WHEEL, Leftovers
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually


@asynccontextmanager
async def adopted_by_ours(config: NatsBackendConfig, left: Leftovers) -> AsyncIterator[RunningGateway]:
    """A gateway that its key is used with, and a worker of all its tags."""
    secured = replace(config, http_auth_mode="api_key", auth_pepper=PEPPER, wheel_sync_enabled=True)
    async with running_gateway(secured) as gateway:
        gateway.http.headers["X-API-Key"] = left.api_key
        async with our_worker(secured, tags=["default", "gpu", "lone"]):
            yield gateway


@asynccontextmanager
async def our_worker(config: NatsBackendConfig, *, tags: list[str]) -> AsyncIterator[None]:
    """With the resolver of the public package's worker."""
    setup = Setup.from_config(config, resolver=f"{FLOWS_FILE}:resolve_flow")
    async with serving_worker(config, tags=tags, setup=setup):
        yield


async def check_everything_is_taken_over(ours: RunningGateway, left: Leftovers) -> None:
    listed = {run["run_id"] for run in (await ours.http.get("/runs")).raise_for_status().json()}
    assert listed == {left.completed, left.failed, left.in_progress, left.queued, left.other_tag}
    completed = await ours.get(left.completed, include="records")
    assert completed["status"] == "COMPLETED"
    assert completed["task_records"]["add"]["output"] == {"sum": 3}
    assert (await ours.get(left.failed))["error"] == "broken on purpose"
    # Executed: what was queued, also for a tag that no worker of the public package had, and what was in
    # progress when its worker was killed.
    expected: dict[str, tuple[str, object]] = {
        left.queued: ("add", {"sum": 42}),
        left.other_tag: ("add", {"sum": 9}),
        left.in_progress: ("block", "executed once more"),
    }
    for run_id, (task, output) in expected.items():
        ended = await ours.ends(run_id)
        assert ended["status"] == "COMPLETED", ended
        assert ended["task_records"][task]["output"] == output
    assert (await ours.run("adder", params={"a": 1}, tag="default"))["status"] == "COMPLETED"
    rerun = (await ours.http.post(f"/runs/{left.failed}/rerun", json={})).raise_for_status().json()["run_id"]
    assert (await ours.ends(rerun))["error"] == "task fail: ValueError: broken on purpose"
    await _check_wheel(ours)


async def _check_wheel(ours: RunningGateway) -> None:
    (wheel,) = (await ours.http.get("/wheels")).raise_for_status().json()
    assert (wheel["name"], wheel["tags"]) == (WHEEL, ["default"])
    (event,) = (await ours.http.get("/wheels/history")).raise_for_status().json()
    assert (event["action"], event["wheel_name"]) == ("upload", WHEEL)

    async def installed() -> bool:
        workers = (await ours.http.get("/workers")).raise_for_status().json()
        return any(
            found["name"] == WHEEL for worker in workers for found in worker["wheel_sync"]["installed_wheels"]
        )

    await eventually(installed, describe="our worker has installed its wheel")
