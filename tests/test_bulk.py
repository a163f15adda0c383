"""Bulk operations: counted first, carried out in the background, finished by whichever gateway lives."""

import asyncio
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from msgspec import structs

from pyoco_server.broker import bulk_records, jetstream_api
from pyoco_server.broker.bulk_records import BulkAction, BulkRecord, BulkState
from pyoco_server.broker.journal import Journal
from pyoco_server.broker.stream_reads import stream_state
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.models import Job, RerunMode, RunStatus, new_run_id, pending_snapshot
from pyoco_server.runs import bulk, bulk_runner
from pyoco_server.runs.bulk_steps import Step
from pyoco_server.runs.submit import new_job

from .support.gateway import RunningGateway, running_gateway
from .support.nats_server import NatsServer
from .support.programs import SERVER, running
from .support.waiting import eventually
from .test_dlq import letter, put, seqs
from .test_http_errors import assert_problem
from .test_outage import stored_run_ids
from .test_rerun import entry


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    """A gateway that is killed is followed soon."""
    return replace(config, sweep_interval_sec=0.2)


async def dry_run(gateway: RunningGateway, path: str, query: Any = None, **options: Any) -> dict[str, Any]:
    answer = await gateway.http.post(path, params=query, json={"dry_run": True, **options})
    assert answer.status_code == 200, answer.text
    counted: dict[str, Any] = answer.json()
    assert (counted["dry_run"], counted["operation"]) == (True, None)
    return counted


async def begin(gateway: RunningGateway, path: str, query: Any = None, **body: Any) -> dict[str, Any]:
    answer = await gateway.http.post(path, params=query, json=body)
    assert answer.status_code == 200, answer.text
    begun: dict[str, Any] = answer.json()
    assert (begun["dry_run"], begun["token"]) == (False, None)
    operation: dict[str, Any] = begun["operation"]
    return operation


async def get(gateway: RunningGateway, bulk_id: str) -> dict[str, Any]:
    answer = await gateway.http.get(f"/bulk/{bulk_id}")
    assert answer.status_code == 200, answer.text
    record: dict[str, Any] = answer.json()
    return record


async def ends(gateway: RunningGateway, operation: dict[str, Any], within: float = 20.0) -> dict[str, Any]:
    async def ended() -> dict[str, Any] | None:
        record = await get(gateway, operation["bulk_id"])
        return record if record["state"] != "RUNNING" else None

    return await eventually(ended, within=within, describe="the bulk operation has ended")


def counts(record: dict[str, Any]) -> tuple[str, int, int, int]:
    return record["state"], record["done"], record["skipped"], record["failed"]


async def ended_runs(gateway: RunningGateway, count: int, **fields: Any) -> set[str]:
    """Runs that have FAILED, as their workers would have written them; nothing is in the queue."""
    run_ids = set()
    jobs = [new_job(flow_name="chain", tag="default") for _ in range(count)]

    async def store(job: Job) -> None:
        ended = structs.replace(pending_snapshot(job), status=RunStatus.FAILED, **fields)
        await gateway.inside.runs.create(ended)
        run_ids.add(job.run_id)

    for start in range(0, count, 100):
        await asyncio.gather(*(store(job) for job in jobs[start : start + 100]))
    return run_ids


async def origins(gateway: RunningGateway, run_ids: Iterable[str]) -> Counter[str | None]:
    """How often each origin was repeated."""
    found: Counter[str | None] = Counter()
    for run_id in run_ids:
        stored = await gateway.inside.runs.get(run_id)
        assert stored is not None
        found[stored.snapshot.origin_run_id] += 1
    del found[None]
    return found


