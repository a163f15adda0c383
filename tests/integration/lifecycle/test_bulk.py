"""Bulk operations: counting, and their effect on runs and dead letters."""

import time
from typing import Any

import pytest

from pyoco_server.broker.jetstream.stream_reads import stream_state
from pyoco_server.broker.stores.runs.journal_store import Journal
from pyoco_server.records.runs.bulk_models import BulkAction, BulkItem, BulkRecord, BulkState
from pyoco_server.records.runs.run_models import RerunMode, new_run_id
from pyoco_server.runs.bulk import bulk_operations as bulk
from pyoco_server.runs.bulk.bulk_runner import StepResult
from tests.integration.lifecycle.test_dlq import letter, put, seqs
from tests.integration.lifecycle.test_rerun import entry
from tests.support.inspection import stored_run_ids
from tests.support.problems import assert_problem
from tests.support.running.bulk_operations import config, counts, dry_run, ended_runs, ends, origins, start
from tests.support.running.gateway import RunningGateway

__all__ = ["config"]


class TestCounting:
    async def test_a_dry_run_counts_and_does_nothing(self, gateway: RunningGateway) -> None:
        mine = {await gateway.submit("etl") for _ in range(3)}
        await gateway.submit("other")
        await ended_runs(gateway, 30)
        counted = await dry_run(gateway, "/bulk/cancel", {"flow": "etl"})
        assert (counted["action"], counted["matched"], set(counted["sample"])) == ("cancel", 3, mine)
        many = await dry_run(gateway, "/bulk/rerun", {"status": "failed"})
        assert (many["matched"], len(many["sample"])) == (30, 10)
        assert {(await gateway.get(run_id))["status"] for run_id in mine} == {"PENDING"}
        assert (await gateway.http.get("/bulk")).json() == {"items": []}

    @pytest.mark.asyncio(loop_scope="module")
    async def test_nothing_matches(self, shared_gateway: RunningGateway) -> None:
        counted = await dry_run(shared_gateway, "/bulk/cancel", {"flow": "none"})
        assert (counted["matched"], counted["sample"]) == (0, [])
        operation = await start(shared_gateway, "/bulk/cancel", {"flow": "none"}, token=counted["token"])
        assert counts(operation) == ("COMPLETED", 0, 0, 0)

    async def test_more_than_expected_is_refused(self, gateway: RunningGateway) -> None:
        run_ids = [await gateway.submit("etl") for _ in range(2)]
        token = (await dry_run(gateway, "/bulk/cancel", {"flow": "etl"}))["token"]
        run_ids.append(await gateway.submit("etl"))
        for body in ({"token": token}, {"expected_count": 2}):
            response = await gateway.http.post("/bulk/cancel", params={"flow": "etl"}, json=body)
            assert "3 match, and 2 were expected" in assert_problem(response, 409, 30)["detail"]
        assert {(await gateway.get(run_id))["status"] for run_id in run_ids} == {"PENDING"}

    async def test_fewer_than_expected_are_taken(self, gateway: RunningGateway) -> None:
        run_ids = [await gateway.submit("etl") for _ in range(2)]
        token = (await dry_run(gateway, "/bulk/cancel", {"flow": "etl", "status": "PENDING"}))["token"]
        await gateway.http.post(f"/runs/{run_ids[0]}/cancel")
        operation = await start(gateway, "/bulk/cancel", {"status": "PENDING", "flow": "etl"}, token=token)
        assert operation["matched"] == 1

    @pytest.mark.asyncio(loop_scope="module")
    @pytest.mark.parametrize(
        ("path", "query", "options"),
        [
            ("/bulk/cancel", {"flow": "other"}, {}),
            ("/bulk/cancel", {}, {}),
            ("/bulk/cancel", {"flow": "etl"}, {"reason": "another"}),
            ("/bulk/rerun", {"flow": "etl"}, {}),
        ],
    )
    async def test_the_token_of_another_request_is_refused(
        self, shared_gateway: RunningGateway, path: str, query: dict[str, str], options: dict[str, str]
    ) -> None:
        await shared_gateway.submit("etl")
        token = (await dry_run(shared_gateway, "/bulk/cancel", {"flow": "etl"}))["token"]
        response = await shared_gateway.http.post(path, params=query, json={"token": token, **options})
        assert "not that of a dry run" in assert_problem(response, 409, 30)["detail"]

    @pytest.mark.asyncio(loop_scope="module")
    @pytest.mark.parametrize("token", ["x", "1-", "-1", "٣-abc", "9" * 50])
    async def test_an_invalid_token_is_refused(self, shared_gateway: RunningGateway, token: str) -> None:
        assert_problem(await shared_gateway.http.post("/bulk/cancel", json={"token": token}), 409, 30)

    async def test_too_many_are_refused(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk, "MAX_BULK_ITEMS", 3)
        await ended_runs(gateway, 4)
        for body in ({"dry_run": True}, {"expected_count": 100}):
            response = await gateway.http.post("/bulk/rerun", json=body)
            assert "more than 3 match; narrow the filter" in assert_problem(response, 409, 30)["detail"]

    @pytest.mark.asyncio(loop_scope="module")
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
    async def test_an_invalid_body_is_refused(
        self, shared_gateway: RunningGateway, body: dict[str, Any], field: str
    ) -> None:
        [error] = assert_problem(await shared_gateway.http.post("/bulk/cancel", json=body), 422, 2)["errors"]
        assert error["field"] == field

    @pytest.mark.asyncio(loop_scope="module")
    async def test_too_many_ways_to_confirm_are_named(self, shared_gateway: RunningGateway) -> None:
        body = {"token": "1-x", "expected_count": 1}
        response = await shared_gateway.http.post("/bulk/cancel", params={"flow": "none"}, json=body)
        [error] = assert_problem(response, 422, 2)["errors"]
        assert error["message"].endswith("; the request has expected_count and token")

    @pytest.mark.asyncio(loop_scope="module")
    @pytest.mark.parametrize("path", ["/bulk/rerun", "/dlq/replay"])
    async def test_no_task_is_common_to_many_runs(self, shared_gateway: RunningGateway, path: str) -> None:
        response = await shared_gateway.http.post(path, json={"dry_run": True, "mode": "task"})
        [error] = assert_problem(response, 422, 2)["errors"]
        assert (error["field"], "expected start or failed" in error["message"]) == ("mode", True)

    @pytest.mark.asyncio(loop_scope="module")
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
    async def test_an_invalid_query_is_refused(
        self, shared_gateway: RunningGateway, path: str, query: dict[str, str], field: str
    ) -> None:
        response = await shared_gateway.http.post(path, params=query, json={"dry_run": True})
        [error] = assert_problem(response, 422, 17)["errors"]
        assert error["field"] == field


