"""Expiry, retry and retention of waits with the permissions of `nats-config`."""

import asyncio
from pathlib import Path

import pytest

from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.waits.wait_store import WaitStore
from tests.support.broker.connections import connected
from tests.support.broker.stored_waits import let_expire
from tests.support.running.gateway import running_gateway
from tests.support.running.installation import Installation, installation, started, violations
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

__all__ = ["installation", "started"]


async def test_a_wait_expires_is_reopened_cancelled_and_removed(
    installation: Installation,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    settings = installation.settings("gateway")
    async with (
        running_gateway(settings) as gateway,
        serving_worker(installation.settings("worker")),
        connected(installation.settings("admin")) as admin,
    ):
        params = {"notes": str(tmp_path / "notes"), "timeout_ms": 600_000}
        run_id = await gateway.submit("approval", params=params)
        [wait] = (await gateway.reaches(run_id, "WAITING_HUMAN"))["open_waits"]
        # Not by a short time-out: what is asked again could expire before it is cancelled.
        await let_expire(WaitStore(admin), wait["wait_id"])
        assert (await gateway.ends(run_id))["reason"] == "human_timeout"
        assert (await gateway.http.post(f"/runs/{run_id}/retry")).status_code == 200
        assert (await gateway.http.post(f"/runs/{run_id}/cancel")).status_code == 200
        assert (await gateway.ends(run_id))["status"] == "CANCELLED"
        # Only now: a deleted run cannot be retried or read.
        retention = gateway.inside.sweeper._retention
        retention._keep_sec, retention._marker_sec = 0.5, 0.0

        async def all_is_gone() -> bool:
            streams = ("KV_pyoco_waits", "PYOCO_WAIT_EVENTS", "KV_pyoco_runs")
            states = await asyncio.gather(*(stream_state(admin, stream) for stream in streams))
            return not any(state.messages for state in states)

        await eventually(all_is_gone, describe="nothing of the run is left")
    assert violations(caplog) == []