class TestCounting:
    async def test_a_dry_run_counts_and_does_nothing(self, gateway: RunningGateway) -> None:
        mine = {await gateway.submit("etl") for _ in range(3)}
        await gateway.submit("other")
        counted = await dry_run(gateway, "/bulk/cancel", {"flow": "etl"})
        assert (counted["action"], counted["matched"], set(counted["sample"])) == ("cancel", 3, mine)
        assert {(await gateway.get(run_id))["status"] for run_id in mine} == {"PENDING"}
        assert (await gateway.http.get("/bulk")).json() == {"items": []}

    async def test_the_sample_is_small(self, gateway: RunningGateway) -> None:
        await ended_runs(gateway, 30)
        counted = await dry_run(gateway, "/bulk/rerun", {"status": "failed"})
        assert (counted["matched"], len(counted["sample"])) == (30, 10)

    async def test_nothing_matches(self, gateway: RunningGateway) -> None:
        counted = await dry_run(gateway, "/bulk/cancel", {"flow": "none"})
        assert (counted["matched"], counted["sample"]) == (0, [])
        operation = await begin(gateway, "/bulk/cancel", {"flow": "none"}, token=counted["token"])
        assert counts(operation) == ("COMPLETED", 0, 0, 0)

    @pytest.mark.parametrize("guard", ["expected_count", "token"])
    async def test_more_than_expected_is_refused(self, gateway: RunningGateway, guard: str) -> None:
        run_ids = [await gateway.submit("etl") for _ in range(2)]
        token = (await dry_run(gateway, "/bulk/cancel", {"flow": "etl"}))["token"]
        run_ids.append(await gateway.submit("etl"))
        body = {"token": token} if guard == "token" else {"expected_count": 2}
        answer = await gateway.http.post("/bulk/cancel", params={"flow": "etl"}, json=body)
        assert "3 match, and 2 were expected" in assert_problem(answer, 409, 30)["detail"]
        assert {(await gateway.get(run_id))["status"] for run_id in run_ids} == {"PENDING"}

    async def test_fewer_than_expected_are_taken(self, gateway: RunningGateway) -> None:
        run_ids = [await gateway.submit("etl") for _ in range(2)]
        token = (await dry_run(gateway, "/bulk/cancel", {"flow": "etl", "status": "PENDING"}))["token"]
        await gateway.http.post(f"/runs/{run_ids[0]}/cancel")
        operation = await begin(gateway, "/bulk/cancel", {"status": "PENDING", "flow": "etl"}, token=token)
        assert operation["matched"] == 1

    @pytest.mark.parametrize(
        ("path", "query", "options"),
        [
            ("/bulk/cancel", {"flow": "other"}, {}),
            ("/bulk/cancel", {}, {}),
            ("/bulk/cancel", {"flow": "etl"}, {"reason": "another"}),
            ("/bulk/rerun", {"flow": "etl"}, {}),
        ],
    )
    async def test_the_token_of_another_wish_is_refused(
        self, gateway: RunningGateway, path: str, query: dict[str, str], options: dict[str, str]
    ) -> None:
        await gateway.submit("etl")
        token = (await dry_run(gateway, "/bulk/cancel", {"flow": "etl"}))["token"]
        answer = await gateway.http.post(path, params=query, json={"token": token, **options})
        assert "not that of a dry run" in assert_problem(answer, 409, 30)["detail"]

    @pytest.mark.parametrize("token", ["x", "1-", "-1", "٣-abc", "9" * 50])
    async def test_a_token_that_is_none(self, gateway: RunningGateway, token: str) -> None:
        assert_problem(await gateway.http.post("/bulk/cancel", json={"token": token}), 409, 30)

    async def test_too_many_are_refused(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk, "MOST_ITEMS", 3)
        await ended_runs(gateway, 4)
        for body in ({"dry_run": True}, {"expected_count": 100}):
            answer = await gateway.http.post("/bulk/rerun", json=body)
            assert "more than 3 match; narrow the filter" in assert_problem(answer, 409, 30)["detail"]

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "dry_run"),
            ({"dry_run": False}, "dry_run"),
            ({"dry_run": True, "expected_count": 1}, "dry_run"),
            ({"token": "1-x", "expected_count": 1}, "dry_run"),
            ({"expected_count": -1}, "expected_count"),
            ({"expected_count": 1.5}, "expected_count"),
            ({"dry_run": True, "raeson": "typo"}, "raeson"),
            ({"dry_run": True, "reason": "x" * 1001}, "reason"),
        ],
    )
    async def test_a_body_that_makes_no_sense(
        self, gateway: RunningGateway, body: dict[str, Any], field: str
    ) -> None:
        [error] = assert_problem(await gateway.http.post("/bulk/cancel", json=body), 422, 2)["errors"]
        assert error["field"] == field

    @pytest.mark.parametrize("path", ["/bulk/rerun", "/dlq/replay"])
    async def test_no_task_is_common_to_many_runs(self, gateway: RunningGateway, path: str) -> None:
        answer = await gateway.http.post(path, json={"dry_run": True, "mode": "task"})
        [error] = assert_problem(answer, 422, 2)["errors"]
        assert (error["field"], "wanted start or failed" in error["message"]) == ("mode", True)

    @pytest.mark.parametrize(
        ("path", "query", "field"),
        [
            ("/bulk/cancel", {"status": "LOST"}, "status"),
            ("/bulk/rerun", {"limit": "5"}, "limit"),
            ("/dlq/replay", {"cursor": "5"}, "cursor"),
            ("/dlq/delete", {"tag": ">"}, "tag"),
            ("/dlq/delete", {"reason": ","}, "reason"),
        ],
    )
    async def test_a_query_that_is_not_understood(
        self, gateway: RunningGateway, path: str, query: dict[str, str], field: str
    ) -> None:
        answer = await gateway.http.post(path, params=query, json={"dry_run": True})
        [error] = assert_problem(answer, 422, 17)["errors"]
        assert error["field"] == field


