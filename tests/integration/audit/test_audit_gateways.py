"""The audit log on several gateways, without API keys, and while NATS is away."""

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.config import NatsBackendConfig
from tests.integration.audit.test_audit_log import audit
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.stored_runs import written
from tests.support.running.gateway import running_gateway
from tests.support.settings import for_hanging_nats


async def test_each_gateway_lists_what_the_others_have_written(
    config: NatsBackendConfig, tmp_path: Path
) -> None:
    other = replace(config, index_dir=str(tmp_path / "other"))
    async with running_gateway(config) as one, running_gateway(other) as two:
        first = await written(one.inside.connection)
        second = await written(one.inside.connection)
        await one.http.post(f"/runs/{first.run_id}/cancel")
        await two.http.post(f"/runs/{second.run_id}/cancel")
        for gateway in (one, two):
            entries = await audit(gateway)
            assert [each["target"]["id"] for each in entries] == [second.run_id, first.run_id]
            assert {(each["actor"]["api_key_id"], each["actor"]["ip"]) for each in entries} == {
                (None, "127.0.0.1")
            }
            assert await audit(gateway, actor="anonymous") == entries
    # The index is a copy of the stream: a gateway with an empty folder lists the same.
    async with running_gateway(replace(config, index_dir=str(tmp_path / "third"))) as three:
        assert await audit(three) == entries


async def test_an_action_stands_when_its_entry_cannot_be_stored(
    config: NatsBackendConfig, own_nats: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(for_hanging_nats(config, own_nats.url)) as gateway:
        run = await written(gateway.inside.connection)
        log = gateway.inside.audit.log
        store, publish = log._store, log._store.publish

        async def hanging(entry: object) -> None:
            await asyncio.Event().wait()

        store.publish = hanging  # type: ignore[method-assign]
        response = await gateway.http.post(f"/runs/{run.run_id}/cancel")
        assert (response.status_code, log.lost) == (200, 1)
        assert (await gateway.get(run.run_id))["cancel_requested_at"] is not None
        store.publish = publish  # type: ignore[method-assign]
        caplog.clear()
        caplog.set_level(logging.WARNING)
        await asyncio.to_thread(own_nats.kill)
        response = await gateway.http.post(f"/runs/{run.run_id}/cancel")
        assert response.status_code == 503
        assert log.lost == 2
        [lost] = [each for each in caplog.records if "audit log is lost" in each.message]
        assert lost.run_id == run.run_id  # type: ignore[attr-defined]
        await asyncio.to_thread(own_nats.start)
        await gateway.inside.connection.wait_ready()
        assert (await gateway.http.post(f"/runs/{run.run_id}/cancel")).status_code == 200
        [entry] = [each for each in await audit(gateway) if each["outcome"] == "accepted"]
        assert entry["target"]["id"] == run.run_id
        metrics = (await gateway.http.get("/metrics")).text
        assert f"pyoco_audit_entries_lost_total {log.lost}" in metrics
        assert 'pyoco_audit_entries_total{outcome="accepted"} 1' in metrics
