"""Progress of bulk operations: reported, stopped, and finished by another gateway."""

import asyncio
import shutil
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import httpx
import pytest

from pyoco_server.broker.jetstream import jetstream_api
from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.runs import bulk_records
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.bulk_models import BulkAction, BulkItem, BulkRecord, BulkState
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.runs.bulk import bulk_operations as bulk
from pyoco_server.runs.bulk import bulk_runner
from pyoco_server.runs.bulk.bulk_runner import StepResult
from tests.integration.lifecycle.test_dlq import letter, put, seqs
from tests.support.broker.nats_server import NatsServer
from tests.support.inspection import stored_run_ids
from tests.support.places import ROOT
from tests.support.problems import assert_problem
from tests.support.programs import running
from tests.support.running.bulk_operations import (
    HeldRunner,
    config,
    counts,
    crash,
    ended_runs,
    ends,
    get,
    origins,
    start,
    without_lease,
)
from tests.support.running.gateway import RunningGateway, running_gateway
from tests.support.settings import unchecked
from tests.support.waiting import LIMIT_SEC, NEVER_SEC, eventually

__all__ = ["config"]

DYING = ("tests.support.running.crashing_gateway", "item", "100")


class TestProgress:
    @pytest.mark.parametrize("bulk_id", ["00000000-0000-4000-8000-000000000000", "a.b", "*"])
    async def test_an_unknown_operation_is_a_404(self, gateway: RunningGateway, bulk_id: str) -> None:
        assert_problem(await gateway.http.get(f"/bulk/{bulk_id}"), 404, 29)
        assert_problem(await gateway.http.post(f"/bulk/{bulk_id}/stop"), 404, 29)

    async def test_operations_are_listed_newest_first_without_their_parts(
        self, gateway: RunningGateway
    ) -> None:
        await put(gateway, letter(), letter())
        first = await ends(gateway, await start(gateway, "/dlq/delete", expected_count=5))
        await put(gateway, letter())
        second = await ends(gateway, await start(gateway, "/dlq/delete", expected_count=5))
        assert (await gateway.http.get("/bulk")).json() == {"items": [second, first]}

    async def test_many_items_are_stored_in_parts(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk_records, "PART_ITEMS", 7)
        monkeypatch.setattr(bulk_runner, "_GROUP", 5)
        await put(gateway, *(letter() for _ in range(30)))
        record = await ends(gateway, await start(gateway, "/dlq/delete", expected_count=30))
        assert counts(record) == ("COMPLETED", 30, 0, 0)
        assert await seqs(gateway) == []
        # The record and its parts.
        state = await stream_state(gateway.inside.connection, "KV_pyoco_bulk", subjects="$KV.pyoco_bulk.>")
        # Each part has the digests of its letters beside it.
        assert len(state.subjects) == 1 + 2 * 5

    async def test_it_can_be_stopped(self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bulk_runner, "_GROUP", 2)
        held = HeldRunner(gateway, after=4)
        await put(gateway, *(letter() for _ in range(10)))
        operation = await start(gateway, "/dlq/delete", expected_count=10)
        await held.reached.wait()
        stopped = (await gateway.http.post(f"/bulk/{operation['bulk_id']}/stop")).json()
        assert counts(stopped) == ("STOPPED", 4, 0, 0)
        held.go_on.set()

        async def counted() -> bool:
            return counts(await get(gateway, operation["bulk_id"])) == ("STOPPED", 6, 0, 0)

        await eventually(counted, describe="what was in hand is counted")
        again = (await gateway.http.post(f"/bulk/{operation['bulk_id']}/stop")).json()
        assert counts(again) == ("STOPPED", 6, 0, 0)
        assert await seqs(gateway) == [4, 3, 2, 1]

    async def test_a_small_one_does_not_wait_for_a_large_one(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk_runner, "_GROUP", 1)
        # The large one is the first in every order.
        monkeypatch.setattr(bulk, "uuid4", iter([UUID(int=1), UUID(int=2)]).__next__)
        await put(gateway, *(letter(tag="large") for _ in range(20)), letter(tag="small"))
        held = HeldRunner(gateway, after=2)
        large = await start(gateway, "/dlq/delete", {"tag": "large"}, expected_count=20)
        await held.reached.wait()
        small = await start(gateway, "/dlq/delete", {"tag": "small"}, expected_count=1)
        held.go_on.set()
        done_at = (await ends(gateway, small))["finished_at"]
        assert done_at < (await ends(gateway, large))["finished_at"]

    async def test_a_lost_item_list_stops_the_operation(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk_runner, "_GROUP", 2)
        held = HeldRunner(gateway, after=2)
        await put(gateway, *(letter() for _ in range(6)))
        operation = await start(gateway, "/dlq/delete", expected_count=6)
        await held.reached.wait()
        part = f"$KV.pyoco_bulk.{operation['bulk_id']}.0"
        await jetstream_api.purge(gateway.inside.connection, "KV_pyoco_bulk", part)
        held.go_on.set()
        record = await ends(gateway, operation)
        assert counts(record) == ("STOPPED", 4, 0, 0)
        assert "not stored any more" in record["errors"][0]["message"]

    async def test_an_unexpected_error_of_an_item_is_reported(self, gateway: RunningGateway) -> None:
        async def broken(record: BulkRecord, item: BulkItem) -> StepResult:
            raise ZeroDivisionError("oh")

        gateway.inside.bulk.runner._steps.take = broken  # type: ignore[method-assign]
        await put(gateway, letter())
        record = await ends(gateway, await start(gateway, "/dlq/delete", expected_count=1))
        assert counts(record) == ("COMPLETED", 0, 0, 1)
        assert record["errors"] == [{"item": "1", "err_id": None, "message": "ZeroDivisionError: oh"}]

    async def test_an_item_that_cannot_be_stored_does_not_stop_the_rest(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk_runner, "_RETRY_SEC", (0.0, 0.0))
        take = gateway.inside.bulk.runner._steps.take
        tries: Counter[str] = Counter()

        async def flaky(record: BulkRecord, item: BulkItem) -> StepResult:
            tries[item.name] += 1
            if item.name == "1" or tries[item.name] == 1:
                raise NatsUnavailable("not now")
            return await take(record, item)

        gateway.inside.bulk.runner._steps.take = flaky  # type: ignore[method-assign]
        await put(gateway, letter(), letter())
        record = await ends(gateway, await start(gateway, "/dlq/delete", expected_count=2))
        assert counts(record) == ("COMPLETED", 1, 0, 1)
        assert (tries, record["errors"][0]["err_id"]) == ({"1": 3, "2": 2}, "ERR-PYOCO-0003")

    async def test_an_operation_waits_for_the_end_of_an_outage(
        self, own_nats: NatsServer, config: NatsBackendConfig
    ) -> None:
        async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
            held = HeldRunner(gateway, after=1)
            await put(gateway, *(letter() for _ in range(3)))
            operation = await start(gateway, "/dlq/delete", expected_count=3)
            await held.reached.wait()
            own_nats.kill()
            held.go_on.set()
            assert_problem(await gateway.http.get(f"/bulk/{operation['bulk_id']}"), 503, 3)
            own_nats.start()
            await gateway.inside.connection.wait_ready(LIMIT_SEC)
            record = await ends(gateway, operation)
            assert (record["state"], record["done"] + record["skipped"]) == ("COMPLETED", 3)
            assert await seqs(gateway) == []

    async def test_operations_are_found_after_the_data_of_nats_was_replaced(
        self, own_nats: NatsServer, config: NatsBackendConfig, tmp_path: Path
    ) -> None:
        async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
            await put(gateway, *(letter() for _ in range(3)))
            await ends(gateway, await start(gateway, "/dlq/delete", expected_count=3))

            async def has_learnt() -> bool:
                return gateway.inside.bulk.runner._revision > 2

            await eventually(has_learnt, describe="the gateway has read the operation's end")
            own_nats.stop()
            connection = gateway.inside.connection
            await eventually(lambda: not connection.ready, describe="the gateway has noticed")
            shutil.rmtree(tmp_path / "own-nats" / "jetstream")
            own_nats.start()
            await connection.wait_ready(LIMIT_SEC)
            await put(gateway, letter())
            operation = BulkRecord(
                bulk_id=new_run_id(),
                action=BulkAction.DELETE_LETTERS,
                state=BulkState.RUNNING,
                query={},
                matched=1,
                created_at=1.0,
                updated_at=1.0,
            )
            # As another gateway writes it, which then dies.
            await gateway.inside.bulk.runner._records.create(operation, [BulkItem("1")])
            assert counts(await ends(gateway, {"bulk_id": operation.bulk_id}))[0] == "COMPLETED"