class TestRuns:
    async def test_matching_runs_are_cancelled_and_others_are_not(self, gateway: RunningGateway) -> None:
        mine = [await gateway.submit("etl") for _ in range(40)]
        other = await gateway.submit("other")
        asked = {"flow": "etl"}
        token = (await dry_run(gateway, "/bulk/cancel", asked, reason="a typo"))["token"]
        operation = await begin(gateway, "/bulk/cancel", asked, token=token, reason="a typo")
        assert (operation["query"], operation["reason"], operation["matched"]) == (
            {"flow": ["etl"]},
            "a typo",
            40,
        )
        record = await ends(gateway, operation)
        assert counts(record) == ("COMPLETED", 40, 0, 0)
        assert record["finished_at"] >= record["created_at"] > time.time() - 60
        for run_id in mine:
            run = await gateway.ends(run_id)
            assert (run["status"], run["cancel_reason"]) == ("CANCELLED", "a typo")
            assert run["cancel_requested_by"] == f"bulk:{record['bulk_id']}"
        assert (await gateway.get(other))["status"] == "PENDING"

    async def test_what_was_asked_for_already_is_skipped(self, gateway: RunningGateway) -> None:
        run_ids = [await gateway.submit("etl") for _ in range(3)]
        await gateway.http.post(f"/runs/{run_ids[0]}/cancel")
        await gateway.ends(run_ids[0])
        record = await ends(gateway, await begin(gateway, "/bulk/cancel", expected_count=3))
        assert counts(record) == ("COMPLETED", 2, 1, 0)

    async def test_each_run_is_repeated_once(self, gateway: RunningGateway) -> None:
        run_ids = await ended_runs(gateway, 70)
        record = await ends(
            gateway, await begin(gateway, "/bulk/rerun", {"status": "FAILED"}, expected_count=70)
        )
        assert counts(record) == ("COMPLETED", 70, 0, 0)
        repeated = await origins(gateway, await stored_run_ids(gateway))
        assert repeated == dict.fromkeys(run_ids, 1)

    async def test_what_cannot_be_repeated_is_told(self, gateway: RunningGateway) -> None:
        ended = await ended_runs(gateway, 1)
        open_run = await gateway.submit("chain")
        record = await ends(gateway, await begin(gateway, "/bulk/rerun", {"flow": "chain"}, expected_count=2))
        assert counts(record) == ("COMPLETED", 1, 0, 1)
        [error] = record["errors"]
        assert (error["item"], error["err_id"]) == (open_run, "ERR-PYOCO-0025")
        assert "is PENDING" in error["message"]
        assert await origins(gateway, await stored_run_ids(gateway)) == dict.fromkeys(ended, 1)

    async def test_only_the_first_errors_are_kept(self, gateway: RunningGateway) -> None:
        for _ in range(25):
            await gateway.submit("etl")
        record = await ends(gateway, await begin(gateway, "/bulk/rerun", expected_count=25))
        assert (counts(record), len(record["errors"])) == (("COMPLETED", 0, 0, 25), 20)

    async def test_a_rerun_from_what_failed(self, gateway: RunningGateway) -> None:
        [origin] = await ended_runs(gateway, 1, tasks={"load": "SUCCEEDED", "store": "FAILED"})
        await Journal(gateway.inside.connection).append(origin, entry("load"))
        await ends(gateway, await begin(gateway, "/bulk/rerun", expected_count=1, mode="failed"))
        [run_id] = await stored_run_ids(gateway) - {origin}
        assert (await gateway.get(run_id))["rerun_mode"] == "failed"
        assert [each.task for each in await Journal(gateway.inside.connection).entries(run_id)] == ["load"]

    async def test_taken_again_it_leaves_no_second_journal(self, gateway: RunningGateway) -> None:
        [origin] = await ended_runs(gateway, 1, tasks={"load": "SUCCEEDED", "store": "FAILED"})
        journal = Journal(gateway.inside.connection)
        await journal.append(origin, entry("load"))
        record = BulkRecord(
            bulk_id=new_run_id(),
            action=BulkAction.RERUN,
            state=BulkState.RUNNING,
            query={},
            matched=1,
            created_at=1.0,
            updated_at=1.0,
            mode=RerunMode.FAILED,
        )
        for _ in range(3):
            assert await gateway.inside.bulk._steps.take(record, origin) is Step.DONE
        [run_id] = await stored_run_ids(gateway) - {origin}
        state = await stream_state(gateway.inside.connection, "PYOCO_JOURNAL", subjects="pyoco.journal.*")
        assert set(state.subjects) == {f"pyoco.journal.{each}" for each in (origin, run_id)}