class TestRuns:
    async def test_matching_runs_are_cancelled_and_others_are_not(self, gateway: RunningGateway) -> None:
        mine = [await gateway.submit("etl") for _ in range(40)]
        other = await gateway.submit("other")
        asked, asked_at = {"flow": "etl"}, time.time()
        token = (await dry_run(gateway, "/bulk/cancel", asked, reason="a typo"))["token"]
        operation = await start(gateway, "/bulk/cancel", asked, token=token, reason="a typo")
        assert (operation["query"], operation["reason"], operation["matched"]) == (
            {"flow": ["etl"]},
            "a typo",
            40,
        )
        record = await ends(gateway, operation)
        assert counts(record) == ("COMPLETED", 40, 0, 0)
        assert asked_at <= record["created_at"] <= record["finished_at"] <= time.time()
        for run_id in mine:
            run = await gateway.ends(run_id)
            assert (run["status"], run["cancel_reason"]) == ("CANCELLED", "a typo")
            assert run["cancel_requested_by"] == f"bulk:{record['bulk_id']}"
        assert (await gateway.get(other))["status"] == "PENDING"

    async def test_runs_with_a_cancel_request_are_skipped(self, gateway: RunningGateway) -> None:
        run_ids = [await gateway.submit("etl") for _ in range(3)]
        await gateway.http.post(f"/runs/{run_ids[0]}/cancel")
        await gateway.ends(run_ids[0])
        record = await ends(gateway, await start(gateway, "/bulk/cancel", expected_count=3))
        assert counts(record) == ("COMPLETED", 2, 1, 0)

    async def test_runs_that_cannot_be_rerun_are_reported(self, gateway: RunningGateway) -> None:
        ended = await ended_runs(gateway, 1)
        open_run = await gateway.submit("chain")
        record = await ends(gateway, await start(gateway, "/bulk/rerun", {"flow": "chain"}, expected_count=2))
        assert counts(record) == ("COMPLETED", 1, 0, 1)
        [error] = record["errors"]
        assert (error["item"], error["err_id"]) == (open_run, "ERR-PYOCO-0025")
        assert "is PENDING" in error["message"]
        assert await origins(gateway, await stored_run_ids(gateway)) == dict.fromkeys(ended, 1)

    async def test_only_the_first_errors_are_kept(self, gateway: RunningGateway) -> None:
        for _ in range(25):
            await gateway.submit("etl")
        record = await ends(gateway, await start(gateway, "/bulk/rerun", expected_count=25))
        assert (counts(record), len(record["errors"])) == (("COMPLETED", 0, 0, 25), 20)

    async def test_a_rerun_from_what_failed(self, gateway: RunningGateway) -> None:
        [origin] = await ended_runs(gateway, 1, tasks={"load": "SUCCEEDED", "store": "FAILED"})
        await Journal(gateway.inside.connection).append("default", origin, entry("load"))
        await ends(gateway, await start(gateway, "/bulk/rerun", expected_count=1, mode="failed"))
        [run_id] = await stored_run_ids(gateway) - {origin}
        assert (await gateway.get(run_id))["rerun_mode"] == "failed"
        assert [
            each.task for each in await Journal(gateway.inside.connection).entries("default", run_id)
        ] == ["load"]

    async def test_a_repeated_step_leaves_no_second_journal(self, gateway: RunningGateway) -> None:
        [origin] = await ended_runs(gateway, 1, tasks={"load": "SUCCEEDED", "store": "FAILED"})
        journal = Journal(gateway.inside.connection)
        await journal.append("default", origin, entry("load"))
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
            assert await gateway.inside.bulk.runner._steps.take(record, BulkItem(origin)) is StepResult.DONE
        [run_id] = await stored_run_ids(gateway) - {origin}
        state = await stream_state(gateway.inside.connection, "PYOCO_JOURNAL", subjects="pyoco.journal.>")
        assert set(state.subjects) == {f"pyoco.journal.default.{each}" for each in (origin, run_id)}


