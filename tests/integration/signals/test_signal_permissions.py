"""Signals and events with the permissions of `nats-config`."""

import asyncio

import pytest

from pyoco_server.broker.jetstream.stream_reads import stream_state
from tests.support.broker.connections import connected
from tests.support.running.gateway import running_gateway
from tests.support.running.installation import Installation, installation, started, violations
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

__all__ = ["installation", "started"]


async def test_signals_and_events_are_sent_received_and_removed(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        running_gateway(installation.settings("gateway")) as gateway,
        serving_worker(installation.settings("worker")),
        connected(installation.settings("admin")) as admin,
    ):
        signalled = await gateway.submit("one_signal")
        told = await gateway.submit("one_event", params={"order_id": 7})
        for run_id in (signalled, told):
            await gateway.reaches(run_id, "WAITING")
        assert (await gateway.http.post(f"/runs/{signalled}/signals/go", json=1)).status_code == 202
        event = {"name": "order.paid", "data": {"order": {"id": 7}}}
        assert (await gateway.http.post("/events", json=event)).status_code == 202
        for run_id in (signalled, told):
            assert (await gateway.ends(run_id))["status"] == "COMPLETED"
        assert len((await gateway.http.get(f"/runs/{signalled}/signals")).json()["items"]) == 1
        # Only now: a deleted run cannot be read.
        retention = gateway.inside.sweeper._retention
        retention._keep_sec, retention._marker_sec = 0.5, 0.0

        async def all_is_gone() -> bool:
            streams = ("KV_pyoco_waits", "KV_pyoco_signals", "KV_pyoco_runs")
            states = await asyncio.gather(*(stream_state(admin, stream) for stream in streams))
            return not any(state.messages for state in states)

        await eventually(all_is_gone, describe="nothing of the runs is left")
    assert violations(caplog) == []