class TestLetters:
    async def test_matching_letters_are_deleted(self, gateway: RunningGateway) -> None:
        await put(gateway, *(letter(tag="gpu" if number % 2 else "cpu") for number in range(10)))
        counted = await dry_run(gateway, "/dlq/delete", {"tag": "gpu"})
        assert (counted["matched"], counted["sample"]) == (5, ["10", "8", "6", "4", "2"])
        operation = await begin(gateway, "/dlq/delete", {"tag": "gpu"}, token=counted["token"])
        assert counts(await ends(gateway, operation)) == ("COMPLETED", 5, 0, 0)
        assert await seqs(gateway) == [9, 7, 5, 3, 1]

    async def test_each_run_of_matching_letters_is_repeated_once(self, gateway: RunningGateway) -> None:
        first, second = await ended_runs(gateway, 2)
        gone = new_run_id()
        named = [first, second, first, gone, None]
        await put(
            gateway, *(letter(run_id=run_id) for run_id in named), letter(reason="timeout", run_id=second)
        )
        operation = await begin(
            gateway, "/dlq/replay", {"reason": "execution_error"}, expected_count=5, delete=True
        )
        record = await ends(gateway, operation)
        assert counts(record) == ("COMPLETED", 3, 0, 2)
        assert {error["err_id"] for error in record["errors"]} == {"ERR-PYOCO-0028"}
        assert await origins(gateway, await stored_run_ids(gateway)) == {first: 1, second: 1}
        # Those that could not be replayed are still there, and the one that did not match.
        assert await seqs(gateway) == [6, 5, 4]