class TestLetters:
    async def test_matching_letters_are_deleted(self, gateway: RunningGateway) -> None:
        await put(gateway, *(letter(tag="gpu" if number % 2 else "cpu") for number in range(10)))
        counted = await dry_run(gateway, "/dlq/delete", {"tag": "gpu"})
        assert (counted["matched"], counted["sample"]) == (5, ["10", "8", "6", "4", "2"])
        operation = await start(gateway, "/dlq/delete", {"tag": "gpu"}, token=counted["token"])
        assert counts(await ends(gateway, operation)) == ("COMPLETED", 5, 0, 0)
        assert await seqs(gateway) == [9, 7, 5, 3, 1]

    async def test_each_run_of_matching_letters_is_rerun_once(self, gateway: RunningGateway) -> None:
        first, second = await ended_runs(gateway, 2)
        gone = new_run_id()
        named = [first, second, first, gone, None]
        await put(
            gateway, *(letter(run_id=run_id) for run_id in named), letter(reason="timeout", run_id=second)
        )
        operation = await start(
            gateway, "/dlq/replay", {"reason": "execution_error"}, expected_count=5, delete=True
        )
        record = await ends(gateway, operation)
        assert counts(record) == ("COMPLETED", 3, 0, 2)
        assert {error["err_id"] for error in record["errors"]} == {"ERR-PYOCO-0028"}
        assert await origins(gateway, await stored_run_ids(gateway)) == {first: 1, second: 1}
        # Those that could not be replayed are still there, and the one that did not match.
        assert await seqs(gateway) == [6, 5, 4]
