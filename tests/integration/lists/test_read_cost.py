"""The cost of reading the bucket of runs does not depend on how many runs there are."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from pyoco_server.broker.client.connection import Connection
from pyoco_server.broker.client.message import Message
from pyoco_server.config import NatsBackendConfig
from tests.support.broker.stored_runs import ended, write
from tests.support.running.gateway import running_gateway
from tests.support.running.workers import serving_worker
from tests.support.waiting import eventually


async def test_no_batch_of_direct_reads_begins_at_a_position_in_the_bucket_of_runs(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server would count all keys of the bucket for each of them."""
    requested: list[str] = []
    request_many = Connection.request_many

    def noting(self: Connection, subject: str, *args: Any, **options: Any) -> AsyncIterator[Message]:
        requested.append(subject)
        return request_many(self, subject, *args, **options)

    monkeypatch.setattr(Connection, "request_many", noting)
    runs = f"KV_{config.runs_kv_bucket}"
    async with running_gateway(replace(config, run_retention_sec=0.5)) as gateway, serving_worker(config):
        await write(gateway.inside.runs.store, *(ended() for _ in range(3)))
        await gateway.ends(await gateway.submit("noop"))
        await gateway.http.get("/runs")
        sweeper = gateway.inside.sweeper
        await eventually(lambda: sweeper.actions["removed"] == 4, describe="retention has removed the runs")
    assert f"$JS.API.DIRECT.GET.{runs}" not in requested
    assert any(subject.startswith(f"$JS.API.CONSUMER.MSG.NEXT.{runs}.") for subject in requested)
