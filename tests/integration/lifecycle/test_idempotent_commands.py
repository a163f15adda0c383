"""`Idempotency-Key` on bulk operations, replays and reruns."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import httpx
import pytest

from pyoco_server.broker.jetstream.publishing import RevisionConflict
from pyoco_server.broker.stores.runs.dead_letters import DeadLetters
from pyoco_server.broker.stores.runs.idempotency_keys import (
    IdempotencyKey,
    IdempotencyKeys,
    KeyKind,
    KeyRecord,
)
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import NatsUnavailable
from pyoco_server.records.runs.bulk_models import BulkAction
from pyoco_server.records.runs.run_models import new_run_id
from pyoco_server.runs.bulk import bulk_operations as bulk
from pyoco_server.runs.bulk.bulk_operations import BulkSpec
from pyoco_server.runs.bulk.letter_operations import LetterFilter
from pyoco_server.runs.lifecycle.tenancy import Caller
from tests.integration.lifecycle.test_dlq import letter, put, seqs
from tests.integration.lifecycle.test_idempotency import post as submit
from tests.integration.lifecycle.test_rerun import end
from tests.support.inspection import stored_run_ids
from tests.support.problems import assert_problem
from tests.support.running.bulk_operations import ended_runs, ends, get, origins, without_lease
from tests.support.running.gateway import RunningGateway, running_gateway

KEY = "incident-7"
REPLAYED = "idempotent-replayed"


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return replace(config, sweep_interval_sec=0.2)


async def post(
    gateway: RunningGateway, path: str, *, key: str = KEY, query: Any = None, **body: Any
) -> httpx.Response:
    return await gateway.http.post(path, params=query, json=body, headers={"Idempotency-Key": key})


async def failed_letter(gateway: RunningGateway) -> str:
    run_id = await end(gateway, await gateway.submit("chain"))
    await put(gateway, letter(run_id=run_id, flow_name="chain"))
    return run_id


class TestBulk:
    async def test_a_retry_returns_the_first_operation(self, gateway: RunningGateway) -> None:
        run_ids = await ended_runs(gateway, 3)
        query = {"status": "FAILED"}
        first = await post(gateway, "/bulk/rerun", query=query, expected_count=3)
        operation = first.json()["operation"]
        await ends(gateway, operation)
        # The guard is no part of what is asked for: the client may have counted again meanwhile.
        again = await post(gateway, "/bulk/rerun", query=query, expected_count=0)
        assert (first.status_code, again.status_code) == (200, 200)
        assert REPLAYED not in first.headers
        assert again.headers[REPLAYED] == "true"
        assert again.json()["operation"] == await get(gateway, operation["bulk_id"])
        for field in ("matched", "sample", "action"):
            assert again.json()[field] == first.json()[field]
        assert await origins(gateway, await stored_run_ids(gateway)) == dict.fromkeys(run_ids, 1)

    @pytest.mark.parametrize(
        ("path", "query", "options"),
        [
            ("/bulk/rerun", {"flow": "chain"}, {"mode": "failed"}),
            ("/bulk/rerun", {"flow": "other"}, {}),
            ("/bulk/cancel", {"flow": "chain"}, {}),
            ("/dlq/replay", {"flow": "chain"}, {}),
        ],
        ids=["mode", "filter", "action", "letters"],
    )
    async def test_another_operation_is_refused(
        self, gateway: RunningGateway, path: str, query: dict[str, str], options: dict[str, str]
    ) -> None:
        first = await post(gateway, "/bulk/rerun", query={"flow": "chain"}, expected_count=0)
        refused = await post(gateway, path, query=query, expected_count=0, **options)
        detail = assert_problem(refused, 409, 26)["detail"]
        assert f"for bulk operation {first.json()['operation']['bulk_id']}" in detail

    async def test_a_key_of_a_run_is_refused_for_an_operation(self, gateway: RunningGateway) -> None:
        assert (await submit(gateway, KEY)).status_code == 200
        assert_problem(await post(gateway, "/bulk/cancel", expected_count=1), 409, 26)
        await post(gateway, "/bulk/cancel", key="other", expected_count=1)
        assert_problem(await submit(gateway, "other"), 409, 26)

    async def test_a_dry_run_checks_but_does_not_use_its_key(self, gateway: RunningGateway) -> None:
        for _ in range(2):
            response = await post(gateway, "/bulk/cancel", dry_run=True)
            assert (response.status_code, response.json()["operation"]) == (200, None)
        [error] = assert_problem(await post(gateway, "/bulk/cancel", key="a b", dry_run=True), 422, 2)[
            "errors"
        ]
        assert error["field"] == "Idempotency-Key"

    async def test_concurrent_requests_on_two_gateways_are_one_operation(
        self, config: NatsBackendConfig, gateway: RunningGateway
    ) -> None:
        run_ids = await ended_runs(gateway, 3)
        query = {"status": "FAILED"}
        async with running_gateway(config) as other:
            asked = (
                post(each, "/bulk/rerun", query=query, expected_count=3) for each in [gateway, other] * 5
            )
            responses = await asyncio.gather(*asked)
        assert {response.status_code for response in responses} == {200}
        [bulk_id] = {response.json()["operation"]["bulk_id"] for response in responses}
        assert sum(REPLAYED not in response.headers for response in responses) == 1
        await ends(gateway, {"bulk_id": bulk_id})
        assert await origins(gateway, await stored_run_ids(gateway)) == dict.fromkeys(run_ids, 1)

    @pytest.mark.parametrize("moment", ["before the record", "after the record", "started"])
    async def test_a_crashed_gateway_leaves_a_usable_key(self, gateway: RunningGateway, moment: str) -> None:
        """A started operation is accepted for the key; an unstarted one is replaced."""
        await put(gateway, letter())
        spec = BulkSpec(action=BulkAction.DELETE_LETTERS, query={})
        caller = Caller(None, None, sees_all=True)
        request = spec.keyed(KEY, caller)
        record = bulk._new_record(spec, caller, 1)
        if moment == "started":
            record.started_at = time.time()
        left = KeyRecord(run_id=record.bulk_id, kind=KeyKind.BULK, digest=request.digest, touched_at=1.0)
        await IdempotencyKeys(gateway.inside.connection).create(IdempotencyKey(KEY), left)
        items = await bulk.MatchingLetters(gateway.inside.dead_letters, LetterFilter()).items(10)
        with without_lease(gateway):
            if moment != "before the record":
                await gateway.inside.bulk.records.create(record, items)
            response = await post(gateway, "/dlq/delete", expected_count=1)
            assert response.status_code == 200, response.text
            operation = response.json()["operation"]
            assert (operation["bulk_id"] == record.bulk_id) == (moment == "started")
            again = await post(gateway, "/dlq/delete", expected_count=1)
            assert again.json()["operation"]["bulk_id"] == operation["bulk_id"]
            if moment != "started":
                with pytest.raises(RevisionConflict):
                    await gateway.inside.bulk.records.create(record, [])
        await ends(gateway, operation)
        assert await seqs(gateway) == []

    async def test_a_deleted_operation_is_not_started_again(self, gateway: RunningGateway) -> None:
        operation = (await post(gateway, "/bulk/cancel", expected_count=0)).json()["operation"]
        records = gateway.inside.bulk.records
        stored = await records.get(operation["bulk_id"])
        assert stored is not None
        await records.delete(stored.record.bulk_id, revision=stored.revision)
        assert_problem(await post(gateway, "/bulk/cancel", expected_count=0), 404, 29)


class TestReplay:
    async def test_a_retry_returns_the_first_run_after_the_letter_is_deleted(
        self, gateway: RunningGateway
    ) -> None:
        origin = await failed_letter(gateway)
        first, again = [await post(gateway, "/dlq/1/replay", delete=True) for _ in range(2)]
        assert first.json() == again.json()
        assert (first.json()["origin_run_id"], first.json()["deleted"]) == (origin, True)
        assert (REPLAYED in first.headers, again.headers[REPLAYED]) == (False, "true")
        assert await origins(gateway, await stored_run_ids(gateway)) == {origin: 1}

    async def test_a_retry_deletes_the_remaining_letter(
        self, gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        origin = await failed_letter(gateway)

        async def away(*_: Any) -> None:
            raise NatsUnavailable("the stream of dead letters elects its leader")

        with monkeypatch.context() as patched:
            patched.setattr(DeadLetters, "delete", away)
            first = await post(gateway, "/dlq/1/replay", delete=True)
        again = await post(gateway, "/dlq/1/replay", delete=True)
        assert (first.json()["deleted"], again.json()["deleted"]) == (False, True)
        assert first.json()["run_id"] == again.json()["run_id"]
        assert await seqs(gateway) == []
        assert await origins(gateway, await stored_run_ids(gateway)) == {origin: 1}

    @pytest.mark.parametrize("other", [{"mode": "failed"}, {"delete": True}])
    async def test_another_replay_is_refused(self, gateway: RunningGateway, other: dict[str, Any]) -> None:
        await failed_letter(gateway)
        assert (await post(gateway, "/dlq/1/replay")).status_code == 200
        assert_problem(await post(gateway, "/dlq/1/replay", **other), 409, 26)

    async def test_an_unknown_letter_does_not_use_the_key(self, gateway: RunningGateway) -> None:
        assert_problem(await post(gateway, "/dlq/1/replay"), 404, 27)
        assert_problem(await post(gateway, "/dlq/x/replay"), 404, 27)
        await failed_letter(gateway)
        assert (await post(gateway, "/dlq/1/replay")).status_code == 200


class TestRerun:
    async def test_a_retry_returns_the_first_run(self, gateway: RunningGateway) -> None:
        origin = await end(gateway, await gateway.submit("chain"))
        responses = [await post(gateway, f"/runs/{origin}/rerun", mode="failed") for _ in range(2)]
        assert responses[0].json() == responses[1].json()
        assert [REPLAYED in response.headers for response in responses] == [False, True]
        assert await origins(gateway, await stored_run_ids(gateway)) == {origin: 1}
        assert_problem(await post(gateway, f"/runs/{origin}/rerun"), 409, 26)
        assert_problem(await post(gateway, f"/runs/{new_run_id()}/rerun", mode="failed"), 409, 26)


async def test_tenants_have_keys_of_their_own(gateway: RunningGateway) -> None:
    spec = BulkSpec(action=BulkAction.CANCEL, query={})
    callers = [Caller(tenant, None, sees_all=tenant is None) for tenant in ("acme", "other", None)]
    starter = gateway.inside.bulk.starter
    nothing = bulk.MatchingLetters(gateway.inside.dead_letters, LetterFilter())
    begun = [
        await starter.submit(nothing, spec, caller, expected=0, request=spec.keyed(KEY, caller))
        for caller in callers * 2
    ]
    assert len({each.record.bulk_id for each in begun}) == 3
    assert [each.replayed for each in begun] == [False] * 3 + [True] * 3