class TestTakeover:
    async def test_another_gateway_finishes_an_operation(
        self, config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first one crashes with part of a group done and none of it recorded."""
        monkeypatch.setattr(bulk_runner, "_GROUP", 8)
        run_ids = await ended_runs(gateway, 30)
        held = HeldRunner(gateway, after=12)
        operation = await start(gateway, "/bulk/rerun", {"status": "FAILED"}, expected_count=30)
        await held.reached.wait()
        await eventually(lambda: held.taken == 12, describe="the others of the group are done")
        assert (await get(gateway, operation["bulk_id"]))["done"] == 8
        async with running_gateway(config) as other:
            await crash(gateway)
            record = await ends(other, operation)
            assert counts(record) == ("COMPLETED", 30, 0, 0)
            assert await origins(other, await stored_run_ids(other)) == dict.fromkeys(run_ids, 1)

    async def test_a_stopping_gateway_releases_the_lease(
        self, config: NatsBackendConfig, gateway: RunningGateway
    ) -> None:
        patient = unchecked(config, sweep_interval_sec=NEVER_SEC)
        await put(gateway, *(letter() for _ in range(5)))
        async with running_gateway(patient) as first:
            held = HeldRunner(first, after=2)
            with without_lease(gateway):
                operation = await start(first, "/dlq/delete", expected_count=5)
                await held.reached.wait()
            assert first.inside.bulk.runner.lease.held
        # Its lease would have lasted for hours.
        record = await ends(gateway, operation)
        assert (record["state"], record["done"] + record["skipped"]) == ("COMPLETED", 5)

    async def test_only_the_lease_holder_executes_operations(self, config: NatsBackendConfig) -> None:
        # A lease is not renewed while the items in hand are held.
        async with running_gateway(unchecked(config, sweep_interval_sec=NEVER_SEC)) as gateway:
            await put(gateway, *(letter() for _ in range(5)))
            held = HeldRunner(gateway, after=2)
            async with running_gateway(config) as other:
                with without_lease(other):
                    await start(gateway, "/dlq/delete", {"q": "broke"}, expected_count=5)
                    await held.reached.wait()
                await put(other, letter(tag="gpu"))
                second = await start(other, "/dlq/delete", {"tag": "gpu"}, expected_count=1)
                assert not other.inside.bulk.runner.lease.held
                held.go_on.set()
                # Whichever gateway does it.
                assert (await ends(other, second))["state"] == "COMPLETED"
            await eventually(
                lambda: not gateway.inside.bulk.runner.lease.held,
                describe="the lease is released",
            )

    async def test_a_killed_gateway_is_replaced(self, config: NatsBackendConfig) -> None:
        count = 400
        settings = {"PYOCO_NATS_URL": config.nats_url, "PYOCO_SWEEP_INTERVAL_SEC": "0.2"}
        async with running_gateway(config) as survivor:
            run_ids = await ended_runs(survivor, count)
            with (
                without_lease(survivor),
                running(*DYING, "up", "--port", "0", cwd=ROOT, **settings) as (program, told),
            ):
                async with httpx.AsyncClient(base_url=told["url"], timeout=LIMIT_SEC) as http:
                    query = {"status": "FAILED"}
                    response = await http.post("/bulk/rerun", params=query, json={"expected_count": count})
                    assert response.status_code == 200, response.text
                    operation = response.json()["operation"]
                assert await asyncio.to_thread(program.end) == -signal.SIGKILL
                before = await get(survivor, operation["bulk_id"])
            assert (before["state"], 0 < before["done"] < count) == ("RUNNING", True)
            record = await ends(survivor, operation)
            assert counts(record) == ("COMPLETED", count, 0, 0)
            repeated = await origins(survivor, await stored_run_ids(survivor))
            assert repeated == dict.fromkeys(run_ids, 1)