class TestProgress:
    @pytest.mark.parametrize("bulk_id", ["00000000-0000-4000-8000-000000000000", "a.b", "*"])
    async def test_an_operation_that_does_not_exist(self, gateway: RunningGateway, bulk_id: str) -> None:
        assert_problem(await gateway.http.get(f"/bulk/{bulk_id}"), 404, 29)
        assert_problem(await gateway.http.post(f"/bulk/{bulk_id}/stop"), 404, 29)

    async def test_the_newest_is_listed_first_and_their_parts_are_not(self, gateway: RunningGateway) -> None:
        await put(gateway, letter(), letter())
        first = await ends(gateway, await begin(gateway, "/dlq/delete", expected_count=5))
        await put(gateway, letter())
        second = await ends(gateway, await begin(gateway, "/dlq/delete", expected_count=5))
        assert (await gateway.http.get("/bulk")).json() == {"items": [second, first]}

    async def test_many_items_are_stored_in_parts(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk_records, "PART_ITEMS", 7)
        monkeypatch.setattr(bulk_runner, "_GROUP", 5)
        await put(gateway, *(letter() for _ in range(30)))
        record = await ends(gateway, await begin(gateway, "/dlq/delete", expected_count=30))
        assert counts(record) == ("COMPLETED", 30, 0, 0)
        assert await seqs(gateway) == []
        # The record and its parts.
        state = await stream_state(gateway.inside.connection, "KV_pyoco_bulk", subjects="$KV.pyoco_bulk.>")
        assert len(state.subjects) == 1 + 5

    async def test_it_can_be_stopped(self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(bulk_runner, "_GROUP", 2)
        held = Held(gateway, after=4)
        await put(gateway, *(letter() for _ in range(10)))
        operation = await begin(gateway, "/dlq/delete", expected_count=10)
        await held.reached.wait()
        stopped = (await gateway.http.post(f"/bulk/{operation['bulk_id']}/stop")).json()
        assert counts(stopped) == ("STOPPED", 4, 0, 0)
        held.go_on.set()

        async def counted() -> bool:
            return counts(await get(gateway, operation["bulk_id"])) == ("STOPPED", 6, 0, 0)

        await eventually(counted, within=10, describe="what was in hand is counted")
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
        held = Held(gateway, after=2)
        large = await begin(gateway, "/dlq/delete", {"tag": "large"}, expected_count=20)
        await held.reached.wait()
        small = await begin(gateway, "/dlq/delete", {"tag": "small"}, expected_count=1)
        held.go_on.set()
        done_at = (await ends(gateway, small))["finished_at"]
        assert done_at < (await ends(gateway, large))["finished_at"]

    async def test_the_list_of_items_is_gone(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk_runner, "_GROUP", 2)
        held = Held(gateway, after=2)
        await put(gateway, *(letter() for _ in range(6)))
        operation = await begin(gateway, "/dlq/delete", expected_count=6)
        await held.reached.wait()
        part = f"$KV.pyoco_bulk.{operation['bulk_id']}.0"
        await jetstream_api.purge(gateway.inside.connection, "KV_pyoco_bulk", part)
        held.go_on.set()
        record = await ends(gateway, operation)
        assert counts(record) == ("STOPPED", 4, 0, 0)
        assert "not stored any more" in record["errors"][0]["message"]

    async def test_an_item_that_meets_an_unforeseen_error_is_told(self, gateway: RunningGateway) -> None:
        async def broken(record: BulkRecord, item: str) -> Step:
            raise ZeroDivisionError("oh")

        gateway.inside.bulk._steps.take = broken  # type: ignore[method-assign]
        await put(gateway, letter())
        record = await ends(gateway, await begin(gateway, "/dlq/delete", expected_count=1))
        assert counts(record) == ("COMPLETED", 0, 0, 1)
        assert record["errors"] == [{"item": "1", "err_id": None, "message": "ZeroDivisionError: oh"}]

    async def test_an_item_that_nats_never_takes_does_not_stop_the_rest(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk_runner, "_RETRY_SEC", (0.0, 0.0))
        take = gateway.inside.bulk._steps.take
        tries: Counter[str] = Counter()

        async def flaky(record: BulkRecord, item: str) -> Step:
            tries[item] += 1
            if item == "1" or tries[item] == 1:
                raise NatsUnavailable("not now")
            return await take(record, item)

        gateway.inside.bulk._steps.take = flaky  # type: ignore[method-assign]
        await put(gateway, letter(), letter())
        record = await ends(gateway, await begin(gateway, "/dlq/delete", expected_count=2))
        assert counts(record) == ("COMPLETED", 1, 0, 1)
        assert (tries, record["errors"][0]["err_id"]) == ({"1": 3, "2": 2}, "ERR-PYOCO-0003")

    async def test_an_outage_is_waited_for(self, own_nats: NatsServer, config: NatsBackendConfig) -> None:
        async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
            held = Held(gateway, after=1)
            await put(gateway, *(letter() for _ in range(3)))
            operation = await begin(gateway, "/dlq/delete", expected_count=3)
            await held.reached.wait()
            own_nats.kill()
            held.go_on.set()
            assert_problem(await gateway.http.get(f"/bulk/{operation['bulk_id']}"), 503, 3)
            own_nats.start()
            await gateway.inside.connection.wait_ready(10)
            record = await ends(gateway, operation)
            assert (record["state"], record["done"] + record["skipped"]) == ("COMPLETED", 3)
            assert await seqs(gateway) == []

    async def test_operations_are_found_after_the_data_of_nats_was_replaced(
        self, own_nats: NatsServer, config: NatsBackendConfig, tmp_path: Path
    ) -> None:
        async with running_gateway(replace(config, nats_url=own_nats.url)) as gateway:
            await put(gateway, *(letter() for _ in range(3)))
            await ends(gateway, await begin(gateway, "/dlq/delete", expected_count=3))

            async def has_learnt() -> bool:
                return gateway.inside.bulk._revision > 2

            await eventually(has_learnt, within=5, describe="the gateway has read the operation's end")
            own_nats.stop()
            connection = gateway.inside.connection
            await eventually(lambda: not connection.ready, within=5, describe="the gateway has noticed")
            shutil.rmtree(tmp_path / "own-nats" / "jetstream")
            own_nats.start()
            await connection.wait_ready(10)
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
            await gateway.inside.bulk._records.create(operation, ["1"])
            assert counts(await ends(gateway, {"bulk_id": operation.bulk_id}))[0] == "COMPLETED"


class TestTakeover:
    async def test_another_gateway_finishes_what_one_has_begun(
        self, config: NatsBackendConfig, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The first one dies with some of a group done and none of it recorded."""
        monkeypatch.setattr(bulk_runner, "_GROUP", 8)
        run_ids = await ended_runs(gateway, 30)
        held = Held(gateway, after=12)
        operation = await begin(gateway, "/bulk/rerun", {"status": "FAILED"}, expected_count=30)
        await held.reached.wait()
        await eventually(lambda: held.taken == 12, within=10, describe="the others of the group are done")
        assert (await get(gateway, operation["bulk_id"]))["done"] == 8
        async with running_gateway(config) as other:
            await die(gateway)
            record = await ends(other, operation)
            assert counts(record) == ("COMPLETED", 30, 0, 0)
            assert await origins(other, await stored_run_ids(other)) == dict.fromkeys(run_ids, 1)

    async def test_a_gateway_that_stops_hands_over_at_once(
        self, config: NatsBackendConfig, gateway: RunningGateway
    ) -> None:
        patient = replace(config, sweep_interval_sec=30.0)
        await put(gateway, *(letter() for _ in range(5)))
        async with running_gateway(patient) as first:
            held = Held(first, after=2)
            operation = await begin(first, "/dlq/delete", expected_count=5)
            await held.reached.wait()
            assert first.inside.bulk.lease.held
        # Its lease would have lasted for 90 s.
        record = await ends(gateway, operation)
        assert (record["state"], record["done"] + record["skipped"]) == ("COMPLETED", 5)

    async def test_one_gateway_works_while_the_other_looks_on(
        self, config: NatsBackendConfig, gateway: RunningGateway
    ) -> None:
        await put(gateway, *(letter() for _ in range(5)))
        held = Held(gateway, after=2)
        async with running_gateway(config) as other:
            await begin(gateway, "/dlq/delete", {"q": "broke"}, expected_count=5)
            await held.reached.wait()
            await put(other, letter(tag="gpu"))
            second = await begin(other, "/dlq/delete", {"tag": "gpu"}, expected_count=1)
            assert not other.inside.bulk.lease.held
            held.go_on.set()
            # Whichever gateway does it.
            assert (await ends(other, second))["state"] == "COMPLETED"
        await eventually(
            lambda: not gateway.inside.bulk.lease.held, within=10, describe="nobody holds what is not needed"
        )

    async def test_a_gateway_that_is_killed(self, config: NatsBackendConfig, tmp_path: Path) -> None:
        count = 1200
        settings = {"PYOCO_NATS_URL": config.nats_url, "PYOCO_SWEEP_INTERVAL_SEC": "0.2"}
        async with running_gateway(config) as survivor:
            run_ids = await ended_runs(survivor, count)
            survivor_takes = survivor.inside.bulk.lease.hold

            async def not_yet() -> bool:
                return False

            survivor.inside.bulk.lease.hold = not_yet  # type: ignore[method-assign]
            with running(SERVER, "up", "--port", "0", cwd=tmp_path, **settings) as (program, told):
                async with httpx.AsyncClient(base_url=told["url"], timeout=20) as http:
                    query = {"status": "FAILED"}
                    answer = await http.post("/bulk/rerun", params=query, json={"expected_count": count})
                    assert answer.status_code == 200, answer.text
                    operation = answer.json()["operation"]

                    async def in_the_middle() -> bool:
                        done: int = (await get(survivor, operation["bulk_id"]))["done"]
                        return 0 < done < count

                    await eventually(in_the_middle, within=20, describe="some are done, and not all")
                    program.send(signal.SIGKILL)
            before = await get(survivor, operation["bulk_id"])
            assert (before["state"], before["done"] < count) == ("RUNNING", True)
            survivor.inside.bulk.lease.hold = survivor_takes  # type: ignore[method-assign]
            record = await ends(survivor, operation, within=60)
            assert counts(record) == ("COMPLETED", count, 0, 0)
            repeated = await origins(survivor, await stored_run_ids(survivor))
            assert repeated == dict.fromkeys(run_ids, 1)


class Held:
    """Has a gateway stop before the item that comes after so many others."""

    def __init__(self, gateway: RunningGateway, *, after: int) -> None:
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()
        self.taken = 0
        self._begun = 0
        self._after = after
        steps = gateway.inside.bulk._steps
        self._take = steps.take
        steps.take = self._held_take  # type: ignore[method-assign]

    async def _held_take(self, record: BulkRecord, item: str) -> Step:
        self._begun += 1
        if self._begun > self._after:
            self.reached.set()
            await self.go_on.wait()
        step = await self._take(record, item)
        self.taken += 1
        return step


async def die(gateway: RunningGateway) -> None:
    """End its work on bulk operations as a kill would: nothing is recorded, nothing handed over."""
    task = gateway.inside.bulk._task
    assert task is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
