"""The catalogue with the NATS rights that `nats-config` prints, and without those of this version."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from pyoco_server.broker.stores.workers.flow_catalogue_store import FlowCatalogueStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.workers.worker_models import CatalogueReference
from tests.integration.broker.test_truncated_streams import reconnecting
from tests.integration.catalogue.test_flows_api import GREET, folder_with
from tests.support.broker.nats_server import NatsServer
from tests.support.broker.worker_records import worker_is
from tests.support.running.gateway import RunningGateway, flow_is, running_gateway
from tests.support.running.installation import Installation, installation, started, violations
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually

__all__ = ["installation", "started"]


async def test_workers_with_restricted_rights_describe_their_flows(
    installation: Installation, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    folder = folder_with(tmp_path / "flows", greetings=GREET)
    async with (
        running_gateway(installation.settings("gateway")) as gateway,
        serving_worker(installation.settings("worker"), flows=folder),
    ):
        flow = await flow_is(gateway, "greet", lambda flow: bool(flow["workers"]))
        assert flow["parameters"]["required"] == ["name"]
    assert violations(caplog) == []


async def test_a_worker_without_the_right_to_describe_its_flows_still_serves(
    gateway: RunningGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NATS has the rights of an earlier version: its flows are listed by name."""

    async def refused(self: FlowCatalogueStore, encoded: bytes) -> CatalogueReference:
        raise NatsUnavailable("permissions violation")

    monkeypatch.setattr(FlowCatalogueStore, "store", refused)
    folder = folder_with(tmp_path / "flows", greetings=GREET)
    async with serving_worker(gateway.inside.config, flows=folder):
        await worker_is(gateway, flows=["greet"])
        flow = await flow_is(gateway, "greet")
        assert (flow["parameters"], flow["versions"]) == (None, [])
        assert (await gateway.run("greet", params={"name": "Ada"}))["status"] == "COMPLETED"


async def test_a_catalogue_is_stored_again_when_the_worker_reconnects(
    config: NatsBackendConfig, own_nats: NatsServer, tmp_path: Path
) -> None:
    """NATS may have lost its data, or a gateway has removed what no worker seemed to use."""
    folder = folder_with(tmp_path / "flows", greetings=GREET)
    async with (
        running_gateway(replace(config, nats_url=own_nats.url)) as gateway,
        serving_worker(gateway.inside.config, flows=folder) as worker,
    ):
        await flow_is(gateway, "greet", lambda flow: bool(flow["versions"]))
        store = FlowCatalogueStore(gateway.inside.connection)
        [digest] = gateway.inside.flows.directory._catalogues
        await store.remove_unused(set(), older_than_sec=-1.0)
        assert await store.load(digest) is None
        async with reconnecting(worker._services.connection):
            await asyncio.to_thread(own_nats.kill)
            await asyncio.to_thread(own_nats.start)

        async def is_stored() -> bool:
            return await store.load(digest) is not None

        await eventually(is_stored, describe="the catalogue is stored again")
