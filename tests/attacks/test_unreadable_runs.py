"""Runs that cannot be read: who may know of them, and what a feed and a worker do with one."""

import json
import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pyoco_server.broker.jetstream.publishing import publish_acked
from pyoco_server.broker.stores.runs.run_store import RunStore
from pyoco_server.config import NatsBackendConfig
from pyoco_server.records.unreadable_records import RecordKind
from pyoco_server.runs.index.index_writer import IndexWriter
from tests.support.broker.connections import connected
from tests.support.broker.stored_runs import snapshot
from tests.support.problems import assert_problem
from tests.support.running.gateway import running_gateway
from tests.support.running.tenants import OPERATOR, having_tenants
from tests.support.running.workers import serving_worker
from tests.support.samples.broken_records import with_field
from tests.support.waiting import eventually

DEEP = b"[" * 5_000 + b"]" * 5_000


def broken(value: bytes, **fields: Any) -> tuple[str, bytes]:
    """A run with this as its params, and its id."""
    run = snapshot(**fields)
    return run.run_id, with_field(json.loads(msgspec.json.encode(run)), "params", value)


async def test_only_its_tenant_and_the_operator_know_of_it(config: NatsBackendConfig) -> None:
    """And only the operator, if not even the tenant can be read."""
    async with having_tenants(config, "acme", "rival", OPERATOR) as (acme, rival, operator):
        shown, data = broken(b"5", tenant_id="acme")
        await publish_acked(acme.inside.connection, f"$KV.{config.runs_kv_bucket}.{shown}", data)
        hidden, data = broken(DEEP, tenant_id="acme")
        await publish_acked(acme.inside.connection, f"$KV.{config.runs_kv_bucket}.{hidden}", data)
        for path in ("", "/tasks", "/logs", "/explain", "/watch"):
            assert_problem(await acme.http.get(f"/runs/{shown}{path}"), 409, 45)
            assert_problem(await rival.http.get(f"/runs/{shown}{path}"), 404, 5)
            assert_problem(await acme.http.get(f"/runs/{hidden}{path}"), 404, 5)
            assert_problem(await operator.http.get(f"/runs/{hidden}{path}"), 409, 45)
        assert "unreadable" not in await rival.json("/overview")
        await acme.inside.listing.lists.caught_up()
        listed = (await operator.json("/overview"))["unreadable"]
        assert {entry["key"] for entry in listed["newest"]} == {shown, hidden}


async def test_an_api_key_that_cannot_be_read_is_not_valid(config: NatsBackendConfig) -> None:
    """It does not stop the others, and an earlier record of it is not in force any more."""
    async with having_tenants(config, "acme", "rival") as (acme, rival):
        subject = f"$KV.{config.auth_kv_bucket}.key.{acme.api_key_id}"
        await publish_acked(acme.inside.connection, subject, DEEP)
        await acme.inside.authentication.keys.confirm()
        assert (await acme.http.get("/runs")).status_code == 403
        assert (await rival.http.get("/runs")).status_code == 200
        assert acme.inside.connection.unreadable.find(RecordKind.API_KEY, acme.api_key_id) is not None


@pytest.mark.parametrize(
    "failure",
    [OverflowError("too large"), UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogate"), RecursionError()],
    ids=lambda failure: type(failure).__name__,
)
async def test_a_record_that_no_index_can_store_is_left_out(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    """Whatever it is that fails: the others of its batch are listed, and the feed goes on."""
    bad, *good = (snapshot(flow_name=flow) for flow in ("bad", "good", "good"))
    put: Callable[..., int] = IndexWriter._group

    def failing(self: IndexWriter, item: Any) -> int:
        if item.flow_name == "bad":
            raise failure
        return put(self, item)

    monkeypatch.setattr(IndexWriter, "_group", failing)
    async with connected(config) as connection:
        for run in (good[0], bad, good[1]):
            await RunStore(connection).create(run)
    async with running_gateway(config) as gateway:
        await eventually(lambda: gateway.inside.listing.index.ready, describe="the index is ready")
        listed = (await gateway.http.get("/runs")).json()
        assert {run["run_id"] for run in listed} == {run.run_id for run in good}
        assert gateway.inside.connection.unreadable.find(RecordKind.RUN, bad.run_id) is not None
        later = await gateway.submit("noop")
        assert later in [run["run_id"] for run in (await gateway.http.get("/runs")).json()]


async def test_a_value_that_sqlite_refuses_does_not_rebuild_the_index(
    config: NatsBackendConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    put: Callable[..., int] = IndexWriter._group
    bad = snapshot(flow_name="bad")

    def failing(self: IndexWriter, item: Any) -> int:
        if item.flow_name == "bad":
            raise sqlite3.DataError("string or blob too big")
        return put(self, item)

    monkeypatch.setattr(IndexWriter, "_group", failing)
    async with running_gateway(config) as gateway:
        first = await gateway.submit("noop")
        await gateway.inside.runs.store.create(bad)
        await gateway.inside.listing.lists.caught_up()
        assert gateway.inside.listing.index.ready
        assert [run["run_id"] for run in (await gateway.http.get("/runs")).json()] == [first]


async def test_a_worker_goes_on_without_a_run_that_it_cannot_read(
    config: NatsBackendConfig, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_gateway(config) as gateway:
        run_id = await gateway.submit("noop")
        _, data = broken(DEEP)
        await publish_acked(gateway.inside.connection, f"$KV.{config.runs_kv_bucket}.{run_id}", data)
        async with serving_worker(config):
            await eventually(
                lambda: "a run returns to the queue: A stored record cannot be read" in caplog.text,
                describe="the worker returns the run to the queue",
            )
            assert (await gateway.run("noop"))["status"] == "COMPLETED"
        assert_problem(await gateway.http.get(f"/runs/{run_id}"), 409, 45)
